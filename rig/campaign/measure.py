# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure a run's energy and I/O from InfluxDB over its phases, and on twins the truth."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from joulerig.analysis.results import power_points, processor, run_energy, twin_truth
from joulerig.analysis.results.influxdb.client import Databases, Queries, quote_string
from joulerig.analysis.results.schema import Phase, PhaseName
from joulerig.plural import counted
from joulerig.rig.common import wait
from joulerig.rig.common.errors import UserError
from joulerig.rig.controller import influxdb, services
from joulerig.rig.lab import virtual
from joulerig.rig.lab.model import Lab, Rail
from joulerig.rig.lab.virtual import TruthSource

LOOK_BACK_NS = 15 * 60 * 1_000_000_000
ARRIVAL_SECONDS = 5.0  # how long points may be on their way to InfluxDB


def client(lab: Lab) -> Databases:
    """Return the lab's databases for reading."""
    reader = influxdb.access(lab, "reader")
    return Databases(reader.url, reader.database, reader.username, reader.password, hosts=lab.hosts)


class Energies(NamedTuple):
    """The `energy` rows of a run, why joules are missing, and why not to rely on the points."""

    rows: list[dict[str, Any]]
    missing: list[str]
    doubts: list[str]


def energies(
    lab: Lab,
    database: Queries,
    host: str,
    drives: Sequence[str],
    phases: Sequence[Phase],
    trace: Path,
    campaign: Mapping[str, Any] | None = None,
    clock_steps: Sequence[str] = (),
) -> Energies:
    """Return the energy of a run on `drives`.

    Waits for points that are still on their way. Writes the run's power trace to `trace`. A rail
    without points has a row without joules, a drive without rails has none: energy is never
    invented. Where no drive has a rail, no joules are missing. `campaign`: the journal's, with
    `lab` and `provenance`: what was known of the meters and their calibration. `clock_steps`: how
    clocks were set meanwhile; no rail has joules then.
    """
    described = (campaign or {}).get("lab") or {}
    provenance = (campaign or {}).get("provenance") or {}
    rails = lab.drive_rails(host, *drives)
    if not rails:
        return Energies([], [], [])
    unmeasured = sorted(set(lab.member_drives(host, *drives)) - {member for member, _, _ in rails})
    missing = [f"no energy of {member}: the inventory gives it no rails" for member in unmeasured]
    if not phases:
        return Energies([], missing, [])
    start, end = min(p.start_ns for p in phases), max(p.end_ns for p in phases)
    silent = _silent_meters({name for _, _, rail in rails for name in rail.meters})
    frame, doubts = _points(database, host, rails, start, end, 0 if silent else ARRIVAL_SECONDS)
    if frame.height:
        power_points.write(frame, trace)
    rows = []
    wired = [(member, rail.meter, name) for member, name, rail in rails]
    for phase, (member, meter, name), found in run_energy.phase_energies(
        frame, phases, wired, host=host, lab=described, provenance=provenance, clock_steps=clock_steps
    ):
        if found.joules is None and phase.phase == PhaseName.WORKLOAD and not clock_steps:
            needed = next(rail.meters for m, n, rail in rails if (m, n) == (member, name))
            why = [f"meter {one} is {silent[one]}" for one in sorted(needed) if one in silent]
            missing.append(f"no energy of {member} {name}: {why[0] if why else found.reason}")
        rows.append(run_energy.row(phase, (member, meter, name), found))
    return Energies(rows, missing, doubts)


def watts(
    lab: Lab, database: Queries, host: str, drive: str, intervals: Sequence[Phase]
) -> list[float | None]:
    """Return a drive's mean power in each of `intervals`, all its rails together, in watts.

    Waits for points that are still on their way. None where a rail has no energy of an interval, or
    one with more than 1 % of it in gaps; all are None where the drive has no rail.
    """
    rails = lab.drive_rails(host, drive)
    if not rails:
        return [None for _ in intervals]
    patience = (
        0.0 if _silent_meters({name for _, _, rail in rails for name in rail.meters}) else ARRIVAL_SECONDS
    )
    _points(database, host, rails, intervals[-1].start_ns, intervals[-1].end_ns, patience)

    def mean_watts(interval: Phase) -> float | None:
        frame, _ = _points(database, host, rails, interval.start_ns, interval.end_ns, 0)
        if frame.is_empty():
            return None
        found = power_points.energy_by_rail(frame, interval.start_ns, interval.end_ns)
        parts = [found.get((member, rail.meter, name)) for member, name, rail in rails]
        most = 0.01 * interval.seconds
        if any(part is None or part.joules is None or part.gap_seconds > most for part in parts):
            return None
        return sum(part.joules for part in parts) / interval.seconds

    return [mean_watts(interval) for interval in intervals]


