# SPDX-License-Identifier: GPL-3.0-or-later
"""What methods read of a campaign's energies: its meters, its twins, and instruments of others.

A comparison is of one drive: all its rails together, over a phase of a run, in watts.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from joulerig.analysis.agreement import own_word
from joulerig.analysis.agreement.bland_altman import Agreement, Pair, agreement
from joulerig.analysis.agreement.reading import Key, Reading, Readings
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import PhaseName
from joulerig.errors import JoulerigError

PHASES = (PhaseName.IDLE, PhaseName.WORKLOAD, PhaseName.TAIL)
TWIN = "twin"
COLUMNS = ("method", "drive", "run", "phase", "joules", "expanded_joules")


class ReadingsError(JoulerigError):
    """Readings that cannot be used; the message is one line that names file and line."""


@dataclass(frozen=True)
class Compared:
    """Two methods on one drive."""

    drive: str
    one: str
    other: str
    found: Agreement


def of_campaign(campaign: Campaign) -> dict[str, dict[Key, Reading]]:
    """Return what a campaign's own methods read: meters, drives themselves, virtual drives.

    Of meters the uncertainty is half of the interval of a phase's energy, which has gaps, instants
    and the meter's class or calibration; not known where it has no bounds. A twin's is 0.
    """
    found: dict[str, dict[Key, Reading]] = {}
    for run in campaign.without_controls.runs:
        for drive, phase in sorted({(row.drive, row.phase) for row in run.energy if row.phase in PHASES}):
            rows = [row for row in run.energy if (row.drive, row.phase) == (drive, phase)]
            key = (drive, run.id, phase)
            joules = [row.joules for row in rows]
            if None not in joules:
                meters = " + ".join(sorted({row.meter for row in rows}))
                halves = [
                    None if row.joules_low is None or row.joules_high is None or row.meter_joules is None
                    else (row.joules_high - row.joules_low) / 2
                    for row in rows
                ]  # fmt: skip
                expanded = None if None in halves else math.fsum(one for one in halves if one is not None)
                total = math.fsum(one for one in joules if one is not None)
                found.setdefault(meters, {})[key] = Reading(total, expanded)
            true = [row.true_joules for row in rows]
            if None not in true:
                total = math.fsum(one for one in true if one is not None)
                found.setdefault(TWIN, {})[key] = Reading(total, 0.0)
    measured = {key: one for name, by_key in found.items() if name != TWIN for key, one in by_key.items()}
    if own := own_word.of_campaign(campaign, measured):
        found[own_word.METHOD] = own
    return found


def read(file: Path, campaign: Campaign) -> dict[str, dict[Key, Reading]]:
    """Return the readings of other instruments: a CSV with `COLUMNS`. Raises ReadingsError.

    Such as a second meter's, a PDU's, or the drive's own count. `expanded_joules` (k = 2) may be
    blank.
    """
    runs = {run.id: run for run in campaign.runs}
    found: dict[str, dict[Key, Reading]] = {}
    try:
        with file.open(newline="", encoding="utf-8") as content:
            rows = csv.DictReader(content)
            if missing := [name for name in COLUMNS if name not in (rows.fieldnames or ())]:
                raise ReadingsError(f"{file}: has no column {missing[0]}; needed: {', '.join(COLUMNS)}")
            for row in rows:
                where = f"{file}: line {rows.line_num}"
                reading = _reading(row, where)
                run, phase = runs.get(row["run"]), row["phase"]
                if run is None or phase not in run.phases:
                    raise ReadingsError(f"{where}: run {row['run']!r} has no phase {phase!r}")
                of_method = found.setdefault(row["method"], {})
                key = (row["drive"], run.id, phase)
                if not row["method"] or key in of_method:
                    raise ReadingsError(f"{where}: method {row['method']!r}: is named, and once for a phase")
                of_method[key] = reading
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ReadingsError(f"{file}: {' '.join(str(error).split())}") from None
    return found


def compare(campaign: Campaign, readings: Readings) -> list[Compared]:
    """Compare each two methods on each drive that both read.

    Pairs of one cell and phase are repetitions of each other.
    """
    runs = {run.id: run for run in campaign.runs}
    found = []
    for one, other in combinations(sorted(readings, key=lambda name: name == TWIN), 2):
        common = [key for key in readings[one] if key in readings[other]]
        for drive in dict.fromkeys(key[0] for key in common):
            keys = [key for key in common if key[0] == drive]
            if pairs := list(_pairs(readings[one], readings[other], keys, runs)):
                found.append(Compared(drive, one, other, agreement(pairs)))
    return found


def _pairs(
    one: Mapping[Key, Reading], other: Mapping[Key, Reading], keys: Iterable[Key], runs: Mapping[str, Run]
) -> Iterable[Pair]:
    for key in keys:
        _, name, phase = key
        run = runs[name]
        seconds = run.phases[phase].seconds
        pair = one[key], other[key]
        if seconds > 0 and min(reading.joules for reading in pair) > 0:
            watts = [reading.joules / seconds for reading in pair]
            expanded = [None if reading.expanded is None else reading.expanded / seconds for reading in pair]
            yield Pair(f"{run.cell} {phase}", watts[0], watts[1], (expanded[0], expanded[1]))


def _reading(row: Mapping[str, str], where: str) -> Reading:
    values: list[float | None] = []
    for name in ("joules", "expanded_joules"):
        try:
            values.append(float(row[name]) if (row[name] or "").strip() else None)
        except ValueError:
            raise ReadingsError(f"{where}: {name}: {row[name]!r} is no number") from None
    joules, expanded = values
    if joules is None or not (math.isfinite(joules) and joules >= 0):
        raise ReadingsError(f"{where}: joules: {row['joules']!r}; allowed: from 0 on")
    if expanded is not None and not (math.isfinite(expanded) and expanded >= 0):
        raise ReadingsError(
            f"{where}: expanded_joules: {row['expanded_joules']!r}; allowed: from 0 on, or blank"
        )
    return Reading(joules, expanded)
