# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring a drive to a known state before a run: reuse its state, or precondition it until steady.

The host purges, fills and loads the drive in rounds; what it draws meanwhile only the controller
knows. So the host gives a stretch of rounds, the controller adds their watts, judges, and asks for
more while it is not steady (docs/decisions/008-preconditioning-is-a-call.md).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from joulerig.analysis.results import phases as run_phases
from joulerig.analysis.results.campaign import PRECONDITION_FILE
from joulerig.analysis.results.influxdb.client import InfluxError, Queries, quote_string
from joulerig.analysis.results.schema import EventKind, Status, is_control
from joulerig.analysis.statistics import steady_state
from joulerig.rig.campaign import definition as campaigns
from joulerig.rig.campaign import drive_record, factors, measure
from joulerig.rig.campaign.definition import Precondition
from joulerig.rig.campaign.drive_record import DriveRecord
from joulerig.rig.campaign.execution.outcome import ClockOffset, Ended, Identity, RunOutcome, Touched, failure
from joulerig.rig.campaign.opening import OpenCampaign
from joulerig.rig.common import files, process
from joulerig.rig.common.bounded import Json, JsonObject, Line, Nanoseconds, Part, Returned, Whole, read
from joulerig.rig.common.errors import UserError
from joulerig.rig.controller import services
from joulerig.rig.lab.model import Drive
from joulerig.rig.workloads import fio_job

MOST_ROUNDS = 10_000


class Round(Part):
    """A round of load, in the host's clock."""

    number: Whole
    ops: Whole
    iops: Annotated[float, Field(ge=0)]
    start_ns: Nanoseconds
    end_ns: Nanoseconds


class Reply(Returned):
    """Reply of module joulerig_precondition: what a stretch did to the drive."""

    status: Ended
    reason: Line = ""
    changed: bool = True
    made: Identity | None = None
    purged: Line = ""
    filled: Whole = 0
    rounds: Annotated[list[Round], Field(max_length=MOST_ROUNDS)] = []
    clock: Annotated[list[ClockOffset], Field(max_length=MOST_ROUNDS)] = []
    touched: Annotated[Touched, BeforeValidator(lambda value: value or {})] = Touched()
    settings: JsonObject = {}
    health: Json = None

    @classmethod
    def from_host(cls, found: Mapping[str, Any]) -> Reply:
        """Return a host's reply; failed, with the reason, where the module crashed or it is odd."""
        if "status" not in found:
            return cls(status=Status.FAILED, reason=failure(found))
        try:
            reply = read(cls, found, "joulerig_precondition")
        except UserError as error:
            return cls(status=Status.FAILED, reason=str(error))
        if reply.status == Status.OK and not (reply.rounds and reply.clock):
            lacks = "clock" if reply.rounds else "rounds"
            return reply.model_copy(
                update={"status": Status.FAILED, "reason": f"joulerig_precondition: returned no {lacks}"}
            )
        return reply


Execute = Callable[[dict[str, Any]], Mapping[str, Any]]


def ensure(campaign: OpenCampaign, run: Mapping[str, Any], execute: Execute) -> RunOutcome | None:
    """Precondition the drive of `run` as its campaign asks; write the run's precondition.json.

    `execute` calls the host's module with the given arguments. None: the run can go on; else the
    outcome of the run that cannot.
    """
    journal, lab, asked = campaign.journal, campaign.lab, campaign.definition.precondition
    if asked is None:
        return None
    drive = lab.hosts[run["host"]].drives[run["drive"]]
    used = campaign.definition.bytes_used(drive.size_bytes)
    cache = factors.write_cache_level(campaign.definition.write_cache, run["factors"])
    recipe = _recipe(asked, cache, campaign.definition.use_bytes)
    with DriveRecord() as record, measure.client(lab) as database:
        events = record.events(drive.serial)
        counted = _counted(database, run, events)
        holds, why = drive_record.may_reuse(events, recipe, asked, used, counted)
        if holds:
            journal.note(run["id"], {"precondition": "reused", "why": why}, EventKind.PRECONDITIONING)
            before = drive_record.state_after(events).preconditioned
            _keep(campaign, run, {"reused": True, "why": why, **_as_kept(before)})
            return None
        seconds, _ = campaigns.precondition_cost(asked, drive.interface, used)
        most = {"at_most_seconds": seconds, "at_most_rounds": asked.max_rounds}
        journal.note(run["id"], {"precondition": "begun", "why": why, **most}, EventKind.PRECONDITIONING)
        return _Making(campaign, run, drive, asked, recipe, record, database, execute).make(why)


def _recipe(asked: Precondition, write_cache: str, use_bytes: int | None) -> dict[str, Any]:
    """Return what makes two preconditions the same."""
    bound = {"use_bytes": use_bytes} if use_bytes else {}
    job = campaigns.precondition_jobs()[asked.job].read_bytes()
    return {
        **asked.model_dump(include={"purge", "passes", "job", "round_seconds"}),
        "job_sha256": hashlib.sha256(job).hexdigest(),
        "write_cache": write_cache,
        **bound,
    }


def _as_kept(preconditioned: Mapping[str, Any]) -> dict[str, Any]:
    return {key: preconditioned[key] for key in ("by", "recipe", "verdict")}


