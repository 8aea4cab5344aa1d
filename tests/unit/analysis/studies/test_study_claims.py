# SPDX-License-Identifier: GPL-3.0-or-later
"""A verdict on a published claim is never looser than the interval of its effect."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from joulerig.analysis.studies import claims
from joulerig.analysis.studies.claims import DOES_NOT, HOLDS, OPEN, Claim, Effect

CLAIM = Claim("k", "One does more than the other.")


def runs(*values, first_block=1):
    return [
        SimpleNamespace(block=block, value=value, result=None)
        for block, value in enumerate(values, start=first_block)
    ]


def value(run):
    return run.value


def test_a_ratio_is_of_runs_of_one_block():
    """The second block is twice as fast for all: that is in no ratio."""
    found = claims.ratio(runs(3, 6, 3.03), runs(1, 2, 1), value)
    assert found.value == pytest.approx(3.01, rel=1e-3)
    assert (found.low > 2.95, found.high < 3.07, found.blocks) == (True, True, 3)


def test_the_interval_is_students_over_blocks():
    one, other = [1.1, 1.3, 1.2], [1.0, 1.0, 1.0]
    found = claims.ratio(runs(*one), runs(*other), value)
    logs = np.log(one)
    reach = 4.302653 * logs.std(ddof=1) / math.sqrt(3)
    assert (found.low, found.high) == pytest.approx(
        (math.exp(logs.mean() - reach), math.exp(logs.mean() + reach))
    )


def test_several_runs_of_a_block_count_as_one():
    found = claims.ratio(runs(2, 8) + runs(8, 2), runs(1, 1), value)
    assert (found.value, found.low, found.high, found.blocks) == (pytest.approx(4),) * 3 + (2,)


def test_it_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(2000):
        blocks = rng.normal(0, 0.3, 4)
        first = np.exp(math.log(1.5) + blocks + rng.normal(0, 0.05, 4))
        second = np.exp(blocks + rng.normal(0, 0.05, 4))
        found = claims.ratio(runs(*first), runs(*second), value)
        covered += found.low <= 1.5 <= found.high
    assert 0.935 <= covered / 2000 <= 0.965


@pytest.mark.parametrize(
    ("first", "second"),
    [([], [1, 2]), ([1, 2], []), ([1, 0], [1, 1]), ([1, None], [None, 1]), ([1, -1], [1, 1])],
)
def test_what_has_no_ratio(first, second):
    assert claims.ratio(runs(*first), runs(*second), value) is None


def test_one_block_has_a_ratio_and_no_interval_and_settles_nothing():
    effect = claims.ratio(runs(3), runs(1), value)
    assert (effect.value, effect.low, effect.high, effect.blocks) == (pytest.approx(3), None, None, 1)
    found = claims.greater(CLAIM, "d", effect, "above 1").judged()
    assert (found.verdict, found.effect) == (OPEN, effect)
    assert "two or more" in found.why


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(1.01, 1.4, HOLDS), (0.9, 0.99, DOES_NOT), (0.99, 1.5, OPEN), (1.01, 1.01, HOLDS)],
)
def test_above_one(low, high, verdict):
    effect = Effect.of_interval(math.sqrt(low * high), low, high, 3)
    found = claims.greater(CLAIM, "d", effect, "above 1").judged()
    assert found.verdict == verdict
    assert bool(found.why) == (verdict == OPEN)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.24, 0.26, HOLDS),
        (0.2251, 0.2749, HOLDS),
        (0.20, 0.224, DOES_NOT),
        (0.276, 0.4, DOES_NOT),
        (0.22, 0.26, OPEN),
        (0.1, 0.9, OPEN),
    ],
)
def test_near_what_was_published(low, high, verdict):
    effect = Effect.of_interval(math.sqrt(low * high), low, high, 3)
    found = claims.within_margin(CLAIM, "d", effect, 0.25, 0.10).judged()
    assert (found.verdict, found.expected) == (verdict, "0.225 to 0.275")


def test_what_keeps_it_open_wins_over_any_interval_and_the_effect_is_shown():
    effect = Effect.of_interval(3.1, 3.0, 3.2, 3)
    found = claims.within_margin(CLAIM, "d", effect, 3.1, 0.1, "the processor set the pace").judged()
    assert (found.verdict, found.effect.value) == (OPEN, pytest.approx(3.1))
    assert found.why == "the processor set the pace"


def test_without_runs_it_is_open():
    found = claims.greater(CLAIM, "d", None, "above 1").judged()
    assert (found.verdict, found.effect) == (OPEN, None)
    assert found.why


def bound(*fractions):
    return [SimpleNamespace(result=SimpleNamespace(device_bound_fraction=part)) for part in fractions]


@pytest.mark.parametrize(
    ("virtual", "fractions", "expected"),
    [
        (False, (None, None), ""),
        (True, (0.5, 0.9), ""),
        (True, (0.03, 0.9), "for 3 to 90 % of the time"),
        (True, (None,), "is not known"),
        (True, (), "is not known"),
    ],
)
def test_speed_on_a_virtual_lab_is_the_drives_only_where_the_drive_set_the_pace(virtual, fractions, expected):
    found = claims.paced_by_host(SimpleNamespace(virtual=virtual), bound(*fractions))
    assert expected in found
    assert bool(found) == bool(expected)


@pytest.mark.parametrize(
    ("low", "high", "verdict", "why"),
    [
        (0.95, 1.05, DOES_NOT, "below 1.1, the least that was meant"),
        (1.02, 1.08, DOES_NOT, "below 1.1, the least that was meant"),
        (0.80, 0.90, DOES_NOT, ""),
        (1.02, 1.30, HOLDS, ""),
        (0.95, 1.30, OPEN, "the interval agrees with both"),
    ],
)
def test_an_effect_too_small_to_have_been_meant_denies_the_claim(low, high, verdict, why):
    effect = Effect.of_interval(math.sqrt(low * high), low, high, 3)
    found = claims.greater(CLAIM, "d", effect, "above 1").judged(least=1.1)
    assert (found.verdict, found.why) == (verdict, why)


def test_what_keeps_a_claim_open_keeps_it_so():
    effect = Effect.of_interval(1.0, 0.95, 1.05, 3)
    found = claims.greater(CLAIM, "d", effect, "above 1", "the host set the pace").judged(least=1.1)
    assert (found.verdict, found.why) == (OPEN, "the host set the pace")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"ext2": (1000, 1100), "nilfs2": (1000, 960)}, ""),
        (
            {"ext2": (1000, 500), "nilfs2": (1000, 1100)},
            "ext2 had written 0.5 of what its load wrote, the rest was in the page cache",
        ),
        ({"ext2": (0, 0)}, ""),
        ({"ext2": (1000, None)}, "how much of its writes reached the drive is not known"),
    ],
)
def test_work_that_is_still_in_the_page_cache_is_not_done(monkeypatch, written, expected):
    monkeypatch.setattr(claims.derived, "amounts", lambda _campaign, run: run.amounts)
    found = [
        SimpleNamespace(filesystem=name, amounts={"write_bytes": asked, "block_write_bytes": reached})
        for name, (asked, reached) in written.items()
    ]
    assert claims.left_in_cache(SimpleNamespace(), found) == expected
