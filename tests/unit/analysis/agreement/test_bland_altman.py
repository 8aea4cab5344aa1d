# SPDX-License-Identifier: GPL-3.0-or-later
"""Bias, limits of agreement, E_n numbers and the verdict on two methods."""

from __future__ import annotations

import numpy as np
import pytest

from joulerig.analysis.agreement.bland_altman import Pair, Verdict, agreement


def simulated(seed, *, bias=0.0, between=0.0, within=0.01, groups=8, repeats=5, stated=None):
    """Pairs that differ by so much, relatively; `stated`: the expanded uncertainty of each."""
    rng = np.random.default_rng(seed)
    pairs = []
    for group in range(groups):
        level, own = rng.uniform(1, 10), between * rng.standard_normal()
        for _ in range(repeats):
            off = bias + own + within * rng.standard_normal()
            expanded = None if stated is None else stated * level
            pairs.append(Pair(str(group), level * (1 + off / 2), level * (1 - off / 2), (expanded, expanded)))
    return pairs


def test_equal_readings_agree():
    found = agreement([Pair(name, 2.0, 2.0, (0.1, 0.1)) for name in 6 * "abc"])
    assert (found.verdict, found.bias, found.spread) == (Verdict.AGREE, (0, 0, 0), 0)
    assert set(found.normalised) == {0.0}


def test_a_difference_is_relative_to_the_mean():
    found = agreement([Pair("a", 11.0, 9.0)])
    assert found.differences == pytest.approx((0.2,))
    assert found.means == (10.0,)


def test_by_hand():
    """Three groups of one pair: mean and standard deviation of 1, 2 and 3 %."""
    pairs = [Pair(str(off), 1 + off / 2, 1 - off / 2) for off in (0.01, 0.02, 0.03)]
    found = agreement(pairs)
    assert found.bias[0] == pytest.approx(0.02)
    assert found.spread == pytest.approx(0.01)
    assert found.bias[2] - found.bias[0] == pytest.approx(4.30265 * 0.01 / 3**0.5, rel=1e-5)
    assert found.high_limit[0] == pytest.approx(0.02 + 1.959964 * 0.01)
    assert found.low_limit[0] == pytest.approx(0.02 - 1.959964 * 0.01)


@pytest.mark.parametrize(("stated", "number"), [((0.3, 0.4), 2.0), ((1.0, 0.0), 1.0), ((0.0, 2.0), 0.5)])
def test_e_n_is_the_difference_over_both_uncertainties(stated, number):
    assert agreement([Pair("a", 11.0, 10.0, stated)]).normalised == pytest.approx((number,))


@pytest.mark.parametrize("stated", [(None, 0.1), (0.1, None), (None, None), (0.0, 0.0)])
def test_without_uncertainties_nothing_is_judged(stated):
    found = agreement([Pair(name, 2.0, 1.0, stated) for name in "abcd"])
    assert found.normalised == (None,) * 4
    assert (found.verdict, found.beyond) == (Verdict.NOT_KNOWN, None)
    assert found.bias is not None


def test_honest_methods_agree():
    assert agreement(simulated(1, within=0.01, stated=0.02)).verdict is Verdict.AGREE


def test_a_bias_that_the_uncertainties_do_not_explain_differs():
    found = agreement(simulated(2, bias=0.05, stated=0.01))
    assert found.verdict is Verdict.DIFFER
    assert found.bias[1] < 0.05 < found.bias[2]
    assert found.bias[1] > 0


def test_a_bias_that_they_explain_agrees():
    found = agreement(simulated(3, bias=0.05, stated=0.10))
    assert found.verdict is Verdict.AGREE
    assert found.bias[1] > 0


def test_agreement_needs_as_many_pairs_as_its_claim():
    within = [Pair(str(number % 4), 2.0, 2.0, (0.1, 0.1)) for number in range(17)]
    assert agreement(within).verdict is Verdict.AGREE
    found = agreement(within[:16])
    assert found.verdict is Verdict.UNDECIDED
    assert found.why.endswith("more pairs decide")


def test_a_meter_that_is_off_in_a_fifth_of_its_readings_rarely_agrees():
    def verdict(seed):
        rng = np.random.default_rng(seed)
        off = np.where(rng.uniform(size=20) < 0.2, 0.1, 0.0)
        return agreement([Pair(str(place), 2 + 2 * one, 2.0, (0.02, 0.02)) for place, one in enumerate(off)])

    assert sum(verdict(seed).verdict is Verdict.AGREE for seed in range(200)) <= 20


def test_uncertainties_that_explain_anything_do_not_agree():
    found = agreement([Pair(str(place % 5), 2.4, 1.6, (1.0, 1.0)) for place in range(40)])
    assert found.verdict is Verdict.UNDECIDED
    assert "too wide to judge by: ±71 %; at most 20 %" in found.why


def test_few_groups_have_no_limits():
    found = agreement(simulated(4, groups=2, stated=0.1))
    assert (found.bias, found.low_limit, found.high_limit, found.spread) == (None,) * 4
    assert found.verdict is Verdict.UNDECIDED


def test_exchanged_methods_have_the_opposite_bias():
    pairs = simulated(5, bias=0.03, between=0.01, stated=0.02)
    found = agreement(pairs)
    other = agreement([Pair(p.group, p.other, p.one, p.expanded[::-1]) for p in pairs])
    assert other.bias[0] == pytest.approx(-found.bias[0])
    assert other.low_limit[0] == pytest.approx(-found.high_limit[0])
    assert other.verdict is found.verdict


def test_the_unit_does_not_matter():
    pairs = simulated(6, between=0.01, stated=0.02)
    scaled = [Pair(p.group, 1e3 * p.one, 1e3 * p.other, tuple(1e3 * u for u in p.expanded)) for p in pairs]
    one, other = agreement(pairs), agreement(scaled)
    assert one.differences == pytest.approx(other.differences)
    assert one.normalised == pytest.approx(other.normalised)
    assert one.high_limit == pytest.approx(other.high_limit)


def test_repetitions_do_not_narrow_what_they_have_in_common():
    """Each pair ten times over has the interval of eight groups still."""
    pairs = simulated(7, between=0.02)
    one, other = agreement(pairs), agreement(pairs * 10)
    assert other.bias == pytest.approx(one.bias)
    assert other.pairs == 10 * one.pairs


def covered(wanted, **given):
    return sum(wanted(agreement(simulated(seed, **given))) for seed in range(400)) / 400


@pytest.mark.parametrize("between", [0.0, 0.02])
def test_the_interval_of_the_bias_covers_it(between):
    share = covered(lambda found: found.bias[1] < 0.03 < found.bias[2], bias=0.03, between=between)
    assert 0.92 <= share <= 0.98


@pytest.mark.parametrize("between", [0.0, 0.02])
def test_the_interval_of_a_limit_covers_it(between):
    true = 0.03 + 1.96 * (between**2 + 0.01**2) ** 0.5
    share = covered(
        lambda found: found.high_limit[1] < true < found.high_limit[2], bias=0.03, between=between
    )
    assert share >= 0.92


def test_honest_uncertainties_rarely_differ():
    """Two expanded uncertainties of one standard deviation and root two each make that of 1 %."""
    assert covered(lambda found: found.verdict is Verdict.DIFFER, stated=0.02 / 2**0.5) <= 0.05