def _keep(campaign: OpenCampaign, run: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    files.replace(campaign.folder(run) / PRECONDITION_FILE, json.dumps(found, indent=1))


def _counted(database: Queries, run: Mapping[str, Any], events: list[dict[str, Any]]) -> int | None:
    """Return the bytes ever written that the drive reported last, since the last event."""
    last = events[-1]["time_ns"] if events else 0
    query = (
        f"SELECT data_units_written_bytes FROM drive_health WHERE host = {quote_string(run['host'])}"
        f" AND drive = {quote_string(run['drive'])} AND time > {last} ORDER BY time DESC LIMIT 1"
    )
    try:
        frame = database.query(query, host=run["host"])
    except InfluxError:
        return None
    return frame["data_units_written_bytes"][0] if frame.height else None


@dataclasses.dataclass(frozen=True)
class _Making:
    """Makes one precondition."""

    campaign: OpenCampaign
    run: Mapping[str, Any]
    drive: Drive
    asked: Precondition
    recipe: Mapping[str, Any]
    record: DriveRecord
    database: Queries
    execute: Execute

    def make(self, why: str) -> RunOutcome | None:
        """Run stretches of rounds until steady; return the run's outcome where one fails."""
        stretches: list[list[dict[str, Any]]] = []
        done = 0
        while True:
            reply, steps = self._stretch(done)
            if reply.status != Status.OK:
                return _failed(reply)
            stretches.append(self._with_watts(reply, steps))
            verdict = steady_state.judge(stretches[-1], rounds_before=done)
            done += len(stretches[-1])
            if verdict.steady or self.asked.max_rounds - done < steady_state.ROUNDS:
                break
        made = {"by": self.run["id"], "recipe": self.recipe, "verdict": dataclasses.asdict(verdict)}
        counter = drive_record.counter_bytes(reply.health)
        self._note(("preconditioned", {**made, "counter_bytes": counter}))
        ended = {"precondition": "ended", "steady": verdict.steady, "reason": verdict.reason}
        self.campaign.journal.note(self.run["id"], ended, EventKind.PRECONDITIONING)
        _keep(self.campaign, self.run, {"reused": False, "why": why, **made, "stretches": stretches})
        return None

    def _note(self, *events: tuple[str, Mapping[str, Any]]) -> None:
        self.record.note([self.drive.serial], events)

    def _stretch(self, done: int) -> tuple[Reply, list[str]]:
        """Return the host's reply to one call, and how clocks were set meanwhile.

        What it did is in the drive's record.
        """
        by = {"by": self.run["id"]}
        self._note(("began", by))
        watch = process.ClockWatch()
        reply = Reply.from_host(self.execute(self._arguments(done)))
        steps = run_phases.clock_steps([one.model_dump() for one in reply.clock], watch.step_ns())
        events: list[tuple[str, Mapping[str, Any]]] = []
        if reply.made:
            events.append(drive_record.content_event(self.run["id"], reply.made))
        if reply.purged:
            events.append(("purged", {**by, "method": reply.purged, **_passed_over(reply)}))
        if reply.filled:
            events.append(("filled", {**by, "times": reply.filled}))
        # What a call that broke off did to the drive is not known, whatever it counted.
        broke_off = reply.status != Status.OK and reply.changed
        amounts = (Touched() if broke_off else reply.touched).model_dump()
        counter = drive_record.counter_bytes(reply.health)
        self._note(*events, ("ended", {**by, **amounts, "counter_bytes": counter}))
        return reply, steps

    def _arguments(self, done: int) -> dict[str, Any]:
        campaign, run, asked = self.campaign, self.run, self.asked
        job = fio_job.load(campaigns.precondition_jobs()[asked.job], fio_job.DEVICE)
        return {
            "run": run["id"],
            "campaign": campaign.journal.campaign["id"],
            "host": run["host"],
            "drive": run["drive"],
            "member": drive_record.declared(campaign.lab, run["host"], run["drive"]),
            "purge": asked.purge if not done else "",
            "passes": asked.passes if not done else 0,
            "use_bytes": campaign.definition.use_bytes or 0,
            "job": {"name": asked.job, "text": job},
            "round_seconds": asked.round_seconds,
            "rounds": asked.max_rounds - done,
            "rounds_before": done,
            "write_cache": self.recipe["write_cache"],
            "seed": campaign.definition.seed * 1000 + run["replicate"],
            "clock_server": services.deployment(campaign.lab, run["host"])["rig_clock_server"],
            "lanes_of": campaign.lanes_of,
            "alone": is_control(run["factors"]),
        }

    def _with_watts(self, reply: Reply, steps: Sequence[str]) -> list[dict[str, Any]]:
        """Return {"iops", "watts"} of each round of a stretch; no watts where a clock was set."""
        rounds = reply.rounds
        named = [{**one.model_dump(), "phase": f"round {one.number}"} for one in rounds]
        intervals = run_phases.on_controller_time(named, [one.model_dump() for one in reply.clock])
        host, drive = self.run["host"], self.run["drive"]
        watts: list[float | None] = [None for _ in rounds]
        why = "; ".join(steps)
        if not steps:
            try:
                watts = measure.watts(self.campaign.lab, self.database, host, drive, intervals)
            except InfluxError as error:
                why = str(error)
        if why:
            unmeasured = {"precondition": "no watts", "why": why}
            self.campaign.journal.note(self.run["id"], unmeasured, EventKind.PRECONDITIONING)
        return [{"iops": one.iops, "watts": drawn} for one, drawn in zip(rounds, watts, strict=True)]


def _passed_over(reply: Reply) -> dict[str, Any]:
    """Return why `auto` purged in none of the ways that come before, by way; empty if it did."""
    purge = reply.settings.get("purge")
    why = purge.get("passed_over") if isinstance(purge, dict) else None
    return {"passed_over": why} if why else {}


def _failed(reply: Reply) -> RunOutcome:
    broke = reply.status == Status.FAILED
    reason = f"precondition: {reply.reason}" if broke else reply.reason
    return RunOutcome(status=reply.status, reason=reason)
