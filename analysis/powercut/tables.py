# SPDX-License-Identifier: GPL-3.0-or-later
"""A power-cut campaign's tables: a row for each subject, each cut, each broken promise."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import polars as pl

from joulerig import atomic, spreadsheet
from joulerig.analysis.powercut.check import Violation
from joulerig.analysis.powercut.folder import Cut, PowerCuts
from joulerig.analysis.powercut.sectors import Fate

_TEXT, _NUMBER, _REAL = pl.String(), pl.Int64(), pl.Float64()

SUBJECT_COLUMNS = {
    **dict.fromkeys(("host", "drive", "filesystem", "mount_options", "application"), _TEXT),
    "plp": pl.Boolean(),
    **dict.fromkeys(("cuts", "void_cuts", "failed_cuts", "broken_cuts"), _NUMBER),
    **dict.fromkeys(("flushes", "promised_writes", "broken_promises"), _NUMBER),
    "broken_by_fate": _TEXT,
    **dict.fromkeys(("acknowledged_lost", "acknowledged_torn", "acknowledged_corrupt"), _NUMBER),
    "reordered": _NUMBER,
    "beyond": _TEXT,
    **dict.fromkeys(("repaired_to_mount", "checked", "check_complaints"), _NUMBER),
    **dict.fromkeys(("loss_probability_low", "loss_probability_high"), _REAL),
    "joules_per_durable_write": _REAL,
    "statement": _TEXT,
}
CUT_COLUMNS = {
    "subject": _TEXT,
    "cut": _NUMBER,
    **dict.fromkeys(("aimed", "phase"), _TEXT),
    **dict.fromkeys(("promised_writes", "broken_promises"), _NUMBER),
    **dict.fromkeys((f"acknowledged_{fate}" for fate in Fate), _NUMBER),
    **dict.fromkeys(("reordered", "durable_writes"), _NUMBER),
    **dict.fromkeys(("joules", "true_joules"), _REAL),
    "mount_problem": _TEXT,
    "mount_seconds": _REAL,
    "check_exit": _NUMBER,
    **dict.fromkeys(("longest_hold_up_seconds", "hold_up_joules"), _REAL),
}
_KINDS = {"str": _TEXT, "int": _NUMBER, "bool": pl.Boolean()}
VIOLATION_COLUMNS = {
    "subject": _TEXT,
    "cut": _NUMBER,
    **{one.name: _KINDS[str(one.type)] for one in fields(Violation)},
}


def joules_per_durable_write(cuts: list[Cut]) -> float | None:
    """Return the energy between promises over the writes promised there, in joules per write.

    Both are sums over all cuts whose energy was measured; None where no cut's was. The virtual
    lab's true joules stand in only where no cut was measured.
    """
    for key in ("joules", "true_joules"):
        known = [cut for cut in cuts if cut.record.get(key) is not None and cut.durable.writes]
        if known:
            return sum(cut.record[key] for cut in known) / sum(cut.durable.writes for cut in known)
    return None


def subjects(campaign: PowerCuts) -> pl.DataFrame:
    """Return one row for each subject: its verdict, and joules per durable write.

    Columns: `SUBJECT_COLUMNS`.
    """
    verdicts = campaign.verdicts()
    rows: list[dict[str, Any]] = []
    for subject in campaign.subjects:
        verdict = verdicts[subject.name]
        cuts = campaign.cuts[subject.name]
        checks = [cut.record["check"]["exit"] for cut in cuts if "check" in cut.record]
        rows.append(
            {
                "host": subject.host,
                "drive": subject.drive,
                "filesystem": subject.filesystem,
                "mount_options": subject.mount_options,
                "application": subject.application,
                "plp": subject.plp,
                "cuts": verdict.cuts,
                "void_cuts": verdict.void_cuts,
                "failed_cuts": len(campaign.failed[subject.name]),
                "broken_cuts": verdict.broken_cuts,
                "flushes": verdict.flushes,
                "promised_writes": verdict.promised_writes,
                "broken_promises": verdict.broken_promises,
                "broken_by_fate": "; ".join(f"{n} {fate}" for fate, n in verdict.broken_by_fate.items()),
                "acknowledged_lost": verdict.acknowledged_lost,
                "acknowledged_torn": verdict.acknowledged_torn,
                "acknowledged_corrupt": verdict.acknowledged_corrupt,
                "reordered": verdict.reordered,
                "beyond": "; ".join(f"{count} {what}" for what, count in verdict.beyond.items()),
                "repaired_to_mount": sum("mount_problem" in cut.record for cut in cuts),
                "checked": len(checks),
                "check_complaints": sum(code != 0 for code in checks),
                "loss_probability_low": verdict.loss_probability_low,
                "loss_probability_high": verdict.loss_probability_high,
                "joules_per_durable_write": joules_per_durable_write(cuts),
                "statement": verdict.statement,
            }
        )
    return pl.DataFrame(rows, schema=SUBJECT_COLUMNS)


def cuts(campaign: PowerCuts) -> pl.DataFrame:
    """Return one row for each cut that could be checked. Columns: `CUT_COLUMNS`."""
    rows = [
        {
            "subject": name,
            "cut": cut.number,
            "aimed": cut.record.get("aimed", ""),
            "phase": cut.findings.phase,
            "promised_writes": sum(cut.findings.promised.values()),
            "broken_promises": len(cut.findings.violations),
            **{f"acknowledged_{fate}": n for fate, n in _all_fates(cut.findings.acknowledged).items()},
            "reordered": cut.findings.reordered,
            "durable_writes": cut.durable.writes,
            "joules": cut.record.get("joules"),
            "true_joules": cut.record.get("true_joules"),
            "mount_problem": cut.record.get("mount_problem", ""),
            "mount_seconds": cut.record.get("mount_seconds"),
            "check_exit": (cut.record.get("check") or {}).get("exit"),
            "longest_hold_up_seconds": max(_rail_values(cut, "seconds"), default=None),
            "hold_up_joules": sum(joules) if (joules := _rail_values(cut, "joules")) else None,
        }
        for name, subject_cuts in campaign.cuts.items()
        for cut in subject_cuts
    ]
    return pl.DataFrame(rows, schema=CUT_COLUMNS)


def violations(campaign: PowerCuts) -> pl.DataFrame:
    """Return one row for each broken promise. Columns: `VIOLATION_COLUMNS`."""
    rows = [
        {"subject": name, "cut": cut.number, **vars(violation)}
        for name, subject_cuts in campaign.cuts.items()
        for cut in subject_cuts
        for violation in cut.findings.violations
    ]
    return pl.DataFrame(rows, schema=VIOLATION_COLUMNS)


def frames(campaign: PowerCuts | None) -> dict[str, pl.DataFrame]:
    """Return all tables of a campaign, by the names of their files; of none they have no rows."""
    if campaign is None:
        columns = {"subjects": SUBJECT_COLUMNS, "cuts": CUT_COLUMNS, "violations": VIOLATION_COLUMNS}
        return {name: pl.DataFrame(schema=schema) for name, schema in columns.items()}
    return {"subjects": subjects(campaign), "cuts": cuts(campaign), "violations": violations(campaign)}


def write(campaign: PowerCuts, folder: Path) -> list[Path]:
    """Write subjects.csv, cuts.csv and violations.csv into `folder`; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, frame in frames(campaign).items():
        path = folder / f"{name}.csv"
        atomic.write(path, spreadsheet.csv(frame))
        written.append(path)
    return written


def _all_fates(counts: dict[str, int]) -> dict[str, int]:
    return {fate: counts.get(fate, 0) for fate in Fate}


def _rail_values(cut: Cut, key: str) -> list[float]:
    """Return a figure of those rails that were seen down, where it is known."""
    rails = cut.record.get("hold_up", {}).values()
    return [rail[key] for rail in rails if rail["state"] == "DONE" and rail.get(key) is not None]
