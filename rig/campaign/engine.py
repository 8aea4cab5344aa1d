# SPDX-License-Identifier: GPL-3.0-or-later
"""The campaign engine: open a campaign, say what a host is to do next, keep what came back."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from joulerig.analysis.results import processor, progress, run_energy
from joulerig.analysis.results.campaign import PRECONDITION_FILE
from joulerig.analysis.results.influx import InfluxError
from joulerig.rig import workloads
from joulerig.rig.campaign import definition as campaigns
from joulerig.rig.campaign import factors, measure, provenance
from joulerig.rig.campaign import journal as journals
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common import files, paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.controller import services
from joulerig.rig.lab import filesystems, kernels, virtual
from joulerig.rig.lab.model import Lab
from joulerig.rig.workloads import place, reports

LOST_FILE = "lost.json"  # in a run's folder: what an attempt had come to whose controller went away


def open_campaign(mapping: Any, lab: Lab, source: str, *, short: bool = False) -> Journal:
    """Validate, plan and journal a campaign, or its short form; nothing is left behind when that fails.

    Raises UserError.
    """
    campaign = campaigns.parse(mapping, lab, source, short=short)
    services.check(lab)
    planned = campaigns.plan(campaign, lab)
    created = time.time_ns()
    name = f"{campaign.name}-{datetime.fromtimestamp(created / 1e9, UTC):%Y%m%d-%H%M%S}"
    rows = [
        {
            "id": f"{name}-{ordinal:04d}",
            "ordinal": ordinal,
            "block": run.block,
            "replicate": run.replicate,
            "host": run.host,
            "drive": run.drive,
            **{key: run.levels[key] for key in ("filesystem", "scheduler", "workload")},
            "cell": run.cell,
            "factors": json.dumps(run.levels),
            "status": "not-run" if run.not_run else "planned",
            "reason": run.not_run,
        }
        for ordinal, run in enumerate(planned, start=1)
    ]
    return Journal.create(
        paths.results() / name,
        {
            "id": name,
            "name": campaign.name,
            "question": campaign.question,
            "created_ns": created,
            "definition": campaign.model_dump_json(),
            "lab": lab.model_dump_json(
                exclude={"inventory": True, "controller": {"influxdb": {"token_file"}}}
            ),
            "virtual": int(lab.virtual),
            "provenance": json.dumps(
                {
                    "controller": provenance.controller(lab),
                    "calibration": provenance.calibration(lab),
                    "emulated": provenance.emulated(lab),
                    "seed": campaign.seed,
                    "playbook": source,
                }
            ),
        },
        rows,
    )


def resume_campaign(name: str, lab: Lab) -> Journal:
    """An earlier campaign, what was interrupted or lost planned again. Raises UserError."""
    services.check(lab)
    journal = Journal(journals.find(paths.results(), name))
    for run in journal.runs():
        if run["status"] in ("planned", "running", "lost"):
            _check_still_there(run, lab, journal.campaign["id"])
    for run in journal.give_back():
        shutil.rmtree(journal.folder / "runs" / run, ignore_errors=True)  # of the attempt that was cut off
    return journal


def _check_still_there(run: Mapping[str, Any], lab: Lab, source: str) -> None:
    host = lab.hosts.get(run["host"])
    there = {
        "host": lab.hosts,
        "drive": [*host.drives, *host.arrays] if host else [],
        "filesystem": filesystems.load(lab),
        "workload": workloads.load(lab),
    }
    for factor, known in there.items():
        if run[factor] not in known:
            allowed = ", ".join(known)
            raise UserError(f"{source}: {factor}: {run[factor]!r} is gone since; there are: {allowed}")
    kernel = run["factors"].get("kernel")
    if kernel and kernel not in (known := kernels.load(lab)):
        raise UserError(f"{source}: kernel: {kernel!r} is gone since; there are: {', '.join(known)}")
    journal = factors.journal_drive(run["factors"])
    if journal and journal not in there["drive"]:
        allowed = ", ".join(there["drive"])
        raise UserError(f"{source}: journal: {journal!r} is gone since; there are: {allowed}")


def arguments(journal: Journal, run: Mapping[str, Any], lab: Lab) -> dict[str, Any]:
    """The arguments of the module call that executes `run` on its host."""
    campaign = journal.campaign
    definition = campaign["definition"]
    host = lab.hosts[run["host"]]
    journal_drive = factors.journal_drive(run["factors"])
    filesystem = filesystems.load(lab)[run["filesystem"]]
    workload = workloads.load(lab)[run["workload"]]
    if call := run["factors"].get("sync"):
        workload = workload.with_sync(call)
    preconditioned = definition.get("precondition") is not None
    if preconditioned:
        filesystem = filesystem.without_discard
    phases = {
        **definition["phases"],
        "workload_seconds": factors.workload_seconds(
            definition["phases"]["workload_seconds"], run["factors"]
        ),
    }
    return {
        "run": run["id"],
        "campaign": campaign["id"],
        "host": run["host"],
        "drive": run["drive"],
        "array": run["drive"] in host.arrays,
        "members": [
            host.drives[name].declared_as(name) for name in lab.members_of(run["host"], run["drive"])
        ],
        "journal": host.drives[journal_drive].declared_as(journal_drive) if journal_drive else {},
        "filesystem": filesystem.for_host(run["filesystem"]),
        "preconditioned": preconditioned,
        "scheduler": run["scheduler"],
        "write_cache": factors.write_cache(definition["write_cache"], run["factors"]),
        "workload": {"name": run["workload"], **workload.delivered(place.on_host)},
        "seeks": definition.get("count_seeks", False),
        "free_nids": definition.get("time_free_nids", False),
        "fill": factors.fill(run["factors"]),
        "phases": {name.removesuffix("_seconds"): seconds for name, seconds in phases.items()},
        "seed": definition["seed"] * 1000 + run["replicate"],
        "clock_server": services.deployment(lab, run["host"])["rig_clock_server"],
    }


def settle(journal: Journal, run: Mapping[str, Any], answer: Mapping[str, Any], lab: Lab) -> str:
    """Keep what a host's module call gave for `run`: files, phases, performance, energy, AI. Its status.

    The workload's own work stands even where energy is missing: the run is then partial. Where no drive of
    the run has a rail there is none to miss: that run is as good as it can be, and its reason says so.
    """
    place = journal.folder / "runs" / run["id"]
    _keep_files(place, answer)
    status, reasons = answer["status"], [answer["reason"]] if answer.get("reason") else []
    tables: dict[str, list[dict[str, Any]]] = {}
    if answer.get("phases") and answer.get("clock"):
        phases = measure.on_controller_time(answer["phases"], answer["clock"])
        tables["phase"] = [vars(phase) for phase in phases]
        load = next((phase for phase in phases if phase.phase == "workload"), None)
        if load and answer.get("report"):
            seconds = (load.end_ns - load.start_ns) / 1e9
            try:
                tool = workloads.load(lab)[run["workload"]].tool
                done = reports.performance(tool, answer["report"], seconds)
            except (ArithmeticError, LookupError, TypeError, ValueError) as error:
                status = "failed"
                reasons.append(f"the load's report cannot be read: {type(error).__name__}: {error}")
            else:
                tables["performance"] = [done]
                campaign = journal.campaign
                found, missing = _measured(run, answer, phases, load, done, lab, place, campaign)
                tables.update(found)
                limit = campaign["definition"]["loss_limit_percent"]
                reasons += missing + _losses(found.get("energy", []), limit)
    if status == "ok" and "performance" not in tables:
        status, reasons = "failed", ["the load left no report"]
    if status == "ok" and reasons:
        status = "partial"
    if status == "ok" and not lab.rails_of(run["host"], *_drives(run)):
        reasons = [f"no joules: {' and '.join(_drives(run))}: no rail"]
    if status in ("ok", "partial") and (why := _not_steady(place)):
        reasons.append(why)  # a result, and no fault of the run
    journal.finish(run["id"], status, "; ".join(reasons), tables)
    return status


def _not_steady(place: Path) -> str:
    """How the drive's precondition ended where it was not steady; empty where it was, or nobody asked."""
    path = place / PRECONDITION_FILE
    verdict = json.loads(path.read_text())["verdict"] if path.exists() else {"steady": True}
    return "" if verdict["steady"] else f"precondition: {verdict['reason']}"


