# SPDX-License-Identifier: GPL-3.0-or-later
"""Least squares of watts on rates: values, intervals, and what rows leave open."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import special

from joulerig.analysis.coefficients.fit import Rows, fit

NAMES = ("base", "slope", "other")
TRUE = np.array([2.0, 0.5, 3.0])


def rows(count=40, scatter=0.0, seed=1, groups=8, common=None, own=0.0, terms=None):
    rng = np.random.default_rng(seed)
    if terms is None:
        terms = np.column_stack([np.ones(count), rng.uniform(0, 10, count), rng.uniform(0, 2, count)])
    watts = terms @ TRUE * (1 + scatter * rng.normal(size=len(terms)))
    names = [f"load {number % groups}" for number in range(len(terms))]
    return Rows(NAMES, terms, watts, names, np.full(len(terms), own), common or {})


def by_name(found):
    return {one.name: one for one in found.coefficients}


def halves(found):
    return np.array([(one.interval.high - one.interval.low) / 2 for one in found.coefficients])


def test_exact_rows_give_the_coefficients():
    found = fit(rows())
    assert [one.value for one in found.coefficients] == pytest.approx(TRUE.tolist(), rel=1e-9)
    assert found.residual_rms < 1e-12
    assert found.held_out_rms < 1e-9
    assert (found.rows, found.groups, found.held_out) == (40, 8, 40)


def test_values_are_those_of_numpys_least_squares():
    given = rows(scatter=0.05)
    scaled = given.terms / given.watts[:, None]
    expected = np.linalg.lstsq(scaled, np.ones(40), rcond=None)[0]
    assert [one.value for one in fit(given).coefficients] == pytest.approx(expected.tolist(), rel=1e-9)


def test_of_rows_that_are_a_load_each_the_interval_is_the_jackknifes():
    given = rows(scatter=0.05, groups=40)
    scaled = given.terms / given.watts[:, None]
    ones = np.ones(40)
    without = np.array(
        [np.linalg.lstsq(np.delete(scaled, row, 0), np.delete(ones, row), rcond=None)[0] for row in range(40)]
    )
    whole = np.linalg.lstsq(scaled, ones, rcond=None)[0]
    standard = np.sqrt(39 / 40 * ((without - whole) ** 2).sum(axis=0))
    weights = np.linalg.pinv(scaled) ** 2  # of the rows in each coefficient; each row is a load
    freedom = np.minimum(37, weights.sum(axis=1) ** 2 / (weights**2).sum(axis=1))
    assert halves(fit(given)) == pytest.approx(standard * special.stdtrit(freedom, 0.975), rel=1e-6)


def test_what_a_load_is_off_in_all_its_runs_widens_the_intervals():
    given = rows(scatter=0.001)
    off = 1 + 0.05 * np.random.default_rng(3).normal(size=8)
    watts = given.watts * np.array([off[number % 8] for number in range(40)])
    wide, narrow = (halves(fit(dataclasses.replace(given, watts=one))) for one in (watts, given.watts))
    assert (wide > 10 * narrow).all()


def test_a_gain_of_the_meter_moves_every_coefficient_by_its_share():
    plain = rows()
    given = dataclasses.replace(plain, common={"gain": 0.01 * plain.watts})
    assert halves(fit(given)) == pytest.approx((0.01 * TRUE).tolist(), rel=1e-6)


def test_an_offset_of_the_meter_moves_the_constant_alone():
    found = halves(fit(rows(common={"offset": np.full(40, 0.02)})))
    assert found[0] == pytest.approx(0.02, rel=1e-6)
    assert (found[1:] < 1e-6).all()


def test_sources_are_combined_as_independent():
    common = {"one": np.full(40, 0.03), "other": np.full(40, -0.04)}
    assert halves(fit(rows(common=common)))[0] == pytest.approx(0.05, rel=1e-6)


def test_what_is_wrong_with_each_row_is_added_at_its_worst():
    assert halves(fit(rows(own=0.02)))[0] >= 0.02


def test_a_term_that_no_row_has_is_left_open():
    given = rows()
    terms = given.terms.copy()
    terms[:, 2] = 0
    found = by_name(fit(dataclasses.replace(given, terms=terms, watts=terms @ TRUE)))
    assert (found["other"].value, found["other"].interval) == (None, None)
    assert found["slope"].value == pytest.approx(0.5)


def test_terms_that_go_together_in_every_row_are_both_left_open():
    given = rows()
    terms = given.terms.copy()
    terms[:, 2] = 7 * terms[:, 1]
    found = fit(dataclasses.replace(given, terms=terms, watts=terms @ TRUE))
    assert [one.value is None for one in found.coefficients] == [False, True, True]
    assert found.condition == math.inf


def test_a_coefficient_that_one_load_shows_names_it():
    given = rows()
    terms = given.terms.copy()
    terms[[number % 8 != 3 for number in range(40)], 2] = 0
    found = fit(dataclasses.replace(given, terms=terms, watts=terms @ TRUE))
    assert [one.only for one in found.coefficients] == ["", "", "load 3"]
    assert found.held_out == 35  # nothing is said of the load that no other can predict


def test_terms_that_nearly_go_together_inflate_the_variance():
    given = rows()
    terms = given.terms.copy()
    terms[:, 2] = terms[:, 1] * (1 + 1e-3 * np.random.default_rng(2).normal(size=40))
    found = by_name(fit(dataclasses.replace(given, terms=terms, watts=terms @ TRUE)))
    assert found["slope"].inflation > 1000
    assert by_name(fit(given))["slope"].inflation < 100


def test_a_load_that_the_model_cannot_have_is_seen_when_it_is_held_out():
    given = rows()
    watts = given.watts.copy()
    watts[[number % 8 == 5 for number in range(40)]] *= 1.5
    found = fit(dataclasses.replace(given, watts=watts))
    assert found.held_out_worst > 0.25
    assert found.held_out_rms > 0.08


def test_as_many_rows_as_coefficients_have_no_interval():
    found = fit(rows(count=3, groups=3))
    assert all(one.interval is None for one in found.coefficients)


def test_one_load_alone_holds_out_nothing():
    found = fit(rows(groups=1))
    assert (found.held_out, found.held_out_rms) == (0, None)
    assert {one.only for one in found.coefficients} == {"load 0"}


def test_one_row_is_no_error():
    found = fit(rows(count=1, groups=1))
    assert [one.value for one in found.coefficients] == [None, None, None]


def test_the_unit_of_a_term_does_not_matter():
    given = rows(scatter=0.02)
    scale = np.array([1.0, 1e9, 1e-6])
    there = fit(dataclasses.replace(given, terms=given.terms * scale))
    here = fit(given)
    assert [one.value for one in there.coefficients] == pytest.approx(
        [one.value / by for one, by in zip(here.coefficients, scale, strict=True)], rel=1e-6
    )
    assert there.condition == pytest.approx(here.condition, rel=1e-6)


def bent(by, seed=1):
    """Rows of 14 loads whose watts are what `by` makes of those of the coefficients."""
    plain = rows(count=42, groups=14, scatter=0.005, seed=seed)
    return dataclasses.replace(plain, watts=by(plain))


def concave(plain):
    return plain.watts + 3 * np.sqrt(plain.terms[:, 1] + plain.terms[:, 2])


def heating(plain):
    return plain.watts * (1 + 0.03 * plain.watts)


@pytest.mark.parametrize("by", [concave, heating])
def test_watts_that_are_not_proportional_to_loads_are_seen(by):
    assert fit(bent(by=by)).form.startswith("watts are not proportional to loads: curved in ")


def test_proportional_watts_are_rarely_called_curved():
    called = [fit(bent(by=lambda plain: plain.watts, seed=seed)).form for seed in range(60)]
    assert sum(map(bool, called)) <= 6


def test_the_reason_names_the_term_that_is_curved():
    given = bent(by=lambda plain: plain.watts + 0.5 * plain.terms[:, 2] ** 2)
    assert "what other is multiplied by" in fit(given).form


def test_as_many_loads_as_unknowns_check_nothing():
    found = fit(rows(count=9, groups=3, scatter=0.01))
    assert found.saturated
    assert found.form.startswith("as many unknowns as loads")


def test_few_loads_cannot_show_a_curve():
    found = fit(rows(count=18, groups=6, scatter=0.01))
    assert not found.saturated
    assert found.form == "6 loads cannot show whether watts are proportional; at least 7"
