# SPDX-License-Identifier: GPL-3.0-or-later
"""A drive's known state before a run: the one that it still has, or one that is made anew until it is steady.

The host purges, fills and loads the drive in rounds; what it draws meanwhile only the controller knows. So
the host gives a stretch of rounds, the controller adds their watts, judges, and asks for more while it is
not steady (docs/decisions/008-preconditioning-is-a-call.md).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from joulerig.analysis.results.campaign import PRECONDITION_FILE
from joulerig.analysis.results.influx import Client, InfluxError, quote_string
from joulerig.analysis.statistics import steady_state
from joulerig.rig.campaign import definition as campaigns
from joulerig.rig.campaign import drive_record, factors, measure
from joulerig.rig.campaign.definition import Precondition
from joulerig.rig.campaign.drive_record import Ledger
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common import files
from joulerig.rig.controller import services
from joulerig.rig.lab.model import Drive, Lab

Execute = Callable[[dict[str, Any]], Mapping[str, Any]]


def ensure(journal: Journal, run: Mapping[str, Any], lab: Lab, execute: Execute) -> dict[str, Any] | None:
    """Have the drive of `run` preconditioned as its campaign asks; keeps precondition.json of the run.

    `execute` calls the host's module with the given arguments. None: the run can go on; else what the run
    comes to instead (status and reason), as its own module would have answered.
    """
    definition = journal.campaign["definition"].get("precondition")
    if definition is None:
        return None
    asked = Precondition.model_validate(definition)
    drive = lab.hosts[run["host"]].drives[run["drive"]]
    recipe = _recipe(
        asked, factors.write_cache(journal.campaign["definition"]["write_cache"], run["factors"])
    )
    with Ledger() as ledger, measure.client(lab) as database:
        events = ledger.events(drive.serial)
        counted = _counted(database, run, events)
        holds, why = drive_record.may_reuse(events, recipe, asked, drive.size_bytes, counted)
        if holds:
            journal.note(run["id"], {"precondition": "reused", "why": why})
            before = drive_record.of_events(events).preconditioned
            _keep(journal, run, {"reused": True, "why": why, **_told(before)})
            return None
        seconds, _ = campaigns.precondition_cost(asked, drive)
        most = {"at_most_seconds": seconds, "at_most_rounds": asked.max_rounds}
        journal.note(run["id"], {"precondition": "begun", "why": why, **most})
        making = _Making(journal, run, lab, drive, asked, recipe, ledger, database, execute)
        return making.make(why)


def _recipe(asked: Precondition, write_cache: str) -> dict[str, Any]:
    """What makes two preconditions the same."""
    job = campaigns.precondition_jobs()[asked.job].read_bytes()
    return {
        **asked.model_dump(include={"purge", "fill", "job", "round_seconds"}),
        "job_sha256": hashlib.sha256(job).hexdigest(),
        "write_cache": write_cache,
    }


def _told(preconditioned: Mapping[str, Any]) -> dict[str, Any]:
    return {key: preconditioned[key] for key in ("by", "recipe", "verdict")}


def _keep(journal: Journal, run: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    files.replace(journal.folder / "runs" / run["id"] / PRECONDITION_FILE, json.dumps(found, indent=1))


def _counted(database: Client, run: Mapping[str, Any], events: list[dict[str, Any]]) -> int | None:
    """What the drive told its host, since the last event, that was ever written to it."""
    last = events[-1]["time_ns"] if events else 0
    query = (
        f"SELECT data_units_written_bytes FROM drive_health WHERE host = {quote_string(run['host'])}"
        f" AND drive = {quote_string(run['drive'])} AND time > {last} ORDER BY time DESC LIMIT 1"
    )
    try:
        frame = database.query(query)
    except InfluxError:
        return None
    return frame["data_units_written_bytes"][0] if frame.height else None


@dataclasses.dataclass(frozen=True)
class _Making:
    """One precondition on its way."""

    journal: Journal
    run: Mapping[str, Any]
    lab: Lab
    drive: Drive
    asked: Precondition
    recipe: Mapping[str, Any]
    ledger: Ledger
    database: Client
    execute: Execute

    def make(self, why: str) -> dict[str, Any] | None:
        """Stretches of rounds until they are steady; what the run comes to where one fails."""
        stretches: list[list[dict[str, Any]]] = []
        done = 0
        while True:
            answer = self._stretch(done)
            if answer["status"] != "ok":
                return self._failed(answer)
            stretches.append(self._with_watts(answer))
            verdict = steady_state.judge(stretches[-1], rounds_before=done)
            done += len(stretches[-1])
            if verdict.steady or self.asked.max_rounds - done < steady_state.ROUNDS:
                break
        made = {"by": self.run["id"], "recipe": self.recipe, "verdict": dataclasses.asdict(verdict)}
        counter = drive_record.counter_bytes(answer.get("health"))
        self._note(("preconditioned", {**made, "counter_bytes": counter}))
        ended = {"precondition": "ended", "steady": verdict.steady, "reason": verdict.reason}
        self.journal.note(self.run["id"], ended)
        _keep(self.journal, self.run, {"reused": False, "why": why, **made, "stretches": stretches})
        return None

    def _note(self, *events: tuple[str, Mapping[str, Any]]) -> None:
        self.ledger.note([self.drive.serial], events)

    def _stretch(self, done: int) -> Mapping[str, Any]:
        """The host's answer to one call; what it did is in the ledger."""
        by = {"by": self.run["id"]}
        self._note(("began", by))
        answer = self.execute(self._arguments(done))
        if "status" not in answer:  # the module itself broke
            answer = {"status": "failed", "reason": answer.get("msg", "the module call failed")}
        events: list[tuple[str, Mapping[str, Any]]] = []
        if answer.get("purged"):
            events.append(("purged", {**by, "method": answer["purged"]}))
        if answer.get("filled"):
            events.append(("filled", {**by, "times": answer["filled"]}))
        # What a call that broke off did to the drive is not known, whatever it counted.
        broke_off = answer["status"] != "ok" and answer.get("changed", True)
        touched = {} if broke_off else answer["touched"]
        amounts = {key: touched.get(key) for key in ("write_bytes", "discard_bytes")}
        counter = drive_record.counter_bytes(answer.get("health"))
        self._note(*events, ("ended", {**by, **amounts, "counter_bytes": counter}))
        return answer

    def _arguments(self, done: int) -> dict[str, Any]:
        campaign, run, asked = self.journal.campaign, self.run, self.asked
        job = campaigns.precondition_jobs()[asked.job]
        return {
            "run": run["id"],
            "campaign": campaign["id"],
            "host": run["host"],
            "drive": run["drive"],
            "member": self.drive.declared_as(run["drive"]),
            "purge": asked.purge if not done else "",
            "fill": asked.fill if not done else 0,
            "job": {"name": asked.job, "text": job.read_text()},
            "round_seconds": asked.round_seconds,
            "rounds": asked.max_rounds - done,
            "rounds_before": done,
            "write_cache": self.recipe["write_cache"],
            "seed": campaign["definition"]["seed"] * 1000 + run["replicate"],
            "clock_server": services.deployment(self.lab, run["host"])["rig_clock_server"],
        }

    def _with_watts(self, answer: Mapping[str, Any]) -> list[dict[str, Any]]:
        """{"iops", "watts"} of each round of a stretch."""
        rounds = answer["rounds"]
        named = [{**one, "phase": f"round {one['number']}"} for one in rounds]
        intervals = measure.on_controller_time(named, answer["clock"])
        host, drive = self.run["host"], self.run["drive"]
        try:
            watts = measure.watts(self.lab, self.database, host, drive, intervals)
        except InfluxError as error:
            self.journal.note(self.run["id"], {"precondition": "no watts", "why": str(error)})
            watts = [None for _ in rounds]
        return [{"iops": one["iops"], "watts": drawn} for one, drawn in zip(rounds, watts, strict=True)]

    def _failed(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        prefix = "refused" if answer["status"] == "not-run" else "precondition"
        reason = f"{prefix}: {' '.join(str(answer['reason']).split())}"
        return {"status": answer["status"], "reason": reason, "phases": []}
