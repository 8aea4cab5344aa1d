# SPDX-License-Identifier: GPL-3.0-or-later
"""The campaign engine: open a campaign, say what a host is to do next, keep what came back."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from analysis import indicator
from analysis.influx import InfluxError
from rig import campaign as campaigns
from rig import controller, files, fio_report, measure, paths, provenance
from rig import journal as journals
from rig.journal import Journal
from rig.lab import Lab


def open_campaign(mapping: Any, lab: Lab, source: str) -> Journal:
    """Validate, plan and journal a campaign; nothing is left behind when that fails. Raises UserError."""
    campaign = campaigns.parse(mapping, lab, source)
    controller.check(lab)
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
            **run.levels,
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
                {"controller": provenance.controller(lab), "seed": campaign.seed, "playbook": source}
            ),
        },
        rows,
    )


def resume_campaign(name: str, lab: Lab) -> Journal:
    """An earlier campaign, what was interrupted or lost planned again. Raises UserError."""
    controller.check(lab)
    journal = Journal(journals.find(paths.results(), name))
    journal.give_back()
    return journal


def arguments(journal: Journal, run: Mapping[str, Any], lab: Lab) -> dict[str, Any]:
    """The arguments of the module call that executes `run` on its host."""
    campaign = journal.campaign
    definition = campaign["definition"]
    host = lab.hosts[run["host"]]
    array = host.arrays.get(run["drive"])
    members = array.members if array else [run["drive"]]
    filesystem = campaigns.filesystems()[run["filesystem"]]
    phases = definition["phases"]
    return {
        "run": run["id"],
        "campaign": campaign["id"],
        "host": run["host"],
        "drive": run["drive"],
        "array": array is not None,
        "members": [
            {
                "name": name,
                **host.drives[name].model_dump(include={"interface", "serial", "wwn", "size_bytes"}),
            }
            for name in members
        ],
        "filesystem": {"name": run["filesystem"], **filesystem.model_dump()},
        "scheduler": run["scheduler"],
        "write_cache": definition["write_cache"] or "",
        "workload": {"name": run["workload"], "job": campaigns.workloads()[run["workload"]].read_text()},
        "phases": {name.removesuffix("_seconds"): seconds for name, seconds in phases.items()},
        "seed": definition["seed"] * 1000 + run["replicate"],
        "clock_server": controller.deployment(lab, run["host"])["rig_clock_server"],
    }


def settle(journal: Journal, run: Mapping[str, Any], answer: Mapping[str, Any], lab: Lab) -> str:
    """Keep what a host's module call gave for `run`: files, phases, performance, energy, AI. Gives the status.

    The workload's own work stands even where energy is missing: the run is then partial.
    """
    place = journal.folder / "runs" / run["id"]
    _keep_files(place, answer)
    status, reasons = answer["status"], [answer["reason"]] if answer["reason"] else []
    tables: dict[str, list[dict[str, Any]]] = {}
    if answer.get("phases") and answer.get("clock"):
        phases = measure.on_controller_time(answer["phases"], answer["clock"])
        tables["phase"] = [vars(phase) for phase in phases]
        load = next((phase for phase in phases if phase.phase == "workload"), None)
        if load and answer.get("report"):
            seconds = (load.end_ns - load.start_ns) / 1e9
            done = fio_report.performance(answer["report"], seconds)
            tables["performance"] = [done]
            try:
                with measure.client(lab) as database:
                    rows, missing = measure.energies(
                        lab, database, run["host"], run["drive"], phases, place / "power.csv"
                    )
                    truth = measure.truths(lab, run["host"], run["drive"], phases)
                    measure.add_truth(rows, phases, truth)
                    tables["energy"] = rows
                    tables["result"] = [_result(rows, done, seconds)]
                    tables["io"] = _io(run, answer, load, database)
                    members = len({member for member, _, _ in lab.rails_of(run["host"], run["drive"])})
                    if twin := measure.twin_io(phases, truth, members):
                        tables["io"].append(twin)
                reasons += missing + _losses(rows, journal.campaign["definition"]["loss_limit_percent"])
            except InfluxError as error:
                reasons.append(f"no energy: {error}")
            if status == "ok" and reasons:
                status = "partial"
        elif status == "ok":
            status, reasons = "failed", ["the load left no report"]
    journal.finish(run["id"], status, "; ".join(reasons), tables)
    return status


def _result(rows: list[dict[str, Any]], done: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    load = [row for row in rows if row["phase"] == "workload"]

    def total(key: str) -> float | None:
        values = [row[key] for row in load]
        return sum(values) if values and None not in values else None

    joules, true = total("joules"), total("true_joules")
    ai = indicator.of_run(
        ops=done["ops"], bytes_moved=done["read_bytes"] + done["write_bytes"], seconds=seconds, joules=joules
    )
    return {
        "joules": joules,
        "true_joules": true,
        "error_percent": 100 * (joules - true) / true if joules is not None and true else None,
        "mean_watts": ai.mean_watts,
        "ai_ops_per_joule": ai.ops_per_joule,
        "ai_mb_per_joule": ai.mb_per_joule,
    }


def _io(
    run: Mapping[str, Any], answer: Mapping[str, Any], load: measure.Phase, database
) -> list[dict[str, Any]]:
    rows = [{"source": "host", **answer["counters"]}] if answer.get("counters") else []
    offset = load.clock_offset_ns
    agent = measure.agent_io(
        database, run["host"], run["drive"], load.start_ns - offset, load.end_ns - offset
    )
    return rows + ([agent] if agent else [])


def _losses(rows: list[dict[str, Any]], limit_percent: float) -> list[str]:
    """Rails of the workload phase that lost more samples than allowed."""
    found = []
    for row in rows:
        if row["phase"] == "workload" and row["expected"]:
            percent = 100 * row["lost"] / row["expected"]
            if percent > limit_percent:
                limit = f"{limit_percent:g} % is allowed"
                found.append(f"meter {row['meter']} lost {percent:.2f} % of {row['rail']}; {limit}")
    return found


def _keep_files(place: Path, answer: Mapping[str, Any]) -> None:
    parts = {
        "result.json": {
            key: value for key, value in answer.items() if key not in ("report", "settings", "health")
        },
        "fio.json": answer.get("report"),
        "settings.json": answer.get("settings"),
        "smart_before.json": (answer.get("health") or {}).get("before"),
        "smart_after.json": (answer.get("health") or {}).get("after"),
    }
    for name, content in parts.items():
        if content:
            files.replace(place / name, json.dumps(content, indent=1))
