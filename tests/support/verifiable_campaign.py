# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated results folders whose journal follows from the runs' files, as a real one's."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl

from joulerig.analysis import results
from joulerig.analysis.bundle import recompute
from joulerig.analysis.results import load_reports, power_points, processor, run_energy, twin_truth
from joulerig.analysis.results import phases as run_phases
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import Phase
from tests.support import simulated_campaign
from tests.support.simulated_campaign import SECOND, Outcome, always_ok

OFFSET_NS = -31_000_000
CLOCK = [{"at_ns": 0, "offset_ns": OFFSET_NS, "error_ns": 140_000}]


def build(folder: Path, **given) -> Path:
    """Build as simulated_campaign.build, with all files of each run that worked."""
    given = {"drives": ("nvme-plp",), "filesystems": ("ext4", "f2fs"), "schedulers": ("none",), **given}
    simulated_campaign.build(folder, traces=True, **given)
    campaign = results.load(folder)
    with closing(sqlite3.connect(folder / "journal.sqlite")) as database, database:
        database.execute("DELETE FROM event")
        _event(database, None, "created", {"runs": len(campaign.runs)})
        for run in campaign.runs:
            _event(database, run.id, "status", {"from": "running", "to": run.status, "reason": run.reason})
            if run.performance:
                _settle(database, campaign, run)
            elif run.status in ("planned", "excluded"):
                shutil.rmtree(run.folder, ignore_errors=True)
    return folder


def mixed(levels: dict) -> Outcome:
    """Outcomes of every kind, by ordinal."""
    return {
        1: Outcome("failed", "fio: exit 1"),
        2: Outcome("partial", "meter fell silent", joules=False),
        3: Outcome("lost", "host gone"),
        4: Outcome("excluded", "no"),
    }.get(levels["ordinal"], always_ok(levels))


def still_running(levels: dict) -> Outcome:
    return {3: Outcome("running"), 4: Outcome("planned")}.get(levels["ordinal"], always_ok(levels))


def edit(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / "journal.sqlite")) as database, database:
        database.execute(statement)


def _settle(database: sqlite3.Connection, campaign: Campaign, run: Run) -> None:
    """What the campaign executor does with a host's answer."""
    answer = _answer(run)
    load = _load(run)
    _keep(run, "result.json", answer)
    _keep(run, "load.json", load)
    phases = run_phases.on_controller_time(answer["phases"], answer["clock"])
    workload = next(phase for phase in phases if phase.phase == "workload")
    done = load_reports.performance("fio", load, (workload.end_ns - workload.start_ns) / 1e9)
    frame = power_points.read(run.folder / "power.csv")
    if frame is not None:
        frame = frame.with_columns(duplicate=pl.lit(0), repeated=pl.lit(0), surplus=pl.lit(0))
        power_points.write(frame, run.folder / "power.csv")
    rails = recompute.rails(campaign, run)
    found = run_energy.phase_energies(
        frame, phases, rails, host=run.host, lab=campaign.lab, provenance=campaign.provenance
    )
    rows = [run_energy.row(*parts) for parts in found]
    truth = _truth(run, phases) if campaign.virtual else {}
    if truth:
        _keep(run, "truth.json", truth)
    twin_truth.add_truth(rows, phases, truth)
    bound = twin_truth.device_bound(phases, truth)
    counted = _packages(run, workload)
    processor.write(counted, run.folder)
    others = {"device_bound_fraction": bound, "cpu_joules": processor.joules(counted, workload)}
    tables = {
        "phase": [vars(phase) for phase in phases],
        "performance": [done],
        "energy": rows,
        "result": [{**run_energy.result(rows, done), **others}],
        "io": [{"source": "host", **answer["counters"]}],
    }
    if truth:
        tables["io"].append(twin_truth.twin_io(phases, truth, 1))
    for table, content in tables.items():
        database.execute(f"DELETE FROM {table} WHERE run = ?", (run.id,))
        for row in content:
            simulated_campaign._insert(database, table, {"run": run.id, **row})


def _packages(run: Run, load: Phase) -> pl.DataFrame:
    """About 10 W of processor packages, read once a second."""
    times = range(load.start_ns - SECOND // 3, load.end_ns + SECOND, SECOND)
    rows = [(at, 1000.0 + run.ordinal + 10.1 * second) for second, at in enumerate(times)]
    return pl.DataFrame(rows, schema=processor.COLUMNS, orient="row")


def _answer(run: Run) -> dict:
    counted = run.io["host"]
    return {
        "status": run.status,
        "phases": [
            {"phase": one.phase, "start_ns": one.start_ns - OFFSET_NS, "end_ns": one.end_ns - OFFSET_NS}
            for one in run.phases.values()
        ],
        "clock": CLOCK,
        "counters": {
            name: getattr(counted, name)
            for name in ("reads", "read_bytes", "writes", "write_bytes", "flushes", "discards")
        },
        "invocation": {"module_args": {"workload": {"name": run.workload, "tool": "fio"}}},
    }


def _load(run: Run) -> dict:
    """A report of fio's with the operations of the simulated run, half of them slow."""
    ops = run.performance.ops
    bins = {"500000": ops // 2, "900000": ops - ops // 2}
    return {
        "jobs": [
            {
                "read": {"total_ios": 0, "io_bytes": 0},
                "write": {"total_ios": ops, "io_bytes": ops * 4096},
                "sync": {"total_ios": ops, "lat_ns": {"bins": bins}},
            }
        ]
    }


def _truth(run: Run, phases: list) -> dict:
    true = {one.phase: one.true_joules for one in run.energy}
    joules, level = [], 0.0
    for phase in phases:
        joules += [level, level + true[phase.phase]]
        level = joules[-1]
    steps = list(range(len(joules)))
    names = ("reads", "read_bytes", "writes", "write_bytes", "flushes", "discards", "fua_writes")
    counters = {name: [1000 * step for step in steps] for name in names}
    counters["device_bound_ns"] = [SECOND * step for step in steps]
    rail = run.energy[0].rail
    return {run.drive: {"rails": [{"name": rail, "joules": joules}], "counters": counters}}


def _keep(run: Run, name: str, content: dict) -> None:
    (run.folder / name).write_text(json.dumps(content, indent=1))


def _event(database: sqlite3.Connection, run: str | None, event: str, detail: dict) -> None:
    database.execute(
        "INSERT INTO event (time_ns, run, event, detail) VALUES (?, ?, ?, ?)",
        (simulated_campaign.T0, run, event, json.dumps(detail)),
    )
