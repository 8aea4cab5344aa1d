# SPDX-License-Identifier: GPL-3.0-or-later
"""A gate for CI: a campaign passes next to the same again, and fails where its drive got worse."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from tests.bench.beyond import NotShownError
from tests.bench.beyond._campaigns import last_line, measured, worse_drive
from tests.support.lab_driver import Done, Lab

BETWEEN = "5"  # %: a standard deviation of campaigns of a shared machine
ALLOWED = "15"  # %: what two campaigns of a shared machine differ by; the planted fall is far more


def show(lab: Lab) -> str:
    before, again = (measured(lab, name) for name in ("gate-before", "gate-again"))
    with worse_drive(lab) as inventory:
        after = measured(lab, "gate-after", inventory)
    passed, failed = lab.folder / "passed.xml", lab.folder / "failed.xml"
    same, fell = gate(lab, before, again, passed), gate(lab, before, after, failed)
    if same.returncode or failures(passed):
        raise NotShownError(f"the same again did not pass: {last_line(same)}")
    if fell.returncode != 1 or failures(failed) != 1:
        raise NotShownError(f"the worse drive did not fail: {last_line(fell)}")
    return f"the same again: {last_line(same)}; the worse drive: {last_line(fell)}"


def gate(lab: Lab, before: str, after: str, junit: Path) -> Done:
    known = ("--between", BETWEEN)  # one cell does not show what the campaign did to all
    return lab.rig("compare", before, after, "--gate", "--allow", ALLOWED, *known, "--junit", str(junit))


def failures(junit: Path) -> int:
    if not junit.exists():
        raise NotShownError(f"{junit.name}: was not written")
    return int(ElementTree.parse(junit).getroot().get("failures", "-1"))
