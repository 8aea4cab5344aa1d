# SPDX-License-Identifier: GPL-3.0-or-later
"""Conditions of the test host: how hot the run's drives are, what else loads its processors.

Both are what its agent wrote to InfluxDB: to ask the host itself would load it, before each run.
The agent's clock is the host's, so a point is stale by the controller's own clock: where no newer
one has come for a while, nothing is known.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import polars as pl

from joulerig.analysis.results.influxdb.client import InfluxError, quote_string
from joulerig.rig.campaign import factors, measure
from joulerig.rig.campaign.execution.holds import Condition, Run
from joulerig.rig.campaign.opening import OpenCampaign
from joulerig.rig.common.errors import UserError

HEALTH_STALE_SECONDS = 90.0  # the agent asks drives every 30 s
LOAD_STALE_SECONDS = 15.0  # the agent counts every 0.1 s
SHARES = 5  # the least busy of so many counts: what a run leaves behind on its host is over soon
SHARE_SECONDS = 2.0
MOST_POINTS = 150  # the agent counts ten times a second


class Fresh:
    """Whether a series still gets points; `clock` is time.monotonic."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._newest: dict[str, tuple[int, float]] = {}

    def __call__(self, series: str, newest_ns: int) -> bool:
        """Return whether its newest point came at most so long ago, as far as is known."""
        known, since = self._newest.get(series, (None, 0.0))
        if newest_ns != known:
            since = self._clock()
            self._newest[series] = (newest_ns, since)
        return self._clock() - since <= self._seconds


def conditions(campaign: OpenCampaign, *, clock: Callable[[], float] = time.monotonic) -> list[Condition]:
    """Return the conditions under which a run of a campaign measures its cell and nothing else."""
    asked = campaign.definition.holds
    found = []
    if asked.drive_celsius is not None:
        fresh = Fresh(HEALTH_STALE_SECONDS, clock)
        limit = asked.drive_celsius
        found.append(Condition("temperature", lambda run: _hot(campaign, run, limit, fresh), of_drive=True))
    if asked.host_load is not None:
        fresh_load = Fresh(LOAD_STALE_SECONDS, clock)
        most = asked.host_load
        found.append(
            Condition(
                "load",
                lambda run: _loaded(campaign, run, most, fresh_load),
                # For ever it would hold the runs of a host that is its own controller.
                60 * campaign.definition.hold_minutes,
                "it shares the host with that",
                look_seconds=1.0,
            )
        )
    return found


def _hot(campaign: OpenCampaign, run: Run, limit: float, fresh: Fresh) -> str:
    host = run["host"]
    for drive in campaign.lab.member_drives(host, *factors.stands_on(run["drive"], run["factors"])):
        found = _query(
            campaign,
            host,
            f"SELECT temperature_celsius FROM drive_health WHERE host = {quote_string(host)}"
            f" AND drive = {quote_string(drive)} ORDER BY time DESC LIMIT 1",
        )
        if found.height and fresh(drive, found["time"][0]) and found["temperature_celsius"][0] >= limit:
            return f"{drive}: {found['temperature_celsius'][0]:g} °C, a run begins below {limit:g} °C"
    return ""


def _loaded(campaign: OpenCampaign, run: Run, limit: float, fresh: Fresh) -> str:
    if campaign.lab.hosts[run["host"]].virtual:
        return ""  # nothing else is there, and in its slow time a run's own work would last
    if any(other["host"] == run["host"] for other in campaign.journal.running()):
        return ""  # that is the load
    found = _query(
        campaign,
        run["host"],
        "SELECT cpu_busy_seconds, agent_cpu_seconds FROM hostload"
        f" WHERE host = {quote_string(run['host'])} ORDER BY time DESC LIMIT {MOST_POINTS}",
    )
    if not found.height or not fresh(run["host"], found["time"][0]):
        return ""
    busy = least_busy(found)
    if busy is None or busy <= limit:
        return ""
    return f"{run['host']}: something keeps {busy:.2g} processors busy, a run begins at {limit:g} at most"


def least_busy(points: pl.DataFrame) -> float | None:
    """Return how many processors are busy in the least busy of the last SHARES x SHARE_SECONDS.

    `points`: time (ns), cpu_busy_seconds and agent_cpu_seconds, cumulative; the agent's own time
    does not count. None where they do not reach back so far.
    """
    points = points.sort("time")
    times = (points["time"] - points["time"][-1]).to_numpy() / 1e9
    edges = np.arange(-SHARES, 1) * SHARE_SECONDS
    if times[0] > edges[0]:
        return None
    busy = (points["cpu_busy_seconds"] - points["agent_cpu_seconds"].fill_null(0)).to_numpy()
    return float(np.diff(np.interp(edges, times, busy)).min() / SHARE_SECONDS)


def _query(campaign: OpenCampaign, host: str, text: str) -> pl.DataFrame:
    try:
        with measure.client(campaign.lab) as database:
            return database.query(text, host=host)
    except (InfluxError, UserError):
        return pl.DataFrame()  # another condition
