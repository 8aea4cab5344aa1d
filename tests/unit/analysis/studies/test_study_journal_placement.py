# SPDX-License-Identifier: GPL-3.0-or-later
"""The journal-placement study, on campaigns where the remedies help and where not."""

import dataclasses
import json

import numpy as np
import pytest

from joulerig.analysis import results
from joulerig.analysis.report import document
from joulerig.analysis.studies import journal_placement
from joulerig.analysis.studies.claims import DOES_NOT, HOLDS, OPEN, Measured
from tests.support import simulated_campaign

EACH, MANY = "seqwrite-fsync", "seqwrite-fsync-16"
A, B, C = (EACH, "internal"), (EACH, "nvme-plp"), (MANY, "internal")
MIB = 2**20


@pytest.fixture
def campaign(tmp_path):
    folder = simulated_campaign.build(
        tmp_path / "c",
        drives=("sata-plp",),
        filesystems=("ext4",),
        schedulers=("none",),
        workloads=(EACH, MANY),
        replicates=3,
        extra_factors={"journal": ("internal", "nvme-plp")},
    )
    return results.load(folder)


def changed(campaign, mb_per_second, seeks_per_mib, bound=0.9, counted=True, writes_a_commit=16):
    """Runs of A, B and C with so many MB/s, and seeks for each MiB, of the data's drive."""
    rng = np.random.default_rng(3)
    runs = []
    for run in campaign.runs:
        level = run.workload, run.factors["journal"]
        if level not in (A, B, C):
            continue
        rate = mb_per_second[level] * (1 + 0.02 * run.block) * (1 + 0.003 * rng.standard_normal())
        written = round(rate * 1e6 * 10)
        syncs = round(written / MIB / (16 if run.workload == MANY else 1))
        seeks = round(seeks_per_mib[level] * written / MIB)
        run.folder.mkdir(parents=True, exist_ok=True)
        reported = {
            "drives": {
                drive: {"requests": 999, "seeks": seeks if drive == "sata-plp" else 777, "distance_bytes": 1}
                for drive in campaign.drives(run)
            },
            "lost": 0,
        }
        (run.folder / "result.json").write_text(json.dumps({"seeks": reported} if counted else {}))
        performance = dataclasses.replace(
            run.performance, seconds=10.0, write_bytes=written, syncs=syncs, mb_per_second=rate
        )
        result = dataclasses.replace(
            run.result,
            joules=60.0,
            corrected_joules=60.0,
            ai_mb_per_joule=written / 1e6 / 60,
            device_bound_fraction=bound,
        )
        transactions = (
            round(written / MIB / (writes_a_commit if run.workload == MANY else 1)) if counted else None
        )
        block = dataclasses.replace(
            run.io["host"], source="iod", journal_transactions=transactions, write_bytes=round(1.01 * written)
        )
        runs.append(
            dataclasses.replace(run, performance=performance, result=result, io={"host": block, "iod": block})
        )
    definition = {**campaign.definition, "study": "journal_placement"}
    return dataclasses.replace(campaign, runs=tuple(runs), definition=definition)


HELPED = {A: 40.0, B: 77.0, C: 110.0}, {A: 2.1, B: 0.05, C: 0.3}


def verdicts_of(campaign):
    return {one.claim.key: one for one in map(Measured.judged, journal_placement.measure(campaign))}


def test_remedies_that_help_are_named_and_by_how_much(campaign):
    found = verdicts_of(changed(campaign, *HELPED))
    assert {key: one.verdict for key, one in found.items()} == dict.fromkeys(
        ("seeks", "external", "energy", "order", "updates", "amortise"), HOLDS
    )
    assert found["updates"].effect.value == pytest.approx(16, rel=0.05)
    assert found["external"].effect.value == pytest.approx(77 / 40, rel=0.01)
    assert found["order"].effect.value == pytest.approx(110 / 77, rel=0.01)
    assert found["seeks"].where == "sata-plp, ext4, journal on nvme-plp"


def test_seeks_are_those_of_the_datas_drives_alone(campaign):
    whole = changed(campaign, *HELPED)
    by_level = {
        (run.workload, run.factors["journal"]): journal_placement.seeks_per_mib(whole, run)
        for run in whole.runs
    }
    assert by_level == {level: pytest.approx(seeks, abs=0.01) for level, seeks in HELPED[1].items()}


def test_an_external_journal_that_leaves_the_seeks_denies_the_claim(campaign):
    found = verdicts_of(changed(campaign, HELPED[0], {A: 1.0, B: 1.3, C: 1.0}))
    assert found["seeks"].verdict == DOES_NOT


def test_no_seek_at_all_is_a_ratio_too(campaign):
    found = verdicts_of(changed(campaign, HELPED[0], {A: 2.0, B: 0.0, C: 0.0}))
    assert found["seeks"].verdict == HOLDS
    assert found["seeks"].effect.value > 100


def test_seeks_that_were_not_counted_are_unknown(campaign):
    found = verdicts_of(changed(campaign, *HELPED, counted=False))
    assert (found["seeks"].verdict, found["seeks"].effect) == (OPEN, None)
    assert found["external"].verdict == HOLDS


def test_speed_is_not_judged_where_the_processor_sets_the_pace_and_seeks_are(campaign):
    found = verdicts_of(changed(campaign, *HELPED, bound=0.2))
    assert {
        key: one.verdict for key, one in found.items() if key not in ("seeks", "updates")
    } == dict.fromkeys(("external", "energy", "order", "amortise"), OPEN)
    assert found["seeks"].verdict == found["updates"].verdict == HOLDS


def test_commits_that_are_not_fewer_deny_the_claim(campaign):
    assert verdicts_of(changed(campaign, *HELPED, writes_a_commit=0.9))["updates"].verdict == DOES_NOT


def test_updates_that_the_kernel_does_not_count_are_no_claim(campaign):
    assert "updates" not in verdicts_of(changed(campaign, *HELPED, counted=False))


def test_a_campaign_of_internal_journals_alone_has_no_claim_on_external_ones(campaign):
    whole = changed(campaign, *HELPED)
    inside = tuple(run for run in whole.runs if run.factors["journal"] == "internal")
    assert set(verdicts_of(dataclasses.replace(whole, runs=inside))) == {"updates", "amortise"}


def test_the_report_draws_the_placements(campaign):
    page = document.html(changed(campaign, *HELPED))
    assert "Journal placement on hard disks" in page
    assert "An external journal removes the seeks between data and journal." in page
    assert "The study's figure cannot be drawn" not in page.replace("&#39;", "'")
