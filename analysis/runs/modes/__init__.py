# SPDX-License-Identifier: GPL-3.0-or-later
"""The mode that each run met, and the rule by which a winner is named: both rest on the runs alone.

A drive has modes, in which the same load takes other joules: it collects garbage or not, its cache
is full or not, it throttles or not. Runs of a cell may all meet one of them by chance, and nothing
in their values shows it. So a winner is named where the finalists met the same modes, or have
enough runs each (docs/decisions/089-modes.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from joulerig.analysis.results.campaign import Campaign, ResultsError, Run
from joulerig.analysis.results.schema import Phase, PhaseName
from joulerig.analysis.runs.modes import nand, throttling
from joulerig.analysis.statistics import segments
from joulerig.analysis.statistics.ranking import Ranking
from joulerig.plural import counted

if TYPE_CHECKING:
    from joulerig.analysis.runs.over_time import Floats, PowerOverTime

# With so many runs of each finalist, a winner is named whatever modes they met. A race looks after
# each block, so a lead by chance has more occasions.
ENOUGH, ENOUGH_IN_RACE = 5, 6
SCOPE = "of what these runs show"

# NAND bytes for each byte from the host. In between a drive may pad, or collect a little.
MOST_WITHOUT_REWRITES, LEAST_WITH_REWRITES = 1.05, 1.2
LEAST_CHANGE = 0.2  # of the mean, between the levels of a load; SNIA PTS allows a steady load as much
THROTTLED, REWRITES, NO_REWRITES, CHANGES = "throttled", "flash rewrites", "no rewrites", "changes level"
NOT_KNOWN = "not known"
_MOST_KEPT = 64  # runs whose power over time is kept, for a dashboard that asks again


@dataclass(frozen=True)
class Mode:
    """The mode that a run met.

    `name`: what is seen of it, such as "flash rewrites, changes level"; "not known" where nothing
    is. `evidence`: the figures behind the name. `known`: the counts of NAND bytes and the levels of
    the load are both there, so that what is not in the name did not happen.
    """

    name: str
    evidence: str
    known: bool


def by_run(campaign: Campaign, over: Mapping[str, PowerOverTime]) -> dict[str, Mode]:
    """Return the mode of each run that worked, by run. `over`: power over time, by run."""
    worked = [run for run in campaign.runs if run.performance is not None]
    return {run.id: of_run(campaign, run, over.get(run.id)) for run in worked}


def of_run(campaign: Campaign, run: Run, power: PowerOverTime | None) -> Mode:
    """Return the mode of a run, by its drive's counts and by `power`: None without power points."""
    flash, rewrites = _rewrites(run)
    levels, changes = _changes(power)
    hot = _throttled(campaign, run)
    names = [THROTTLED] if hot else []
    names += [] if rewrites is None else [REWRITES if rewrites else NO_REWRITES]
    names += [CHANGES] if changes else []
    evidence = [part for part in (hot, flash, levels) if part]
    known = rewrites is not None and changes is not None
    return Mode(", ".join(names) or NOT_KNOWN, "; ".join(evidence), known)


def _rewrites(run: Run) -> tuple[str, bool | None]:
    """Return NAND bytes a host byte, and whether that shows rewrites; None: not known."""
    rise = nand.rise(run)
    if rise is None or not rise.is_fine:
        return "", None
    ratio = rise.nand / rise.host
    rewrites = ratio >= LEAST_WITH_REWRITES
    judged = rewrites or ratio <= MOST_WITHOUT_REWRITES
    return f"{ratio:.2f} NAND bytes a host byte", rewrites if judged else None


def _throttled(campaign: Campaign, run: Run) -> str:
    try:
        return "; ".join(throttling.in_run(run.health_before, run.health_after, campaign.drives(run)))
    except ResultsError:
        return ""


def _changes(power: PowerOverTime | None) -> tuple[str, bool | None]:
    """Return how the watts, or else the rate, of a load change level; None: not known whether.

    That they do is known where either does, and that they do not where the watts do not.
    """
    if power is None:
        return "", None
    series = {"W": power.watts}
    if power.work is not None:
        series["ops/s"] = power.work.ops_per_second
    judged = {unit: _levels(values) for unit, values in series.items()}
    for unit, levels in judged.items():
        if levels and len(levels) > 1:
            return f"levels of {', '.join(f'{level:.3g}' for level in levels)} {unit}", True
    return "", None if judged["W"] is None else False


def _levels(values: Floats) -> list[float] | None:
    """Return the levels of a series that lie `LEAST_CHANGE` apart or more; None: not known."""
    if not len(values) or np.isnan(values).any():
        return None
    begins = segments.changes(values)
    if begins is None:
        return None
    levels = [float(part.mean()) for part in np.split(values, begins)]
    apart = max(levels) - min(levels) >= LEAST_CHANGE * abs(float(values.mean()))
    return levels if apart else levels[:1]


def met_alike(campaign: Campaign, cells: Iterable[Sequence[Run]]) -> bool:
    """Return whether the runs of each cell met the same modes, all of which are known."""
    met = set()
    for runs in cells:
        names = set()
        for run in runs:
            mode = of_run(campaign, run, _power(run))
            if not mode.known:
                return False
            names.add(mode.name)
        met.add(frozenset(names))
    return len(met) == 1 and frozenset() not in met


def _power(run: Run) -> PowerOverTime | None:
    try:
        changed_ns = (run.folder / "power.csv").stat().st_mtime_ns
    except OSError:
        return None
    load, tail = (run.phases.get(name) for name in (PhaseName.WORKLOAD, PhaseName.TAIL))
    return _read(run.folder, changed_ns, load, tail)


@lru_cache(maxsize=_MOST_KEPT)
def _read(folder: Path, _: int, load: Phase | None, tail: Phase | None) -> PowerOverTime | None:
    # Few comparisons ask for modes: only these wait for the import of polars.
    from joulerig.analysis.results import power_points, run_file
    from joulerig.analysis.runs import over_time

    try:
        return over_time.read(folder, load, tail)
    except (power_points.PowerFileError, run_file.RunFileError):
        return None


def why_withheld(ranking: Ranking, counts: Mapping[str, int], alike: Callable[[Sequence[str]], bool]) -> str:
    """Say why a ranking that leaves one cell names no winner; empty where it names one.

    Parameters
    ----------
    ranking : Ranking
    counts : mapping of cell to int
        Its runs.
    alike : callable
        Whether cells met the same modes, all of which are known.
    """
    finalists = ranking.finalists
    if len(ranking.contenders) != 1:
        return ""
    fewest = min(counts[cell] for cell in finalists)
    if fewest >= ENOUGH or alike(finalists):
        return ""
    return (
        f"a winner is named from {counted(ENOUGH, 'run')} of each finalist on, or where they are known to"
        f" have met the same modes: the fewest are {fewest}"
    )


def summary(found: Iterable[Mode]) -> str:
    """Count modes in words: "no rewrites 3, flash rewrites 2"."""
    counts: dict[str, int] = {}
    for mode in found:
        counts[mode.name] = counts.get(mode.name, 0) + 1
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda one: -one[1]))
