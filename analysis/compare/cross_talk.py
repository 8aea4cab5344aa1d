# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run alongside others on its host does to it: the control of a campaign of lanes.

In each block, one cell of each drive is executed twice: alongside the other drives' runs, as all
are, and alone. Pairs of a drive and block have the cell and the drive's age in common; what is left
is cross-talk, and the spread between runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy import special

from joulerig.analysis.compare.cells import Comparison
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import CONTROL, PhaseName
from joulerig.analysis.statistics import LOG_ROUNDING
from joulerig.analysis.statistics.interval import Interval
from joulerig.analysis.statistics.ranking import ALPHA, sidak_level
from joulerig.plural import counted

FEWEST_PAIRS = 3  # with two, an interval of one degree of freedom is of no use
QUANTITIES = ("ops/s", "W", "ops/J")
COLUMNS = {
    "campaign": pl.String,
    "host": pl.String,
    "drive": pl.String,
    "quantity": pl.String,
    "pairs": pl.Int64,
    "alongside_percent": pl.Float64,
    "alongside_percent_low": pl.Float64,
    "alongside_percent_high": pl.Float64,
    "seen": pl.Boolean,
    "shared_percent": pl.Float64,
    "why": pl.String,
}


@dataclass(frozen=True)
class CrossTalk:
    """How a quantity of a drive's runs differs alongside others from what it is alone.

    `change`: relative to alone, 0.01 is 1 % more, the mean of `pairs` pairs; None without a pair.
    `interval`: around it; None where `why` says why it cannot be judged. `shared`: fraction of the
    load during which other drives of the host had a run, mean of the pairs.
    """

    host: str
    drive: str
    quantity: str
    pairs: int
    change: float | None
    interval: Interval | None
    shared: float | None
    why: str

    @property
    def seen(self) -> bool:
        """Return whether the interval excludes zero."""
        return self.interval is not None and (
            self.interval.low > LOG_ROUNDING or self.interval.high < -LOG_ROUNDING
        )


def estimate(campaign: Campaign) -> list[CrossTalk]:
    """Estimate cross-talk by drive and quantity; empty without control runs.

    The change is that of the mean difference of logarithms within pairs, its interval Student's.
    All of a campaign's intervals hold together at 95 % (Šidák): where nothing differs, at most one
    campaign in twenty has one that excludes zero. Pairs whose other run had no neighbour during its
    load say nothing, and are left out.
    """
    pairs = _pairs(campaign)
    alpha = sidak_level(ALPHA, max(1, len(pairs) * len(QUANTITIES)))
    spans = _spans(campaign) if pairs else {}
    found = []
    for (host, drive), of_drive in pairs.items():
        neighbours = sorted(
            span for other, of_other in spans[host].items() if other != drive for span in of_other
        )
        shares = [_shared(alongside, neighbours) for _, alongside in of_drive]
        kept = [pair for pair, share in zip(of_drive, shares, strict=True) if share > 0]
        shared = float(np.mean([share for share in shares if share > 0])) if kept else None
        for quantity in QUANTITIES:
            values = [[_figures(run)[quantity] for run in pair] for pair in kept]
            logs = [math.log(after / before) for before, after in values if before and after]
            change = math.expm1(float(np.mean(logs))) if logs else None
            why = "" if len(logs) >= FEWEST_PAIRS else _too_few(len(logs))
            interval = None if why else _interval(logs, alpha)
            found.append(CrossTalk(host, drive, quantity, len(logs), change, interval, shared, why))
    return found


def table(campaign: Campaign, _compared: Sequence[Comparison]) -> pl.DataFrame:
    """Return one row a drive and quantity. Columns: `COLUMNS`."""
    rows = [
        {
            "campaign": campaign.id,
            "host": one.host,
            "drive": one.drive,
            "quantity": one.quantity,
            "pairs": one.pairs,
            "alongside_percent": _percent(one.change),
            "alongside_percent_low": _percent(one.interval and one.interval.low),
            "alongside_percent_high": _percent(one.interval and one.interval.high),
            "seen": one.seen if one.interval else None,
            "shared_percent": _percent(one.shared),
            "why": one.why,
        }
        for one in estimate(campaign)
    ]
    return pl.DataFrame(rows, schema=COLUMNS)


