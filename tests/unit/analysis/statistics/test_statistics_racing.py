# SPDX-License-Identifier: GPL-3.0-or-later
"""Races: which cells go at which look, what is never decided, and how a race ends."""

from __future__ import annotations

import dataclasses
import json
import math
import random

import numpy as np
import pytest
from scipy import stats

from joulerig.analysis.compare import races
from joulerig.analysis.statistics import racing
from joulerig.analysis.statistics.differences import Fit, Systematic, SystematicRuns
from joulerig.analysis.statistics.racing import RACE, Design, Outcome, rank, replay
from tests.support import simulated_races
from tests.support.simulated_races import runs


def cells(*means: float, blocks: int = 6, spread: float = 0.01, seed: int = 1) -> dict:
    found = runs(np.random.default_rng(seed), means, blocks, spread)
    return {f"c{index}": list(one) for index, one in enumerate(found.values())}


def first_blocks(found: dict, count: int) -> dict:
    return {cell: [run for run in one if run[0] <= count] for cell, one in found.items()}


# The design


def test_a_design_spends_alpha_evenly_over_looks_from_the_second_block():
    design = Design.even(10)
    assert design.looks == tuple(range(2, 11))
    assert design.spending == pytest.approx([0.05 / 9] * 9)
    assert design.alpha == pytest.approx(0.05)


@pytest.mark.parametrize("margin", [None, 0.1])
def test_a_design_survives_json(margin):
    design = Design.even(7, alpha=0.02, margin=margin)
    assert Design.from_json(json.loads(json.dumps(design.to_json()))) == design


def test_a_design_of_unknown_keys_is_refused():
    found = {**Design.even(3).to_json(), "peek": True}
    del found["margin"]
    with pytest.raises(ValueError, match="unknown or missing: margin, peek"):
        Design.from_json(found)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"looks": (1, 2), "spending": (0.01, 0.01)}, "allowed are blocks 2 to 5"),
        ({"looks": (2, 6), "spending": (0.01, 0.01)}, "allowed are blocks 2 to 5"),
        ({"looks": (3, 2), "spending": (0.01, 0.01)}, "ascending"),
        ({"looks": (), "spending": ()}, "at least one"),
        ({"spending": (0.01,)}, "one value above 0"),
        ({"spending": (0.5, 0.5, 0.5, 0.5)}, "less than 1"),
        ({"margin": 0.0}, "between 0 and 1"),
        ({"margin": 10.0}, "between 0 and 1"),
    ],
)
def test_a_design_that_cannot_hold_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(Design.even(5), **change)


def test_a_design_of_earlier_versions_ends_as_it_did():
    found = Design.even(6).to_json()
    del found["least_runs"]
    assert Design.from_json(found) == Design.even(6)


@pytest.mark.parametrize(("blocks", "least"), [(3, 6), (5, 5), (6, 6), (10, 6)])
def test_a_campaigns_race_needs_six_runs_of_each_finalist_or_its_five_blocks(blocks, least):
    assert races.design_for(blocks, 1, None).least_runs == least


def test_a_race_of_one_block_is_refused():
    with pytest.raises(ValueError, match="blocks: 1"):
        Design.even(1)


# Looks and drops


def test_the_best_wins_once_all_others_are_out():
    found = replay(cells(100, 80, 70, 60), Design.even(6))
    assert (found.outcome, found.winner, found.kept) == (Outcome.WINNER, "c0", ("c0",))
    assert found.verdict == "c0 does the most: all others were raced out"
    assert set(found.dropped) == {"c1", "c2", "c3"}


def test_a_race_stops_at_its_winner_though_more_blocks_are_there():
    found = replay(cells(100, 80, 70, blocks=6), Design.even(6))
    assert found.looks[-1].look == 3


SIX = dataclasses.replace(Design.even(8), least_runs=6)


def test_the_runner_up_stays_until_it_and_the_leader_have_runs_enough():
    race = replay(cells(100, 80, 70, 60, blocks=8), SIX)
    assert (race.outcome, race.winner, race.looks[-1].look) == (Outcome.WINNER, "c0", 6)
    assert [look.kept for look in race.looks[1:4]] == [("c0", "c1")] * 3


