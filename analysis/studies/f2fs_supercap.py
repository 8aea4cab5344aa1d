# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge what Choi (2018) found: f2fs falls behind ext4 on a drive whose flush is cheap.

**Question.** Does f2fs fall behind ext4 over a long varmail run on a drive whose flush is cheap?

**Published.** On a drive with power-loss protection f2fs did 1.06 times the operations of ext4 at
first and 0.67 times at last, falling throughout. The search for free node numbers inside fsync took
ever more time, and its share grows as a flush costs less. Only the two end points are known.

**Today.** Kernels since 2017 keep bitmaps of free node numbers and may not show the fall: the
playbook asks whether it is there, it does not expect it.

| level here | flush |
|---|---|
| `write_cache: write back` | sent, and served by a drive with capacitors in microseconds |
| `write_cache: no flush` | not sent: the kernel treats the drive as one without a volatile cache |

"no flush" is allowed only on drives declared with `plp: true`.

ext4 pays two flushes for a journalled fsync, f2fs one.

**Judged**, by drive and write cache: the ratio of operations a second in the first tenth of the
run's 1 s windows within 5 % of 1.06, in the last tenth within 10 % of 0.67, and whether it fell
from one to the other (each block's own ratio of ratios). A fall of less than a tenth (`least` in
the playbook) is none: the published one is by a third. Whether it fell throughout: Mann and
Kendall's test and Sen's slope of the ratio's logarithm over all windows, blocks as groups, with
allowance for their autocorrelation. In addition, by drive: whether the search for free node numbers
takes a larger share of fsync where no flush is sent. Where the search took less than 1 % of fsync
in every run it does not: what was published is a fall by a third. Only where the drive set the
pace, except for that.

**Figure.** The ratio in windows of a second over the run, a line for each drive and write cache.
The report's section on changes over the load has energy per operation in the same windows.

**On the virtual lab**, with Debian 12's kernel, the search took less than 1 % of fsync in every run
at either cost of a flush. So it cannot make f2fs fall, which ends above ext4.

