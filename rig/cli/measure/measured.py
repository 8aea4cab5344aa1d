# SPDX-License-Identifier: GPL-3.0-or-later
"""Execute a command, here or on a test host, and measure what drives drew and did meanwhile."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from joulerig.analysis.results import phases, run_energy
from joulerig.analysis.results.influxdb.client import InfluxError, Queries
from joulerig.analysis.results.schema import Phase, PhaseName
from joulerig.rig.campaign import events, measure, playbook, provenance
from joulerig.rig.campaign.execution.outcome import ClockOffset
from joulerig.rig.common import process
from joulerig.rig.common.bounded import Nanoseconds, Returned, printable
from joulerig.rig.common.errors import UserError
from joulerig.rig.controller import services
from joulerig.rig.lab import virtual
from joulerig.rig.lab.model import Lab

SIGNALLED = 128
MOST_OUTPUT = 65536  # characters, as the module has them
RAIL_KEYS = (
    "drive", "rail", "meter", "joules", "joules_low", "joules_high",
    "samples", "expected", "lost", "gap_seconds",
)  # fmt: skip


def _shown(output: str) -> str:
    return printable(output, keep="\n\t")


@dataclass(frozen=True)
class Execution:
    """A command that was executed: its exit code, when, and what it printed on a test host.

    `clock_steps`: how clocks were set meanwhile.
    """

    code: int
    phase: Phase
    clock_steps: list[str]
    output: str = ""


class Reply(Returned):
    """Reply of module joulerig_command. `output`: without a terminal's control characters."""

    code: Annotated[int, Field(ge=0, le=255)]
    start_ns: Nanoseconds
    end_ns: Nanoseconds
    clock: Annotated[list[ClockOffset], Field(min_length=2, max_length=2)]
    output: Annotated[str, Field(max_length=MOST_OUTPUT), AfterValidator(_shown)] = ""


@dataclass(frozen=True)
class DriveEnergy:
    """What a drive drew and did; None where that is not known, and `why` says what is missing."""

    drive: str
    joules: float | None
    joules_low: float | None
    joules_high: float | None
    mean_watts: float | None
    rails: list[dict[str, Any]]
    io: dict[str, Any] | None
    why: list[str]


def here(argv: Sequence[str], lab: Lab) -> Execution:
    """Execute a command on this machine, with its terminal. Raises UserError if it cannot start."""
    clock, watch = virtual.clock(is_virtual=lab.virtual), process.ClockWatch()
    start_ns = clock()
    try:
        code = subprocess.run(argv, check=False).returncode
    except OSError as error:
        raise UserError(f"{argv[0]}: {error.strerror}") from None
    end_ns = clock()
    return Execution(
        code if code >= 0 else SIGNALLED - code,
        Phase(PhaseName.WORKLOAD, start_ns, end_ns, 0, 0),
        phases.clock_steps([], watch.step_ns()),
    )


def on_host(argv: Sequence[str], lab: Lab, host: str) -> Execution:
    """Execute a command on a test host. Raises UserError where it could not be executed."""
    server = services.deployment(lab, host)["rig_clock_server"]
    watch = process.ClockWatch()
    asked = {host: {"argv": list(argv), "clock_server": server}}
    reply = playbook.replies(
        "command.yml", lab.inventory, log="command.log", asked=asked, event=events.COMMAND, model=Reply
    )[host]
    if isinstance(reply, str):
        raise UserError(f"{host}: {reply}")
    stamps = {"phase": PhaseName.WORKLOAD, "start_ns": reply.start_ns, "end_ns": reply.end_ns}
    clock = [one.model_dump() for one in reply.clock]
    [phase] = phases.on_controller_time([stamps], clock)
    return Execution(reply.code, phase, phases.clock_steps(clock, watch.step_ns()), reply.output)


def energies(
    lab: Lab, host: str, drives: Sequence[str], phase: Phase, clock_steps: Sequence[str] = ()
) -> list[DriveEnergy]:
    """Return what each drive of a host drew and did in a phase.

    `clock_steps`: how clocks were set meanwhile; nothing has joules then.

    Waits for what is on its way. Raises UserError where InfluxDB does not answer.
    """
    campaign = {
        "lab": lab.model_dump(mode="json", exclude={"inventory"}),
        "provenance": {"calibration": provenance.calibration(lab)},
    }
    try:
        with measure.client(lab) as database, tempfile.TemporaryDirectory(prefix="joulerig-") as folder:
            found = []
            for drive in drives:
                trace = Path(folder) / f"{drive}.csv"
                rows, why, doubts = measure.energies(
                    lab, database, host, [drive], [phase], trace, campaign, clock_steps
                )
                io = _io(database, host, drive, phase)
                found.append(_energy(drive, phase, rows, [*clock_steps, *why, *doubts], io))
            return found
    except InfluxError as error:
        raise UserError(f"InfluxDB: {error}") from None


def _energy(
    drive: str, phase: Phase, rows: list[dict[str, Any]], why: list[str], io: dict[str, Any] | None
) -> DriveEnergy:
    done = {"ops": 0, "read_bytes": None, "write_bytes": None, "seconds": phase.seconds}
    found = run_energy.result(rows, done)
    rails = [{key: row[key] for key in RAIL_KEYS} for row in rows]
    if not rows and not why:
        why = ["the inventory gives it no rails"]
    bounds = found["joules_low"], found["joules_high"]
    return DriveEnergy(drive, found["joules"], *bounds, found["mean_watts"], rails, io, why)


def _io(database: Queries, host: str, drive: str, phase: Phase) -> dict[str, Any] | None:
    offset = phase.clock_offset_ns
    counted = measure.agent_io(database, host, drive, phase.start_ns - offset, phase.end_ns - offset)
    return {key: value for key, value in (counted or {}).items() if key != "source"} or None


def as_json(
    argv: Sequence[str], where: str, host: str, done: Execution, drives: Sequence[DriveEnergy]
) -> str:
    """Return all of it as JSON."""
    content: Mapping[str, Any] = {
        "command": list(argv),
        "executed_on": where,
        "host": host,
        "exit_code": done.code,
        "start_ns": done.phase.start_ns,
        "end_ns": done.phase.end_ns,
        "seconds": done.phase.seconds,
        "clock_error_seconds": done.phase.clock_error_ns / 1e9,
        "drives": [asdict(one) for one in drives],
    }
    return json.dumps(content, indent=1)
