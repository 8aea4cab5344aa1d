# SPDX-License-Identifier: GPL-3.0-or-later
"""The greatest mean power over standards' windows: found, or named as missing with the reason."""

import math

import numpy as np
import polars as pl
import pytest

from joulerig.analysis import results
from joulerig.analysis.drives import windows
from joulerig.analysis.export import columns
from joulerig.analysis.report import document
from joulerig.analysis.results.schema import Phase
from joulerig.analysis.runs import over_time
from joulerig.analysis.tables import runs_and_cells
from tests.support import simulated_campaign, simulated_waveform

SECOND = 1_000_000_000
ACCURACY = {"volts": {"gain_percent": 0.1}, "amps": {"gain_percent": 0.2}}


def phase(seconds=30.0):
    return Phase("workload", 0, int(seconds * SECOND), 0, 0)


def points(watts, step=0.01, rail="12v", first=0.0):
    """Power points whose means are `watts`, the first of which begins at `first` seconds."""
    times = [round((first + step * number) * SECOND) for number in range(len(watts) + 1)]
    return pl.DataFrame(
        {"time_ns": times, "drive": "d", "meter": "m", "rail": rail, "watts": [0.0, *map(float, watts)]},
        schema_overrides={"time_ns": pl.Int64},
    )


def greatest(frame, load=None):
    return over_time.from_points(frame, load or phase()).greatest


def test_even_power_has_one_mean_over_every_window():
    found = greatest(points(np.full(3000, 2.5)))
    assert {seconds: one.watts for seconds, one in found.items()} == pytest.approx({1.0: 2.5, 10.0: 2.5})


def test_a_second_of_much_power_is_found_where_it_is():
    watts = np.full(3000, 1.0)
    watts[1234:1334] = 9.0
    one = greatest(points(watts))[1.0]
    assert (one.watts, one.begins) == (pytest.approx(9.0), pytest.approx(12.34))


def test_half_a_second_counts_for_half_of_the_window():
    watts = np.full(3000, 1.0)
    watts[500:550] = 9.0
    found = greatest(points(watts))
    assert found[1.0].watts == pytest.approx(5.0)
    assert found[10.0].watts == pytest.approx(1.4)


@pytest.mark.parametrize("seed", range(4))
def test_the_greatest_is_that_of_all_windows(seed):
    watts = np.random.default_rng(seed).gamma(2, 1, 1500)
    expected = max(watts[begin : begin + 100].mean() for begin in range(1401))
    assert greatest(points(watts), phase(15.0))[1.0].watts == pytest.approx(expected)


def test_rails_are_added_before_the_greatest_is_taken():
    one, other = np.full(3000, 1.0), np.full(3000, 1.0)
    one[:100], other[200:300] = 5.0, 5.0
    assert greatest(pl.concat([points(one), points(other, rail="5v")]))[1.0].watts == pytest.approx(6.0)


def test_what_was_drawn_before_and_after_the_load_is_in_no_window():
    watts = np.full(3200, 1.0)
    watts[:100] = 50.0
    watts[-100:] = 50.0
    found = greatest(points(watts, first=-1.0))
    assert found[1.0].watts == pytest.approx(1.0)


def test_a_window_with_a_pause_in_it_is_left_out():
    watts = np.full(3000, 1.0)
    watts[1000:1100] = 9.0
    frame = points(watts)
    paused = frame.filter((pl.col("time_ns") < 10 * SECOND) | (pl.col("time_ns") > 11 * SECOND))
    assert greatest(paused)[1.0].watts == pytest.approx(1.0)


def test_a_load_that_is_shorter_than_the_window_has_none():
    assert set(greatest(points(np.full(500, 1.0)), phase(5.0))) == {1.0}


def test_points_that_are_far_apart_measure_no_short_window():
    assert set(greatest(points(np.full(150, 1.0), step=0.2))) == {10.0}


