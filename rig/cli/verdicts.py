# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdicts of a power-cut campaign for a person's terminal and, as JSON, for a program."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from rich.table import Table

from joulerig.analysis.powercut import tables
from joulerig.analysis.powercut.folder import PowerCuts
from joulerig.rig.cli import terminal

SHOWN_VIOLATIONS = 10
COUNTED = (
    *("cuts", "flushes at risk", "promised writes", "promises broken", "unflushed lost", "torn"),
    *("reordered", "mJ per durable write"),
)


def text(campaign: PowerCuts, width: int = 110) -> str:
    """Return the verdict on each subject, and the broken promises by the write's number."""
    console = terminal.page(width)
    console.print(f"{campaign.id}{' · VIRTUAL LAB' if campaign.virtual else ''}")
    table = Table()
    for name in ("drive", "file system", "writer"):
        table.add_column(name, no_wrap=True)
    for name in COUNTED:
        table.add_column(name, justify="right")
    verdicts = campaign.verdicts()
    for subject in campaign.subjects:
        found = verdicts[subject.name]
        joules = tables.joules_per_durable_write(campaign.cuts[subject.name])
        table.add_row(
            subject.drive, subject.filesystem_level, subject.writer, str(found.cuts), str(found.flushes),
            str(found.promised_writes), str(found.broken_promises), str(found.acknowledged_lost),
            str(found.acknowledged_torn), str(found.reordered),
            "" if joules is None else f"{1e3 * joules:.3g}",
        )  # fmt: skip
    console.print(table)
    for line in _lines(campaign):
        console.print(line, soft_wrap=True)
    return console.export_text().rstrip()


def _lines(campaign: PowerCuts) -> Iterator[str]:
    verdicts = campaign.verdicts()
    for subject in campaign.subjects:
        yield verdicts[subject.name].statement
        broken = [(cut, v) for cut in campaign.cuts[subject.name] for v in cut.findings.violations]
        for cut, violation in broken[:SHOWN_VIOLATIONS]:
            yield f"  cut {cut.number}: {violation}"
        if len(broken) > SHOWN_VIOLATIONS:
            yield f"  and {len(broken) - SHOWN_VIOLATIONS} more: 'rig results {campaign.id} --json'"
        for reason in campaign.failed[subject.name]:
            yield f"  {reason}"


def as_json(campaign: PowerCuts) -> list[dict[str, Any]]:
    """Return each subject's verdict and cuts, with every broken promise by sequence number."""
    verdicts = campaign.verdicts()
    return [
        {
            **dataclasses.asdict(subject),
            "verdict": dataclasses.asdict(verdicts[subject.name]),
            "joules_per_durable_write": tables.joules_per_durable_write(campaign.cuts[subject.name]),
            "failed": campaign.failed[subject.name],
            "cuts": [
                {
                    "number": cut.number,
                    **cut.record,
                    "findings": dataclasses.asdict(cut.findings),
                    "durable": dataclasses.asdict(cut.durable),
                }
                for cut in campaign.cuts[subject.name]
            ],
        }
        for subject in campaign.subjects
    ]