def test_a_run_without_a_value_is_none_of_those_that_are_enough():
    found = cells(100, 80, 70, 60, blocks=8)
    found["c1"][2] = (3, None)
    assert replay(found, SIX).looks[-1].look == 7


def test_a_race_of_finalists_that_met_the_same_modes_stops_before():
    asked = []
    race = replay(cells(100, 80, 70, blocks=8), SIX, met_alike=lambda *given: not asked.append(given))
    assert (race.winner, race.looks[-1].look) == ("c0", 3)
    assert asked[-1] == (["c0", "c1"], 3)


def test_cells_are_not_called_equal_before_they_have_runs_enough():
    found = cells(100, 100.1, 99.9, 70, spread=0.02, blocks=8)
    race = replay(found, dataclasses.replace(SIX, margin=0.2))
    assert (race.outcome, race.looks[-1].look) == (Outcome.EQUAL, 6)


def test_a_drop_says_how_far_behind_whom_with_an_interval():
    dropped = replay(cells(100, 95, 60), Design.even(6)).dropped["c2"]
    assert 0 < dropped.low < dropped.behind < dropped.high
    assert dropped.behind == pytest.approx(0.4, abs=0.05)
    assert dropped.reason == (
        f"raced out at look 2, {100 * dropped.behind:.1f} % behind c0"
        f" [{100 * dropped.low:.1f}, {100 * dropped.high:.1f}]"
    )


def test_the_runner_up_stays_at_the_second_look_however_far_behind():
    looks = replay(cells(100, 40, 20), Design.even(6)).looks
    assert [one.cell for one in looks[0].dropped] == ["c2"]
    assert [one.cell for one in looks[1].dropped] == ["c1"]


def test_at_the_second_look_separated_is_not_enough():
    found = cells(100, 99, 90, 80, spread=0.0005)
    looks = replay(found, Design.even(6)).looks
    assert [one.cell for one in looks[0].dropped] == ["c3"]
    assert "c2" in {one.cell for one in looks[1].dropped}


def test_at_the_second_look_far_behind_is_not_enough():
    found = {
        "c0": [(1, 100.0), (2, 130.0)],
        "c1": [(1, 120.0), (2, 95.0)],
        "c2": [(1, 70.0), (2, 110.0)],
        "c3": [(1, 90.0), (2, 65.0)],
    }
    pair = rank(found, Design.even(6)).pair("c0", "c3")
    assert pair.relative_difference > 0.3
    assert replay(found, Design.even(6)).looks[0].dropped == ()


def test_the_farthest_behind_is_named_first():
    assert [one.cell for one in replay(cells(100, 95, 70, 50, 60), Design.even(6)).looks[0].dropped] == [
        "c3",
        "c4",
        "c2",
    ]


def test_alpha_is_spent_look_by_look_and_no_more_than_all():
    found = replay(cells(100, 100, 100, spread=0.05, blocks=6), Design.even(6))
    assert [look.alpha_spent for look in found.looks] == pytest.approx([0.01, 0.02, 0.03, 0.04, 0.05])
    assert found.alpha_spent == pytest.approx(0.05)


def test_a_cell_goes_exactly_where_its_interval_excludes_the_leader():
    rng = np.random.default_rng(3)
    for _ in range(30):
        found = runs(rng, [1, 0.97, 0.95, 0.93, 0.9], 8)
        for look in replay(found, Design.even(8)).looks:
            for one in look.dropped:
                assert one.leader == look.leader
                assert one.low > 0


def test_two_cells_are_a_paired_t_test_at_the_level_of_the_look():
    found = cells(100, 99.2, blocks=6)
    design = Design(6, looks=(6,), spending=(0.05,))
    logs = [[math.log(value) for _, value in one] for one in found.values()]
    expected = stats.ttest_rel(*logs).confidence_interval(0.95)
    pair = rank(found, design).pair("c0", "c1")
    assert pair.difference - pair.reach == pytest.approx(expected.low)
    assert pair.difference + pair.reach == pytest.approx(expected.high)


