# SPDX-License-Identifier: GPL-3.0-or-later
"""The study of file system and scheduler, on campaigns with and without its order."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from joulerig.analysis import results, studies
from joulerig.analysis.report import document
from joulerig.analysis.runs import derived, quiescence
from joulerig.analysis.runs.idle import Idle
from joulerig.analysis.studies import ai_matrix
from joulerig.analysis.studies.claims import DOES_NOT, HOLDS, OPEN, Measured
from tests.support import simulated_campaign

AI = {"ext2": 110.0, "ext3": 100.0, "nilfs2": 80.0, "ext4": 500.0}


@pytest.fixture
def at_rest(monkeypatch):
    """Power at rest of every run. No trace is read."""
    found = Idle(1.3, 1.29, 1.31)
    monkeypatch.setattr(ai_matrix.idle, "by_run", lambda one: {run.id: found for run in one.runs})
    return found


@pytest.fixture
def campaign(tmp_path, at_rest):
    folder = simulated_campaign.build(
        tmp_path / "c",
        drives=("sata-plp",),
        filesystems=tuple(AI),
        schedulers=("none", "mq-deadline", "bfq"),
        workloads=("varmail", "fileserver"),
        replicates=4,
    )
    return results.load(folder)


def changed(campaign, ai, bound=0.9, noise=0.003):
    """Runs whose work per joule is `ai(run)`, blocks apart by a tenth."""
    rng = np.random.default_rng(12)
    runs = []
    for run in campaign.runs:
        value = ai(run) * (1 + 0.1 * run.block) * (1 + noise * rng.standard_normal())
        joules = 50.0
        ops = round(value * joules)
        result = dataclasses.replace(
            run.result,
            joules=joules,
            corrected_joules=joules,
            ai_ops_per_joule=ops / joules,
            device_bound_fraction=bound,
        )
        performance = dataclasses.replace(run.performance, ops=ops)
        runs.append(dataclasses.replace(run, result=result, performance=performance))
    definition = {**campaign.definition, "study": "ai_matrix"}
    return dataclasses.replace(campaign, runs=tuple(runs), definition=definition)


def by_filesystem(run):
    return AI[run.filesystem] * (0.95 if run.scheduler == "mq-deadline" else 1.0)


def verdicts_of(campaign):
    return {(one.claim.key, one.where): one for one in map(Measured.judged, ai_matrix.measure(campaign))}


def test_the_published_order_is_found_if_present(campaign):
    found = verdicts_of(changed(campaign, by_filesystem))
    for scheduler in ("none", "mq-deadline", "bfq"):
        verdict = found["varmail", f"sata-plp, {scheduler}"]
        assert (verdict.verdict, verdict.why) == (
            HOLDS,
            f"by means ext2 with {scheduler} over nilfs2 with {scheduler}",
        )
        assert verdict.effect.value == pytest.approx(110 / 80, rel=0.01)
        assert found["fileserver", f"sata-plp, {scheduler}"].verdict == DOES_NOT
    for workload in ("varmail", "fileserver"):
        assert found["journal", f"sata-plp, {workload}"].verdict == HOLDS
        assert found["journal", f"sata-plp, {workload}"].effect.value == pytest.approx(1.1, rel=0.01)
        assert found["journal_above_idle", f"sata-plp, {workload}"].verdict == HOLDS
        assert found["deadline", f"sata-plp, {workload}"].effect.value == pytest.approx(1 / 0.95, rel=0.01)


def test_file_systems_outside_the_study_are_left_out(campaign):
    """ext4 is far ahead of all of them."""
    assert verdicts_of(changed(campaign, by_filesystem))["varmail", "sata-plp, none"].verdict == HOLDS


def test_where_all_are_alike_nothing_is_first(campaign):
    found = verdicts_of(changed(campaign, lambda run: 100.0, noise=0.02))
    verdicts = [one.verdict for one in found.values()]
    assert verdicts.count(OPEN) >= len(verdicts) - 1


def test_a_workload_that_did_not_run_says_so(campaign):
    found = verdicts_of(changed(campaign, by_filesystem))
    assert found["webserver", "sata-plp"].verdict == OPEN
    assert found["webserver", "sata-plp"].why == "no run of webserver has joules"


def test_without_the_named_file_system_the_claim_is_open(campaign):
    whole = changed(campaign, by_filesystem)
    without = tuple(run for run in whole.runs if run.filesystem != "nilfs2")
    found = verdicts_of(dataclasses.replace(whole, runs=without))
    assert "no run of the claim's combinations" in found["fileserver", "sata-plp, none"].why
    assert "no run of any other combinations" in found["varmail", "sata-plp, none"].why


def test_a_missing_run_is_not_a_difference_between_schedulers(campaign):
    """nilfs2, the worst, did not run with mq-deadline, which must not look better for it."""
    whole = changed(campaign, lambda run: AI[run.filesystem])
    without = tuple(run for run in whole.runs if (run.filesystem, run.scheduler) != ("nilfs2", "mq-deadline"))
    effect = verdicts_of(dataclasses.replace(whole, runs=without))["deadline", "sata-plp, varmail"].effect
    assert effect.value == pytest.approx(1.0, rel=0.01)


def test_energy_of_the_emulated_processor_is_not_judged(campaign):
    found = verdicts_of(changed(campaign, by_filesystem, bound=0.2))
    paced = [one for (key, _), one in found.items() if key != "journal_above_idle"]
    assert {one.verdict for one in paced} == {OPEN}
    assert all("the drive set the pace for 20 %" in one.why for one in paced if one.effect)


def test_what_a_load_adds_is_open_where_a_drive_was_not_seen_at_rest(campaign, monkeypatch):
    unknown = Idle(why="not at rest: 1.34 to 0.005 W")
    monkeypatch.setattr(ai_matrix.idle, "by_run", lambda one: {run.id: unknown for run in one.runs})
    found = verdicts_of(changed(campaign, by_filesystem))["journal_above_idle", "sata-plp, varmail"]
    assert found.verdict == OPEN
    assert "idle power is not known: not at rest: 1.34 to 0.005 W" in found.why


def test_what_a_load_adds_above_idle_is_judged_at_any_pace(campaign, at_rest):
    """At a processor's pace both take more idle energy, none of which is the journal's."""
    whole = changed(campaign, by_filesystem, bound=0.2)

    def slowed(by):
        runs = []
        for run in whole.runs:
            amounts = derived.amounts(whole, run, at_rest)
            seconds = run.performance.seconds * by
            joules = run.result.ai_joules + amounts["idle_joules"] * (by - 1)
            runs.append(
                dataclasses.replace(
                    run,
                    result=dataclasses.replace(run.result, corrected_joules=joules),
                    performance=dataclasses.replace(run.performance, seconds=seconds),
                )
            )
        return verdicts_of(dataclasses.replace(whole, runs=tuple(runs)))[
            "journal_above_idle", "sata-plp, varmail"
        ]

    assert slowed(1.0).verdict == slowed(8.0).verdict == HOLDS
    assert slowed(8.0).effect.value == pytest.approx(slowed(1.0).effect.value)


def with_io(campaign, counts, asked=4):
    """`counts(run)`: KiB written and flushes of an operation, by the block layer.

    `asked`: KiB of an operation that the load wrote.
    """
    runs = []
    for run in campaign.runs:
        kibibytes, flushes = counts(run)
        ops = run.performance.ops
        block = dataclasses.replace(
            run.io["host"], write_bytes=round(1024 * kibibytes * ops), flushes=round(flushes * ops)
        )
        performance = dataclasses.replace(run.performance, write_bytes=round(1024 * asked * ops))
        runs.append(dataclasses.replace(run, io={**run.io, "host": block}, performance=performance))
    return dataclasses.replace(campaign, runs=tuple(runs))


def test_what_the_journal_costs_is_reported_with_what_was_written_and_flushed(campaign):
    whole = with_io(
        changed(campaign, by_filesystem),
        lambda run: (16, 0.5) if run.filesystem == "ext3" else (8, 1.0),
    )
    found = verdicts_of(whole)["journal_above_idle", "sata-plp, varmail"]
    assert found.why == "ext3 took 2 times the bytes written and 0.5 times the flushes of ext2"


def test_work_left_in_the_page_cache_opens_what_is_about_energy(campaign):
    """Take the review's case: ext2 wrote half of what fileserver wrote, and was twice as good."""
    whole = with_io(
        changed(campaign, by_filesystem),
        lambda run: (6.3 if run.filesystem == "ext2" else 14.0, 1),
        asked=12.6,
    )
    found = verdicts_of(whole)
    for key, where in (("fileserver", "sata-plp, none"), ("journal", "sata-plp, fileserver")):
        assert found[key, where].verdict == OPEN
        assert "ext2 had written 0.5 of what its load wrote" in found[key, where].why


