# SPDX-License-Identifier: GPL-3.0-or-later
"""Execute a command, here or on a test host, and measure what drives drew and did meanwhile."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from joulerig.analysis.results import phases, run_energy
from joulerig.analysis.results.influxdb.client import Client, InfluxError
from joulerig.analysis.results.schema import Phase, PhaseName
from joulerig.rig.campaign import events, measure, playbook, provenance
from joulerig.rig.common.errors import UserError
from joulerig.rig.controller import services
from joulerig.rig.lab import virtual
from joulerig.rig.lab.model import Lab

SIGNALLED = 128
RAIL_KEYS = (
    "drive", "rail", "meter", "joules", "joules_low", "joules_high",
    "samples", "expected", "lost", "gap_seconds",
)  # fmt: skip


@dataclass(frozen=True)
class Execution:
    """A command that was executed: its exit code, when, and what it printed on a test host."""

    code: int
    phase: Phase
    output: str = ""


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
    clock = virtual.clock(is_virtual=lab.virtual)
    start_ns = clock()
    try:
        code = subprocess.run(argv, check=False).returncode
    except OSError as error:
        raise UserError(f"{argv[0]}: {error.strerror}") from None
    end_ns = clock()
    return Execution(
        code if code >= 0 else SIGNALLED - code, Phase(PhaseName.WORKLOAD, start_ns, end_ns, 0, 0)
    )


def on_host(argv: Sequence[str], lab: Lab, host: str) -> Execution:
    """Execute a command on a test host. Raises UserError where it could not be executed."""
    server = services.deployment(lab, host)["rig_clock_server"]
    with tempfile.TemporaryDirectory(prefix="joulerig-") as folder:
        file = Path(folder) / "asked.json"
        file.write_text(json.dumps({"command_asked": {"argv": list(argv), "clock_server": server}}))
        reply = playbook.replies(
            "command.yml",
            lab.inventory,
            log="command.log",
            hosts=[host],
            words=["-e", f"@{file}"],
            event=events.COMMAND,
        )[host]
    if isinstance(reply, str):
        raise UserError(f"{host}: {reply}")
    stamps = {"phase": PhaseName.WORKLOAD, "start_ns": reply["start_ns"], "end_ns": reply["end_ns"]}
    [phase] = phases.on_controller_time([stamps], reply["clock"])
    return Execution(reply["code"], phase, reply["output"])


def energies(lab: Lab, host: str, drives: Sequence[str], phase: Phase) -> list[DriveEnergy]:
    """Return what each drive of a host drew and did in a phase.

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
                rows, why = measure.energies(lab, database, host, [drive], [phase], trace, campaign)
                found.append(_energy(drive, phase, rows, why, _io(database, host, drive, phase)))
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


def _io(database: Client, host: str, drive: str, phase: Phase) -> dict[str, Any] | None:
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
