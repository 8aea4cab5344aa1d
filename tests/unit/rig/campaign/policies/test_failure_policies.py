# SPDX-License-Identifier: GPL-3.0-or-later
"""`on_failure` of a campaign: what is allowed, what stands for what is left out, who decides."""

from __future__ import annotations

from typing import Any

import pytest

from joulerig.analysis.results.schema import Cause
from joulerig.rig.campaign import definition
from joulerig.rig.campaign.policies.failures import DEFAULTS, Action, Failures, shown
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.model import Lab


def test_causes_that_are_left_out_keep_their_default(mapping: dict[str, Any], bench: Lab) -> None:
    asked = {**mapping, "on_failure": {"busy": "hold"}}
    parsed = definition.parse(asked, bench, "playbooks/study.yml")
    assert parsed.on_failure == {**DEFAULTS, "busy": "hold"}
    assert definition.parse(mapping, bench, "playbooks/study.yml").on_failure == DEFAULTS


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        (
            {"bsy": "skip"},
            ": unknown cause 'bsy'; allowed: error, refused, unable, busy, interrupted, booted, host-gone, clock",
        ),
        ({"busy": "retry"}, ".busy: 'retry'; allowed: retry N (1 to 10), skip, hold, stop"),
        ({"busy": "retry 11"}, ".busy: 'retry 11'; allowed: retry N (1 to 10), skip, hold, stop"),
        ({"error": 3}, ".error: '3'; allowed: retry N (1 to 10), skip, hold, stop"),
        (
            "skip",
            ": 'skip'; allowed: a mapping of error, refused, unable, busy, interrupted, booted, host-gone, clock to"
            " retry N (1 to 10), skip, hold, stop",
        ),
    ],
)
def test_a_mistake_is_one_line(mapping: dict[str, Any], bench: Lab, written: Any, complaint: str) -> None:
    with pytest.raises(UserError) as refused:
        definition.parse({**mapping, "on_failure": written}, bench, "playbooks/study.yml")
    assert str(refused.value) == f"playbooks/study.yml: campaign.on_failure{complaint}"


def test_a_run_is_attempted_again_so_many_times_and_no_more() -> None:
    failures = Failures({"error": "retry 2"})
    found = [failures.decide("a", Cause.ERROR).action for _ in range(4)]
    assert found == [Action.RETRY, Action.RETRY, Action.SKIP, Action.SKIP]
    assert failures.decide("b", Cause.ERROR).action == Action.RETRY, "each run has its own"


def test_a_cause_without_a_policy_is_passed_over() -> None:
    assert Failures({}).decide("a", Cause.ERROR).action == Action.SKIP
    assert Failures(DEFAULTS).decide("a", Cause.UNRECORDED).action == Action.SKIP


def test_policies_are_shown_by_action() -> None:
    assert shown({"error": "retry 1", "busy": "skip", "booted": "retry 1"}) == (
        "retry 1: error, booted; skip: busy"
    )
