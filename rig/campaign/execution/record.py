# SPDX-License-Identifier: GPL-3.0-or-later
"""Record the result of a run, its files and rows of the journal; complete what arrived late.

powerd keeps what InfluxDB does not take, and delivers it later.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from joulerig.analysis.results import (
    facts,
    load_reports,
    power_points,
    processor,
    progress,
    run_energy,
    twin_truth,
)
from joulerig.analysis.results import phases as run_phases
from joulerig.analysis.results.campaign import PRECONDITION_FILE, Phase
from joulerig.analysis.results.facts import RunFacts
from joulerig.analysis.results.influxdb.client import InfluxError, Queries
from joulerig.analysis.results.schema import (
    ONE_ROW_A_RUN,
    WORKED,
    Cause,
    PhaseName,
    Status,
    is_control,
)
from joulerig.analysis.runs.modes import throttling
from joulerig.rig import workloads
from joulerig.rig.campaign import factors, measure
from joulerig.rig.campaign.execution.outcome import RunOutcome
from joulerig.rig.campaign.opening import OpenCampaign, OpenJournal
from joulerig.rig.common import files, paths, wait
from joulerig.rig.common.bounded import one_line
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import virtual
from joulerig.rig.lab.model import Lab

DELIVERY_SECONDS = 60.0  # in which an agent delivers what it kept, once InfluxDB is back


def record_result(campaign: OpenCampaign, run: Mapping[str, Any], outcome: RunOutcome) -> Status:
    """Record the result of `run`: files, phases, performance, energy, AI. Return its status.

    The workload's own work stands even where energy is missing, a drive throttled, or a clock was
    set: the run is then partial. Where no drive of the run has a rail there is none to miss: that
    run is as good as it can be, and its reason says so.
    """
    _keep_files(campaign.folder(run), outcome)
    status, reason, tables = _judge(campaign, run, outcome)
    cause = Cause.CLOCK if status == Status.PARTIAL and _clock_steps(outcome) else outcome.cause
    campaign.journal.finish(run["id"], status, reason, tables, cause)
    return status


def _clock_steps(outcome: RunOutcome) -> list[str]:
    return run_phases.clock_steps([one.model_dump() for one in outcome.clock], outcome.controller_step_ns)


def settle(campaign: OpenCampaign, say: Callable[[str], None]) -> list[str]:
    """Settle a campaign's `partial` runs; return the ids of those that stay so.

    `say` gets a line for each run whose status changed. Raises UserError where InfluxDB does not
    answer, or a run's files cannot be read.
    """
    runs = [run for run in campaign.journal.runs() if run["status"] == Status.PARTIAL]
    if runs:
        _await_points(campaign, runs)
    stay = []
    for run in runs:
        status = settle_result(campaign, run)
        if status == Status.PARTIAL:
            stay.append(str(run["id"]))
        else:
            say(f"{run['id']} {run['cell']}: {Status.PARTIAL} -> {status}")
    return stay


def _await_points(campaign: OpenCampaign, runs: Sequence[Mapping[str, Any]]) -> None:
    """Wait for what agents kept while InfluxDB was away: a run is settled once.

    An agent delivers in order, so that it has delivered a run's points where it has a later one.
    Raises UserError where InfluxDB does not answer.
    """
    ends: dict[str, int] = {}  # by the host's clock
    for run in runs:
        for phase in campaign.journal.rows("phase", run["id"]):
            end = phase["end_ns"] - phase["clock_offset_ns"]
            ends[run["host"]] = max(end, ends.get(run["host"], end))
    try:
        with measure.client(campaign.lab) as database:
            database.query("SELECT joules FROM power LIMIT 1")
            for host, end in ends.items():
                if measure.has_agent(database, host):
                    wait.until(partial(measure.has_agent, database, host, end), DELIVERY_SECONDS, 1.0)
    except InfluxError as error:
        raise UserError(f"InfluxDB: {error}") from None


def settle_result(campaign: OpenCampaign, run: Mapping[str, Any]) -> Status:
    """Record the result of a `partial` run again, from its files and what arrived since.

    Return its status, which is better or as it was. What was recorded stays where not more is
    known.
    """
    status, reason, tables = _judge(campaign, run, _outcome(campaign.folder(run)))
    missing_before = _unmeasured(campaign.journal.rows("energy", run["id"]))
    if status in WORKED and (status == Status.OK or _unmeasured(tables.get("energy", [])) < missing_before):
        campaign.journal.settle(run["id"], status, reason, tables)
        return status
    return Status.PARTIAL


def _unmeasured(rows: Sequence[Mapping[str, Any]]) -> float:
    """Return how many phases of rails have no joules; more than any where no rail was asked for."""
    return sum(row["joules"] is None for row in rows) if rows else math.inf


def _outcome(folder: Path) -> RunOutcome:
    """Return the outcome that `_keep_files` kept. Raises UserError."""
    try:
        parts = {
            name: json.loads((folder / f"{name}.json").read_text())
            for name in ("result", "load", "settings", "smart_before", "smart_after")
            if (folder / f"{name}.json").exists()
        }
        return RunOutcome.model_validate(
            {
                **parts["result"],
                "report": parts.get("load"),
                "settings": parts.get("settings", {}),
                "health": {"before": parts.get("smart_before"), "after": parts.get("smart_after")},
            }
        )
    except (KeyError, OSError, ValueError) as error:
        raise UserError(f"{paths.short(folder)}: its files cannot be read: {one_line(error)}") from None


def _judge(
    campaign: OpenCampaign, run: Mapping[str, Any], outcome: RunOutcome
) -> tuple[Status, str, dict[str, list[dict[str, Any]]]]:
    """Return a run's status, the reason of it, and its rows of the journal by table."""
    lab, folder = campaign.lab, campaign.folder(run)
    status: Status = outcome.status
    reasons = [outcome.reason] if outcome.reason else []
    doubts: list[str] = []
    tables: dict[str, list[dict[str, Any]]] = {}
    if outcome.phases and outcome.clock:
        phases = run_phases.on_controller_time(
            [phase.model_dump() for phase in outcome.phases], [one.model_dump() for one in outcome.clock]
        )
        slow = virtual.mean_slowness(lab, [(phase.start_ns, phase.end_ns) for phase in phases])
        tables["phase"] = [
            {**vars(phase), "slowness": slowness} for phase, slowness in zip(phases, slow, strict=True)
        ]
        load = next((phase for phase in phases if phase.phase == PhaseName.WORKLOAD), None)
        if load and outcome.report:
            seconds = (load.end_ns - load.start_ns) / 1e9
            try:
                tool = workloads.load(lab)[run["workload"]].tool
                done = load_reports.performance(tool, outcome.report, seconds)
            except (ArithmeticError, LookupError, TypeError, ValueError) as error:
                status = Status.FAILED
                reasons.append(f"the load's report cannot be read: {type(error).__name__}: {error}")
            else:
                tables["performance"] = [done]
                steps = _clock_steps(outcome)
                found, missing, doubts = measure_run(
                    campaign, run, phases, load, done, outcome.counters, clock_steps=steps
                )
                tables.update(found)
                reasons += steps + missing
                reasons += losses(found.get("energy", []), campaign.definition.loss_limit_percent)
                reasons += _compute_columns(tables, outcome, phases)
                reasons += throttling.in_run(
                    outcome.health.before, outcome.health.after, lab.member_drives(run["host"], *_drives(run))
                )
    if status == Status.OK and "performance" not in tables:
        status, reasons = Status.FAILED, ["the load left no report"]
    if status == Status.OK and reasons:
        status = Status.PARTIAL
    if status == Status.OK:
        reasons = _without_bounds(lab, run["host"], tables.get("energy", []))
    if status == Status.OK and not lab.drive_rails(run["host"], *_drives(run)):
        reasons = [f"no joules: {' and '.join(_drives(run))}: no rail"]
    if status in WORKED:  # a result, and no fault of the run
        reasons += doubts + _doubts(campaign, run, tables)
        if why := _not_steady(folder):
            reasons.append(why)
    return status, "; ".join(reasons), tables


