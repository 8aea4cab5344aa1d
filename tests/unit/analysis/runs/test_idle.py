# SPDX-License-Identifier: GPL-3.0-or-later
"""Idle power is found where a drive is at rest, over all of its runs, and else is not known."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from joulerig.analysis.runs import idle
from tests.bench import idle as bench
from tests.bench.idle import Bench, Drive, dozing

RNG = np.random.default_rng(8)


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    return Bench(tmp_path_factory.mktemp("i") / "c")


def idles(simulated, drive, noise=0.0):
    runs = list(simulated.runs(drive, lambda count, rng: noise * rng.standard_normal(count), RNG))
    return simulated.idles(runs)


def test_idle_power_is_the_level_after_folding_with_the_meters_share(simulated):
    for one in idles(simulated, Drive(dozing(6.0), 0.005)):
        assert one.low <= 0.005 <= one.high
        assert one.begins == pytest.approx(1.5, abs=0.1)
        assert one.limit > bench.OFFSET_AMPS * bench.VOLTS
        assert (one.high - one.low) / 2 >= one.limit


def test_a_phase_that_folds_for_more_than_its_half_is_not_at_rest_and_says_from_where_to_where(simulated):
    for one in idles(simulated, Drive(dozing(8.0), 0.005)):
        assert (one.watts, one.low) == (None, None)
        assert one.why.startswith("not at rest: 1.3")
        assert one.why.endswith(" W, it holds for less than half of the time")


def test_a_run_above_the_drives_least_is_not_at_rest(simulated):
    courses = iter([dozing(60.0)] + [dozing()] * 20)
    now = {"course": next(courses)}

    def watts(times, rng):
        if times[0] > 1:  # an idle phase: a new run
            now["course"], before = next(courses), now["course"]
            return before(times, rng)
        return dozing(60.0)(times, rng)

    first, *others = idles(simulated, Drive(watts, 0.005))
    assert first.watts is None
    assert first.why.startswith("not at rest: 1.3")
    assert all(one.watts == pytest.approx(0.005, abs=1e-3) for one in others)


def test_a_tail_that_comes_to_rest_shows_that_the_idle_phase_did_not(simulated):
    found = idles(simulated, Drive(dozing(30.0), 0.005, tail=70.0))
    assert all("after the load of run" in one.why for one in found)


def test_a_tail_that_ends_at_no_level_but_below_shows_it_as_well(simulated):
    def watts(times, rng):
        if times[0] > 1:
            return np.full(len(times), 1.338)
        return np.where(times < 30, 1.338, 0.4 - 0.004 * times)  # it slopes to its end

    found = idles(simulated, Drive(watts, None, tail=70.0))
    assert all(
        re.search(r"^not at rest: 1\.3\d W, and 0\.\d+ W after the load of run", one.why) for one in found
    )


def test_a_tail_that_is_anywhere_as_high_shows_nothing(simulated):
    def watts(times, rng):
        return np.where((times % 7 < 3.5) & (times < 60), 0.005, 0.35) if times[0] < 1 else 0 * times + 0.35

    assert all(
        one.watts == pytest.approx(0.35, rel=0.02) for one in idles(simulated, Drive(watts, 0.35, tail=70.0))
    )


def test_runs_in_other_power_states_are_not_compared(simulated):
    runs = list(simulated.runs(Drive(dozing(), 0.005), bench.white, RNG))
    awake = list(simulated.runs(Drive(dozing(deep=0.35), 0.35), bench.white, RNG))
    mixed = [
        (replace(run, factors={**run.factors, "apst": level}), points, parts)
        for number, ((run, points, parts), level) in enumerate(
            zip([*awake[:2], *runs[2:]], ["off", "off", "any", "any"], strict=True)
        )
    ]
    assert sum(one.watts is not None for one in simulated.idles(mixed)) >= 3


def test_a_run_without_power_points_has_none(simulated):
    run = simulated.campaign.runs[0]
    read = {one.id: idle.from_points(simulated.campaign, one, None) for one in simulated.campaign.runs}
    assert idle.judged(simulated.campaign, read)[run.id].why == "no power points"
    bare = replace(run, energy=())
    assert idle.from_points(simulated.campaign, bare, None) == {}


def test_drives_of_a_run_are_at_rest_together(simulated):
    (one, *_) = idles(simulated, Drive(dozing(), 0.005), noise=1.0)
    own = next(iter(one.drives.values()))
    assert (one.watts, one.low, one.high) == (own.watts, own.low, own.high)
    assert one.deviation(0.1) == own.deviation(0.1) > 0
