# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge what Ou, Shu and Lu (2016) found: how long work takes on non-volatile memory.

**Question.** How long does work take on non-volatile memory with DAX, through the page cache, and
on a RAM block device?

**Published.** PMFS, EXT4+DAX, EXT2 and EXT4 on a RAM block device, HiNFS. HiNFS against PMFS: 60 %
less time for Postmark, 64 % less for Kernel-Make, TPC-C and Kernel-Grep about equal; traces (Usr0,
Usr1, LASR, Facebook) 37, 35, 38 and about 0 % less.

**Here.** ext4 and xfs with DAX, ext2 and ext4 through the page cache, on an NVDIMM and (without
DAX) on brd. PMFS and HiNFS are modules for kernel 3.11: a lab that has them declares both under
these names and adds them as levels. A host that lacks them reports it (`not-run`), and their claims
cannot be judged; they are listed once where no drive was to run them. The traces cannot be
distributed: a lab that has them names them `usr0`, `usr1`, `lasr` and `facebook` in its
`workloads.yml` (engine `replay`, [workloads](../reference/workloads.md)). `trace-few-syncs` and
`trace-all-syncs` are synthetic ones in their place. They state what decides, how many of the writes
are synced; nothing else is known here of the published traces, so no claim is judged by them.

**Judged.** Time of HiNFS over that of PMFS within 10 % of what was published; never on the virtual
lab, where memory has no model of time. And what follows from DAX: after the load at most 1 % of its
files' pages are in the page cache (mincore; `caches_after` in a run's settings), where runs without
DAX leave at least 10 %. Every run counts, not a mean. In addition (inferred), by workload: whether
an operation takes less time by DAX than through the page cache, for ext4 and for xfs on one drive;
open where the load through the page cache left more than 5 % of its writes there. On the virtual
lab it is never judged: both ways are the processor's copying, and an emulated one has another cost
of that.

**On the virtual lab** Postmark took longer by DAX. It syncs nothing: through ext4's page cache no
write reached the memory during the load, as most files are deleted before they are written back. By
DAX the 8.8 kB that an operation writes are in the memory at once, and ext4 clears each block first
that it allocates for them: 2.95 writes of 4 kB an operation through the block layer. So the two did
not do the same work.

**Figure.** Time of an operation over that on ext4 with DAX, by workload and file system (normalised
execution time); of replayed traces, where the time goes: reads, writes, fsyncs, unlinks.

**Energy.** A DIMM has no rail in the virtual lab, so its runs have no joules and report why. On a
bench a riser's rail gives them.

The short form is varmail on both drives; and Postmark, Kernel-Grep, Kernel-Make, the load like
TPC-C's and both traces on the NVDIMM.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from joulerig.analysis.compare import cells
from joulerig.analysis.drawing import COLOURS, HATCHES, INK, LEGEND_ABOVE, Svg, canvas, to_svg
from joulerig.analysis.results.campaign import Campaign, ResultsError, Run
from joulerig.analysis.results.schema import Status
from joulerig.analysis.studies import claims
from joulerig.analysis.studies.claims import Claim, Effect, Measured
from joulerig.analysis.studies.study import Study, StudyFigure

HEIGHT_INCHES = 2.9
PMFS, HINFS = "pmfs", "hinfs"
MARGIN = 0.10
LEAST_CACHED = 0.10  # of the pages of a load's files, after a load through the page cache
MOST_CACHED = 0.01  # and after one past it
BYPASSED = 0.0, MOST_CACHED

BYPASS = Claim("bypass", "Writes by DAX bypass the page cache.", "inferred", from_the_io_path=True)
DAX = Claim("dax", "An operation takes less time by DAX than through the page cache.", "inferred")
# By DAX, and through the page cache.
BOTH_WAYS = (("ext4-dax", "ext4"), ("xfs-dax", "xfs"))
# Of a replayed trace: what the study replays, and the classes of a load's report that each is.
REPLAYED = {
    "read": ("read",), "write": ("write", "append"), "fsync": ("fsync", "fdatasync"), "unlink": ("unlink",),
}  # fmt: skip
# Claim, workloads (the traces: as a lab that has them names them), time of HiNFS over that of PMFS.
TIMES = (
    (Claim("postmark", "HiNFS takes 60 % less time for Postmark than PMFS."), ("postmark",), 0.40),
    (
        Claim("kernel_make", "HiNFS takes 64 % less time for Kernel-Make than PMFS."),
        ("kernel-make", "kernel-make-library"),
        0.36,
    ),
    (
        Claim("kernel_grep", "HiNFS and PMFS take about equal time for Kernel-Grep."),
        ("kernel-grep", "kernel-grep-library"),
        1.0,
    ),
    (Claim("usr0", "HiNFS takes 37 % less time to replay the trace Usr0 than PMFS."), ("usr0",), 0.63),
    (Claim("usr1", "HiNFS takes 35 % less time to replay the trace Usr1 than PMFS."), ("usr1",), 0.65),
    (Claim("lasr", "HiNFS takes 38 % less time to replay the trace LASR than PMFS."), ("lasr",), 0.62),
    (
        Claim("facebook", "HiNFS and PMFS take about equal time to replay the trace Facebook."),
        ("facebook",),
        1.0,
    ),
    (Claim("tpcc", "HiNFS and PMFS take about equal time for TPC-C."), ("tpcc", "tpcc-tenth"), 1.0),
)


