# SPDX-License-Identifier: GPL-3.0-or-later
"""What passes a gate: a cell whose AI cannot have fallen further than allowed."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from joulerig.analysis import results
from joulerig.analysis.compare import campaigns
from joulerig.analysis.compare.campaigns import Change
from joulerig.analysis.gate import junit, verdicts
from joulerig.analysis.gate.verdicts import Outcome, Verdict
from tests.support import simulated_campaign

GIVEN = {"drives": ("nvme-plp",), "filesystems": ("f2fs",), "replicates": 6, "noise": 0.002}


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """bfq lost a tenth from one to the other."""
    folder = tmp_path_factory.mktemp("gate")
    before = results.load(simulated_campaign.build(folder / "before", **GIVEN))
    with pytest.MonkeyPatch.context() as patch:
        slower = 0.9 * simulated_campaign.SCHEDULER_SPEED["bfq"]
        patch.setitem(simulated_campaign.SCHEDULER_SPEED, "bfq", slower)
        return before, results.load(simulated_campaign.build(folder / "after", **GIVEN, seed=2))


def outcomes(judged):
    return {one.cell.split("/")[2]: one.outcome for one in judged}


def test_a_cell_that_fell_is_distinguished_from_those_that_did_not(pair):
    judged = verdicts.judge(*pair)
    assert outcomes(judged) == {"none": Outcome.HELD, "mq-deadline": Outcome.HELD, "bfq": Outcome.FELL}
    assert not verdicts.passes(judged)
    [fell] = [one for one in judged if one.outcome is Outcome.FELL]
    assert fell.why.startswith("AI -")
    assert fell.why.endswith(" a fall of 5 % is allowed")


def test_a_fall_that_is_allowed_passes(pair):
    assert verdicts.passes(verdicts.judge(*pair, allowed=0.15))


def test_a_rise_passes(pair):
    judged = verdicts.judge(*reversed(pair))
    assert outcomes(judged)["bfq"] is Outcome.HELD
    assert verdicts.passes(judged)


@pytest.mark.parametrize(
    ("low", "high", "allowed", "outcome"),
    [
        (-0.20, -0.06, 0.05, Outcome.FELL),
        (-0.20, -0.05, 0.05, Outcome.UNDECIDED),  # its end may be all that is allowed
        (-0.20, 0.10, 0.05, Outcome.UNDECIDED),
        (-0.05, 0.10, 0.05, Outcome.HELD),
        (-0.04, -0.01, 0.05, Outcome.HELD),  # a fall without doubt, and an allowed one
        (-0.04, -0.01, 0.0, Outcome.FELL),
        (0.0, 0.10, 0.0, Outcome.HELD),
    ],
)
def test_the_whole_interval_decides(pair, monkeypatch, low, high, allowed, outcome):
    cell = next(iter(pair[0].cells()))
    change = Change(cell, 2.0, 1.9, (6, 6), (low + high) / 2, low, high, 0.01)
    monkeypatch.setattr(campaigns, "changes", lambda *_: [change])
    monkeypatch.setattr(campaigns, "only_in", lambda *_: [])
    [judged] = verdicts.judge(*pair, allowed)
    assert judged.outcome is outcome


def test_one_run_a_cell_decides_nothing(tmp_path):
    given = {**GIVEN, "replicates": 1}
    pair = [results.load(simulated_campaign.build(tmp_path / name, **given)) for name in ("a", "b")]
    judged = verdicts.judge(*pair)
    assert {one.outcome for one in judged} == {Outcome.UNDECIDED}
    assert {one.why for one in judged} == {"one run: its spread is unknown"}
    assert verdicts.passes(judged)
    assert not verdicts.passes(judged, decided=True)


def test_a_cell_that_is_missing_fails(pair, tmp_path):
    other = results.load(simulated_campaign.build(tmp_path / "c", **{**GIVEN, "schedulers": ("none", "bfq")}))
    judged = verdicts.judge(pair[0], other)
    assert [(one.cell.split("/")[2], one.why) for one in judged if one.outcome is Outcome.MISSING] == [
        ("mq-deadline", f"no AI in {other.id}")
    ]
    assert not verdicts.passes([one for one in judged if one.outcome is not Outcome.FELL])


def test_cells_come_in_the_baselines_order(pair):
    assert [one.cell for one in verdicts.judge(*pair)] == list(pair[0].cells())


def test_nothing_to_judge_does_not_pass():
    assert not verdicts.passes([])
    assert verdicts.summary([]) == "no cell of the baseline has an AI"


def test_the_summary_counts():
    judged = [
        Verdict("a", Outcome.HELD, ""), Verdict("b", Outcome.FELL, ""), Verdict("c", Outcome.HELD, ""),
    ]  # fmt: skip
    assert verdicts.summary(judged) == "2 cells held, 1 fell"


def test_the_same_campaign_again_rarely_fails(tmp_path):
    """At most one in twenty; of 40 that is 2 on average, and 6 or more once in 70 times."""
    before = results.load(simulated_campaign.build(tmp_path / "before", **GIVEN))
    falls = 0
    for seed in range(40):
        after = results.load(simulated_campaign.build(tmp_path / str(seed), **GIVEN, seed=100 + seed))
        falls += any(one.outcome is Outcome.FELL for one in verdicts.judge(before, after, allowed=0.0))
    assert falls <= 5


# --- JUnit


def tree(pair, judged, **options):
    return ElementTree.fromstring(junit.document(*pair, judged, **options))


def test_each_cell_is_a_test_with_its_seconds(pair):
    judged = verdicts.judge(*pair)
    root = tree(pair, judged)
    assert {name: root.get(name) for name in ("tests", "failures", "skipped", "errors")} == {
        "tests": "3", "failures": "1", "skipped": "0", "errors": "0",
    }  # fmt: skip
    cases = root.findall("testsuite/testcase")
    assert [one.get("name") for one in cases] == [one.cell for one in judged]
    seconds = {
        cell: sum((run.ended_ns - run.started_ns) / 1e9 for run in runs)
        for cell, runs in pair[1].cells().items()
    }
    assert [float(one.get("time")) for one in cases] == pytest.approx(
        [seconds[one.cell] for one in judged], abs=1e-3
    )
    [failure] = root.findall("testsuite/testcase/failure")
    assert failure.get("type") == "fell"
    assert failure.get("message") == next(one.why for one in judged if one.outcome is Outcome.FELL)


def test_its_properties_name_the_baseline_and_the_virtual_lab(pair):
    found = {
        one.get("name"): one.get("value")
        for one in tree(pair, verdicts.judge(*pair)).findall("testsuite/properties/property")
    }
    assert found["baseline"] == pair[0].id
    assert found["virtual_lab"] == "true"
    assert found["summary"] == "2 cells held, 1 fell"


def test_what_is_open_is_skipped_or_fails_as_asked(pair):
    judged = [Verdict("a/b/c/d", Outcome.UNDECIDED, "one run")]
    assert tree(pair, judged).find("testsuite/testcase/skipped").get("message") == "one run"
    assert tree(pair, judged, decided=True).find("testsuite/testcase/failure").get("type") == "undecided"


def test_what_xml_cannot_hold_is_replaced(pair):
    judged = [Verdict("a\x00b<&>", Outcome.FELL, "why\x1b\ud800")]
    case = tree(pair, judged).find("testsuite/testcase")
    assert case.get("name") == "a\ufffdb<&>"
    assert case.find("failure").text == "why\ufffd\ufffd"