def test_ai_is_to_quiescence_where_all_that_is_left_was_measured(campaign, monkeypatch):
    """Count the work that ext2 left, which takes as much as its load: it is no longer first."""
    whole = with_io(
        changed(campaign, by_filesystem),
        lambda run: (6.3 if run.filesystem == "ext2" else 14.0, 1),
        asked=12.6,
    )

    def settled(run, _idle, _power):
        joules = run.result.ai_joules if run.filesystem == "ext2" else 0.0
        return quiescence.AfterLoad(quiescence.State.SETTLED, joules, 1.0)

    monkeypatch.setattr(ai_matrix.quiescence, "after_load", settled)
    found = verdicts_of(whole)["journal", "sata-plp, fileserver"]
    assert (found.verdict, found.effect.value) == (DOES_NOT, pytest.approx(0.55, rel=0.01))


def registered(campaign, *filesystems):
    cells = {"filesystem": [*filesystems], "scheduler": ["none", "bfq"], "workload": "varmail"}
    claims = {"varmail": {"least": 1.05, "cells": cells}}
    fixed = {"ladder": [20, 40], "hours": 9, "greatest_width": 2, "claims": claims}
    definition = {**campaign.definition, "replicates": 4, "registered": fixed, "slow_motion": 20}
    return dataclasses.replace(campaign, definition=definition)