def test_the_level_is_shared_by_the_looks_and_by_the_cells_that_began():
    found = cells(100, 95, 90, 60, 50, 40)
    design = Design.even(6)
    table = racing._Table.from_runs(found, design, {})
    race = replay(found, design)
    assert [one.look for one in race.dropped.values()] == [2, 2, 2, 3, 3]
    for one in race.dropped.values():
        out = {other.cell: other.look for other in race.dropped.values() if other.look < one.look}
        fit = table.fit(one.look, out)
        level = 0.05 / 5 / 5  # 5 looks, 5 comparisons with the leader
        expected = fit.compare("c0", level)[one.cell]
        assert (one.low, one.high) == pytest.approx((expected.low, expected.high))


def test_a_noisy_leader_seldom_drops_all_the_quiet_cells():
    rng = np.random.default_rng(2)
    spreads = [0.01] * 9 + [0.15]
    wrong = 0
    for _ in range(100):
        wrong += replay(runs(rng, np.ones(10), 4, spreads), Design.even(4)).winner is not None
    assert wrong <= 5


# What is the same whatever happened


def test_the_order_of_cells_and_runs_is_irrelevant():
    rng = random.Random(4)
    found = runs(np.random.default_rng(4), simulated_races.ladder(12), 8)
    design = Design.even(8)
    expected = replay(found, design)
    ranked = rank(found, design)
    for _ in range(10):
        shuffled = list(found.items())
        rng.shuffle(shuffled)
        mixed = {cell: rng.sample(list(one), len(one)) for cell, one in shuffled}
        assert replay(mixed, design) == expected
        assert rank(mixed, design) == ranked


@pytest.mark.parametrize("line", ["ladder", "slippage", "tied", "one cell noisy"])
def test_later_blocks_change_no_earlier_look(line):
    found = simulated_races.simulate(np.random.default_rng(5), line, 15, 10)
    design = Design.even(10, margin=0.1)
    whole = replay(found, design)
    for blocks in range(11):
        part = replay(first_blocks(found, blocks), design)
        assert part.looks == whole.looks[: max(0, blocks - 1)]
        assert part.outcome in (Outcome.GOES_ON, whole.outcome)


def test_a_race_run_look_by_look_is_the_race_of_all_runs():
    """An engine asks after each block, runs no dropped cell again, and gets the same drops."""
    rng = np.random.default_rng(6)
    design = Design.even(10)
    for line in ("ladder", "slippage", "alike"):
        full = simulated_races.simulate(rng, line, 15, 10)
        done: dict = {cell: [] for cell in full}
        for block in range(1, 11):
            race = replay(done, design)
            if race.outcome is not Outcome.GOES_ON:
                break
            for cell in race.kept:
                done[cell].append(full[cell][block - 1])
        assert replay(done, design) == replay(full, design)


def test_a_dropped_cell_never_comes_back():
    found = cells(100, 98, 60, 55)
    design = Design.even(6)
    assert set(replay(first_blocks(found, 2), design).dropped) == {"c2", "c3"}
    found["c2"][2:] = [(block, 1000.0) for block in range(3, 7)]
    race = replay(found, design)
    assert race.dropped["c2"].look == 2
    assert race == replay({**found, "c2": found["c2"][:2]}, design)
    assert rank(found, design).order[0] != "c2"


def test_an_incomplete_block_changes_nothing():
    found = cells(100, 97, 96, 60)
    design = Design.even(6)
    part = first_blocks(found, 3)
    expected = replay(part, design)
    part["c0"].append((4, 1.0))
    assert replay(part, design) == expected
    assert rank(part, design) == rank(first_blocks(found, 3), design)


def test_a_look_waits_for_the_cells_still_in_the_race_alone():
    found = cells(100, 98, 60, 55)
    part = {**first_blocks(found, 3), "c2": found["c2"][:2], "c3": found["c3"][:2]}
    assert [look.look for look in replay(part, Design.even(6)).looks] == [2, 3]
    part["c1"] = part["c1"][:2]
    assert [look.look for look in replay(part, Design.even(6)).looks] == [2]


# Runs that are missing


