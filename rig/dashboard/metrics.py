# SPDX-License-Identifier: GPL-3.0-or-later
"""`/metrics`: the rig's own state as OpenMetrics, for those who watch machines with Prometheus.

It is of what the rig does (services, meters, the newest campaign), not of what drives do: that is
in InfluxDB, at the meters' rates.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

from prometheus_client import Metric
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    StateSetMetricFamily,
)
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest

from joulerig.analysis.results.campaign import ResultsError
from joulerig.analysis.results.journal import JournalError
from joulerig.rig.dashboard import powerd
from joulerig.rig.dashboard.campaign import state
from joulerig.rig.dashboard.campaign.journal import Journals
from joulerig.rig.protocols.powerd import MeterStatus

CONTENT_TYPE = CONTENT_TYPE_LATEST
_exposition: Callable[[Any], bytes] = generate_latest  # untyped there
KEPT_SECONDS = 1.0  # however many scrape it
METER_STATES = get_args(MeterStatus.model_fields["state"].annotation)


class Metrics:
    """The rig's state as text; reads powerd and the newest campaign at most once a second.

    `pages`: how many pages are open. `clock`: the lab's time, ns since 1970 UTC. `slowness`: how
    long (s) a second of the lab lasts.
    """

    def __init__(
        self,
        results_dir: Path,
        powerd_socket: Path,
        *,
        version: str,
        virtual: bool,
        pages: Callable[[], int],
        clock: Callable[[], int],
        slowness: Callable[[], float],
    ) -> None:
        self._journals, self._powerd_socket = Journals(results_dir), powerd_socket
        self._version, self._virtual = version, virtual
        self._pages, self._clock, self._slowness = pages, clock, slowness
        self._lock = threading.Lock()
        self._text, self._read_at = b"", float("-inf")

    def text(self) -> bytes:
        """Return the exposition; any thread may ask."""
        with self._lock:
            if time.monotonic() - self._read_at >= KEPT_SECONDS:
                self._text, self._read_at = _exposition(self), time.monotonic()
            return self._text

    def collect(self) -> Iterator[Metric]:
        """Yield the families of metrics."""
        yield InfoMetricFamily("joulerig_build", "Version of the rig.", {"version": self._version})
        yield GaugeMetricFamily(
            "joulerig_virtual_lab", "1 where hosts and drives are virtual.", int(self._virtual)
        )
        yield GaugeMetricFamily(
            "joulerig_slow_motion_ratio", "Seconds that a second of the lab lasts.", self._slowness()
        )
        yield GaugeMetricFamily("joulerig_dashboard_pages", "Open pages of the dashboard.", self._pages())
        found = powerd.status(self._powerd_socket, shown=dict)
        yield GaugeMetricFamily("joulerig_powerd_up", "1 where the power daemon answers.", int(found["ok"]))
        yield from meters(found["meters"])
        if (campaign := self._campaign()) is not None:
            yield from of_campaign(campaign)

    def _campaign(self) -> dict[str, Any] | None:
        """Return the newest campaign's state (`state.campaign`); None where none can be read."""
        names = self._journals.list()
        self._journals.keep(set(names[:1]))
        journal = self._journals.get(names[0]) if names else None
        if journal is None:
            return None
        try:
            content = journal.read()
        except (sqlite3.Error, JournalError, ResultsError):
            return None
        return state.campaign(content, self._clock()) if content else None


def meters(rows: list[dict[str, Any]]) -> Iterator[Metric]:
    """Yield what the power daemon reports of its meters; a figure that one lacks is left out."""
    states = StateSetMetricFamily("joulerig_meter_state", "State of a meter.", labels=["meter"])
    for row in rows:
        states.add_metric([row["name"]], {one: row.get("state") == one for one in METER_STATES})
    yield states
    booked = CounterMetricFamily(
        "joulerig_meter_samples",
        "What became of a meter's samples; these add up to those expected.",
        labels=["meter", "booked"],
    )
    for row in rows:
        for column in powerd.LEDGER:
            if row.get(column) is not None:
                booked.add_metric([row["name"], column], row[column])
    yield booked
    expected = "Samples that there should have been."
    yield _filled(
        CounterMetricFamily("joulerig_meter_expected_samples", expected, labels=["meter"]), rows, "expected"
    )
    yield _filled(
        CounterMetricFamily("joulerig_meter_restarts", "Restarts of a meter's reader.", labels=["meter"]),
        rows,
        "restarts",
    )
    yield _filled(
        CounterMetricFamily(
            "joulerig_meter_gap_seconds", "Time without samples.", labels=["meter"], unit="seconds"
        ),
        rows,
        "gap_seconds",
    )
    for key, name, help_text in (
        ("observed_rate_hz", "rate_hertz", "Samples a second, as observed."),
        ("clock_residual_seconds", "clock_residual_seconds", "By how much sample times miss their line."),
    ):
        yield _filled(GaugeMetricFamily(f"joulerig_meter_{name}", help_text, labels=["meter"]), rows, key)


def _filled(family: CounterMetricFamily | GaugeMetricFamily, rows: list[dict[str, Any]], key: str) -> Metric:
    for row in rows:
        if row.get(key) is not None:
            family.add_metric([row["name"]], row[key])
    return family


def of_campaign(campaign: dict[str, Any]) -> Iterator[Metric]:
    """Yield the state of a campaign (`state.campaign`)."""
    name = [campaign["id"]]
    info = InfoMetricFamily("joulerig_campaign", "The newest campaign.", labels=["campaign"])
    info.add_metric(name, {"name": campaign["name"], "state": campaign["state"]})
    yield info
    runs = GaugeMetricFamily("joulerig_campaign_runs", "Runs by status.", labels=["campaign", "status"])
    for status, count in campaign["counts"].items():
        runs.add_metric([*name, status], count)
    yield runs
    joules = [run["joules"] for run in campaign["runs"] if run.get("joules") is not None]
    taken = GaugeMetricFamily(
        "joulerig_campaign_joules", "Energy of the loads that are over.", labels=["campaign"], unit="joules"
    )
    taken.add_metric(name, sum(joules))
    yield taken
    for key, help_text in (
        ("created", "When it was opened."),
        ("last_event", "When its journal was last written."),
        ("finished", "When it ended."),
        ("eta", "When it will have ended."),
    ):
        stamp = GaugeMetricFamily(
            f"joulerig_campaign_{key}_timestamp_seconds", help_text, labels=["campaign"], unit="seconds"
        )
        if campaign[f"{key}_ns"] is not None:
            stamp.add_metric(name, campaign[f"{key}_ns"] / 1e9)
        yield stamp