def _points(
    database: Queries,
    host: str,
    rails: Sequence[tuple[str, str, Rail]],
    start_ns: int,
    end_ns: int,
    patience_seconds: float,
) -> tuple[pl.DataFrame, list[str]]:
    """Return `points` of `rails` (Lab.drive_rails) around an interval, late ones too."""
    members = sorted({member for member, _, _ in rails})

    def so_far() -> tuple[pl.DataFrame, list[str]]:
        frame, doubts = points(database, host, members, start_ns, end_ns)
        return power_points.whole(frame), doubts

    def arrived() -> tuple[pl.DataFrame, list[str]] | None:
        frame, doubts = so_far()
        last = frame.group_by("drive", "rail").agg(pl.col("time_ns").max()) if frame.height else frame
        complete = last.height == len(rails) and last["time_ns"].min() >= end_ns
        return (frame, doubts) if complete else None

    return wait.until(arrived, patience_seconds, 0.2) or so_far()


def points(
    database: Queries, host: str, drives: Sequence[str], start_ns: int, end_ns: int
) -> tuple[pl.DataFrame, list[str]]:
    """Return powerd's points of drives around an interval, and a doubt for each other session.

    Only powerd's account writes to their database. If another did all the same, its points are left
    out. Raises InfluxError, and UserError where the list of powerd's sessions cannot be read.
    """
    found = power_points.points(database, host, drives, start_ns, end_ns)
    frame, others = power_points.split_by_session(found, services.power_sessions())
    return frame, [
        f"{run_energy.DOUBTFUL}{counted(number, 'point')} of session {session[:40]!r}, which powerd has not"
        " had here, left out"
        for session, number in others.items()
    ]


def strange_points(lab: Lab) -> list[str]:
    """Return a line for each session in the last minutes of `power` that powerd has not had.

    Raises InfluxError, UserError.
    """
    now_ns = virtual.clock(is_virtual=lab.virtual)()
    with client(lab) as database:
        sessions = database.query(
            f"SELECT distinct(session) AS session FROM power WHERE time >= {now_ns - LOOK_BACK_NS}"
        )
    found = sessions["session"].drop_nulls() if sessions.height else ()
    others = sorted(set(found) - services.power_sessions())
    return [f"power has points of session {one[:40]!r}, which powerd has not had here" for one in others]


def truths(
    source: TruthSource | None, lab: Lab, host: str, drives: Sequence[str], phases: Sequence[Phase]
) -> dict[str, dict[str, Any]]:
    """Return what the twins of drives and members report at the ends of each phase, by drive.

    Each entry is the `history` of docs/reference/protocols/twin.md, its lists with two entries a
    phase. The ends are where the twins' own operations put them (`twin_truth.clock_shift_ns`). A
    twin that was restarted has no history of the run and is left out. Empty without a `source`: on
    a physical host.
    """
    if source is None:
        return {}
    members = sorted({member for member, _, _ in lab.drive_rails(host, *drives)})

    def histories(instants_ns: Sequence[int]) -> dict[str, dict[str, Any]]:
        found = {}
        for member in members:
            with contextlib.suppress(UserError):
                found[member] = source.history(host, member, instants_ns)
        return found

    shift = _clock_shift_ns(histories, phases, virtual.clock(is_virtual=lab.virtual)())
    return histories([edge - shift for phase in phases for edge in (phase.start_ns, phase.end_ns)])