def _measured(
    run: Mapping[str, Any],
    answer: Mapping[str, Any],
    phases: list[measure.Phase],
    load: measure.Phase,
    done: Mapping[str, Any],
    lab: Lab,
    place: Path,
    campaign: Mapping[str, Any],
) -> tuple[dict[str, list[dict[str, Any]]], list[str]]:
    """What only InfluxDB knows of a run: rows of energy, result and io; and why energy is missing."""
    tables: dict[str, list[dict[str, Any]]] = {}
    host, drives = run["host"], _drives(run)
    try:
        with measure.client(lab) as database:
            trace = place / "power.csv"
            rows, missing = measure.energies(lab, database, host, drives, phases, trace, campaign)
            truth = measure.truths(virtual.truth_source(lab, host), lab, host, drives, phases)
            measure.add_truth(rows, phases, truth)
            if truth:
                files.replace(place / "truth.json", json.dumps(truth))
            tables["energy"] = rows
            members = lab.members_of(host, *drives)
            whole = {row["drive"] for row in rows} == set(members)
            bound = measure.device_bound(phases, truth)
            of_drive = run_energy.result(rows if whole else [], done)
            counted = measure.package_joules(database, host, load)
            if counted.height:
                processor.write(counted, place)
            tables["result"] = [
                {**of_drive, "device_bound_fraction": bound, "cpu_joules": processor.joules(counted, load)}
            ]
            tables["io"] = _io(run, answer, load, database)
            if twin := measure.twin_io(phases, truth, len(members)):
                tables["io"].append(twin)
            told = progress.points(database, host, run["id"], load)
            if told.height:
                progress.write(told, place)
    except (InfluxError, UserError) as error:
        return tables, [f"no energy: {error}" if "energy" not in tables else f"no I/O counters: {error}"]
    return tables, missing


