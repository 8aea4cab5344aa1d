# SPDX-License-Identifier: GPL-3.0-or-later
"""What a program may print, and what becomes of it (docs/reference/protocols/command.md)."""

import math

import pytest

from joulerig.capturers.capture import InstrumentError
from joulerig.capturers.command import Lines, Slots, quantity
from tests.support import hostile_text


def parsed(*lines):
    parser = Lines()
    return [row for line in lines if (row := parser.parse(line))]


def test_the_first_line_of_csv_names_its_columns():
    assert parsed("time,volts,amps", "0.1,5,0.25", " 0.2 , 5.1 , -1e-3 ") == [
        {"time": 0.1, "volts": 5.0, "amps": 0.25},
        {"time": 0.2, "volts": 5.1, "amps": -1e-3},
    ]


def test_json_has_its_columns_in_each_line():
    assert parsed('{"volts": 5, "amps": 0.25}', '{"amps": 0.5, "volts": 4.9}') == [
        {"volts": 5.0, "amps": 0.25},
        {"amps": 0.5, "volts": 4.9},
    ]


def test_blank_lines_and_comments_are_no_samples():
    assert parsed("# my meter", "", "volts,amps", "   ", "5,1") == [{"volts": 5.0, "amps": 1.0}]


def test_columns_that_are_no_quantity_are_left_out():
    assert parsed("time,celsius,volts", "1,21.5,5") == [{"time": 1.0, "volts": 5.0}]
    assert parsed('{"status": "ok", "watts": 2}') == [{"watts": 2.0}]


def test_what_is_missing_is_no_reading_and_what_is_over_range_is_infinite():
    rows = parsed("volts,amps", "5,", "5,OL", "5,inf", "5,-OL", "5,nan", '{"volts": 5, "amps": null}')
    amps = [row["amps"] for row in rows]
    assert amps[0] is None
    assert amps[1] == amps[2] == amps[3] == math.inf
    assert math.isnan(amps[4])
    assert amps[5] is None


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["5.0,0.25"], ["first line of CSV names its columns"]),
        (["celsius,status"], ["'celsius,status'", "volts, amps, watts, joules"]),
        (["volts,amps", "5"], ["'5'", "1 values; allowed: 2, as volts,amps"]),
        (["volts,amps", "5,five"], ["'5,five'", "CSV or JSON"]),
        (['{"volts": true}'], ["no line of samples"]),
        (['{"volts": 5'], ["no line of samples"]),
        (['{"time": Infinity, "volts": 5}'], ["no line of samples"]),
        (['{"time": NaN, "volts": 5}'], ["no line of samples"]),
        (['{"time": 1e18, "volts": 5}'], ["no line of samples"]),
        (["time,volts", "inf,5"], ["'inf,5'", "no line of samples"]),
        (["time,volts", "1e18,5"], ["'1e18,5'", "no line of samples"]),
        (["volts", "1e300"], ["'1e300'", "no line of samples"]),
        (['{"volts": 1' + "0" * 400 + "}"], ["no line of samples"]),
        (['{"volts": 1' + "0" * 5000 + "}"], ["no line of samples"]),
        (['{"volts": ' + "[" * 30000 + "}"], ["no line of samples"]),
        (['{"volts": [5]}'], ["no line of samples"]),
        (['{"celsius": 5}'], ["has none of time, volts, amps, watts, joules"]),
    ],
)
def test_other_lines_are_refused_in_one_line(lines, expected):
    with pytest.raises(InstrumentError) as error:
        parsed(*lines)
    assert "\n" not in str(error.value)
    for part in expected:
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("column", "is_what"),
    [
        ("volts", "volts"), ("12v.amps", "amps"), ("drive.0.watts", "watts"), ("joules", "watt_hours"),
        ("time", "time"), ("12v.time", ""), ("my_volts", ""), ("", ""),
    ],
)  # fmt: skip
def test_a_column_is_named_as_its_quantity_or_name_and_quantity(column, is_what):
    assert quantity(column) == is_what


def indices(rate, times):
    slots = Slots(rate)
    return [slots.index(seconds) for seconds in times]


def test_a_sample_that_did_not_come_leaves_its_number_out():
    assert indices(1000, [7.000, 7.001, 7.002, 7.005, 7.006]) == [0, 1, 2, 5, 6]


def test_a_clock_that_is_off_its_rate_loses_and_gains_no_sample():
    for rate in (999, 1001):
        assert indices(1000, [k / rate for k in range(5000)]) == list(range(5000))


def test_jitter_below_half_a_period_moves_no_sample():
    assert indices(1000, [k / 1000 + 0.0002 * (-1) ** k for k in range(100)]) == list(range(100))


def test_without_times_samples_are_numbered_as_they_come():
    assert indices(1000, [None] * 3) == [0, 1, 2]


def test_times_that_do_not_rise_are_refused():
    for second in (1.0, 0.5, math.nan):
        with pytest.raises(InstrumentError, match="times that rise"):
            indices(10, [1.0, second])


@pytest.mark.parametrize("kind", hostile_text.NAMES)
@pytest.mark.parametrize("form", ["{}", "volts,amps\n5,{}", '{{"volts": "{}"}}'])
def test_a_text_of_a_program_is_no_reading(kind, form):
    lines = form.format(hostile_text.NAMES[kind].replace("\n", " ")).splitlines()
    with pytest.raises(InstrumentError) as refused:
        parsed(*lines)
    assert len(str(refused.value)) < 400
    assert str(refused.value).isprintable()
