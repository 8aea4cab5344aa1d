# SPDX-License-Identifier: GPL-3.0-or-later
"""Record one subject's power cut: its files, and its rows of the journal.

The interval that is measured goes from the first promise to the last one before the cut; its
operations are the writes that were promised there. A cut therefore has a work per joule as any
other run has: durable writes per joule.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from joulerig.analysis.powercut import hold_up, witness_log
from joulerig.analysis.powercut.durable import DurableWrites, durable_writes
from joulerig.analysis.powercut.folder import AFTER, CUT, WITNESS_LOG, Subject
from joulerig.analysis.results.influxdb.client import InfluxError
from joulerig.analysis.results.phases import clock_steps
from joulerig.analysis.results.schema import Cause, Status
from joulerig.rig.campaign import measure
from joulerig.rig.campaign.execution.record import losses, measure_run
from joulerig.rig.campaign.opening import OpenPowerCuts
from joulerig.rig.campaign.powercut.cut import CutOff
from joulerig.rig.campaign.powercut.host import Reply
from joulerig.rig.common import files
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.model import Lab

TWIN_CUT = "twin_cut.json"  # of a virtual drive: what its twin says that it lost
KEPT = {
    *("before_mount", "mount_problem", "repair", "lost"),
    *("mount_seconds", "mount_options", "check", "health"),
}
TOO_FEW = "no energy: fewer than two promises before the cut"


def record_cut(
    campaign: OpenPowerCuts,
    run: Mapping[str, Any],
    subject: Subject,
    aimed: str,
    cut: CutOff,
    found: Reply,
) -> tuple[Status, str]:
    """Record a subject's cut that was read back; return the run's status and reason.

    `aimed`: the phase that the moment was aimed at, empty where another subject chose it. `found`:
    the answer of module joulerig_powercut to `survey`.
    """
    folder, lab = campaign.folder(run), campaign.lab
    record: dict[str, Any] = {
        "aimed": aimed,
        "hold_up": _with_energy(lab, run["host"], subject.drive, cut),
        **found.model_dump(include=KEPT, exclude_unset=True),
    }
    if cut.controller_step_ns:
        record["controller_step_ns"] = cut.controller_step_ns
    if cut.twin is not None:
        record["unsafe_shutdowns"] = cut.twin["unsafe_shutdowns"]
        files.replace(folder / TWIN_CUT, json.dumps(cut.twin["last_cut"], indent=1))
    files.replace(folder / AFTER, found.survey)
    durable = durable_writes(witness_log.read(folder / WITNESS_LOG))
    steps = clock_steps([], cut.controller_step_ns)
    tables, missing, doubts = _measure(campaign, run, durable, steps)
    reasons = steps + missing + losses(tables.get("energy", []), campaign.definition.loss_limit_percent)
    files.replace(folder / CUT, json.dumps(record, indent=1))
    status, reason = Status.PARTIAL if reasons else Status.OK, "; ".join(reasons + doubts)
    campaign.journal.finish(run["id"], status, reason, tables, Cause.CLOCK if steps else None)
    return status, reason


def _measure(
    campaign: OpenPowerCuts, run: Mapping[str, Any], durable: DurableWrites, steps: list[str]
) -> tuple[dict[str, list[dict[str, Any]]], list[str], list[str]]:
    """Return the journal's rows of a cut's durable writes, why energy is missing, and doubts."""
    if not durable.writes:
        return {}, [TOO_FEW], []
    load, done = durable.phase, vars(durable.performance)
    found, missing, doubts = measure_run(campaign, run, [load], load, done, clock_steps=steps)
    return {"phase": [vars(load)], "performance": [done], **found}, missing, doubts


def _with_energy(lab: Lab, host: str, drive: str, cut: CutOff) -> Mapping[str, Any]:
    """Return the tap's hold-up record of a drive's rails, with energy where there are points.

    A record without energy where the controller's clock was set: the points are elsewhere.
    """
    if cut.controller_step_ns:
        return cut.held
    try:
        with measure.client(lab) as database:
            members = lab.member_drives(host, drive)
            seen, _ = measure.points(database, host, members, cut.cut_ns - hold_up.BEFORE_NS, cut.cut_ns)
    except (InfluxError, UserError):
        return cut.held
    return hold_up.with_energy(cut.held, seen, cut.cut_ns)


def keep_failure(folder: Path, aimed: str, cut: CutOff | None, reason: str) -> None:
    """Keep what is known of a cut that could not be checked."""
    files.replace(
        folder / CUT,
        json.dumps({"aimed": aimed, "hold_up": cut.held if cut else {}, "failed": reason}, indent=1),
    )
