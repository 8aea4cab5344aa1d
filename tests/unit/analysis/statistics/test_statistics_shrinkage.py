# SPDX-License-Identifier: GPL-3.0-or-later
"""Variances shrunk by empirical Bayes: the prior, degrees of freedom, and the floor."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from joulerig.analysis.statistics.shrinkage import (
    fit_prior,
    inverse_trigamma,
    shrink,
    standard_error_of_excess,
)


@pytest.mark.parametrize("x", [1e-5, 0.01, 0.3, 1.0, 7.0, 400.0, 1e7])
def test_the_inverse_of_trigamma_is_its_inverse(x):
    assert inverse_trigamma(float(special.polygamma(1, x))) == pytest.approx(x, rel=1e-6)


def test_the_prior_of_variances_drawn_from_one_is_found():
    rng = np.random.default_rng(1)
    true = 0.0009 * 8 / rng.chisquare(8, 20_000)
    found = fit_prior(true * rng.chisquare(4, len(true)) / 4, np.full(len(true), 4.0))
    assert found.variance == pytest.approx(0.0009, rel=0.03)
    assert found.degrees == pytest.approx(8, rel=0.06)


def test_variances_that_differ_by_chance_alone_are_pooled():
    found = shrink([1.0, 1.2, 0.8, 1.1], [4, 4, 4, 2])
    assert math.isinf(fit_prior([1.0, 1.2, 0.8, 1.1], [4, 4, 4, 2]).degrees)
    pooled = (4 * (1.0 + 1.2 + 0.8) + 2 * 1.1) / 14
    assert found.variances == pytest.approx([pooled, 1.2, pooled, 1.1])
    assert found.degrees == pytest.approx([14] * 4)


def test_no_variance_is_shrunk_below_its_own():
    variances = np.array([1e-4, 1.1e-4, 0.9e-4, 1.2e-4, 1e-2])
    assert (shrink(variances, np.full(5, 3.0)).variances >= variances).all()


def test_a_quiet_cell_is_not_taken_for_as_quiet_as_its_few_values_look():
    assert shrink([1.0, 1.1, 0.9, 0.001], [2, 2, 2, 2]).variances[3] > 0.001


def test_a_cell_of_no_degree_of_freedom_has_the_variance_of_the_prior():
    found = shrink([1.0, 1.1, 0.0], [3, 3, 0])
    assert found.variances[2] == pytest.approx(1.05)


def test_a_variance_of_zero_among_others_leaves_a_prior():
    found = fit_prior([1.0, 2.0, 0.0], [3, 3, 3])
    assert found.variance > 0
    assert found.degrees > 0
    assert fit_prior([0.0, 0.0], [3, 3]).variance == 0


def test_caution_doubts_that_few_variances_are_alike_and_many_less():
    few, many = (
        fit_prior(np.full(count, 1.0), np.full(count, degrees), caution=1.0).degrees
        for count, degrees in ((5, 2.0), (100, 20.0))
    )
    assert few < 5 < 50 < many < math.inf


def test_the_standard_error_of_the_excess_is_that_of_simulated_variances():
    rng = np.random.default_rng(3)
    logs = np.log(rng.chisquare(4, (20_000, 15)) / 4)
    found = standard_error_of_excess(special.polygamma(1, 2.0), special.polygamma(3, 2.0), 15)
    assert found == pytest.approx(np.std(np.var(logs, axis=1, ddof=1)), rel=0.03)


def test_two_groups_show_no_spread_of_variances_and_are_pooled():
    assert math.isinf(fit_prior([1.0, 1.0], [3, 3], caution=1.0).degrees)


def test_only_floored_groups_keep_their_own_variance():
    found = shrink([1.0, 1.1, 0.9, 9.0], [4, 4, 4, 4], floored=[False, True, False, False])
    assert found.variances[3] < 9.0
    assert found.variances[1] >= 1.1
