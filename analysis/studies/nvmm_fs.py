# SPDX-License-Identifier: GPL-3.0-or-later
"""Ou, Shu, Lu 2016 (HiNFS): file systems on non-volatile memory, by the time that a piece of work takes.

PMFS and HiNFS are kernel modules outside of the mainline: what was published of them is judged where a lab
declares both under these names (docs/how-to/campaigns.md), and cannot be told elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from joulerig.analysis.compare import cells
from joulerig.analysis.results.campaign import Campaign, ResultsError, Run
from joulerig.analysis.studies import claims
from joulerig.analysis.studies.claims import Claim, Effect, Verdict

NAME = "nvmm_fs"
TITLE = "File systems on non-volatile memory"
SOURCE = "Ou, Shu, Lu 2016, EuroSys, doi 10.1145/2901318.2901324"
FACTORS = ("drive", "filesystem", "workload")
PMFS, HINFS = "pmfs", "hinfs"
MARGIN = 0.10
LEAST_CACHED = 0.10  # of the pages of a load's files, after a load through the page cache
MOST_CACHED = 0.01  # and after one past it

BYPASS = Claim("bypass", "Writes by DAX bypass the page cache.", "inferred")
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
    (Claim("tpcc", "HiNFS and PMFS take about equal time for TPC-C."), ("tpcc",), 1.0),
)


def verdicts(campaign: Campaign) -> list[Verdict]:
    """By drive: whether DAX bypassed the page cache, then what was published of PMFS and HiNFS; that once,
    where no drive was to run them.
    """
    told = []
    drives = cells.levels(campaign, "drive", {run.drive for run in campaign.runs})
    by_drive = {drive: [run for run in campaign.runs if run.drive == drive] for drive in drives}
    for drive, mine in by_drive.items():
        told += _bypass(drive, mine)
        if any(run.filesystem in (PMFS, HINFS) for run in mine):
            told += _times(campaign, drive, mine)
    if all(run.filesystem not in (PMFS, HINFS) for run in campaign.runs):
        told += _times(campaign, ", ".join(drives), campaign.runs)
    return told


def seconds_per_op(run: Run) -> float | None:
    """Time that an operation takes: its mean over several runs, over another file system's, is the study's
    normalised execution time.
    """
    rate = run.performance.ops_per_second if run.status == "ok" and run.performance else None
    return 1 / rate if rate else None


def replayed_seconds(run: Run) -> dict[str, float] | None:
    """Of a replayed trace: seconds in system calls by REPLAYED and other, all threads added up; None where
    the load was none, or does not tell.
    """
    try:
        load = run.load if run.status == "ok" else {}
    except ResultsError:
        return None
    if load.get("command") != "replay":
        return None
    by_class = {one["name"]: one["seconds"] for one in load.get("classes") or []}
    told = {name: sum(by_class.pop(one, 0.0) for one in classes) for name, classes in REPLAYED.items()}
    return told | {"other": sum(by_class.values())}


def cached_share(run: Run) -> float | None:
    """Of the pages of the load's files, those in the page cache when it had ended; None where not told."""
    try:
        found = run.settings.get("caches_after") or {}
    except ResultsError:
        return None
    asked = found.get("pages_asked")
    return found["pages_cached"] / asked if asked else None


def by_dax(run: Run) -> bool | None:
    """Whether DAX was in effect; None where the run does not tell."""
    try:
        return (run.settings.get("dax") or {}).get("in_effect")
    except ResultsError:
        return None


def _bypass(drive: str, mine: list[Run]) -> Iterator[Verdict]:
    """Of all runs, not of a mean: one that is cached denies it."""
    shares: dict[bool, list[float]] = {True: [], False: []}
    for run in mine:
        dax, share = by_dax(run), cached_share(run)
        if run.status == "ok" and dax is not None and share is not None:
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
    if not through:
        yield Verdict(BYPASS, drive, claims.OPEN, expected, effect, "no run without DAX to compare with")
    elif max(past) > MOST_CACHED:
        yield Verdict(BYPASS, drive, claims.DOES_NOT, expected, effect, "")
    elif min(through) < LEAST_CACHED:
        why = f"a load without DAX left {min(through):.2g} cached: the files cannot tell"
        yield Verdict(BYPASS, drive, claims.OPEN, expected, effect, why)
    else:
        why = f"{min(through):.2g} to {max(through):.2g} without"
        yield Verdict(BYPASS, drive, claims.HOLDS, expected, effect, why)


def _times(campaign: Campaign, drive: str, mine: Sequence[Run]) -> Iterator[Verdict]:
    for claim, workloads, published in TIMES:
        of_it = [run for run in mine if run.workload in workloads]
        first, second = (
            [run for run in of_it if run.filesystem == name and run.status == "ok"] for name in (HINFS, PMFS)
        )
        lacking = [name for name, runs in ((HINFS, first), (PMFS, second)) if not runs]
        if lacking:
            reasons = {run.reason for run in of_it if run.filesystem in lacking and run.reason}
            why = "; ".join(sorted(reasons)) or f"no run of {' and '.join(lacking)}"
            yield claims.not_told(claim, drive, why)
        else:
            effect = claims.ratio(first, second, seconds_per_op)
            yield claims.near(claim, drive, effect, published, MARGIN, _emulated(campaign))


def _emulated(campaign: Campaign) -> str:
    """On the virtual lab an operation on memory takes what the emulated processor takes."""
    why = "virtual lab: memory has no model of time, the emulated processor set the pace"
    return why if campaign.virtual else ""