def _drives(run: Mapping[str, Any]) -> list[str]:
    return factors.stands_on(run["drive"], run["factors"])


def _io(
    run: Mapping[str, Any], answer: Mapping[str, Any], load: measure.Phase, database
) -> list[dict[str, Any]]:
    if not answer.get("counters"):
        return []  # no load, or a drive that counts no I/O: the agent's zeros would say that there was none
    rows = [{"source": "host", **answer["counters"]}]
    offset = load.clock_offset_ns
    counted = {
        drive: measure.agent_io(database, run["host"], drive, load.start_ns - offset, load.end_ns - offset)
        for drive in _drives(run)
    }
    return rows + measure.added_up(counted)


def _losses(rows: list[dict[str, Any]], limit_percent: float) -> list[str]:
    """Rails of the workload phase that lost more samples than allowed.

    A block that came twice came in place of another one, which is lost as well.
    """
    found = []
    for row in rows:
        if row["phase"] == "workload" and row["expected"]:
            percent = 100 * (row["lost"] + row["duplicate"]) / row["expected"]
            if percent > limit_percent:
                limit = f"{limit_percent:g} % is allowed"
                found.append(f"meter {row['meter']} lost {percent:.2f} % of {row['rail']}; {limit}")
    return found


def _keep_files(place: Path, answer: Mapping[str, Any]) -> None:
    parts = {
        "result.json": {
            key: value
            for key, value in answer.items()
            if key not in ("report", "settings", "health", "earlier")
        },
        "load.json": answer.get("report"),
        "settings.json": answer.get("settings"),
        LOST_FILE: answer.get("earlier"),
        "smart_before.json": (answer.get("health") or {}).get("before"),
        "smart_after.json": (answer.get("health") or {}).get("after"),
    }
    for name, content in parts.items():
        if content:
            files.replace(place / name, json.dumps(content, indent=1))
