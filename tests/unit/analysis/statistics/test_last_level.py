# SPDX-License-Identifier: GPL-3.0-or-later
"""The level that a series ends at is found where it holds, and not where it does not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from joulerig.analysis.statistics import segments

RNG = np.random.default_rng(3)
NOISE = 0.002 * RNG.standard_normal(300)


def stepped(*parts: tuple[int, float], noise: float = 1.0) -> np.ndarray:
    """Values of each level for so many steps."""
    values = np.concatenate([np.full(count, value) for count, value in parts])
    return values + noise * NOISE[: len(values)]


@pytest.mark.parametrize("noise", [0.0, 1.0])
@pytest.mark.parametrize("folding", [0, 1, 3, 20, 120, 149])
def test_a_level_of_half_of_the_series_or_more_is_found(folding, noise):
    found = segments.last_level(stepped((folding, 1.34), (300 - folding, 0.05), noise=noise))
    assert found.why == ""
    assert found.begin == pytest.approx(folding, abs=20)
    assert found.low - 1e-12 <= 0.05 <= found.high + 1e-12
    assert found.high - found.low < 0.004


@pytest.mark.parametrize("folding", [153, 160, 200, 290])
def test_a_level_of_less_than_half_does_not_hold(folding):
    assert segments.last_level(stepped((folding, 1.34), (300 - folding, 0.05))).why


@pytest.mark.parametrize(
    ("count", "awake"), [(30, 27), (40, 35), (60, 53), (60, 55), (60, 58), (300, 271), (300, 295), (300, 298)]
)
@pytest.mark.parametrize(("first", "then"), [(5.0, 1.0), (0.05, 1.34)])
def test_a_level_that_is_left_at_the_very_end_does_not_hold(count, awake, first, then):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # as it would stand in the user's terminal
        for seed in range(20):
            noise = 0.001 * np.random.default_rng(seed).standard_normal(count)
            assert segments.last_level(stepped((awake, first), (count - awake, then), noise=0) + noise).why


def test_one_value_apart_is_no_other_level():
    assert segments.last_level(stepped((299, 0.05), (1, 0.06))).why == ""


def test_a_level_that_slopes_does_not_hold():
    found = segments.last_level(1 + np.linspace(0.1, 0, 300) + NOISE)
    assert found.why == "it slopes"


def test_a_level_that_goes_to_and_fro_does_not_hold():
    assert segments.last_level(stepped(*[(30, 0.35), (30, 0.04)] * 5)).why


def test_what_a_level_moves_by_less_than_is_negligible_is_in_its_interval():
    found = segments.last_level(1 + np.linspace(0.005, 0, 300))
    assert (found.why, found.low <= 1 <= 1.005 <= found.high) == ("", True)


def test_noise_that_remembers_widens_the_interval_or_hides_the_level():
    white, remembers = RNG.standard_normal(300), np.zeros(300)
    for n in range(1, 300):
        remembers[n] = 0.7 * remembers[n - 1] + np.sqrt(1 - 0.7**2) * white[n]
    one, other = (segments.last_level(1 + 0.05 * values) for values in (white, remembers))
    assert other.why or other.high - other.low > 1.3 * (one.high - one.low)
    wanders = segments.last_level(1 + 0.05 * np.cumsum(white))
    assert wanders.why


def test_too_few_values_have_no_level():
    assert segments.last_level(np.ones(29)) is None
    assert segments.last_level(np.ones(30)).value == 1.0


def test_the_interval_holds_the_level_in_at_least_95_of_100_of_the_series_that_have_one():
    known = inside = 0
    for values in 1 + 0.05 * np.random.default_rng(4).standard_normal((200, 100)):
        found = segments.last_level(values)
        known += not found.why
        inside += not found.why and found.low <= 1 <= found.high
    assert known > 150
    assert inside / known >= 0.95
