# SPDX-License-Identifier: GPL-3.0-or-later
"""The energy of a polled meter as a sample."""

from __future__ import annotations

import numpy as np
import pytest

from joulerig.analysis.energy import sampled

MEAN_WATTS = 3.6 + 0.06 * 20.4  # 30 ms of 24 W in each half second


def readings(rng: np.random.Generator, jitter: float, power, seconds: float = 120.0) -> tuple:
    """Return instants and joules of ten polls a second, each pause changed by up to `jitter`."""
    pauses = 0.1 * (1 + jitter * rng.uniform(-1, 1, int(seconds * 10)))
    instants = rng.uniform(0, 0.5) + np.cumsum(pauses)
    watts = power(instants)
    steps = np.diff(instants) * (watts[1:] + watts[:-1]) / 2
    return instants, np.append(0.0, np.cumsum(steps))


def bursts(instants: np.ndarray) -> np.ndarray:
    return np.where(np.mod(instants, 0.5) < 0.03, 24.0, 3.6)


def test_an_interval_by_blocks_holds_the_truth_of_bursts_between_readings():
    rng, inside, known = np.random.default_rng(4), 0, 0
    for _ in range(300):
        instants, joules = readings(rng, 0.45, bursts)
        half = sampled.half_width(instants, joules, 0.0)
        if half is None:
            continue
        known += 1
        inside += abs(joules[-1] - MEAN_WATTS * (instants[-1] - instants[0])) <= half
        assert half < 0.4 * joules[-1]
    assert known > 250
    assert 0.92 * known <= inside


@pytest.mark.parametrize("jitter", [0.0, 0.01, 0.05])
def test_readings_that_may_be_in_step_with_the_load_are_no_sample(jitter):
    """One in step misses each burst, or meets one in five, and its readings hardly vary."""
    instants, joules = readings(np.random.default_rng(5), jitter, bursts)
    assert sampled.half_width(instants, joules, 0.0) is None


def test_blocks_that_resemble_their_neighbours_are_made_longer_or_are_no_sample():
    instants, joules = readings(np.random.default_rng(6), 0.45, lambda at: 2 + np.sin(2 * np.pi * at / 100))
    assert sampled.half_width(instants, joules, 0.0) is None


def test_readings_that_the_instrument_repeats_are_no_sample():
    instants, joules = readings(np.random.default_rng(7), 0.45, bursts)
    assert sampled.half_width(instants, joules, 0.2) is None


def test_few_readings_are_no_sample():
    instants, joules = readings(np.random.default_rng(8), 0.45, bursts, seconds=4.0)
    assert sampled.half_width(instants, joules, 0.0) is None
