# SPDX-License-Identifier: GPL-3.0-or-later
"""What a number of power cuts bounds, and how the verdict says it."""

from __future__ import annotations

import math

import pytest

from joulerig.analysis.powercut import confidence, verdict
from joulerig.analysis.powercut.survey import SECTOR_BYTES, Sector, Surveyed
from tests.support.powercut_story import Story


def at_most(failures: int, trials: int, p: float) -> float:
    """Probability of `failures` or fewer in `trials`, summed term by term."""
    return sum(math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(failures + 1))


@pytest.mark.parametrize(("failures", "trials"), [(0, 1), (0, 20), (0, 100), (1, 20), (7, 30), (29, 30)])
def test_at_the_upper_bound_so_few_failures_have_the_probability_that_is_left(failures, trials):
    bound = confidence.upper_bound(failures, trials)
    assert at_most(failures, trials, bound) == pytest.approx(0.05, rel=1e-9)


@pytest.mark.parametrize(("failures", "trials"), [(1, 20), (7, 30), (29, 30)])
def test_each_end_of_the_interval_leaves_half_of_what_is_left(failures, trials):
    low, high = confidence.interval(failures, trials)
    assert at_most(failures, trials, high) == pytest.approx(0.025, rel=1e-9)
    assert 1 - at_most(failures - 1, trials, low) == pytest.approx(0.025, rel=1e-9)


def test_nothing_lost_and_everything_lost_have_the_ends_of_the_scale():
    assert confidence.interval(0, 10)[0] == 0.0
    assert confidence.interval(10, 10)[1] == 1.0
    assert confidence.upper_bound(10, 10) == 1.0
    assert confidence.upper_bound(0, 0) == 1.0


def test_the_number_of_cuts_for_a_bound_is_the_least_that_gives_it():
    for bound in (0.5, 0.1, 0.01, 0.001):
        trials = confidence.trials_for(bound)
        assert confidence.upper_bound(0, trials) <= bound < confidence.upper_bound(0, trials - 1)


@pytest.mark.parametrize("arguments", [(-1, 3), (4, 3)])
def test_impossible_counts_are_refused(arguments):
    with pytest.raises(ValueError, match="trials"):
        confidence.upper_bound(*arguments)


def cut(shown: bool, promised: bool = True):
    story = Story()
    write = story.write(0)
    if promised:
        story.flush()
    return story.findings_after(story.drive(2, **({"s0": write} if shown else {})))


def test_cuts_without_loss_bound_the_probability_of_one():
    found = verdict.from_cuts("sata-consumer", [cut(True)] * 20)
    assert (found.cuts, found.broken_cuts) == (20, 0)
    assert found.loss_probability_high == pytest.approx(1 - 0.05 ** (1 / 20))
    assert "no promise was broken in 20 power cuts" in found.statement
    assert f"{100 * found.loss_probability_high:.3g} %" in found.statement


def test_a_cut_in_which_nothing_was_promised_bounds_nothing():
    found = verdict.from_cuts("drive", [cut(False, promised=False)] * 5)
    assert (found.cuts, found.void_cuts) == (0, 5)
    assert found.loss_probability_high == 1.0
    assert "nothing can be said" in found.statement


def test_one_broken_promise_is_a_verdict():
    found = verdict.from_cuts("drive", [cut(True)] * 19 + [cut(False)])
    assert found.broken_cuts == found.broken_promises == 1
    assert "breaks its promise: 1 of 20 power cuts" in found.statement
    assert found.loss_probability_low > 0


def test_what_broke_makes_a_cut_count_though_nothing_had_been_promised():
    """Data at rest that changed."""
    story = Story()
    rest = Sector("foreign", crc32c=2)
    changed = story.findings_after(Surveyed(SECTOR_BYTES, "", [rest]))
    found = verdict.from_cuts("drive", [changed])
    assert (found.cuts, found.void_cuts, found.broken_cuts) == (1, 0, 1)


def test_acknowledged_writes_are_counted_by_what_became_of_them():
    story = Story()
    promised = story.write(9)
    story.flush()
    for lost in (0, 8, 10):
        story.write(lost)
    torn = story.write(1, 2), story.write(4, 2)
    story.write(3)
    cells = story.drive(11, s1=torn[0], s4=torn[1], s9=promised)
    cells.sectors[3] = Sector("damaged", crc32c=1)
    found = verdict.from_cuts("drive", [story.findings_after(cells)] * 2)
    counts = (found.acknowledged_lost, found.acknowledged_torn, found.acknowledged_corrupt)
    assert counts == (6, 4, 2)
    assert (found.promised_writes, found.flushes, found.reordered) == (2, 2, 8)
