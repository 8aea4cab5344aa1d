# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rail's volts and amps say of each other: wrong ones are found, right ones are left alone.

A supply of 12 V and 50 mOhm, samples at 1 kHz, points of ten samples: two seconds of rest, four of
bursts of some milliseconds, two of rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from joulerig.analysis.energy import plausibility
from joulerig.analysis.energy.interval import CounterPoints

BEGIN, POINT, RATE = 1_700_000_000_000_000_000, 10, 1000
VOLTS, OHMS, STEP = 12.0, 0.05, 0.001
REST, LOAD = 2000, 4000  # samples
NOISE = 0.003
BEFORE = (BEGIN, BEGIN + 2 * 10**9)
DURING = (BEFORE[1], BEFORE[1] + 4 * 10**9)
AFTER = (DURING[1], DURING[1] + 2 * 10**9)


def bursts(seed: int = 1, load: int = LOAD) -> np.ndarray:
    """Return amps: bursts of 1 to 6 ms at any time in a load, 0.1 A else."""
    rng = np.random.default_rng(seed)
    amps = np.full(2 * REST + load, 0.1)
    at = REST
    while (at := at + int(rng.integers(4, 20))) < REST + load - 6:
        amps[at : at + int(rng.integers(1, 7))] = rng.uniform(0.4, 1.4)
    return amps


