# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge what Sun, Qin and Xie (2014) found: which combinations do the most work per joule.

**Question.** Which file system and I/O scheduler do the most work per joule on an SSD?

**Published.** Five file systems (ext2, ext3, NILFS2, ReiserFS, XFS), three schedulers (CFQ,
Deadline, NOOP), three Filebench workloads, three SSDs. The study gives orders, no numbers. varmail:
ext2 or ext3 first under any scheduler. fileserver: NILFS2 first under any. webserver: ext2 or ext3
with CFQ first. ext2 mostly takes less energy than ext3. CFQ and NOOP mostly beat Deadline.

**Today.** bfq stands for CFQ (gone since kernel 5.0), mq-deadline for Deadline, none for NOOP.
kyber, ext4, btrfs, f2fs and jfs run too and take no part in a claim. ReiserFS left the kernel in
6.13: its runs are `not-run` there.

**Judged.** "First": the best named cell's AI over the best other one's of the study's own
combinations, above 1. No cell is picked by its result: the interval is of each named cell over each
other one, all at once. For "under any scheduler" each scheduler is judged separately, and all five
file systems must have run. ext3 over ext2: J/op, of the schedulers and blocks that have both. In
addition (inferred): J/op above idle power, also where the drive does not set the pace, with the
volume and flushes of an operation that it comes from. Deadline: AI of the two others over its own,
of the file systems and blocks that have all three. "Mostly" in the study is each drive and workload
here. AI is judged only where the drive set the pace. Where a load left more than 5 % of its writes
in the page cache, AI is to quiescence, and the claim is open if a run did not come back to idle.

**Where the journal is the only difference.** varmail has 16 threads. Where they sync at the same
time, they share a commit of ext3's journal, which turns many flushes into one; ext2 flushes for
each of them. So a drive whose flush takes longer than the interval between syncs can give the
opposite of the published order, and the virtual lab does. `varmail-one-thread` is the same load by
one thread, which shares no commit: ext3 writes the journal in addition to what ext2 writes, and
flushes twice. That ext2 takes less there is a separate claim (`journal_alone`, inferred), which
takes runs with ext2 and ext3 only.

**On the virtual lab** fileserver is open. In the short form's 3 s NILFS2 wrote 14.0 kB an operation
and ext2 6.3 kB, where the load itself wrote 12.6 kB: fileserver syncs nothing, so ext2 leaves half
in the page cache, some of it to be deleted there, while NILFS2 writes it all as segments. So their
AI is not of the same work. Of the threads' time 0.43 went into NILFS2's deletes, 0.05 into ext2's:
no file can be deleted while a segment is collected.

**Figure.** The heat maps of AI, and Cemp, which every report has.

**Inferred.** AI as work per joule (performance over mean power), and the formula of Cemp, which no
available text gives. Both are marked as inferred wherever they are shown.

The short form is varmail with all schedulers and fileserver with one, on one SSD with the study's
five file systems, and varmail by one thread with two. Webserver is left to the full form: its drive
set the pace for at most 47 % of the time at slow motion 20.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from joulerig.analysis.compare import cells as comparison
from joulerig.analysis.results import power_points, run_file
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.runs import derived, idle, over_time, quiescence
from joulerig.analysis.runs.idle import Idle
from joulerig.analysis.studies import claims
from joulerig.analysis.studies.claims import Claim, Measured
from joulerig.analysis.studies.study import Study

FILESYSTEMS = ("ext2", "ext3", "nilfs2", "reiserfs", "xfs")
NOOP, DEADLINE, CFQ = "none", "mq-deadline", "bfq"
SCHEDULERS = (NOOP, DEADLINE, CFQ)

VARMAIL = Claim("varmail", "On varmail ext2 or ext3 has the highest AI, under any scheduler.")
FILESERVER = Claim("fileserver", "On fileserver NILFS2 has the highest AI, under any scheduler.")
WEBSERVER = Claim("webserver", "On webserver ext2 or ext3 with CFQ (today: bfq) has the highest AI.")
JOURNAL = Claim("journal", "ext2, which has no journal, takes less energy for an operation than ext3.")
# What a load adds above idle power follows from what it writes and flushes more than from how long
# that takes: it is measured also where the drive does not set the pace.
JOURNAL_ABOVE_IDLE = Claim(
    "journal_above_idle",
    "Above idle power as well, ext2 takes less energy for an operation than ext3.",
    "inferred",
)
# Threads that sync at once share a commit of ext3's journal, where ext2 syncs for each of them:
# then there is more between the two than the journal. One thread shares with no other.
ONE_THREAD = "varmail-one-thread"
JOURNAL_ALONE = Claim(
    "journal_alone",
    "Where the journal is the only difference (one thread: no syncs share a commit), ext2 takes less energy"
    " above idle power for an operation than ext3.",
    "inferred",
)
DEADLINE_LAST = Claim(
    "deadline", "CFQ and NOOP (today: bfq and none) have a higher AI than Deadline (mq-deadline)."
)
_EXPECTED = "above 1: AI of the best of these, over that of the best other one"


