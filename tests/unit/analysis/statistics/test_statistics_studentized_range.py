# SPDX-License-Identifier: GPL-3.0-or-later
"""The studentized range's distribution against scipy's, and against what it must be."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from joulerig.analysis.statistics import studentized_range

FAMILIES = [(2, 1), (3, 2), (9, 16), (20, 76), (100, 300)]


@pytest.mark.parametrize(("count", "freedom"), FAMILIES)
def test_it_is_that_of_scipy(count, freedom):
    q = np.array([0.01, 0.3, 2.5, 4.0, 7.0, 15.0])
    expected = stats.studentized_range.sf(q, count, freedom)
    np.testing.assert_allclose(studentized_range.survival(q, count, freedom), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("freedom", [1, 5, 40])
def test_of_two_means_it_is_students_t_to_the_last_digits_of_its_tail(freedom):
    q = np.array([0.5, 3.0, 9.0, 30.0])
    expected = 2 * stats.t.sf(q / np.sqrt(2), freedom)
    found = studentized_range.survival(q, 2, freedom)
    certain = expected > 1e-12
    np.testing.assert_allclose(found[certain], expected[certain], rtol=1e-8)
    assert certain.sum() >= 3


@pytest.mark.parametrize(("count", "freedom"), FAMILIES)
def test_the_critical_value_is_exceeded_with_that_probability(count, freedom):
    q = studentized_range.critical(0.05, count, freedom)
    assert stats.studentized_range.sf(q, count, freedom) == pytest.approx(0.05, abs=1e-10)


def test_a_range_of_zero_is_always_exceeded_and_shapes_are_kept():
    found = studentized_range.survival(np.array([[0.0, -1.0], [1e9, 2.0]]), 5, 10)
    assert found.shape == (2, 2)
    np.testing.assert_allclose(found[0], 1.0, rtol=1e-12)
    assert found[1, 0] == 0.0
    assert studentized_range.survival(3.0, 5, 10).shape == ()
    assert studentized_range.survival([], 5, 10).shape == (0,)


def test_many_values_are_those_of_each(monkeypatch):
    q = np.linspace(0, 8, 50)
    together = studentized_range.survival(q, 6, 12)
    monkeypatch.setattr(studentized_range, "_AT_ONCE", 1)  # each in its own pass
    np.testing.assert_allclose(studentized_range.survival(q, 6, 12), together, rtol=1e-13)


@pytest.mark.parametrize(("count", "freedom"), [(1, 5), (3, 0)])
def test_without_two_means_or_a_degree_of_freedom_there_is_none(count, freedom):
    with pytest.raises(ValueError, match="at least 2 and 1"):
        studentized_range.survival([1.0], count, freedom)