def measure(campaign: Campaign) -> list[Measured]:
    """Measure by drive whether DAX bypassed the page cache, then what was published.

    What was published of PMFS and HiNFS is measured once where no drive was to run them.
    """
    found = []
    drives = cells.levels(campaign, "drive", {run.drive for run in campaign.runs})
    by_drive = {drive: [run for run in campaign.runs if run.drive == drive] for drive in drives}
    for drive, mine in by_drive.items():
        here = [*_bypass(drive, mine), *_dax(campaign, drive, mine)]
        if any(run.filesystem in (PMFS, HINFS) for run in mine):
            here += _times(campaign, drive, mine)
        found += claims.about(here, drive=drive)
    if all(run.filesystem not in (PMFS, HINFS) for run in campaign.runs):
        found += _times(campaign, ", ".join(drives), campaign.runs)
    return found


def seconds_per_op(run: Run) -> float | None:
    """Return the time that an operation takes.

    Its mean over several runs, over another file system's, is the study's normalised execution
    time.
    """
    rate = run.performance.ops_per_second if run.status == Status.OK and run.performance else None
    return 1 / rate if rate else None


def replayed_seconds(run: Run) -> dict[str, float] | None:
    """Return the seconds in system calls of a replayed trace, by REPLAYED and other.

    All threads are added up. None where the load was none, or does not say.
    """
    try:
        load = run.load if run.status == Status.OK else {}
    except ResultsError:
        return None
    if load.get("command") != "replay":
        return None
    by_class = {one["name"]: one["seconds"] for one in load.get("classes") or []}
    seconds = {name: sum(by_class.pop(one, 0.0) for one in classes) for name, classes in REPLAYED.items()}
    return seconds | {"other": sum(by_class.values())}


def cached_share(run: Run) -> float | None:
    """Return the share of the pages of the load's files that are in the page cache at its end.

    None where not reported.
    """
    try:
        found = run.settings.get("caches_after") or {}
    except ResultsError:
        return None
    asked = found.get("pages_asked")
    return found["pages_cached"] / asked if asked else None


def by_dax(run: Run) -> bool | None:
    """Return whether DAX was in effect; None where the run does not say."""
    try:
        return (run.settings.get("dax") or {}).get("in_effect")
    except ResultsError:
        return None


def _bypass(drive: str, mine: list[Run]) -> Iterator[Measured]:
    """Measure the bypass of all runs, not of a mean: one that is cached denies it."""
    shares: dict[bool, list[float]] = {True: [], False: []}
    for run in mine:
        dax, share = by_dax(run), cached_share(run)
        if run.status == Status.OK and dax is not None and share is not None:
            shares[dax].append(share)
    past, through = shares[True], shares[False]
    expected = (
        f"at most {MOST_CACHED:g} of the files' pages cached after a load by DAX, at least"
        f" {LEAST_CACHED:g} without"
    )
    if not past:
        return
    blocks = len({run.block for run in mine})
    effect = Effect(max(past), min(past), max(past), blocks)
    obstacle = note = ""
    if not through:
        obstacle = "no run without DAX to compare with"
    elif max(past) <= MOST_CACHED and min(through) < LEAST_CACHED:
        obstacle = f"a load without DAX left {min(through):.2g} cached: the files cannot tell"
    else:
        note = f"{min(through):.2g} to {max(through):.2g} without"
    yield Measured(BYPASS, drive, expected, effect, BYPASSED, obstacle, note)


def _dax(campaign: Campaign, drive: str, mine: Sequence[Run]) -> Iterator[Measured]:
    compared: dict[tuple[str, str], list[Run]] = {}
    for run in mine:
        if run.status == Status.OK:
            compared.setdefault((run.workload, run.filesystem), []).append(run)
    for workload in dict.fromkeys(run.workload for run in mine):
        for by_dax, through_cache in BOTH_WAYS:
            past, through = (compared.get((workload, name), []) for name in (by_dax, through_cache))
            if past and through:
                effect = claims.ratio(through, past, seconds_per_op)
                where = f"{drive}, {workload}, {through_cache}"
                expected = "above 1: time of an operation, through the page cache over DAX"
                obstacle = claims.joined(_emulated(campaign), claims.left_in_cache(campaign, through))
                found = claims.greater(DAX, where, effect, expected, obstacle)
                yield from claims.about([found], workload=workload)