**The search.** `time_free_nids` has the kernel time `f2fs_sync_file` and `f2fs_build_free_nids`
(kprobes of the rig's own trace, which Debian's kernel has; where a kernel lacks them `result.json`
says so, and the run goes on). A share is seconds of searches that a sync waited for, over seconds
of syncs, all threads added up. Why not bpftrace, which does the same with a compiler of 100 MB:
[decision 015](../decisions/015-kprobes.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from joulerig.analysis.drawing import COLOURS, INK, MARKERS, Svg, canvas, to_svg
from joulerig.analysis.results import power_points, run_file
from joulerig.analysis.results.campaign import Campaign, ResultsError, Run
from joulerig.analysis.results.schema import Status
from joulerig.analysis.runs import over_time
from joulerig.analysis.runs.over_time import WorkOverTime
from joulerig.analysis.statistics import trend
from joulerig.analysis.studies import claims
from joulerig.analysis.studies.claims import Claim, Measured
from joulerig.analysis.studies.study import Study, StudyFigure
from joulerig.plural import counted

HEIGHT_INCHES = 2.9
BEGINS = Claim("begins", "At first f2fs does 1.06 times the operations of ext4.")
ENDS = Claim("ends", "At last f2fs does 0.67 times the operations of ext4.")
FALLS = Claim("falls", "Over the run f2fs falls behind ext4.")
THROUGHOUT = Claim("throughout", "The ratio of f2fs to ext4 falls throughout the run.")
SEARCH = Claim(
    "search", "The search for free node numbers takes a larger share of fsync where a flush costs less."
)
BEGIN_MARGIN, END_MARGIN = 0.05, 0.10
LEAST_SHARE = 0.01  # of fsync: a smaller one is nothing of the third that was lost
NO_FLUSH = "no flush"
TENTHS = 10  # the begin and the end of a run are a tenth of its windows each


def measure(campaign: Campaign) -> list[Measured]:
    """Measure by drive, flush cost and workload, where there are runs of both file systems.

    The search is measured by drive and workload, where flushes are sent in some runs of f2fs and
    not in others.
    """
    found: list[Measured] = []
    for where, f2fs, ext4 in pairs(campaign):
        runs = [*f2fs, *ext4]
        why = claims.no_measure_of_a_drive(campaign, runs)
        works = read_works(runs)
        ends = {run: both for run, work in works.items() if (both := _ends(work)) is not None}
        if len(ends) < len(runs):
            why = why or "a run reported nothing while it ran"
        begin, end, fall = (
            claims.ratio(
                f2fs, ext4, lambda run, of=of, ends=ends: of(*ends[run.id]) if run.id in ends else None
            )
            for of in (lambda begin, _: begin, lambda _, end: end, lambda begin, end: begin / end)
        )
        measured = [
            claims.within_margin(BEGINS, where, begin, 1.06, BEGIN_MARGIN, why),
            claims.within_margin(ENDS, where, end, 0.67, END_MARGIN, why),
            claims.greater(FALLS, where, fall, "above 1: ratio at first, over at last", why),
            _trend(where, f2fs, ext4, works, why),
        ]
        cache = {"write_cache": f2fs[0].factors["write_cache"]} if "write_cache" in f2fs[0].factors else {}
        found += claims.about(measured, drive=f2fs[0].drive, workload=f2fs[0].workload, **cache)
    return found + list(_search(campaign))


def _trend(
    where: str, f2fs: Sequence[Run], ext4: Sequence[Run], works: Mapping[str, WorkOverTime], why: str
) -> Measured:
    """Measure the trend of the ratio over all windows of the run.

    Mann and Kendall's test and Sen's slope of the ratio's logarithm, blocks as groups, the memory
    of the series allowed for.
    """
    expected = "above 1: ratio at first over at last, by Sen's slope over all windows"
    found = [
        (instants[ratio > 0], np.log(ratio[ratio > 0]))
        for _, instants, ratio in over_run(f2fs, ext4, works)
        if (ratio > 0).any()
    ]
    inflation = float(np.mean([trend.inflation(values) for _, values in found])) if found else 1.0
    fitted = trend.common_trend(found, inflation)
    if fitted is None:
        return claims.undecided(THROUGHOUT, where, why or "the windows are too few for a trend", expected)
    span = max(float(instants[-1] - instants[0]) for instants, _ in found)
    low, high = (None if slope is None else math.exp(-slope * span) for slope in (fitted.high, fitted.low))
    effect = claims.Effect.of_interval(math.exp(-fitted.slope * span), low, high, len(found))
    note = f"p {fitted.p:.2g} of no trend, {counted(sum(len(values) for _, values in found), 'window')}"
    return claims.greater(THROUGHOUT, where, effect, expected, why, note)


def over_run(
    f2fs: Sequence[Run], ext4: Sequence[Run], works: Mapping[str, WorkOverTime]
) -> list[tuple[int, NDArray[np.float64], NDArray[np.float64]]]:
    """Return, for each block, the ratio of operations a second, f2fs over ext4, in each window.

    Gives block, seconds since the load began, and the ratio, of those windows that all runs of the
    block have; NaN where ext4 did none. `works`: by run; a block with a run that is not among them
    is left out.
    """
    found = []
    for block in sorted({run.block for run in f2fs} & {run.block for run in ext4}):
        top, bottom = ([works.get(run.id) for run in runs if run.block == block] for runs in (f2fs, ext4))
        if None in top or None in bottom:
            continue
        windows = min(len(work.instants) for work in (*top, *bottom))
        above, below = (
            np.mean([work.ops_per_second[:windows] for work in side], axis=0) for side in (top, bottom)
        )
        ratio = np.divide(above, below, out=np.full(windows, np.nan), where=below > 0)
        found.append((block, top[0].instants[:windows], ratio))
    return found


def _search(campaign: Campaign) -> Iterator[Measured]:
    expected = "above 1: share of the search in fsync, without flushes over with them"
    found: dict[str, dict[bool, list[Run]]] = {}
    for run in campaign.runs:
        if run.status == Status.OK and run.filesystem == "f2fs":
            without = run.factors.get("write_cache") == NO_FLUSH
            found.setdefault(f"{run.drive}, {run.workload}", {}).setdefault(without, []).append(run)
    for where, sides in found.items():
        if len(sides) < 2:
            continue
        run = sides[True][0]
        measured = _search_of(campaign, where, sides[True], sides[False], expected)
        yield from claims.about([measured], drive=run.drive, workload=run.workload)


def _search_of(
    campaign: Campaign, where: str, without: Sequence[Run], with_flushes: Sequence[Run], expected: str
) -> Measured:
    runs = [*without, *with_flushes]
    shares = {run.id: share_of_search(run) for run in runs}
    known = [share for share in shares.values() if share is not None]
    if not known:
        return claims.undecided(SEARCH, where, "the search was not timed", expected)
    note = f"it took {100 * min(known):.2g} to {100 * max(known):.2g} % of fsync"
    if max(known) < LEAST_SHARE:  # that is counted, whatever set the pace
        note += f": less than {100 * LEAST_SHARE:.2g} %, the least that was meant"
        blocks = len({run.block for run in runs})
        of_all = claims.Effect(max(known), min(known), max(known), blocks)
        least = f"above {LEAST_SHARE:g}: share of the search in fsync, of every run"
        return Measured(SEARCH, where, least, of_all, (LEAST_SHARE, math.inf), note=note)
    why = claims.no_measure_of_a_drive(campaign, runs)
    if min(known) == 0:
        why = why or "there is no ratio where no sync waited for a search"
    effect = claims.ratio(without, with_flushes, lambda run: shares[run.id])
    return claims.greater(SEARCH, where, effect, expected, why, note)


def share_of_search(run: Run) -> float | None:
    """Return the share of searches for free node numbers in the time of fsync.

    Seconds of searches that a sync waited for, over seconds of syncs, by the kernel's trace; None
    where it was not timed, or nothing was synced.
    """
    try:
        timed = run.free_nids
    except ResultsError:
        return None
    total = timed.get("sync_seconds")
    return timed["scan_in_sync_seconds"] / total if total else None


def pairs(campaign: Campaign) -> Iterator[tuple[str, list[Run], list[Run]]]:
    """Yield what they are about, runs of f2fs, runs of ext4: alike in all other factors, and ok."""
    found: dict[str, dict[str, list[Run]]] = {}
    for run in campaign.runs:
        if run.status == Status.OK and run.filesystem in ("f2fs", "ext4"):
            cache = run.factors.get("write_cache")
            where = ", ".join([run.drive, *([cache] if cache else []), run.workload])
            found.setdefault(where, {}).setdefault(run.filesystem, []).append(run)
    for where, by_filesystem in found.items():
        if len(by_filesystem) == 2:
            yield where, by_filesystem["f2fs"], by_filesystem["ext4"]


def read_works(runs: Sequence[Run]) -> dict[str, WorkOverTime]:
    """Return, by run, what the load did in windows of a second.

    Runs whose files do not say are left out.
    """
    return {run.id: work for run in runs if (work := _read_work(run)) is not None}


def _read_work(run: Run) -> WorkOverTime | None:
    """Return what the run's load did in windows of a second; None where its files do not say."""
    try:
        found = over_time.read_run(run)
    except (power_points.PowerFileError, run_file.RunFileError):
        return None
    return None if found is None else found.work


def _ends(work: WorkOverTime) -> tuple[float, float] | None:
    """Return the mean operations a second of the first and of the last tenth of the windows.

    A tenth is one window at least. None where none was done.
    """
    rates = work.ops_per_second
    part = max(1, len(rates) // TENTHS)
    begin, end = float(np.mean(rates[:part])), float(np.mean(rates[-part:]))
    return (begin, end) if begin > 0 and end > 0 else None


def _draw_ratio_over_time(campaign: Campaign) -> Svg | None:
    """Draw operations a second of f2fs over those of ext4, in windows of a second, over the run."""
    drawn: list[tuple[str, np.ndarray, np.ndarray]] = []
    for where, f2fs, ext4 in pairs(campaign):
        works = read_works([*f2fs, *ext4])
        if blocks := over_run(f2fs, ext4, works):
            windows = min(len(ratio) for _, _, ratio in blocks)
            ratio = np.mean([ratio[:windows] for _, _, ratio in blocks], axis=0)
            drawn.append((where, blocks[0][1][:windows], ratio))
    if not drawn:
        return None
    with canvas(HEIGHT_INCHES) as figure:
        axes = figure.subplots()
        for number, (where, instants, ratio) in enumerate(drawn):
            colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
            axes.plot(
                instants,
                ratio,
                marker=marker,
                markersize=3.5,
                markevery=max(1, len(ratio) // 20),
                color=colour,
                linewidth=1,
                label=where,
            )
        axes.axhline(1, color=INK, linewidth=0.6, linestyle="--")
        axes.set(xlabel="seconds since the load began", ylabel="ops/s, f2fs over ext4", ylim=(0, None))
        axes.legend(fontsize=8, frameon=False)
        return to_svg(figure, campaign.virtual)


STUDY = Study(
    title="F2FS's fsync on drives with power-loss protection",
    reference="Choi 2018, MSc thesis, Hanyang University",
    factors=("drive", "filesystem", "workload", "write_cache"),
    claims=(
        BEGINS,
        ENDS,
        FALLS,
        THROUGHOUT,
        SEARCH,
    ),
    measure=measure,
    figures=(
        StudyFigure(
            _draw_ratio_over_time,
            "Operations a second of f2fs over those of ext4 while the load runs; means over the blocks.",
        ),
    ),
)