Idles = Mapping[str, Idle]  # by run


def measure(campaign: Campaign) -> list[Measured]:
    """Measure the claims by drive.

    The best combinations by workload come first, then the two that go through all workloads.
    """
    counted = [
        run
        for run in campaign.runs
        if run.counts and run.filesystem in FILESYSTEMS and run.scheduler in SCHEDULERS
    ]
    found: list[Measured] = []
    idles = idle.by_run(campaign)
    for drive in comparison.levels(campaign, "drive", {run.drive for run in campaign.runs}):
        mine = [run for run in counted if run.drive == drive]
        found += claims.about(_best(campaign, drive, mine, idles), drive=drive)
        for workload in comparison.levels(campaign, "workload", {run.workload for run in campaign.runs}):
            compared = [run for run in mine if run.workload == workload]
            compare = _journal_alone if workload == ONE_THREAD else _through
            measured = compare(campaign, f"{drive}, {workload}", compared, idles)
            found += claims.about(measured, drive=drive, workload=workload)
    return found


def _best(campaign: Campaign, drive: str, mine: Sequence[Run], idles: Idles) -> Iterator[Measured]:
    for claim, workload, filesystems, together in (
        (VARMAIL, "varmail", ("ext2", "ext3"), False),
        (FILESERVER, "fileserver", ("nilfs2",), False),
        (WEBSERVER, "webserver", ("ext2", "ext3"), True),
    ):
        compared = [run for run in mine if run.workload == workload]
        if not compared:
            yield claims.undecided(claim, drive, f"no run of {workload} has joules", _EXPECTED)
        elif together:
            named = [run for run in compared if run.filesystem in filesystems and run.scheduler == CFQ]
            others = [run for run in compared if run not in named]
            yield _first(campaign, claim, drive, named, others, idles)
        else:
            for scheduler in SCHEDULERS:
                with_it = [run for run in compared if run.scheduler == scheduler]
                named = [run for run in with_it if run.filesystem in filesystems]
                others = [run for run in with_it if run not in named]
                if with_it:
                    found = _first(campaign, claim, f"{drive}, {scheduler}", named, others, idles)
                    yield from claims.about([found], scheduler=scheduler)


def _first(
    campaign: Campaign, claim: Claim, where: str, named: Sequence[Run], others: Sequence[Run], idles: Idles
) -> Measured:
    """Measure how far the best cell of `named` is above the best one of `others`.

    Which cells these are is not taken from the data (`claims.first_over`); the note names those
    that the means put first.
    """
    if not named or not others:
        lacking = "the claim's" if not named else "any other"
        return claims.undecided(claim, where, f"no run of {lacking} combinations has joules", _EXPECTED)
    work = _work_per_joule(campaign, [*named, *others], idles)
    sides = [_by_cell(runs) for runs in (named, others)]
    effect = claims.first_over(*sides, work.per_joule)
    best, other = (max(cells, key=lambda runs: (_mean(runs, work.per_joule), _name(runs))) for cells in sides)
    return claims.greater(
        claim, where, effect, _EXPECTED, work.obstacle, f"by means {_name(best)} over {_name(other)}"
    )


def _through(campaign: Campaign, where: str, compared: Sequence[Run], idles: Idles) -> Iterator[Measured]:
    ext3, ext2 = _journalled_or_not(compared)
    both, deadline = _alike(compared, "filesystem", lambda run: run.scheduler, {CFQ, NOOP}, {DEADLINE})
    for claim, first, second, expected in (
        (JOURNAL, ext2, ext3, "above 1: J/op, ext3 over ext2"),
        (DEADLINE_LAST, both, deadline, "above 1: AI, mean of both over mq-deadline's"),
    ):
        if first and second:
            work = _work_per_joule(campaign, [*first, *second], idles)
            effect = claims.ratio(first, second, work.per_joule)
            yield claims.greater(claim, where, effect, expected, work.obstacle)
    if ext3 and ext2:
        yield _above_idle(campaign, JOURNAL_ABOVE_IDLE, where, ext3, ext2, idles)


def _journal_alone(
    campaign: Campaign, where: str, compared: Sequence[Run], idles: Idles
) -> Iterator[Measured]:
    ext3, ext2 = _journalled_or_not(compared)
    if ext3 and ext2:
        yield _above_idle(campaign, JOURNAL_ALONE, where, ext3, ext2, idles)


