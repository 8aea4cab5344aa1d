# SPDX-License-Identifier: GPL-3.0-or-later
"""Variances shrunk by empirical Bayes: the prior, degrees of freedom, and the floor."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from joulerig.analysis.statistics.shrinkage import fit_prior, inverse_trigamma, shrink


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
