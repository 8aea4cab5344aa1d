# SPDX-License-Identifier: GPL-3.0-or-later
"""What passes a gate: a cell whose AI cannot have fallen further than allowed."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from joulerig.analysis import results
from joulerig.analysis.compare import campaigns
from joulerig.analysis.compare.campaigns import Change, Comparison, Movement
from joulerig.analysis.gate import junit, verdicts
from joulerig.analysis.gate.verdicts import COMMON, Outcome, Verdict
from joulerig.analysis.statistics.movements import Deviation
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
    return {one.cell.split("/")[2]: one.outcome for one in judged if one.cell != COMMON}


def on_all(judged):
    [found] = [one for one in judged if one.cell == COMMON]
    return found


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
    change = Change(cell, 2.0, 1.9, (6, 6), 0.0, (low + high) / 2, low, high, 0.01)
    monkeypatch.setattr(campaigns, "compare", lambda *_: Comparison([change], None))
    monkeypatch.setattr(campaigns, "only_in", lambda *_: [])
    [judged] = verdicts.judge(*pair, allowed)
    assert judged.outcome is outcome


@pytest.mark.parametrize(
    ("low", "high", "allowed", "passed"),
    [
        (-0.19, 0.10, 0.05, True),
        (-0.21, 0.10, 0.05, False),  # it may be more than four times what is allowed
        (-0.07, 0.10, 0.02, True),
        (-0.09, 0.10, 0.02, False),
        (-0.19, 0.10, 0.0, True),  # of nothing allowed there are no four times
        (-0.21, 0.10, 0.0, False),
    ],
)
def test_a_gate_that_cannot_see_fails(pair, monkeypatch, low, high, allowed, passed):
    cell = next(iter(pair[0].cells()))
    change = Change(cell, 2.0, 1.9, (6, 6), 0.0, (low + high) / 2, low, high, 0.5)
    monkeypatch.setattr(campaigns, "compare", lambda *_: Comparison([change], None))
    monkeypatch.setattr(campaigns, "only_in", lambda *_: [])
    judged = verdicts.judge(*pair, allowed)
    assert [one.outcome for one in judged] == [Outcome.UNDECIDED]
    assert verdicts.passes(judged) is passed


@pytest.mark.parametrize(
    ("ratio", "reach", "known", "outcome", "passed"),
    [
        (-0.10, 0.01, False, Outcome.UNDECIDED, True),  # a day can do that
        (-0.25, 0.01, False, Outcome.UNDECIDED, False),  # no day does
        (-0.10, 0.01, True, Outcome.FELL, False),
        (-0.10, 0.14, True, Outcome.UNDECIDED, True),  # no more than campaigns differ by
        (-0.10, 0.24, True, Outcome.UNDECIDED, False),  # which is too much to see anything
        (0.00, 0.01, True, Outcome.HELD, True),
    ],
)
def test_what_all_cells_do_together_has_a_verdict(pair, monkeypatch, ratio, reach, known, outcome, passed):
    common = Movement(ratio, ratio - reach, ratio + reach, 0.5 if known else None, known, 0.0)
    monkeypatch.setattr(campaigns, "compare", lambda *_: Comparison([], common))
    monkeypatch.setattr(campaigns, "only_in", lambda *_: [])
    judged = verdicts.judge(*pair)
    assert on_all(judged).outcome is outcome
    assert "drive, day or meter" in on_all(judged).why
    assert ("how much campaigns differ is not known" in on_all(judged).why) is not known
    assert verdicts.passes(judged) is passed


def test_a_day_that_moves_all_cells_makes_none_fall(pair, tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        for name, speed in simulated_campaign.SCHEDULER_SPEED.items():
            patch.setitem(simulated_campaign.SCHEDULER_SPEED, name, 0.9 * speed)
        warm = results.load(simulated_campaign.build(tmp_path / "warm", **GIVEN, seed=3))
    judged = verdicts.judge(pair[0], warm)
    assert set(outcomes(judged).values()) == {Outcome.HELD}
    assert verdicts.passes(judged)
    assert on_all(judged).outcome is Outcome.UNDECIDED
    assert on_all(verdicts.judge(pair[0], warm, deviation=Deviation(0.005))).outcome is Outcome.FELL


def test_fewer_than_three_cells_fall_where_campaigns_are_known_to_differ(tmp_path):
    given = {**GIVEN, "schedulers": ("bfq",)}
    before = results.load(simulated_campaign.build(tmp_path / "before", **given))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(simulated_campaign.SCHEDULER_SPEED, "bfq", 0.8)
        after = results.load(simulated_campaign.build(tmp_path / "after", **given, seed=2))
    [unknown] = verdicts.judge(before, after)
    assert (unknown.outcome, unknown.blind) == (Outcome.UNDECIDED, False)
    assert unknown.why.endswith(campaigns.FEW_CELLS)
    [known] = verdicts.judge(before, after, deviation=Deviation(0.005))
    assert known.outcome is Outcome.FELL


def test_one_run_a_cell_is_refused_and_passes_nothing(pair, tmp_path):
    given = {**GIVEN, "replicates": 1}
    single = results.load(simulated_campaign.build(tmp_path / "c", **given))
    judged = verdicts.judge(pair[0], single)
    assert {(one.outcome, one.why) for one in judged} == {(Outcome.UNDECIDED, campaigns.ONE_RUN)}
    assert not verdicts.passes(judged)
    assert verdicts.refusal(*pair) == ""
    for two in ((pair[0], single), (single, pair[0])):
        assert verdicts.refusal(*two).startswith(f"{single.id}: has one run a cell")


def test_a_cell_that_is_missing_fails(pair, tmp_path):
    other = results.load(simulated_campaign.build(tmp_path / "c", **{**GIVEN, "schedulers": ("none", "bfq")}))
    judged = verdicts.judge(pair[0], other)
    assert [(one.cell.split("/")[2], one.why) for one in judged if one.outcome is Outcome.MISSING] == [
        ("mq-deadline", f"no AI in {other.id}")
    ]
    assert not verdicts.passes([one for one in judged if one.outcome is not Outcome.FELL])


def test_cells_come_in_the_baselines_order(pair):
    assert [one.cell for one in verdicts.judge(*pair)] == [*pair[0].cells(), COMMON]


def test_nothing_to_judge_does_not_pass():
    assert not verdicts.passes([])
    assert verdicts.summary([]) == "no cell of the baseline has an AI"


def test_the_summary_counts():
    judged = [
        Verdict("a", Outcome.HELD, ""), Verdict("b", Outcome.FELL, ""), Verdict("c", Outcome.HELD, ""),
    ]  # fmt: skip
    assert verdicts.summary(judged) == "2 cells held, 1 fell"
    judged.append(Verdict(COMMON, Outcome.UNDECIDED, ""))
    assert verdicts.summary(judged) == "2 cells held, 1 fell, all cells together: undecided"


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
        "tests": "4", "failures": "1", "skipped": "1", "errors": "0",
    }  # fmt: skip
    cases = root.findall("testsuite/testcase")
    assert [one.get("name") for one in cases] == [one.cell for one in judged]
    seconds = {
        cell: sum((run.ended_ns - run.started_ns) / 1e9 for run in runs)
        for cell, runs in pair[1].cells().items()
    }
    assert [float(one.get("time")) for one in cases] == pytest.approx(
        [seconds.get(one.cell, 0.0) for one in judged], abs=1e-3
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
    assert found["summary"] == "2 cells held, 1 fell, all cells together: undecided"


def test_what_is_open_is_skipped_or_fails_as_asked(pair):
    judged = [Verdict("a/b/c/d", Outcome.UNDECIDED, "one run")]
    assert tree(pair, judged).find("testsuite/testcase/skipped").get("message") == "one run"
    assert tree(pair, judged, decided=True).find("testsuite/testcase/failure").get("type") == "undecided"
    blind = [Verdict("a/b/c/d", Outcome.UNDECIDED, "wide", blind=True)]
    assert tree(pair, blind).find("testsuite/testcase/failure").get("message") == "wide"


def test_what_xml_cannot_hold_is_replaced(pair):
    judged = [Verdict("a\x00b<&>", Outcome.FELL, "why\x1b\ud800")]
    case = tree(pair, judged).find("testsuite/testcase")
    assert case.get("name") == "a\ufffdb<&>"
    assert case.find("failure").text == "why\ufffd\ufffd"
