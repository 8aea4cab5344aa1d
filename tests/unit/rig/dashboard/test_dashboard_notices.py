# SPDX-License-Identifier: GPL-3.0-or-later
"""What is missing or wrong, in sentences."""

import pytest

from joulerig.rig.dashboard import notices

SECOND = 1_000_000_000
NOW = 1_794_600_000 * SECOND
CAMPAIGN = {
    "found": True, "chosen": None, "newest": "demo-1", "campaigns": ["demo-1"], "problem": "",
    "warnings": [], "state": "running", "last_event_ns": NOW - 5 * SECOND,
}  # fmt: skip
LAB = {
    "slowness": 1.0, "influx": {"ok": True, "message": ""},
    "powerd": {"ok": True, "message": "", "meters": [{"name": "tap1", "state": "streaming", "reason": ""}]},
}  # fmt: skip
NOT_FOUND = {"found": False, "campaigns": [], "newest": None}


def test_where_all_is_well_there_is_nothing_to_say():
    assert list(notices.of_campaign(CAMPAIGN, NOW)) == []
    assert list(notices.of_lab(LAB)) == []


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        (NOT_FOUND, "info", "No campaign yet: 'rig run"),
        ({**NOT_FOUND, "chosen": "x"}, "bad", "There is no campaign x; choose another."),
        ({**NOT_FOUND, "problem": "j: damaged"}, "bad", "A journal cannot be read: j: damaged"),
        ({"chosen": "old-1", "campaigns": ["demo-1", "old-1"]}, "info", "not the newest campaign (demo-1)"),
        ({"warnings": ["nvme: uneven losses"]}, "warn", "nvme: uneven losses"),
        ({"last_event_ns": NOW - 3700 * SECOND}, "warn", "No event in the campaign's journal for 61 min"),
    ],
)
def test_a_campaign_says_what_is_wrong_with_it(change, kind, text):
    [(found_kind, found)] = notices.of_campaign({**CAMPAIGN, **change}, NOW)
    assert found_kind == kind
    assert text in found


def test_a_campaign_that_is_over_may_be_quiet():
    over = {**CAMPAIGN, "state": "finished", "last_event_ns": NOW - 10**6 * SECOND}
    assert list(notices.of_campaign(over, NOW)) == []


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        ({"slowness": 20.04}, "info", "Slow motion: a second of the virtual lab lasts 20 s."),
        ({"influx": {"ok": False, "message": "InfluxDB cannot be reached"}}, "bad", "have a gap; retrying"),
        (
            {"powerd": {"ok": False, "message": "no answer", "meters": []}},
            "warn",
            "state unknown: no answer.",
        ),
        (
            {"powerd": {"ok": True, "meters": [{"name": "tap1", "state": "silent", "reason": "5 s"}]}},
            "bad",
            "Meter tap1 is silent: 5 s. Its rails have no energy, so runs are partial.",
        ),
        (
            {"powerd": {"ok": True, "meters": [{"name": "tap1", "state": "failed", "reason": ""}]}},
            "bad",
            "Meter tap1 is failed. Its rails",
        ),
    ],
)
def test_a_lab_says_what_is_wrong_with_it(change, kind, text):
    [(found_kind, found)] = notices.of_lab({**LAB, **change})
    assert found_kind == kind
    assert text in found
