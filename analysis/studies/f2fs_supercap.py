# SPDX-License-Identifier: GPL-3.0-or-later
"""Choi 2018: f2fs against ext4 on a drive whose power-loss protection makes a flush cheap, over a run.

The ratio of their operations a second began at 1.06 and ended at 0.67: the search for free node numbers
inside fsync took ever more time, and its share grows as a flush costs less. Kernels since 2017 keep bitmaps
of free node numbers, so today the question is whether the fall is still there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from analysis import over_time, power, run_file
from analysis.over_time import WorkOverTime
from analysis.results import Campaign, ResultsError, Run
from analysis.studies import claims
from analysis.studies.claims import Claim, Verdict

NAME = "f2fs_supercap"
TITLE = "F2FS's fsync on drives with power-loss protection"
SOURCE = "Choi 2018, MSc thesis, Hanyang University"
FACTORS = ("drive", "filesystem", "workload", "write_cache")
BEGINS = Claim("begins", "At first f2fs does 1.06 times the operations of ext4.")
ENDS = Claim("ends", "At last f2fs does 0.67 times the operations of ext4.")
FALLS = Claim("falls", "Over the run f2fs falls behind ext4.")
SEARCH = Claim(
    "search", "The search for free node numbers takes a larger share of fsync where a flush costs less."
)
BEGIN_MARGIN, END_MARGIN = 0.05, 0.10
NO_FLUSH = "no flush"
TENTHS = 10  # the begin and the end of a run are a tenth of its windows each


def verdicts(campaign: Campaign) -> list[Verdict]:
    """By drive, flush cost and workload, where there are runs of both file systems; the search by drive and
    workload, where flushes are sent in some runs of f2fs and not in others.
    """
    told = []
    for where, f2fs, ext4 in pairs(campaign):
        runs = [*f2fs, *ext4]
        why = claims.paced_by_host(campaign, runs)
        ends = {run.id: found for run in runs if (found := _ends(run)) is not None}
        if len(ends) < len(runs):
            why = why or "a run told nothing of itself while it ran"
        begin, end, fall = (
            claims.ratio(
                f2fs, ext4, lambda run, of=of, ends=ends: of(*ends[run.id]) if run.id in ends else None
            )
            for of in (lambda begin, _: begin, lambda _, end: end, lambda begin, end: begin / end)
        )
        told += [
            claims.near(BEGINS, where, begin, 1.06, BEGIN_MARGIN, why),
            claims.near(ENDS, where, end, 0.67, END_MARGIN, why),
            claims.greater(FALLS, where, fall, "above 1: ratio at first, over at last", why),
        ]
    return told + list(_search(campaign))


def _search(campaign: Campaign) -> Iterator[Verdict]:
    expected = "above 1: share of the search in fsync, without flushes over with them"
    found: dict[str, dict[bool, list[Run]]] = {}
    for run in campaign.runs:
        if run.status == "ok" and run.filesystem == "f2fs":
            without = run.factors.get("write_cache") == NO_FLUSH
            found.setdefault(f"{run.drive}, {run.workload}", {}).setdefault(without, []).append(run)
    for where, sides in found.items():
        if len(sides) < 2:
            continue
        shares = {run.id: share_of_search(run) for runs in sides.values() for run in runs}
        known = [share for share in shares.values() if share is not None]
        if not known:
            yield claims.not_told(SEARCH, where, "the search was not timed", expected)
            continue
        measured = f"it took {100 * min(known):.2g} to {100 * max(known):.2g} % of fsync"
        effect = claims.ratio(sides[True], sides[False], lambda run, shares=shares: shares[run.id])
        why = claims.paced_by_host(campaign, [*sides[True], *sides[False]])
        if min(known) == 0:
            why = why or "there is no ratio where no sync waited for a search"
        verdict = claims.greater(SEARCH, where, effect, expected, why)
        yield replace(verdict, why="; ".join(filter(None, (measured, verdict.why))))


def share_of_search(run: Run) -> float | None:
    """Seconds of searches for free node numbers that a sync waited for, over seconds of syncs, by the
    kernel's trace; None where it was not timed, or nothing was synced.
    """
    try:
        timed = run.free_nids
    except ResultsError:
        return None
    total = timed.get("sync_seconds")
    return timed["scan_in_sync_seconds"] / total if total else None


def pairs(campaign: Campaign) -> Iterator[tuple[str, list[Run], list[Run]]]:
    """What they are about, runs of f2fs, runs of ext4: alike in all other factors, and ok."""
    found: dict[str, dict[str, list[Run]]] = {}
    for run in campaign.runs:
        if run.status == "ok" and run.filesystem in ("f2fs", "ext4"):
            cache = run.factors.get("write_cache")
            where = ", ".join([run.drive, *([cache] if cache else []), run.workload])
            found.setdefault(where, {}).setdefault(run.filesystem, []).append(run)
    for where, of_both in found.items():
        if len(of_both) == 2:
            yield where, of_both["f2fs"], of_both["ext4"]


def work_of(run: Run) -> WorkOverTime | None:
    """What the run's load did in windows of a second; None where its files do not tell."""
    try:
        found = over_time.of_run(run)
    except (power.PowerFileError, run_file.RunFileError):
        return None
    return None if found is None else found.work


def _ends(run: Run) -> tuple[float, float] | None:
    """Mean operations a second of the first and of the last tenth of a run's windows, one window at least;
    None where they are not known, or none was done.
    """
    work = work_of(run)
    if work is None:
        return None
    rates = work.ops_per_second
    part = max(1, len(rates) // TENTHS)
    begin, end = float(np.mean(rates[:part])), float(np.mean(rates[-part:]))
    return (begin, end) if begin > 0 and end > 0 else None