def _compute_columns(
    tables: dict[str, list[dict[str, Any]]], outcome: RunOutcome, phases: list[Phase]
) -> list[str]:
    """Add the columns that declare their source to a run's rows; return what is wrong with some."""
    given = RunFacts(
        report=outcome.report or {},
        settings=outcome.settings,
        outcome=outcome.as_result_file(),
        phases={phase.phase: phase for phase in phases},
        performance=dict(tables["performance"][0]),
        energy=tables.get("energy", []),
    )
    found = []
    for table in ONE_ROW_A_RUN:
        for row in tables.get(table.name, []):
            values, problems = facts.compute_columns(table.record, given)
            row.update(values)
            found += [f"{table.name}: {problem}" for problem in problems]
    return found


def _without_bounds(lab: Lab, host: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the rails of a run's load that have joules and no bounds of them, each with why."""
    found = []
    for row in rows:
        if row["phase"] != PhaseName.WORKLOAD or row["joules"] is None or row["joules_low"] is not None:
            continue
        rails = {name: rail for _, name, rail in lab.drive_rails(host, row["drive"])}
        supply = rails[row["rail"]].supply if row["rail"] in rails else None
        if row["gap_high_joules"] is None and supply is None:
            why = "what it drew between readings is unknown, and its supply is not declared"
        elif row["product_joules"] is None and (supply is None or supply.ohms is None):
            why = "loads faster than a sample are unknown, and its supply's amps and ohms are not declared"
        else:
            why = "it drew more than its declared supply delivers, or its power is not known"
        found.append(f"no bounds of the joules of {row['drive']} {row['rail']}: {why}")
    return found


def _doubts(
    campaign: OpenCampaign, run: Mapping[str, Any], tables: Mapping[str, Sequence[Mapping[str, Any]]]
) -> list[str]:
    """Return why not to rely on a run's measured power: `run_energy.doubts`, and meters' checks."""
    measured = {row["meter"] for row in tables.get("energy", [])}
    checked = (campaign.journal.campaign.get("provenance") or {}).get("checks") or {}
    found = [
        f"{run_energy.DOUBTFUL}meter {meter}, checked {check['at'][:16]} at {check['rail']}: {fault}"
        for meter, check in checked.items()
        if meter in measured
        for fault in check.get("faults", [])
    ]
    return found + run_energy.doubts(
        power_points.read(campaign.folder(run) / "power.csv"),
        [Phase(**phase) for phase in tables.get("phase", [])],
        tables.get("energy", []),
        ops=tables["performance"][0]["ops"],
        host=run["host"],
        lab=campaign.journal.campaign.get("lab") or {},
    )


def _not_steady(folder: Path) -> str:
    """Describe how the drive's precondition ended if it was not steady.

    "" if it was, or not asked for.
    """
    path = folder / PRECONDITION_FILE
    verdict = json.loads(path.read_text())["verdict"] if path.exists() else {"steady": True}
    return "" if verdict["steady"] else f"precondition: {verdict['reason']}"


def measure_run(
    campaign: OpenJournal,
    run: Mapping[str, Any],
    phases: list[Phase],
    load: Phase,
    done: Mapping[str, Any],
    counters: Mapping[str, int] | None = None,
    *,
    clock_steps: Sequence[str],
) -> tuple[dict[str, list[dict[str, Any]]], list[str], list[str]]:
    """Return a run's rows of energy, result and io from InfluxDB, with what is wrong with them.

    That is why energy is missing, and why not to rely on the points. `counters`: of the block
    layer, as the host's module read them; None where it counted none. `clock_steps`: how clocks
    were set meanwhile (`phases.clock_steps`): nothing has joules then.
    """
    lab, folder = campaign.lab, campaign.folder(run)
    tables: dict[str, list[dict[str, Any]]] = {}
    doubts: list[str] = []
    host, drives = run["host"], _drives(run)
    try:
        with measure.client(lab) as database:
            trace = folder / "power.csv"
            rows, missing, doubts = measure.energies(
                lab, database, host, drives, phases, trace, campaign.journal.campaign, clock_steps
            )
            truth = measure.truths(virtual.truth_source(lab, host), lab, host, drives, phases)
            truth_file = folder / "truth.json"
            if not truth and truth_file.exists():  # the twins were started again since
                truth = json.loads(truth_file.read_text())
            twin_truth.add_truth(rows, phases, truth)
            if truth:
                files.replace(truth_file, json.dumps(truth))
            tables["energy"] = rows
            members = lab.member_drives(host, *drives)
            whole = {row["drive"] for row in rows} == set(members)
            bound = twin_truth.device_bound(phases, truth)
            drive_result = run_energy.result(rows if whole else [], done)
            shares = _shares_host(campaign, run)
            counted = None if shares or clock_steps else measure.package_joules(database, host, load)
            if counted is not None and counted.height:
                processor.write(counted, folder)
            tables["result"] = [
                {
                    **drive_result,
                    "device_bound_fraction": bound,
                    "cpu_joules": None if counted is None else processor.joules(counted, load),
                }
            ]
            tables["io"] = _io(lab, run, counters, load, database)
            if twin := twin_truth.twin_io(phases, truth, len(members)):
                tables["io"].append(twin)
            points = progress.points(database, host, run["id"], load)
            if points.height:
                progress.write(points, folder)
    except (InfluxError, UserError) as error:
        why = f"no energy: {error}" if "energy" not in tables else f"no I/O counters: {error}"
        return tables, [why], doubts
    return tables, missing, doubts


def _shares_host(campaign: OpenJournal, run: Mapping[str, Any]) -> bool:
    """Return whether the host's processors worked for runs of other drives as well."""
    lanes = isinstance(campaign, OpenCampaign) and campaign.definition.side_by_side
    return lanes and not is_control(run["factors"]) and len(campaign.journal.drives(run["host"])) > 1


def _drives(run: Mapping[str, Any]) -> list[str]:
    return factors.stands_on(run["drive"], run["factors"])


def _io(
    lab: Lab, run: Mapping[str, Any], counters: Mapping[str, int] | None, load: Phase, database: Queries
) -> list[dict[str, Any]]:
    if not counters:
        return []  # no load, or a drive that counts no I/O: the agent's zeros would say that there was none
    rows = [{"source": "host", **counters}]
    offset = load.clock_offset_ns
    counted = {
        drive: measure.agent_io(database, run["host"], drive, load.start_ns - offset, load.end_ns - offset)
        for drive in lab.block_devices(run["host"], *_drives(run))
    }
    return rows + measure.added_up(counted)


def losses(rows: list[dict[str, Any]], limit_percent: float) -> list[str]:
    """Return the rails that lost more samples in the workload phase than allowed.

    A block that came twice came in place of another one, which is lost as well. No sample may be
    over range or impossible: losses that come when the rail draws most are no losses at random.
    """
    found = []
    for row in rows:
        if row["phase"] == PhaseName.WORKLOAD and row["expected"]:
            percent = 100 * (row["lost"] + row["duplicate"]) / row["expected"]
            if percent > limit_percent:
                limit = f"{limit_percent:g} % is allowed"
                found.append(f"meter {row['meter']} lost {percent:.2f} % of {row['rail']}; {limit}")
            if row["over_range"]:
                found.append(
                    f"meter {row['meter']} was over range in {row['over_range']} samples of {row['rail']}"
                )
            if row["impossible"]:
                found.append(
                    f"meter {row['meter']} read far more than the supply delivers in {row['impossible']}"
                    f" samples of {row['rail']}"
                )
    return found


def _keep_files(folder: Path, outcome: RunOutcome) -> None:
    parts = {
        "result.json": outcome.as_result_file(),
        "load.json": outcome.report,
        "settings.json": outcome.settings,
        "smart_before.json": outcome.health.before,
        "smart_after.json": outcome.health.after,
    }
    for name, content in parts.items():
        if content:
            files.replace(folder / name, json.dumps(content, indent=1))