def test_a_run_that_ended_without_a_value_holds_no_look_up():
    found = cells(100, 100.1, 99.9, 60, blocks=4)
    found["c1"][2] = (3, None)
    assert [look.look for look in replay(found, Design.even(4)).looks] == [2, 3, 4]
    del found["c1"][2]
    assert [look.look for look in replay(found, Design.even(4)).looks] == [2]


def test_a_cell_with_fewer_than_two_values_is_kept_and_said_to_be_untested():
    found = cells(100, 80, 70, 60, blocks=4)
    found["c3"] = [(1, 60.0), (2, None), (3, None), (4, None)]
    race = replay(found, Design.even(4))
    assert race.kept == ("c0", "c3")
    assert race.untested == ("c3",)
    assert race.outcome is Outcome.COULD_NOT_TELL
    assert race.verdict == "could not tell which does the most: c0, c3; not tested: c3"


@pytest.mark.parametrize("values", [[None] * 4, [None, None, None, 60.0]])
def test_a_cell_whose_runs_all_fail_costs_the_others_no_test(values):
    found = cells(100, 80, 70, 60, blocks=4)
    found["c3"] = list(enumerate(values, start=1))
    race = replay(found, Design.even(4))
    assert set(race.dropped) == {"c1", "c2"}
    assert race.winner is None


def test_a_value_that_is_not_positive_leaves_its_cell_untested():
    found = cells(100, 80, 70, 60, blocks=4)
    found["c3"][0] = (1, 0.0)
    assert replay(found, Design.even(4)).untested == ("c3",)


def test_missing_runs_are_fitted_by_ordinary_least_squares():
    rng = np.random.default_rng(8)
    found = {cell: list(one) for cell, one in runs(rng, np.ones(6), 7, 0.05).items()}
    for cell, block in (("cell 01", 2), ("cell 01", 5), ("cell 03", 1), ("cell 05", 7)):
        found[cell][block - 1] = (block, None)
    design = Design(7, looks=(7,), spending=(0.05,))
    table = racing._Table.from_runs(found, design, {})
    fit = Fit.from_logs(table.cells, table.logs)
    rows = [
        (place, block, math.log(value))
        for place, cell in enumerate(sorted(found))
        for block, value in found[cell]
        if value is not None
    ]
    matrix = np.zeros((len(rows), 13))
    for row, (place, block, _) in enumerate(rows):
        matrix[row, place] = matrix[row, 5 + block] = 1
    logs = np.array([log for *_, log in rows])
    inverse = np.linalg.pinv(matrix)
    levels = (inverse @ logs)[:6]
    hat = matrix @ inverse
    residuals = logs - hat @ logs
    of = np.array([place for place, *_ in rows])
    degrees = np.array([(1 - np.diag(hat))[of == place].sum() for place in range(6)])
    variances = np.array([(residuals[of == place] ** 2).sum() for place in range(6)]) / degrees
    assert fit.layout.degrees == pytest.approx(degrees)
    assert fit.layout.degrees.sum() == pytest.approx(len(rows) - 12)
    assert fit.variances == pytest.approx(variances)
    differences, reaches, *_ = fit._differences(1, 0.01)
    assert differences == pytest.approx(levels[1] - levels)
    weights = inverse[1] - inverse[4]
    error = math.sqrt((weights**2 * fit.shrunk.variances[of]).sum())
    parts = np.array([(weights[of == p] ** 2).sum() * fit.shrunk.variances[p] for p in range(6)])
    satterthwaite = parts.sum() ** 2 / (parts**2 / fit.shrunk.degrees).sum()
    freedom = min(satterthwaite, degrees.sum())
    assert reaches[4] == pytest.approx(stats.t.isf(0.005, freedom) * error)


def test_cells_that_no_block_connects_are_not_compared():
    found = {
        "a": [(1, 100.0), (2, 101.0), (3, None), (4, None)],
        "b": [(1, 99.0), (2, 98.0), (3, None), (4, None)],
        "c": [(1, None), (2, None), (3, 10.0), (4, 10.1)],
        "d": [(1, None), (2, None), (3, 10.3), (4, 10.2)],
    }
    race = replay(found, Design.even(4))
    assert not {one.leader + one.cell for one in race.dropped.values()} & {"ac", "ad", "bc", "bd"}
    assert race.winner is None


