# SPDX-License-Identifier: GPL-3.0-or-later
"""Power cuts at a virtual drive's own interface: the writer is its NBD client, the power is its twin's."""

from __future__ import annotations

import json
import random
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from joulerig.analysis.powercut import witness_log
from joulerig.analysis.powercut.durable import durable_writes
from joulerig.analysis.powercut.folder import Subject
from joulerig.rig.common import files
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import virtual
from joulerig.rig.lab.virtual import CuttableDrive
from joulerig.rig.powercut import writer
from joulerig.rig.powercut.moment import PHASES, Moment
from joulerig.rig.powercut.record import Record
from joulerig.rig.powercut.witness import Witness, WitnessLog

REGION_BYTES = 2 << 20
DRIVE_BYTES = 64 << 20
CUT_SECONDS = 60.0  # at most until the moment of the cut has come
WRITER_SECONDS = 10.0  # until the writer has noticed that its drive is gone
READY_SECONDS = 60.0  # from power on until the drive can be read


def campaign(
    profile: str,
    cuts: int,
    seed: int,
    options: list[str],
    report: Callable[[str], None] = lambda text: None,
) -> Path:
    """Cut a twin's power `cuts` times under load; return the record's folder. Raises UserError.

    `seed` sets the load and the moments. The twin draws what it loses from another random source:
    the checker must find it on the drive. `options`: extra parameters of the twin.
    """
    random_ = random.Random(seed)
    with virtual.cuttable_drive(profile, DRIVE_BYTES, options) as twin:
        subject = Subject(profile, host="", drive=profile, plp=twin.plp)
        definition = {"profile": profile, "cuts": cuts, "seed": seed, "twin": options}
        record = Record.create(f"powercut-{profile}", [subject], definition, virtual=True)
        files.replace(
            record.cut(subject, 0) / "after.jsonl",
            writer.survey(record.campaign, twin.nbd, REGION_BYTES, READY_SECONDS),
        )
        phases: list[str] = []
        for number in range(1, cuts + 1):
            if not phases:
                phases = random_.sample(PHASES, len(PHASES))
            phase = phases.pop()
            _cut(record, subject, number, phase, random_, twin)
            report(f"cut {number} of {cuts}: aimed at {phase}")
    return record.folder


def _cut(
    record: Record, subject: Subject, number: int, phase: str, random_: random.Random, twin: CuttableDrive
) -> None:
    place = record.cut(subject, number)
    seed = random_.getrandbits(63)
    truth: dict[str, Any] = {}

    def power_off() -> dict[str, Any]:
        truth["cut"] = twin.power_off()
        return {"means": "power off of the twin"}

    log = WitnessLog(place / "ledger.jsonl")
    log.write({"event": "begin", "campaign": record.campaign, "generation": number, "seed": seed})
    at = twin.nbd.with_name("witness")
    at.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(at))
        listener.listen(1)
        command = writer.write_command(record.campaign, number, seed, f"unix:{at}", twin.nbd, REGION_BYTES)
        with Witness(listener, log, Moment(phase, random_), power_off) as witness:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            try:
                if not witness.await_cut(CUT_SECONDS):
                    process.kill()
                    words = (process.communicate()[1] or "").strip()
                    raise UserError(f"cut {number}: the moment never came: {words or 'the writer goes on'}")
                witness.end(WRITER_SECONDS)
            finally:
                process.kill()
                process.communicate()
    twin.power_on()
    log.write({"event": "restored"})
    log.close()
    files.replace(
        place / "after.jsonl", writer.survey(record.campaign, twin.nbd, REGION_BYTES, READY_SECONDS)
    )
    durable = durable_writes(witness_log.read(place / "ledger.jsonl"))
    if durable.writes:
        truth["between_promises"] = twin.history(durable.start_ns, durable.end_ns)["rails"]
    files.replace(place / "truth.json", json.dumps(truth, indent=1))
    files.replace(place / "cut.json", json.dumps({"aimed": phase, "true_joules": _joules(truth)}, indent=1))


def _joules(truth: dict[str, Any]) -> float | None:
    """True energy of all rails between the first and the last promise."""
    rails = truth.get("between_promises")
    return sum(rail["joules"][1] - rail["joules"][0] for rail in rails) if rails else None
