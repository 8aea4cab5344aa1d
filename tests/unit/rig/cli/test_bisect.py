# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig bisect`: what a person and a program see of a search."""

from __future__ import annotations

import pytest

from joulerig.analysis.bisect.search import Outcome, Search
from joulerig.rig.bisect.session import Asked, Session
from joulerig.rig.cli.bisect import command

LEVELS = ("6.1", "6.5", "6.9", "6.12")


@pytest.fixture
def session(state):
    return Session(Asked({"name": "k"}, "kernel", LEVELS, "speed", 40), state / "k.json", "20261126-000000")


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (
            Search(Outcome.GOES_ON, 4, measure=(0, 2), possible=(1, 2, 3)),
            "4 of at most 40 blocks: the first bad one is among 6.5, 6.9, 6.12; next: 6.1 and 6.9",
        ),
        (
            Search(Outcome.FOUND, 9, first_bad=2, possible=(2,), confirming=4),
            "6.9 is the first bad one, 6.5 the last good one; confirmed by 4 blocks of these two;"
            " 9 of at most 40 blocks",
        ),
        (
            Search(Outcome.GOES_ON, 5, measure=(1, 2), possible=(2,), confirming=1),
            "5 of at most 40 blocks: the first bad one is among 6.9; to confirm: 6.5 and 6.9",
        ),
        (
            Search(Outcome.ENDS_ALIKE, 12, possible=(1, 2, 3), step=0.01, low=-0.01, high=0.03),
            "6.1 and 6.12 do not differ; 12 of at most 40 blocks; +1.0 % (-1.0 % to +3.0 %)",
        ),
        (
            Search(Outcome.SPREAD, 9, possible=(2, 3)),
            "the change is spread over several levels; the largest one may be at 6.9, 6.12;"
            " 9 of at most 40 blocks",
        ),
        (
            Search(Outcome.BUDGET_SPENT, 40, possible=(1, 2)),
            "not decided: the first bad one is among 6.5, 6.9; 40 of at most 40 blocks",
        ),
    ],
)
def test_the_first_line_is_the_verdict(session, found, line):
    assert command.lines(session, found) == [line]


def test_json_names_levels_not_indices(session):
    found = Search(Outcome.FOUND, 9, first_bad=2, possible=(2,), probabilities=(0.0, 0.01, 0.98, 0.01))
    made = command.described_as_json(session, found)
    assert (made["outcome"], made["first_bad"], made["last_good"]) == ("found", "6.9", "6.5")
    assert made["possible"] == ["6.9"]
    assert made["probabilities"] == {"6.1": 0.0, "6.5": 0.01, "6.9": 0.98, "6.12": 0.01}
    assert made["campaigns"] == []


def test_json_of_one_that_has_not_ended_has_no_level(session):
    made = command.described_as_json(session, Search(Outcome.GOES_ON, 0, measure=(0, 3), possible=(1, 2, 3)))
    assert (made["first_bad"], made["last_good"], made["changes"]) == (None, None, {})