def test_runs_that_are_all_alike_allow_no_test():
    found = {cell: [(b, value) for b in range(1, 5)] for cell, value in (("x", 2.0), ("y", 1.0))}
    race = replay(found, Design.even(4))
    assert (race.dropped, race.outcome) == ({}, Outcome.COULD_NOT_TELL)
    assert "no spread" in rank(found, Design.even(4)).why


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([(0, 1.0)], "x: block 0: allowed are 1 to 4"),
        ([(5, 1.0)], "x: block 5: allowed are 1 to 4"),
        ([(1, 1.0), (1, 1.0)], "x: two runs in block 1"),
        ([(1, math.nan)], "x: block 1: nan"),
    ],
)
def test_runs_that_are_no_race_are_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        replay({"x": bad, "y": []}, Design.even(4))


# How a race ends


def test_before_two_whole_blocks_nothing_is_decided():
    found = first_blocks(cells(100, 50), 1)
    race = replay(found, Design.even(6))
    assert (race.looks, race.outcome, race.kept, race.alpha_spent) == ((), Outcome.GOES_ON, ("c0", "c1"), 0)
    assert race.verdict == "goes on with 2 after look 0"
    assert rank(found, Design.even(6)).why == "fewer than 2 whole blocks"


def test_no_cells_and_one_cell_are_no_race():
    assert replay({}, Design.even(2)).winner is None
    alone = replay({"x": [(1, 1.0), (2, 1.1)]}, Design.even(2))
    assert (alone.outcome, alone.winner) == (Outcome.COULD_NOT_TELL, None)


def test_two_tied_best_are_both_left():
    race = replay(cells(100, 100.1, 70, 60), Design.even(6))
    assert race.outcome is Outcome.COULD_NOT_TELL
    assert race.kept == ("c0", "c1")
    assert race.verdict == "could not tell which does the most: c0, c1"


def test_a_margin_ends_a_race_of_equals_before_its_blocks():
    found = cells(100, 100.1, 99.9, 70, spread=0.02, blocks=10)
    race = replay(found, Design.even(10, margin=0.1))
    assert (race.outcome, race.winner) == (Outcome.EQUAL, None)
    assert race.verdict == "equal within 10 %: c0, c1, c2"
    assert race.looks[-1].look < 10


def test_cells_that_may_be_farther_apart_than_the_margin_are_not_equal():
    found = cells(100, 99, 98, spread=0.05, blocks=4)
    assert replay(found, Design.even(4, margin=0.01)).outcome is Outcome.COULD_NOT_TELL


def test_an_untested_cell_makes_no_equals():
    found = cells(100, 100.1, 99.9, 100, spread=0.002, blocks=4)
    found["c3"] = [(block, None) for block in range(1, 5)]
    assert replay(found, Design.even(4, margin=0.1)).outcome is Outcome.COULD_NOT_TELL


# The ranking of the report


def test_the_ranking_of_a_race_has_its_winner_and_its_drops():
    ranked = rank(cells(100, 80, 70, 60), Design.even(6))
    assert (ranked.winner, ranked.method, ranked.why) == ("c0", RACE, "")
    assert ranked.order == ("c0", "c1", "c2", "c3")
    assert ranked.letters["c0"] == "a"
    assert ranked.contenders == ["c0"]
    assert not any(set("a") & set(ranked.letters[cell]) for cell in ("c1", "c2", "c3"))
    assert ranked.pair("c3", "c0").relative_difference == pytest.approx(0.4, abs=0.05)
    assert ranked.pair("c0", "c1").p is None


def test_the_ranking_puts_those_still_in_the_race_first_whatever_their_raw_means():
    """The first blocks were twice as good: raw means would favour the cells that went early."""
    drift = {
        cell: [(block, value * (2 if block <= 2 else 1)) for block, value in one]
        for cell, one in cells(100, 98, 60, 58).items()
    }
    ranked = rank(drift, Design.even(6))
    assert [cell for cell in ranked.order if cell in ranked.race.kept] == list(ranked.order[:1])
    assert ranked.order[2:] == ("c2", "c3")