def test_a_claim_of_which_a_named_cell_did_not_run_is_not_decided(campaign):
    whole = changed(campaign, by_filesystem)
    for bench in (False, True):
        on = dataclasses.replace(whole, virtual=not bench)
        found = {
            (one.claim.key, one.where): one
            for one in studies.verdicts(registered(on, "ext2", "ext3", "nilfs2", "xfs", "reiserfs"))
        }["varmail", "sata-plp, none"]
        assert found.verdict == OPEN
        assert "xfs, reiserfs did not run" in found.why


def test_a_campaign_decides_alone_on_a_bench_and_not_on_a_virtual_lab(campaign):
    whole = registered(changed(campaign, by_filesystem), "ext2", "ext3", "nilfs2")
    for virtual, verdict in ((False, HOLDS), (True, OPEN)):
        [found] = [
            one
            for one in studies.verdicts(dataclasses.replace(whole, virtual=virtual))
            if (one.claim.key, one.where) == ("varmail", "sata-plp, none")
        ]
        assert found.verdict == verdict
        assert ("slow motion 1 alone" in found.why) == virtual


@pytest.mark.parametrize(
    ("asked", "had", "expected"),
    [
        (20, (), 20.0),
        (20, (20.0, 20.3), 20.0),
        (20, (1.0, 1.0), 1.0),  # KVM: two factors asked for are one
        ("auto", (34.6, 34.6), 34.6),
        ("auto", (34.6, 35.2), None),
        (40, (20.0, 40.0), None),
    ],
)
def test_an_attempts_slow_motion_is_what_its_runs_had(campaign, asked, had, expected):
    loads = [SimpleNamespace(phases={"workload": SimpleNamespace(slowness=k)}, is_control=False) for k in had]
    runs = dataclasses.replace(campaign, definition={"slow_motion": asked}, runs=tuple(loads))
    assert studies.attempt(runs).slow_motion == expected


def by_one_thread(campaign):
    return dataclasses.replace(
        campaign,
        runs=tuple(dataclasses.replace(run, workload=ai_matrix.ONE_THREAD) for run in campaign.runs),
    )


def test_of_one_thread_the_journal_alone_is_judged(campaign):
    """Above idle, at any pace; none of what the study said of the workloads it has itself."""
    found = verdicts_of(by_one_thread(changed(campaign, by_filesystem, bound=0.2)))
    where = f"sata-plp, {ai_matrix.ONE_THREAD}"
    assert found["journal_alone", where].verdict == HOLDS
    assert [key for key, place in found if place == where] == ["journal_alone"]
    assert found["varmail", "sata-plp"].why == "no run of varmail has joules"


def test_a_journal_that_costs_less_denies_the_claim(campaign):
    costs = {**AI, "ext3": 130.0}
    found = verdicts_of(by_one_thread(changed(campaign, lambda run: costs[run.filesystem])))
    assert found["journal_alone", f"sata-plp, {ai_matrix.ONE_THREAD}"].verdict == DOES_NOT


def test_the_report_points_to_its_maps(campaign):
    page = document.html(changed(campaign, by_filesystem))
    assert "the maps of AI, and Cemp, below" in page
    assert "On varmail ext2 or ext3 has the highest AI, under any scheduler." in page