def warning(found: Sequence[CrossTalk]) -> str:
    """Return what a reader has to know before any figure; empty where no cross-talk was seen."""
    seen = [f"{one.host}/{one.drive}: {one.quantity} {describe(one)}" for one in found if one.seen]
    return f"Runs side by side disturb each other: {'; '.join(seen)}." if seen else ""


def describe(one: CrossTalk) -> str:
    """Return the change and its interval: "+1.2 % alongside others (+0.4 to +2.1 %), 5 pairs"."""
    pairs = counted(one.pairs, "pair")
    if one.change is None:
        return f"cannot tell: {one.why}"
    change = f"{_signed(one.change)} % alongside others"
    if one.interval is None:
        return f"{change}, cannot tell: {one.why}"
    return f"{change} ({_signed(one.interval.low)} to {_signed(one.interval.high)} %), {pairs}"


def _pairs(campaign: Campaign) -> dict[tuple[str, str], list[tuple[Run, Run]]]:
    """Return, by host and drive, (control, its other run) of each block that has both."""
    others = {_place(run): run for run in campaign.runs if not run.is_control and run.counts}
    found: dict[tuple[str, str], list[tuple[Run, Run]]] = {}
    for run in campaign.runs:
        if run.is_control:
            of_drive = found.setdefault((run.host, run.drive), [])
            if run.counts and (other := others.get(_place(run))):
                of_drive.append((run, other))
    return found


def _figures(run: Run) -> dict[str, float | None]:
    done, result = run.performance, run.result
    return {
        "ops/s": done.ops_per_second if done else None,
        "W": result.mean_watts if result else None,
        "ops/J": result.ai_ops_per_joule if result else None,
    }


def _place(run: Run) -> tuple[object, ...]:
    levels = sorted((name, str(level)) for name, level in run.factors.items() if name != CONTROL)
    return run.host, run.drive, run.block, *levels


def _spans(campaign: Campaign) -> dict[str, dict[str, list[tuple[int, int]]]]:
    """Return, by host and drive, when its runs were there: (start, end), UTC ns."""
    found: dict[str, dict[str, list[tuple[int, int]]]] = {}
    for run in campaign.runs:
        of_drive = found.setdefault(run.host, {}).setdefault(run.drive, [])
        if phases := run.phases.values():
            of_drive.append((min(one.start_ns for one in phases), max(one.end_ns for one in phases)))
    return found


def _shared(run: Run, neighbours: Sequence[tuple[int, int]]) -> float:
    """Return the fraction of a run's load during which others, in order of time, were there."""
    load = run.phases[PhaseName.WORKLOAD]
    shared, reached = 0, load.start_ns
    for start_ns, end_ns in neighbours:
        begin, end = max(start_ns, reached), min(end_ns, load.end_ns)
        if end > begin:
            shared, reached = shared + end - begin, end
    return shared / (load.end_ns - load.start_ns)


def _interval(logs: Sequence[float], alpha: float) -> Interval:
    mean, deviation = float(np.mean(logs)), float(np.std(logs, ddof=1))
    reach = float(special.stdtrit(len(logs) - 1, 1 - alpha / 2)) * deviation / math.sqrt(len(logs))
    return Interval(math.expm1(mean - reach), math.expm1(mean + reach))


def _too_few(pairs: int) -> str:
    return f"{counted(pairs, 'pair')} of runs, {FEWEST_PAIRS} are needed"


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _signed(share: float) -> str:
    return f"{100 * share:+.2f}".replace("-", "−")
