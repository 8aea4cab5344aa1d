# SPDX-License-Identifier: GPL-3.0-or-later
"""The supercapacitor study, on campaigns whose f2fs falls behind, and on some where it does not."""

import dataclasses
import json

import numpy as np
import polars as pl
import pytest

from joulerig.analysis import results, studies
from joulerig.analysis.report import document
from joulerig.analysis.results import progress
from joulerig.analysis.studies import f2fs_supercap
from joulerig.analysis.studies.claims import DOES_NOT, HOLDS, OPEN
from joulerig.analysis.tables import comparisons
from tests.support import simulated_campaign

CACHES = ("write back", "write through")


def built(folder, extra_factors):
    simulated_campaign.build(
        folder,
        drives=("nvme-plp",),
        filesystems=("ext4", "f2fs"),
        schedulers=("none",),
        workloads=("varmail",),
        replicates=3,
        extra_factors=extra_factors,
        traces=True,
    )
    return results.load(folder)


@pytest.fixture
def campaign(tmp_path):
    return built(tmp_path / "c", {"write_cache": CACHES})


def changed(campaign, ratio, bound=0.9, with_progress=True):
    """Return the campaign with a thousand operations a second, f2fs's by `ratio(write cache)`."""
    rng = np.random.default_rng(8)
    runs = []
    for run in campaign.runs:
        phase = run.phases["workload"]
        windows = int(phase.seconds)
        first, last = ratio(run.factors.get("write_cache")) if run.filesystem == "f2fs" else (1.0, 1.0)
        done = 1000 * np.linspace(first, last, windows) * (1 + 0.002 * rng.standard_normal(windows))
        rows = [
            (phase.start_ns + 1_000_000_000 * (second + 1), round(ops), 0, 4096)
            for second, ops in enumerate(done)
        ]
        if with_progress:
            progress.write(pl.DataFrame(rows, schema=progress.COLUMNS, orient="row"), run.folder)
        result = dataclasses.replace(run.result, device_bound_fraction=bound)
        runs.append(dataclasses.replace(run, result=result))
    definition = {**campaign.definition, "study": "f2fs_supercap"}
    return dataclasses.replace(campaign, runs=tuple(runs), definition=definition)


def verdicts_of(campaign):
    return {
        (one.claim.key, one.where.split(", ")[1]): one.judged(least=1.1)
        for one in f2fs_supercap.measure(campaign)
    }


def test_a_fall_where_flushes_are_free_is_distinguished_from_none_where_they_are_not(campaign):
    found = verdicts_of(
        changed(campaign, lambda cache: (1.06, 0.67) if cache == "write through" else (0.9, 0.9))
    )
    assert [found[claim, "write through"].verdict for claim in ("begins", "ends", "falls")] == [HOLDS] * 3
    assert found["falls", "write through"].effect.value == pytest.approx(1.06 / 0.67, rel=0.01)
    assert [found[claim, "write back"].verdict for claim in ("begins", "ends")] == [DOES_NOT] * 2
    assert found["falls", "write back"].verdict == DOES_NOT
    assert found["falls", "write back"].why == "below 1.1, the least that was meant"
    assert found["falls", "write back"].where == "nvme-plp, write back, varmail"


def test_a_fall_throughout_the_run_is_a_trend_of_its_windows(campaign):
    found = verdicts_of(
        changed(campaign, lambda cache: (1.06, 0.67) if cache == "write through" else (0.9, 0.9))
    )
    falling, level = found["throughout", "write through"], found["throughout", "write back"]
    assert falling.verdict == HOLDS
    # from the middle of the first window to that of the last, on the logarithm's mean slope
    assert falling.effect.value == pytest.approx(1.06 / 0.67, rel=0.03)
    assert falling.effect.low < falling.effect.value < falling.effect.high
    assert float(falling.why.split()[1]) < 0.001
    assert level.verdict == DOES_NOT
    assert level.effect.value == pytest.approx(1.0, abs=0.01)


def test_blocks_of_different_levels_are_no_trend(campaign):
    whole = changed(campaign, lambda cache: (0.9, 0.9))
    for run in whole.runs:
        if run.filesystem == "f2fs":
            frame = progress.read(run.folder)
            progress.write(frame.with_columns(ops=(pl.col("ops") * run.block)), run.folder)
    assert verdicts_of(whole)["throughout", "write back"].effect.value == pytest.approx(1.0, abs=0.01)


def test_an_f2fs_that_gains_denies_the_fall(campaign):
    found = verdicts_of(changed(campaign, lambda cache: (0.7, 1.1)))
    assert {verdict.verdict for key, verdict in found.items() if key[0] == "falls"} == {DOES_NOT}


def test_where_the_processor_sets_the_pace_every_claim_is_open(campaign):
    found = verdicts_of(changed(campaign, lambda cache: (1.06, 0.67), bound=0.1))
    assert {verdict.verdict for verdict in found.values()} == {OPEN}
    assert all("for 10 %" in verdict.why for verdict in found.values())
    assert all(verdict.effect is not None for verdict in found.values())


def test_runs_that_reported_nothing_while_they_ran(campaign):
    found = verdicts_of(changed(campaign, lambda cache: (1.06, 0.67), with_progress=False))
    assert {verdict.verdict for verdict in found.values()} == {OPEN}
    assert all("reported nothing" in verdict.why for verdict in found.values())
    page = document.html(changed(campaign, lambda cache: (1.06, 0.67), with_progress=False))
    assert "The study's figure cannot be drawn" in page.replace("&#39;", "'")


