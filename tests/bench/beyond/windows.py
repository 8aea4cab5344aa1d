# SPDX-License-Identifier: GPL-3.0-or-later
"""The greatest power of a load over 1 s and 10 s, and why 100 µs are not measured."""

from __future__ import annotations

import csv

from tests.bench.beyond import NotShownError
from tests.bench.beyond._campaigns import executed, provided
from tests.support.lab_driver import Lab


def show(lab: Lab) -> str:
    campaign = executed(
        lab,
        name="windows",
        factors={"filesystem": ["ext4"], "scheduler": ["none"], "workload": ["randwrite-fsync"]},
        phases={"rest_seconds": 0, "idle_seconds": 1, "workload_seconds": 12, "tail_seconds": 1},
    )
    for words in (("export", campaign, "--format", "csv"), ("verify", campaign)):
        provided(lab.rig(*words), f"rig {words[0]}")
    with (lab.results / campaign / "export" / "windows.csv").open(encoding="utf-8") as file:
        found = {row["window"]: row for row in csv.DictReader(file)}
    second, ten = found["1 s"], found["10 s"]
    if not second["watts"] or not ten["watts"] or float(second["watts"]) < float(ten["watts"]):
        raise NotShownError(
            f"1 s: {second['watts'] or second['missing']}; 10 s: {ten['watts'] or ten['missing']}"
        )
    short = found["100 µs"]
    if bool(short["watts"]) == bool(short["missing"]):
        raise NotShownError("100 µs: neither a figure nor a reason, or both")
    return (
        f"greatest 1 s {float(second['watts']):.3f} W, 10 s {float(ten['watts']):.3f} W,"
        f" 100 µs {short['watts'] or short['missing']}"
    )