def test_who_wins_the_race_wins_the_ranking():
    rng = np.random.default_rng(12)
    for line in ("ladder", "slippage", "tied", "alike"):
        for _ in range(10):
            found, design = simulated_races.simulate(rng, line, 8, 8), Design.even(8)
            ranked, race = rank(found, design), replay(found, design)
            assert ranked.race == race
            assert ranked.winner == race.winner
            if race.winner:
                assert ranked.order[0] == race.winner
                assert ranked.contenders == [race.winner]


def test_who_was_raced_out_stays_separated_though_the_leader_turns_wild():
    found = {
        "c0": [(1, 100.0), (2, 101.0), (3, 60.0), (4, 260.0), (5, 40.0), (6, 200.0)],
        "c1": [(block, 97.0 + block % 2) for block in range(1, 7)],
        "c2": [(1, 60.0), (2, 60.3)],
    }
    ranked = rank(found, Design.even(6))
    pair = ranked.pair("c0", "c2")
    assert ranked.race.dropped["c2"].leader == pair.first == "c0"
    assert abs(pair.difference) < pair.reach
    assert pair.separated


def test_a_leader_that_later_fails_leaves_pairs_without_bounds():
    found = cells(100, 99.5, 60, 50)
    found["c0"][5] = (6, 0.0)
    ranked = rank(found, Design.even(6))
    assert ranked.race.dropped["c2"].leader == "c0"
    assert ranked.order[-1] == "c0"
    assert not any(pair.separated for pair in ranked.pairs if pair.reach is None)


def test_a_chain_of_drops_separates_from_each_cell_in_it():
    dropped = {
        "c": racing.Dropped(2, "c", "b", 0.1, 0.05, 0.15),
        "b": racing.Dropped(5, "b", "a", 0.1, 0.05, 0.15),
    }
    assert racing._chain("c", dropped) == {"a", "b"}
    assert racing._chain("a", dropped) == set()


def test_pairs_that_no_look_compared_have_a_wider_bound():
    found = cells(100, 99.8, 99.6, 99.4, 99.2, blocks=6)
    ranked = rank(found, Design.even(6))
    first = ranked.order[0]
    of_first = {pair.reach for pair in ranked.pairs if pair.first == first}
    others = {pair.reach for pair in ranked.pairs if pair.first != first}
    assert max(of_first) < max(others)


# Promises, by simulation


def test_a_race_over_cells_far_apart_takes_a_quarter_of_the_runs():
    found = simulated_races.tally("ladder", 15, Design.even(10), campaigns=100, seed=1)
    assert found.share <= 0.26
    assert found.right >= 0.97


def test_cells_farther_apart_than_the_margin_are_called_equal_in_at_most_one_race_in_twenty():
    rng, design = np.random.default_rng(3), Design.even(10, margin=0.1)
    for cells_ in (2, 15):
        means = simulated_races.slippage(cells_, behind=0.1001)
        races = [replay(runs(rng, means, 10), design) for _ in range(200)]
        assert sum(race.outcome is Outcome.EQUAL and len(race.kept) > 1 for race in races) <= 10


# What is wrong in all runs alike


def test_a_cell_stays_whose_limits_reach_the_leader():
    found = cells(100, 90, 60)
    limits = {"c1": SystematicRuns.from_pairs([(block, Systematic(own=0.1)) for block, _ in found["c1"]])}
    assert set(replay(found, Design.even(6)).dropped) == {"c1", "c2"}
    race = replay(found, Design.even(6), limits)
    assert set(race.dropped) == {"c2"}
    pair = rank(found, Design.even(6), limits).pair("c0", "c1")
    assert pair.systematic == pytest.approx(-math.log1p(-0.1))


def test_a_look_has_the_limits_of_the_runs_that_it_sees():
    """What later runs lose changes no look that is over."""
    found = cells(100, 90, 60)
    pairs = [(block, Systematic(own=0.5 if block == 6 else 0.0)) for block, _ in found["c1"]]
    later = {"c1": SystematicRuns.from_pairs(pairs)}
    before, after = replay(found, Design.even(6)), replay(found, Design.even(6), later)
    assert before.dropped["c1"].look < 6
    assert after.dropped == before.dropped