def _above_idle(
    campaign: Campaign, claim: Claim, where: str, ext3: Sequence[Run], ext2: Sequence[Run], idles: Idles
) -> Measured:
    """Measure the joules above idle power, and name what they follow from.

    That is the volume and the flushes of an operation. Open where a drive was not seen at rest.
    """

    def ratio(name: str) -> claims.Effect | None:
        return claims.ratio(ext3, ext2, lambda run: _per_op(campaign, run, name, idles[run.id]))

    parts = [
        f"{effect.value:.3g} times the {what}"
        for what, name in (("bytes written", "block_write_bytes"), ("flushes", "flushes"))
        if (effect := ratio(name)) is not None
    ]
    note = f"ext3 took {' and '.join(parts)} of ext2" if parts else ""
    unknown = next((idles[run.id].why for run in (*ext3, *ext2) if idles[run.id].watts is None), "")
    unknown = f"idle power is not known: {unknown}" if unknown else ""
    obstacle = claims.joined(claims.left_in_cache(campaign, [*ext3, *ext2]), unknown)
    expected = "above 1: J/op above idle, ext3 over ext2"
    return claims.greater(claim, where, ratio("dynamic_joules"), expected, obstacle, note)


@dataclass(frozen=True)
class _Work:
    """Work per joule of runs that are compared, and why it says nothing of a drive, if it does not.

    `joules`: by run.
    """

    joules: Mapping[str, float | None]
    obstacle: str

    def per_joule(self, run: Run) -> float | None:
        """Return operations a joule."""
        joules = self.joules[run.id]
        return run.performance.ops / joules if run.performance and joules else None


def _work_per_joule(campaign: Campaign, runs: Sequence[Run], idles: Idles) -> _Work:
    """Return work per joule, to quiescence where a load left work in the page cache.

    Of all the runs then, and only where all came back to idle: otherwise the work that is left is
    an obstacle.
    """
    paced, left = claims.paced_by_host(campaign, runs), claims.left_in_cache(campaign, runs)
    if left:
        settled = {run.id: _joules_to_quiescence(run, idles[run.id]) for run in runs}
        if None not in settled.values():
            return _Work(settled, paced)
    return _Work({run.id: run.result.ai_joules for run in runs}, claims.joined(paced, left))


def _joules_to_quiescence(run: Run, idle: Idle) -> float | None:
    """Return the joules of a load and of what came after; None where it did not come to idle."""
    try:
        power = over_time.read_run(run)
    except (power_points.PowerFileError, run_file.RunFileError):
        return None
    after = quiescence.after_load(run, idle, power)
    return after.total(run.result.ai_joules) if after.state == quiescence.State.SETTLED else None


def _per_op(campaign: Campaign, run: Run, name: str, idle: Idle) -> float | None:
    """Return one of a run's `derived.amounts` for each operation; None where it is not known."""
    found = derived.amounts(campaign, run, idle)
    amount, ops = found.get(name), found.get("ops")
    return amount / ops if amount is not None and ops else None


def _journalled_or_not(runs: Sequence[Run]) -> tuple[list[Run], list[Run]]:
    """Return runs of ext3, runs of ext2."""
    return _alike(runs, "scheduler", lambda run: run.filesystem, {"ext3"}, {"ext2"})


def _alike(
    runs: Sequence[Run], within: str, side: Callable[[Run], str], first: set[str], second: set[str]
) -> tuple[list[Run], list[Run]]:
    """Return runs of two sides, of those blocks and levels of `within` that have all of both.

    What one side lacks must not look like a difference.
    """
    found: dict[tuple[int, str], dict[str, list[Run]]] = {}
    for run in runs:
        found.setdefault((run.block, getattr(run, within)), {}).setdefault(side(run), []).append(run)
    whole = [by_side for by_side in found.values() if first | second <= set(by_side)]

    def runs_named(names: set[str]) -> list[Run]:
        return [run for by_side in whole for name in sorted(names) for run in by_side[name]]

    return runs_named(first), runs_named(second)


def _by_cell(runs: Sequence[Run]) -> list[list[Run]]:
    """Return the runs of each cell, by name."""
    cells: dict[str, list[Run]] = {}
    for run in runs:
        cells.setdefault(run.cell, []).append(run)
    return [cells[name] for name in sorted(cells)]


def _mean(runs: Sequence[Run], figure: claims.Figure) -> float:
    return math.fsum(figure(run) or 0.0 for run in runs) / len(runs)


def _name(runs: Sequence[Run]) -> str:
    return f"{runs[0].filesystem} with {runs[0].scheduler}"


STUDY = Study(
    title="File system and I/O scheduler by AI",
    reference=(
        "Sun, Qin, Xie 2014, Journal of Zhejiang University SCIENCE C 15(8):607-621,"
        " doi 10.1631/jzus.C1300314"
    ),
    factors=("drive", "filesystem", "scheduler", "workload"),
    claims=(
        VARMAIL,
        FILESERVER,
        WEBSERVER,
        JOURNAL,
        JOURNAL_ABOVE_IDLE,
        JOURNAL_ALONE,
        DEADLINE_LAST,
    ),
    measure=measure,
    figures_elsewhere="The study's figure is the maps of AI, and Cemp, below.",
)
