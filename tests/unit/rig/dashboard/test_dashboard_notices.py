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
METER = {"name": "tap1", "state": "streaming", "reason": "", "rails": ["d1 5v", "d1 12v"]}
LAB = {
    "slowness": 1.0, "influx": {"ok": True, "message": "", "away_seconds": None},
    "powerd": {"ok": True, "message": "", "meters": [METER]},
    "rails": [{"meter": "tap1", "age_seconds": 1.0}], "agents": {"h1": 0.5}, "failures": [],
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
        (
            {"failures": [{"task": "notifications", "count": 2, "reason": "TypeError: x"}]},
            "warn",
            "The dashboard's notifications failed 2 times, and went on: TypeError: x.",
        ),
        (
            {"influx": {"ok": False, "message": "InfluxDB cannot be reached", "away_seconds": 34.0}},
            "bad",
            "InfluxDB cannot be reached. No new figures for 30 s; retrying. What is measured meanwhile",
        ),
        (
            {"powerd": {"ok": False, "message": "no answer", "meters": []}},
            "warn",
            "state unknown: no answer.",
        ),
        (
            {"powerd": {"ok": True, "meters": [METER | {"state": "silent", "reason": "no frame for 5 s"}]}},
            "bad",
            "Meter tap1 is silent: no frame for 5 s. The energy of d1 5v, d1 12v is not measured,",
        ),
        (
            {"powerd": {"ok": True, "meters": [METER | {"state": "failed", "rails": []}]}},
            "bad",
            "Meter tap1 is failed. The energy of its rails is not measured",
        ),
        (
            {"rails": [{"meter": "tap1", "age_seconds": 130.0}]},
            "bad",
            "No watts of meter tap1 for 2 min: what is measured does not reach InfluxDB.",
        ),
        (
            {"agents": {"h1": 12.0, "h2": 3.0}},
            "warn",
            "No I/O figures of host h1 for 10 s: no agent there reports, or it is behind.",
        ),
        ({"agents": {"h1": 90.0, "h2": 31.0, "h3": 1.0}}, "warn", "of hosts h1, h2 for 30 s or more:"),
        ({"agents": {"h1": 3 * 3600.0}}, "warn", "for 3 h"),
    ],
)
def test_a_lab_says_what_is_wrong_with_it(change, kind, text):
    [(found_kind, found)] = notices.of_lab({**LAB, **change})
    assert found_kind == kind
    assert text in found


@pytest.mark.parametrize(
    "change",
    [
        {"rails": [{"meter": "tap1", "age_seconds": 40.0}, {"meter": "tap1", "age_seconds": 1.0}]},
        {"rails": [{"meter": "gone", "age_seconds": 40.0}]},
        {"rails": [{"meter": "tap1", "age_seconds": 9.0}], "agents": {"h1": 9.0}},
    ],
)
def test_a_rail_of_a_meter_that_is_read_is_no_silence_of_the_meter(change):
    assert list(notices.of_lab({**LAB, **change})) == []


def test_while_influxdb_is_away_that_alone_is_why_nothing_is_new():
    away = {"ok": False, "message": "InfluxDB cannot be reached", "away_seconds": 40.0}
    old = {"rails": [{"meter": "tap1", "age_seconds": 40.0}], "agents": {"h1": 40.0}}
    [(kind, _)] = notices.of_lab({**LAB, **old, "influx": away})
    assert kind == "bad"


def test_without_the_power_daemon_both_are_said():
    none = {"powerd": {"ok": False, "message": "no answer", "meters": []}}
    old = {"rails": [{"meter": "tap1", "age_seconds": 40.0}]}
    texts = [text for _, text in notices.of_lab({**LAB, **old, **none})]
    assert texts[0].startswith("Meters' state unknown")
    assert texts[1].startswith("No watts of meter tap1 for 40 s")
