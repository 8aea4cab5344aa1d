# SPDX-License-Identifier: GPL-3.0-or-later
"""A level of measurement after the EEHPC WG's method, by aspect, for each rail.

Energy Efficient High Performance Computing Power Measurement Methodology, version 2.0 RC 1.0
(EEHPC WG, Green500): aspects with three levels of quality each, and the least of them counts. The
method is for whole supercomputers: here the drive takes the place of the machine, and nothing is
submitted. `number` is the level that an aspect meets, 0 for none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from joulerig.analysis.energy import meters
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import PhaseName, RailEnergy
from joulerig.analysis.runs.idle import Idle
from joulerig.analysis.runs.over_time import MOST_GAP
from joulerig.analysis.tables.standards.asked import Asked

CONTINUOUS_HZ = 120.0  # of direct current, from which on level 3 takes samples for energy
LEAST_HZ = 1.0  # levels 1 and 2
ACCURACIES = ((3, 1.0), (2, 2.0), (1, 5.0))  # level, percent at most
FEWEST_PARTS = 10  # of the load, whose power or energy levels 2 and 3 want each


def asked(campaign: Campaign, idles: Mapping[str, Idle]) -> Iterator[Asked]:
    """Yield the aspects of each rail that measured a load, its least level last.

    `idles`: power at rest by run (analysis.runs.idle).
    """
    found: dict[tuple[str, str, str], list[tuple[Run, RailEnergy]]] = {}
    for run in campaign.runs:
        for rail in run.energy:
            if rail.phase == PhaseName.WORKLOAD and rail.joules is not None and rail.phase in run.phases:
                found.setdefault((rail.meter, rail.drive, rail.rail), []).append((run, rail))
    for (meter, drive, wire), measured in sorted(found.items()):
        aspects = list(_aspects(campaign, meter, measured, idles))
        name = f"{drive} {wire} by {meter}"
        for aspect, level, why in aspects:
            yield Asked(name, "aspect", aspect, float(level), "level", why)
        least = min(level for _, level, _ in aspects)
        missing = "; ".join(f"{aspect}: {why}" for aspect, level, why in aspects if level == least < 3)
        yield Asked(name, "level", "least of the aspects", float(least), "level", missing)


def _aspects(
    campaign: Campaign, meter: str, measured: Sequence[tuple[Run, RailEnergy]], idles: Mapping[str, Idle]
) -> Iterator[tuple[str, int, str]]:
    """Yield (aspect, level, why)."""
    spec = meters.declared(campaign.lab, meter)
    yield "granularity", *_granularity(spec.get("sample_rate_hz"), spec.get("timing"))
    seconds = sum(run.phases[PhaseName.WORKLOAD].seconds for run, _ in measured)
    gaps = sum(rail.gap_seconds for _, rail in measured)
    share = 100 * (1 - gaps / seconds) if seconds > 0 else 0.0
    whole = share >= 100 * (1 - MOST_GAP)
    yield "time span", 3 if whole else 0, f"{share:.2f} % of the whole loads measured"
    idle = all(idles[run.id].watts is not None for run, _ in measured)
    parts = f"energy of the whole load, its trace in {FEWEST_PARTS} parts or more"
    yield "reported values", 3 if idle else 1, f"{parts}, {'and' if idle else 'no'} idle power"
    yield "machine fraction", 3, "all rails of the drive"
    yield "subsystems", 1, "the drive alone; host, fans and supply are not measured"
    yield "point of measurement", 0, "behind the supply, whose losses are neither measured nor modelled"
    yield "accuracy", *_accuracy([rail for _, rail in measured])


def _granularity(rate: float | None, timing: str | None) -> tuple[int, str]:
    if not rate:
        return 0, "sample rate not declared"
    said = f"{rate:g} samples per second, {'polled' if timing == 'poll' else 'integrated one by one'}"
    if timing != "poll" and rate >= CONTINUOUS_HZ:
        return 3, said
    return (2 if rate >= LEAST_HZ else 0), said


def _accuracy(rails: Sequence[RailEnergy]) -> tuple[int, str]:
    """Judge the expanded uncertainty (k = 2) of the meter, over all that it measured."""
    parts, joules = [rail.meter_joules for rail in rails], sum(rail.joules or 0.0 for rail in rails)
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or joules <= 0:
        return 0, "the meter's class is not stated"
    percent = 100 * sum(known) / joules
    level = next((level for level, most in ACCURACIES if percent <= most), 0)
    return level, f"{percent:.3g} % of the energy, k = 2"