def test_gaps_in_every_window_leave_none():
    frame = points(np.full(3000, 1.0))
    holed = frame.filter(pl.col("time_ns") % SECOND < SECOND // 2)
    assert not greatest(holed)


# Of a campaign's runs


@pytest.fixture
def build(tmp_path):
    def make(**given):
        given = {"traces": True, "drives": ("nvme-plp",), "accuracy": ACCURACY, **given}
        return results.load(
            simulated_campaign.build(tmp_path / "c", filesystems=("ext4",), schedulers=("none",), **given)
        )

    return make


def rows(campaign):
    over, _ = over_time.power_by_run(campaign)
    return {row["window"]: row for row in windows.table(campaign, over).to_dicts()}


def test_a_slow_meter_cannot_measure_the_short_window(build):
    found = rows(build())
    assert found["100 µs"]["missing"] == windows.NOT_MEASURABLE
    assert found["100 µs"]["watts"] is None
    assert found["1 s"]["missing"] == ""
    assert found["1 s"]["watts"] >= found["10 s"]["watts"] > 0


def test_the_interval_is_the_meters_share(build):
    one = rows(build())["1 s"]
    assert 0 < one["watts_high"] / one["watts"] - 1 < 0.01
    assert one["watts_high"] - one["watts"] == pytest.approx(one["watts"] - one["watts_low"])


def test_without_a_class_there_is_no_interval(build):
    one = rows(build(accuracy=None))["1 s"]
    assert (one["watts_low"], one["watts_high"]) == (None, None)


def test_without_a_trace_it_says_so(build):
    found = rows(build(traces=False))
    assert found["1 s"]["missing"] == found["10 s"]["missing"] == "no trace of its power"


def test_the_standards_table_has_the_windows_and_what_is_missing(build):
    campaign = build(replicates=2)
    frames = runs_and_cells.frames(campaign)
    emerald = {row["quantity"]: (row["number"], row["text"]) for row in frames["emerald"].to_dicts()}
    watts = frames["windows"].filter(window="1 s")["watts"]
    assert emerald["greatest mean power of 1 s"] == (watts.max(), "")
    assert emerald["greatest mean power of 100 µs"] == (
        None,
        f"not measured: {windows.NOT_MEASURABLE}",
    )


def test_the_report_has_the_windows_and_why_one_is_missing(build):
    page = document.html(build())
    assert "Greatest power under load" in page
    assert windows.NOT_MEASURABLE in page


def test_every_column_is_described():
    for name in windows.COLUMNS:
        assert columns.described("windows", name)


# From a waveform


BEGIN = 1_700_000_000 * SECOND


@pytest.fixture
def waveform(tmp_path):
    def make(**given):
        given = {"samples": 3000, "rate_hz": 200_000.0, "begin_ns": BEGIN, "group_rows": 700, **given}
        return simulated_waveform.write(tmp_path / "waveform-tap1a.parquet", **given)

    return make


def found_in(path, interval=(BEGIN, BEGIN + SECOND), rail="12v"):
    return windows.greatest_of_samples(path, "nvme-plp", rail, windows.SHORT, interval)


def watts_of(path, rail="12v"):
    frame = pl.read_parquet(path).filter(rail=rail).sort("index")
    return frame["index"].to_numpy(), frame["volts"].to_numpy().astype(float) * frame["amps"].to_numpy()


def test_the_short_window_is_the_greatest_of_twenty_samples(waveform):
    path = waveform()
    _, watts = watts_of(path)
    means = [watts[first : first + 20].mean() for first in range(len(watts) - 19)]
    value, ends_ns = found_in(path)
    assert value == pytest.approx(max(means))
    assert ends_ns == BEGIN + (int(np.argmax(means)) + 20) * 5000


def test_blocks_that_are_read_one_by_one_give_the_same(waveform, monkeypatch):
    path = waveform()
    whole = found_in(path)
    monkeypatch.setattr(windows, "_ROWS", 333)
    assert found_in(path) == whole


def test_no_window_spans_a_lost_sample(waveform):
    path = waveform(missing=range(10, 3000, 25))
    index, watts = watts_of(path)
    means = [
        watts[first : first + 20].mean()
        for first in range(len(watts) - 19)
        if index[first + 19] - index[first] == 19
    ]
    assert found_in(path)[0] == pytest.approx(max(means))


def test_with_a_lost_sample_in_every_window_there_is_none(waveform):
    assert found_in(waveform(missing=range(0, 3000, 19))) is None


def test_samples_outside_the_load_are_in_no_window(waveform):
    path = waveform()
    _, watts = watts_of(path)
    means = [watts[first : first + 20].mean() for first in range(1000, 1981)]
    inside = (BEGIN + 1000 * 5000, BEGIN + 2000 * 5000)
    assert found_in(path, inside)[0] == pytest.approx(max(means))
    assert found_in(path, (BEGIN, BEGIN + 19 * 5000)) is None


def test_a_rail_is_found_among_others(waveform):
    path = waveform(rails=("12v", "5v"))
    _, watts = watts_of(path, "5v")
    assert found_in(path, rail="5v")[0] == pytest.approx(
        max(watts[first : first + 20].mean() for first in range(len(watts) - 19))
    )


def test_loads_of_no_run_have_no_row(build):
    campaign = build(outcome=lambda _: simulated_campaign.Outcome("failed", "no space"))
    assert rows(campaign) == {}


def test_names_are_those_of_the_windows():
    assert list(windows.NAMES.values()) == ["100 µs", "1 s", "10 s"]
    assert math.isclose(windows.SHORT * 1e6, 100)