def sampled(amps: np.ndarray, noise: float = NOISE, seed: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Return volts and amps as a meter with noise reads them."""
    rng = np.random.default_rng(seed)
    volts = VOLTS - OHMS * amps + noise * rng.normal(size=len(amps))
    return volts, amps + noise / 3 * rng.normal(size=len(amps))


def points(volts: np.ndarray, amps: np.ndarray, **changed: Any) -> CounterPoints:
    means = {name: x.reshape(-1, POINT).mean(axis=1) for name, x in (("volts", volts), ("amps", amps))}
    count = len(means["volts"])
    numbers = np.arange(1, count + 1)
    watts = (volts * amps).reshape(-1, POINT).mean(axis=1)
    columns: dict[str, Any] = {
        "time_ns": BEGIN + numbers * POINT * 10**6,
        "joules": np.cumsum(watts) * POINT / RATE,
        "session": np.full(count, "one", dtype=object),
        "expected": numbers * POINT,
        **means,
        **changed,
    }
    return CounterPoints(**columns)


def found(measured: CounterPoints, **known: Any) -> list[str]:
    known = {"supply_volts": VOLTS, "supply_ohms": OHMS, "volts_step": STEP, **known}
    return plausibility.describe(measured, DURING, [BEFORE, AFTER], sample_rate_hz=RATE, **known)


@pytest.mark.parametrize("noise", [0.0, 0.001, NOISE])
def test_a_right_meter_with_noise_is_left_alone(noise: float) -> None:
    said = [found(points(*sampled(bursts(seed), noise, seed + 1000))) for seed in range(200)]
    assert said == [[]] * 200


def test_nothing_is_said_of_a_rail_without_volts() -> None:
    volts, amps = sampled(bursts())
    measured = points(volts, amps)
    bare = CounterPoints(measured.time_ns, measured.joules, measured.session)
    assert found(bare) == []


def test_nothing_is_said_of_a_supply_whose_volts_do_not_move() -> None:
    volts, amps = sampled(bursts())
    assert found(points(np.full(len(volts), 12.0), amps), supply_ohms=None) == []


def test_volts_of_another_rail_are_not_those_of_the_supply() -> None:
    (text,) = found(points(*sampled(bursts())), supply_volts=5.0)
    assert text.startswith("its supply is at 12 V, and is declared as 5 V")


def test_a_droop_within_the_declared_resistance_is_no_other_supply() -> None:
    amps = 20 * bursts()
    assert found(points(VOLTS - OHMS * amps, amps)) == []


def test_amps_that_stay_where_they_are_do_not_explain_the_volts() -> None:
    volts, amps = sampled(bursts())
    amps[REST + LOAD // 2 :] = amps[REST + LOAD // 2]
    (text,) = found(points(volts, amps))
    assert "amps do not explain" in text


def test_peaks_that_are_lost_from_the_amps_still_show_in_the_volts() -> None:
    volts, amps = sampled(bursts())
    held = np.where(amps > 0.5, np.nan, amps)
    last = np.maximum.accumulate(np.where(np.isfinite(held), np.arange(len(held)), 0))
    (text,) = found(points(volts, held[last]))
    assert "amps do not explain" in text


def test_another_load_of_the_same_supply_that_goes_on_all_the_time_is_no_contradiction() -> None:
    volts, amps = sampled(bursts())
    other = np.repeat(np.random.default_rng(3).uniform(0, 1.5, len(volts) // 50), 50)
    assert not any("amps do not explain" in text for text in found(points(volts - OHMS * other, amps)))


def means_of(volts: np.ndarray, amps: np.ndarray) -> plausibility.Means:
    return plausibility.Means(*(x.reshape(-1, POINT).mean(axis=1) for x in (volts, amps)), POINT / RATE)


@pytest.mark.parametrize("late", [-2, -1, 1, 2])
def test_amps_of_another_sample_than_the_volts_are_seen(late: int) -> None:
    volts, amps = sampled(bursts(load=60_000))
    measured = plausibility.skew(means_of(volts, np.roll(amps, late)))
    assert measured is not None
    assert plausibility.is_skewed(measured, 1 / RATE)
    assert measured.seconds == pytest.approx(late / RATE, rel=0.4)  # of bursts within a point: less


def test_amps_of_the_same_sample_as_the_volts_are_not_skewed() -> None:
    for seed in range(300):
        measured = plausibility.skew(means_of(*sampled(bursts(seed), seed=seed + 1000)))
        assert measured is not None
        assert not plausibility.is_skewed(measured, 1 / RATE)


def test_skewed_amps_are_named_with_their_direction() -> None:
    volts, amps = sampled(bursts(), noise=0.001)
    (text,) = found(points(volts, np.roll(amps, 4)))
    assert text.startswith("its amps are ")
    assert text.endswith(" ms later than its volts")


def test_volts_that_never_move_under_a_load_that_must_move_them_are_stuck() -> None:
    volts, amps = sampled(bursts())
    assert found(points(np.full(len(volts), 12.0), amps)) == ["its volts stand still, whatever its amps do"]


@pytest.mark.parametrize(
    ("moved", "word"), [(-(10**9), "back by about 1 s"), (10**9, "forward by about 1 s")]
)
def test_a_clock_that_was_set_shows_in_the_samples_it_holds(moved: int, word: str) -> None:
    measured = points(*sampled(bursts()))
    times = measured.time_ns.copy()
    times[len(times) // 2 :] = np.maximum(times[len(times) // 2 :] + moved, times[len(times) // 2 - 1] + 1)
    times = np.maximum.accumulate(times) + np.arange(len(times))
    assert any(f"clock was set {word}" in text for text in found(points(*sampled(bursts()), time_ns=times)))


@pytest.mark.parametrize("ppm", [-90, 90])
def test_the_clock_of_a_meter_may_be_as_far_off_as_is_declared_for_hours(ppm: int) -> None:
    numbers = np.arange(1, 2_000_001)
    measured = points(*sampled(bursts()))
    many = CounterPoints(
        BEGIN + (numbers * POINT * 10**6 * (1 + ppm * 1e-6)).astype(np.int64),
        np.zeros(len(numbers)),
        np.full(len(numbers), "one", dtype=object),
        expected=numbers * POINT,
    )
    span = (BEGIN, BEGIN + 20_000 * 10**9)
    assert plausibility.clock_moved(many, span, RATE, plausibility.CLOCK_PPM) == 0
    assert plausibility.clock_moved(measured, BEFORE, RATE, plausibility.CLOCK_PPM) == 0


def test_a_new_session_says_nothing_of_the_clock() -> None:
    measured = points(*sampled(bursts()))
    session = measured.session.copy()
    session[300:] = "two"
    changed = points(*sampled(bursts()), session=session, expected=np.arange(len(session)))
    assert not any("clock" in text for text in found(changed))


def test_power_that_rises_before_its_load_shows_a_wrong_time() -> None:
    amps = np.roll(bursts(), -500)
    (text,) = found(points(*sampled(amps)))
    seconds = float(text.removeprefix("its power rises ").split()[0])
    assert seconds == pytest.approx(0.5, abs=0.02)
    assert "before the load begins" in text


def test_power_that_rises_while_the_loads_program_starts_shows_nothing() -> None:
    measured = points(*sampled(np.roll(bursts(), -500)))
    ended = (BEFORE[0], BEFORE[1] - 450_000_000)
    assert plausibility.rises_early(measured, DURING, BEFORE) == pytest.approx(0.5, abs=0.02)
    assert plausibility.rises_early(measured, DURING, ended) == 0
    ended = (BEFORE[0], BEFORE[1] - 300_000_000)
    assert plausibility.rises_early(measured, DURING, ended) == pytest.approx(0.5, abs=0.02)


def test_power_that_rises_after_the_load_began_may_be_a_slow_start() -> None:
    assert found(points(*sampled(np.roll(bursts(), 500)))) == []


@pytest.mark.parametrize(
    ("ops", "unseen", "said"),
    [(20_000, 0.2, True), (20_000, 0.05, False), (1_900, 0.2, False)],
)
def test_a_load_faster_than_the_samples_is_named_where_it_matters(
    ops: int, unseen: float, said: bool
) -> None:
    text = plausibility.faster_than_samples(ops, 4.0, RATE, 10.0, unseen)
    assert text == (
        "5000 operations per second are faster than 1000 samples per second:"
        " 2.0 % of the joules are bounded by its supply alone"
        if said
        else ""
    )