def _clock_shift_ns(
    histories: Callable[[Sequence[int]], Mapping[str, Mapping[str, Any]]],
    phases: Sequence[Phase],
    now_ns: int,
) -> int:
    """Return how much later than the twins' operations the phases are; 0 without a load."""
    load = next((phase for phase in phases if phase.phase == PhaseName.WORKLOAD), None)
    if load is None:
        return 0
    times = twin_truth.load_instants(load, now_ns).tolist()
    counts = [
        np.sum([found["counters"][name] for name in twin_truth.OPERATIONS], axis=0)
        for found in histories(times).values()
    ]
    return twin_truth.clock_shift_ns(load, times, np.sum(counts, axis=0)) if counts else 0


def has_agent(database: Queries, host: str, since_ns: int = 0) -> bool:
    """Return whether the agent of a host has delivered counts from that time on (host's clock)."""
    query = f"SELECT reads FROM blockio WHERE host = {quote_string(host)} AND time >= {since_ns} LIMIT 1"
    return bool(database.query(query, host=host).height)


def agent_io(database: Queries, host: str, drive: str, start_ns: int, end_ns: int) -> dict[str, Any] | None:
    """Return the `io` row that iod counted between the points that enclose an interval.

    None where the agent's points do not enclose it.
    """
    counters = ("reads", "read_bytes", "writes", "write_bytes", "flushes", "discards")

    def rise(measurement: str, fields: Sequence[str]) -> dict[str, int] | None:
        """Return what was counted; {} where nothing is, None where it has not arrived."""
        frame = database.query(
            f"SELECT {', '.join(fields)} FROM {measurement} WHERE host = {quote_string(host)}"
            f" AND drive = {quote_string(drive)} AND time >= {start_ns - 3_000_000_000}"
            f" AND time <= {end_ns + 3_000_000_000}",
            host=host,
        )
        if not frame.height:
            return {}
        whole = frame.drop_nulls(fields)  # InfluxDB takes a point field by field
        before = whole.filter(pl.col("time") <= start_ns)
        after = whole.filter(pl.col("time") >= end_ns)
        if not before.height or not after.height:
            return None
        return {name: int(after[name][0]) - int(before[name][-1]) for name in fields}

    found = wait.until(lambda: rise("blockio", counters) or None, ARRIVAL_SECONDS, 0.25)
    if found is None:
        return None
    # Not every file system reports a journal.
    journal = wait.until(lambda: rise("fsjournal", ("transactions",)), ARRIVAL_SECONDS, 0.25) or {}
    return {"source": "iod", **found, "journal_transactions": journal.get("transactions")}


def package_joules(database: Queries, host: str, load: Phase) -> pl.DataFrame:
    """Return `analysis.results.processor.points`, waiting for late readings of a host with RAPL."""
    found = processor.points(database, host, load)
    if found.is_empty():
        return found

    def whole() -> pl.DataFrame | None:
        again = processor.points(database, host, load)
        return again if processor.enclose(again, load) else None

    arrived = wait.until(whole, ARRIVAL_SECONDS, 0.25)
    return found if arrived is None else arrived


def added_up(counted: Mapping[str, Mapping[str, Any] | None]) -> list[dict[str, Any]]:
    """Return the `io` rows of a run's drives: their sum, and each where they are several.

    Nothing where the count of one of them is missing: a part would pass for the whole.
    """
    found = {drive: row for drive, row in counted.items() if row is not None}
    if len(found) != len(counted):
        return []
    total: dict[str, Any] = {"source": "iod"}
    for row in found.values():
        for key, value in row.items():
            if key != "source" and value is not None:
                total[key] = total.get(key, 0) + value
    each = [{**row, "source": f"iod {drive}"} for drive, row in found.items()]
    return [total, *(each if len(each) > 1 else [])]


def _silent_meters(meters: set[str]) -> dict[str, str]:
    """Return those of `meters` that do not stream now, each with powerd's reason."""
    try:
        known = {meter["name"]: meter for meter in services.powerd_status()["meters"]}
    except UserError:
        return dict.fromkeys(meters, "unknown: powerd is not running")
    return {
        name: known[name]["state"] if name in known else "not configured"
        for name in sorted(meters)
        if name not in known or known[name]["state"] != "streaming"
    }
