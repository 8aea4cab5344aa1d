# SPDX-License-Identifier: GPL-3.0-or-later
"""Send what the journal has of runs to InfluxDB, for dashboards that read InfluxDB alone.

The journal is what counts, and the spool: what InfluxDB does not take is sent with what comes next.
A point that is there already is overwritten by the same one.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import httpx

from joulerig.analysis.results.influxdb.schema import RESULT, FieldType
from joulerig.analysis.results.schema import FINISHED
from joulerig.rig.campaign.opening import OpenJournal
from joulerig.rig.common.errors import UserError
from joulerig.rig.controller import influxdb

TIMEOUT_SECONDS = 5.0
RETRY_SECONDS = 60.0  # a server that does not answer may cost a campaign its time-out once a minute
MOST_AT_ONCE = 1000
TABLES = ("performance", "result")  # those whose columns are fields of the same name


class ResultPoints:
    """What InfluxDB lacks of the runs of a host; at first, all of them that have ended.

    `say` gets a line when results cannot be sent, once for as long as that lasts.
    """

    def __init__(
        self,
        campaign: OpenJournal,
        host: str,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._campaign, self._say, self._clock = campaign, say, clock
        ended = [run for run in campaign.journal.runs() if run["host"] == host and run["ended_ns"]]
        self._waiting = dict.fromkeys(run["id"] for run in ended)
        self._failed_at: float | None = None

    def send(self, run: str) -> None:
        """Send the result of a run that has ended, and what waits; a failure is no run's fault."""
        self._waiting[run] = None
        if self._failed_at is not None and self._clock() - self._failed_at < RETRY_SECONDS:
            return
        problem = send(self._campaign, self._waiting)
        if not problem:
            self._waiting, self._failed_at = {}, None
            return
        if self._failed_at is None:
            self._say(f"dashboards of InfluxDB lack the results for now: {problem}")
        self._failed_at = self._clock()


def send(campaign: OpenJournal, runs: Iterable[str]) -> str:
    """Write the points of runs; return why InfluxDB does not have them, or an empty text."""
    try:
        target = influxdb.access(campaign.lab, "campaign")
        lines = [text for run in runs if (text := _point(campaign, run))]
        for first in range(0, len(lines), MOST_AT_ONCE):
            answer = httpx.post(
                f"{target.url}/write",
                params={"db": target.database, "precision": "ns"},
                content="\n".join(lines[first : first + MOST_AT_ONCE]).encode(),
                auth=(target.username, target.password),
                timeout=TIMEOUT_SECONDS,
                trust_env=False,
                verify=target.url.startswith("https:"),
            )
            if not answer.is_success:
                return f"InfluxDB at {target.url}: HTTP {answer.status_code}: {answer.text.strip()[:200]}"
    except (httpx.HTTPError, UserError) as error:
        return str(error) or type(error).__name__
    return ""


def _point(campaign: OpenJournal, run: str) -> str:
    row = campaign.journal.run(run)
    if row["status"] not in FINISHED or row["started_ns"] is None:
        return ""  # executed again, or never: excluded, dropped from a race
    measured = {
        key: value
        for table in TABLES
        for one in campaign.journal.rows(table, run)
        for key, value in one.items()
    }
    times = {"start_ns": row["started_ns"], "end_ns": row["ended_ns"]}
    return point({**measured, **row, **times, "run": run, "campaign": campaign.journal.campaign["id"]})


def point(values: Mapping[str, Any]) -> str:
    """Return a line of measurement `result`; a field without a value is left out."""
    tags = "".join(f",{tag}={_escaped(values[tag])}" for tag in RESULT.tags)
    fields = [
        f"{field.name}={_value(values[field.name], field.type)}"
        for field in RESULT.fields
        if values.get(field.name) is not None
    ]
    return f"{RESULT.name}{tags} {','.join(fields)} {values['start_ns']}"


def _escaped(tag: Any) -> str:
    """Return a tag's value as the line protocol has it, without what it cannot carry.

    That is as collectors/lineprotocol does it: a line feed would begin another point, and a
    backslash take the next tag into this one.
    """
    text = re.sub(r"[\x00-\x1f\x7f]|\\(?=[,= \\]|\Z)", "_", str(tag))
    return re.sub(r"([,= ])", r"\\\1", text) or "_"


def _value(value: Any, kind: FieldType) -> str:
    match kind:
        case FieldType.STRING:
            line = re.sub(r"[\x00-\x1f\x7f]", " ", " ".join(str(value).split()))
            text = line.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{text}"'
        case FieldType.INTEGER:
            return f"{int(value)}i"
        case FieldType.FLOAT:
            return repr(float(value))
