# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether drives throttled in a run, by the reports of nvme-cli and smartctl."""

import pytest

from joulerig.analysis.runs.modes import throttling

COOL = {
    "critical_warning": 0, "temperature": 310, "warning_temp_time": 3, "critical_comp_time": 0,
    "thm_temp1_trans_count": 9, "thm_temp2_trans_count": 1, "thm_temp1_total_time": 1474,
    "thm_temp2_total_time": 5,
}  # fmt: skip


def ata(minutes, name="Time in Over-Temperature"):
    table = [{"name": "Current Temperature", "value": 50}, {"name": name, "value": minutes}]
    return {"ata_device_statistics": {"pages": [{"number": 1, "table": []}, {"number": 5, "table": table}]}}


def test_what_was_counted_before_a_run_is_not_of_it():
    assert throttling.in_run(COOL, COOL, ["fast"]) == []


@pytest.mark.parametrize(
    ("key", "rise", "expected"),
    [
        ("thm_temp1_trans_count", 1, "1 time into light throttling"),
        ("thm_temp1_total_time", 12, "12 s of light throttling"),
        ("thm_temp2_trans_count", 2, "2 times into heavy throttling"),
        ("thm_temp2_total_time", 1, "1 s of heavy throttling"),
        ("warning_temp_time", 1, "1 min above its warning temperature"),
        ("critical_comp_time", 4, "4 min above its critical temperature"),
    ],
)
def test_counts_that_rose(key, rise, expected):
    after = {**COOL, key: COOL[key] + rise}
    assert throttling.in_run(COOL, after, ["fast"]) == [f"fast was hot: {expected}"]


@pytest.mark.parametrize("warning", [2, 6, {"value": 2, "temp_threshold": 1}])
def test_a_temperature_past_a_threshold_at_the_end(warning):
    [line] = throttling.in_run(COOL, {**COOL, "critical_warning": warning}, ["fast"])
    assert line == "fast was hot: its temperature was past a threshold at the end"


@pytest.mark.parametrize("warning", [4, {"value": 4}, {}, None])
def test_another_warning_is_none_of_heat(warning):
    assert throttling.in_run(COOL, {**COOL, "critical_warning": warning}, ["fast"]) == []


def test_counts_as_text():
    before = {**COOL, "warning_temp_time": "3"}
    [line] = throttling.in_run(before, {**COOL, "warning_temp_time": "5"}, ["fast"])
    assert line == "fast was hot: 2 min above its warning temperature"


def test_minutes_of_an_ata_disk():
    [line] = throttling.in_run(ata(7), ata(9), ["slow"])
    assert line == "slow was hot: 2 min above its highest operating temperature"
    assert throttling.in_run(ata(7), ata(9, "Time in Under-Temperature"), ["slow"]) == []


def test_of_several_drives_each_by_its_name():
    before = {"one": COOL, "two": COOL, "three": None}
    after = {"one": COOL, "two": {**COOL, "thm_temp1_total_time": 1480}, "three": ata(1)}
    assert throttling.in_run(before, after, ["one", "two", "three"]) == [
        "two was hot: 6 s of light throttling"
    ]


@pytest.mark.parametrize("report", [None, {}, "text", {"ata_device_statistics": None}])
def test_a_drive_without_a_report(report):
    assert throttling.in_run(report, report, ["bare"]) == []
    assert throttling.in_run(report, COOL, ["bare"]) == []