def test_the_report_draws_the_ratio_over_the_run(campaign):
    page = document.html(changed(campaign, lambda cache: (1.06, 0.67)))
    assert "F2FS&#39;s fsync" in page or "F2FS's fsync" in page
    assert "means over the blocks" in page


def test_one_file_system_alone_has_no_ratio(campaign):
    alone = tuple(run for run in changed(campaign, lambda cache: (1, 1)).runs if run.filesystem == "f2fs")
    assert f2fs_supercap.measure(dataclasses.replace(campaign, runs=alone)) == []


@pytest.fixture
def at_two_fill_levels(tmp_path):
    """A campaign in which f2fs falls behind on a full file system alone."""
    whole = built(tmp_path / "c", {"fill": ("0", "0.9"), "kernel": ("hz100",)})
    runs = []
    for fill, ratio in (("0", (1.0, 1.0)), ("0.9", (1.06, 0.67))):
        part = dataclasses.replace(
            whole, runs=tuple(run for run in whole.runs if run.factors["fill"] == fill)
        )
        runs += changed(part, lambda _, ratio=ratio: ratio).runs
    claims = {"falls": {"least": 1.1, "cells": {"filesystem": ["f2fs", "ext4"]}}}
    fixed = {"ladder": [20, 40], "hours": 1, "greatest_width": 2, "claims": claims}
    definition = {**whole.definition, "study": "f2fs_supercap", "registered": fixed, "replicates": 3}
    return dataclasses.replace(whole, runs=tuple(runs), definition=definition, virtual=False)


def test_levels_outside_the_study_are_judged_separately(at_two_fill_levels):
    found = {(one.claim.key, one.where): one for one in studies.verdicts(at_two_fill_levels)}
    assert found["falls", "nvme-plp, varmail, fill 0.9"].verdict == HOLDS
    assert found["ends", "nvme-plp, varmail, fill 0.9"].effect.value == pytest.approx(0.67, rel=0.05)
    assert found["ends", "nvme-plp, varmail, fill 0"].effect.value == pytest.approx(1.0, rel=0.01)
    assert len(found) == 8
    assert set(comparisons.claims(at_two_fill_levels, ())["where"]) == {where for _, where in found}


def test_each_part_has_its_own_figure(at_two_fill_levels):
    page = document.html(at_two_fill_levels)
    for level in ("0", "0.9"):
        assert f"fill {level}: Operations a second of f2fs over those of ext4" in page
    assert "kernel hz100:" not in page


def searched(campaign, share, bound=0.9):
    """f2fs with flushes and without, whose search takes `share(write cache)` of fsync."""
    runs = []
    for run in changed(campaign, lambda cache: (1, 1), bound=bound).runs:
        cache = "no flush" if run.factors["write_cache"] == "write through" else "write back"
        if run.filesystem == "f2fs" and (part := share(cache)) is not None:
            timed = {"sync_seconds": 8.0, "scan_in_sync_seconds": 8.0 * part * (1 + 0.01 * run.block)}
            (run.folder / "result.json").write_text(json.dumps({"free_nids": timed}))
        runs.append(dataclasses.replace(run, factors={**run.factors, "write_cache": cache}))
    definition = {**campaign.definition, "study": "f2fs_supercap"}
    whole = dataclasses.replace(campaign, runs=tuple(runs), definition=definition)
    found = [one.judged() for one in f2fs_supercap.measure(whole)]
    [search] = [one for one in found if one.claim.key == "search"]
    return search


def test_a_search_that_weighs_more_without_flushes(campaign):
    found = searched(campaign, lambda cache: 0.3 if cache == "no flush" else 0.1)
    assert found.verdict == HOLDS
    assert found.effect.value == pytest.approx(3.0)
    assert found.why == "it took 10 to 31 % of fsync"
    assert found.where == "nvme-plp, varmail"


def test_a_search_that_weighs_less_denies_it(campaign):
    assert searched(campaign, lambda cache: 0.1 if cache == "no flush" else 0.3).verdict == DOES_NOT


def test_no_search_has_no_share(campaign):
    found = searched(campaign, lambda cache: 0.0)
    assert (found.verdict, found.effect.high) == (DOES_NOT, 0.0)
    assert found.why == "it took 0 to 0 % of fsync: less than 1 %, the least that was meant"


def test_a_search_of_less_than_was_meant_denies_it(campaign):
    found = searched(campaign, lambda cache: 2e-8 if cache == "no flush" else 0.0, bound=0.1)
    assert found.verdict == DOES_NOT
    assert "less than 1 %" in found.why
    assert searched(campaign, lambda cache: 0.012 if cache == "no flush" else 0.0).verdict == OPEN


def test_that_no_sync_waited_is_counted_whatever_set_the_pace(campaign):
    assert searched(campaign, lambda cache: 0.0, bound=0.1).verdict == DOES_NOT


def test_a_search_on_one_side_alone_has_no_ratio(campaign):
    found = searched(campaign, lambda cache: 0.3 if cache == "no flush" else 0.0)
    assert (found.verdict, found.effect) == (OPEN, None)
    assert found.why.endswith("there is no ratio where no sync waited for a search")


def test_a_search_that_was_not_timed_is_not_reported(campaign):
    assert searched(campaign, lambda cache: None).why == "the search was not timed"


def test_on_an_emulated_processor_the_search_is_reported_and_not_judged(campaign):
    found = searched(campaign, lambda cache: 0.3 if cache == "no flush" else 0.1, bound=0.1)
    assert found.verdict == OPEN
    assert found.why.startswith("it took 10 to 31 % of fsync; virtual lab:")
