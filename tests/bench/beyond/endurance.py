# SPDX-License-Identifier: GPL-3.0-or-later
"""Joules, host bytes and years of life of an operation on two file systems, and their front."""

from __future__ import annotations

import csv

from tests.bench.beyond import NotShownError
from tests.bench.beyond._campaigns import executed, provided
from tests.support.lab_driver import Lab

DRIVE = "nvme-plp"


def show(lab: Lab) -> str:
    inventory = lab.inventory_with(DRIVE, rated_terabytes_written=3500)
    campaign = executed(
        lab,
        inventory,
        name="endurance",
        drives=[DRIVE],
        replicates=2,
        factors={"filesystem": ["ext4", "f2fs"], "scheduler": ["none"], "workload": ["randwrite-fsync"]},
    )
    for words in (("export", campaign, "--format", "csv"), ("report", campaign), ("verify", campaign)):
        provided(lab.rig(*words), f"rig {words[0]}")
    with (lab.results / campaign / "export" / "endurance.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if len(rows) != 2 or not all(float(row["years_at_load"] or 0) > 0 for row in rows):
        raise NotShownError(f"years of life: {[row['years_at_load'] or row['life_missing'] for row in rows]}")
    if not any(row["pareto"] == "true" for row in rows):
        raise NotShownError("no cell is on the front")
    if "Joules and wear" not in (lab.results / campaign / "report" / "report.html").read_text():
        raise NotShownError("the report has no chapter of joules and wear")
    return "; ".join(_line(row) for row in rows)


def _line(row: dict[str, str]) -> str:
    joules, host = float(row["joules_per_op"]), float(row["host_bytes_per_op"])
    nand, years = row["nand_bytes_per_op"] or "not counted", float(row["years_at_load"])
    return f"{row['filesystem']}: {joules:.2e} J, {host:.0f} host B, NAND B {nand}, {years:.2g} years"
