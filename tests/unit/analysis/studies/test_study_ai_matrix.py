# SPDX-License-Identifier: GPL-3.0-or-later
"""The study of file system and scheduler, on campaigns with and without its order."""

import dataclasses

import numpy as np
import pytest

from joulerig.analysis import results
from joulerig.analysis.report import document
from joulerig.analysis.runs import derived
from joulerig.analysis.studies import ai_matrix
from joulerig.analysis.studies.claims import DOES_NOT, HOLDS, OPEN
from tests.support import simulated_campaign

AI = {"ext2": 110.0, "ext3": 100.0, "nilfs2": 80.0, "ext4": 500.0}


@pytest.fixture
def campaign(tmp_path):
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
    return {(one.claim.key, one.where): one for one in ai_matrix.verdicts(campaign)}


def test_the_published_order_is_found_if_present(campaign):
    found = verdicts_of(changed(campaign, by_filesystem))
    for scheduler in ("none", "mq-deadline", "bfq"):
        verdict = found["varmail", f"sata-plp, {scheduler}"]
        assert (verdict.verdict, verdict.why) == (
            HOLDS,
            f"ext2 with {scheduler} over nilfs2 with {scheduler}",
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


def test_what_a_load_adds_above_idle_is_judged_at_any_pace(campaign):
    """At a processor's pace both take more idle energy, none of which is the journal's."""
    whole = changed(campaign, by_filesystem, bound=0.2)

    def slowed(by):
        runs = []
        for run in whole.runs:
            amounts = derived.amounts(whole, run)
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


def with_io(campaign, counts):
    """`counts(run)`: KiB written and flushes of an operation, by the block layer."""
    runs = []
    for run in campaign.runs:
        kibibytes, flushes = counts(run)
        ops = run.performance.ops
        block = dataclasses.replace(
            run.io["host"], write_bytes=round(1024 * kibibytes * ops), flushes=round(flushes * ops)
        )
        runs.append(dataclasses.replace(run, io={**run.io, "host": block}))
    return dataclasses.replace(campaign, runs=tuple(runs))


def test_what_the_journal_costs_is_reported_with_what_was_written_and_flushed(campaign):
    whole = with_io(
        changed(campaign, by_filesystem),
        lambda run: (16, 0.5) if run.filesystem == "ext3" else (8, 1.0),
    )
    found = verdicts_of(whole)["journal_above_idle", "sata-plp, varmail"]
    assert found.why == "ext3 took 2 times the bytes written and 0.5 times the flushes of ext2"


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