def _times(campaign: Campaign, drive: str, mine: Sequence[Run]) -> Iterator[Measured]:
    for claim, workloads, published in TIMES:
        compared = [run for run in mine if run.workload in workloads]
        first, second = (
            [run for run in compared if run.filesystem == name and run.status == Status.OK]
            for name in (HINFS, PMFS)
        )
        lacking = [name for name, runs in ((HINFS, first), (PMFS, second)) if not runs]
        if lacking:
            reasons = {run.reason for run in compared if run.filesystem in lacking and run.reason}
            why = "; ".join(sorted(reasons)) or f"no run of {' and '.join(lacking)}"
            yield claims.undecided(claim, drive, why)
        else:
            effect = claims.ratio(first, second, seconds_per_op)
            yield claims.within_margin(claim, drive, effect, published, MARGIN, _emulated(campaign))


def _emulated(campaign: Campaign) -> str:
    """Return why time says nothing on the virtual lab; empty on a bench.

    There an operation on memory takes what the emulated processor takes.
    """
    why = "virtual lab: memory has no model of time, the emulated processor set the pace"
    return why if campaign.virtual else ""


def _draw_times(campaign: Campaign) -> Svg | None:
    """Draw the time of an operation over that of the reference, by workload.

    A group of bars each.
    """
    times: dict[tuple[str, str], list[float]] = {}
    for run in campaign.runs:
        if (seconds := seconds_per_op(run)) is not None:
            times.setdefault((run.workload, f"{run.filesystem} on {run.drive}"), []).append(seconds)
    workloads = list(dict.fromkeys(workload for workload, _ in times))
    systems = sorted({system for _, system in times})
    if not systems:
        return None
    reference = min(systems, key=lambda system: (not system.startswith("ext4-dax"), system))
    with canvas(HEIGHT_INCHES) as figure:
        axes = figure.subplots()
        width = 0.8 / len(systems)
        for number, system in enumerate(systems):
            places, heights = [], []
            for place, workload in enumerate(workloads):
                mine, base = times.get((workload, system)), times.get((workload, reference))
                if mine and base:
                    places.append(place - 0.4 + (number + 0.5) * width)
                    heights.append(np.mean(mine) / np.mean(base))
            axes.bar(
                places,
                heights,
                width,
                color=COLOURS[number % len(COLOURS)],
                hatch=HATCHES[number // len(COLOURS) % len(HATCHES)],
                edgecolor=INK,
                linewidth=0.4,
                label=system,
            )
        axes.axhline(1, color=INK, linewidth=0.6, linestyle="--")
        axes.set(ylabel=f"time of an operation,\n{reference} = 1")
        axes.set_xticks(range(len(workloads)), workloads, fontsize=8)
        axes.legend(ncols=3, **LEGEND_ABOVE)
        return to_svg(figure, campaign.virtual)


def _draw_replays(campaign: Campaign) -> Svg | None:
    """Draw the seconds in system calls of each replayed trace, by class.

    A bar each file system, means over runs.
    """
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    for run in campaign.runs:
        if (seconds := replayed_seconds(run)) is not None:
            found.setdefault((run.workload, f"{run.filesystem} on {run.drive}"), []).append(seconds)
    if not found:
        return None
    bars = sorted(found)
    with canvas(0.9 + 0.3 * len(bars)) as figure:
        axes = figure.subplots()
        begun = np.zeros(len(bars))
        for number, name in enumerate([*REPLAYED, "other"]):
            means = np.array([np.mean([seconds[name] for seconds in found[bar]]) for bar in bars])
            if means.any():
                axes.barh(
                    range(len(bars)),
                    means,
                    height=0.6,
                    left=begun,
                    color=COLOURS[number % len(COLOURS)],
                    edgecolor=INK,
                    linewidth=0.4,
                    label=name,
                )
            begun += means
        axes.set(xlabel="seconds in system calls, all threads", xlim=(0, None))
        axes.set_yticks(range(len(bars)), [f"{workload}\n{system}" for workload, system in bars], fontsize=8)
        axes.invert_yaxis()
        axes.legend(ncols=5, **LEGEND_ABOVE)
        return to_svg(figure, campaign.virtual)


STUDY = Study(
    title="File systems on non-volatile memory",
    reference="Ou, Shu, Lu 2016, EuroSys, doi 10.1145/2901318.2901324",
    factors=("drive", "filesystem", "workload"),
    claims=(BYPASS, DAX, *(claim for claim, _, _ in TIMES)),
    measure=measure,
    figures=(
        StudyFigure(
            _draw_times,
            "Normalised execution time: of an operation, by workload and file system; means over the runs.",
        ),
        StudyFigure(
            _draw_replays,
            "Where the time of a replayed trace goes, by class of system call; means over the runs.",
        ),
    ),
)
