# SPDX-License-Identifier: GPL-3.0-or-later
"""Power points: from a real InfluxDB to power.csv, to the energy of a phase, the same both ways."""

from __future__ import annotations

import polars as pl
import pytest

from joulerig.analysis.results import power_points

T0 = 1_700_000_000_000_000_000
MS = 1_000_000


@pytest.fixture
def client(influxd):
    lines = []
    rails = (("d1", "5v", "m1", 2.0), ("d1", "12v", "m2", 3.0), ("other", "5v", "m1", 9.0))
    for drive, rail, meter, watts in rails:
        for k in range(301):
            time_ns = T0 + k * 10 * MS
            lines.append(
                f"power,meter={meter},rail={rail},host=h,drive={drive} "
                f"volts=5,amps={watts / 5},watts={watts},"
                f"watts_min={watts},watts_max={watts + 1},joules={watts * k * 0.01!r},samples={k * 10}i,"
                f'expected={k * 10 + 1}i,lost=1i,repeated=0i,gap_seconds=0.5,session="0001" {time_ns}'
            )
    influxd.write(*lines)
    with influxd.databases() as client:
        yield client


def test_points_are_of_the_drives_asked_for_with_a_margin(client):
    frame = power_points.points(client, "h", ["d1"], T0 + 1000 * MS, T0 + 2000 * MS, margin_ns=100 * MS)
    assert frame.columns == list(power_points.COLUMNS)
    assert dict(frame.schema) == power_points.COLUMNS
    assert set(frame["drive"]) == {"d1"}
    assert set(frame["rail"]) == {"5v", "12v"}
    assert (frame["time_ns"].min(), frame["time_ns"].max()) == (T0 + 900 * MS, T0 + 2100 * MS)
    assert set(frame["session"]) == {"0001"}


def test_energy_of_a_phase_by_rail(client):
    frame = power_points.points(client, "h", ["d1"], T0 + 1005 * MS, T0 + 2005 * MS)
    energy = power_points.energy_by_rail(frame, T0 + 1005 * MS, T0 + 2005 * MS)
    assert set(energy) == {("d1", "m1", "5v"), ("d1", "m2", "12v")}
    rail = energy["d1", "m1", "5v"]
    assert rail.joules == pytest.approx(2.0, rel=1e-9)
    assert rail.bound_joules == pytest.approx(2 * 0.25 * 0.010 * 1.0)
    assert rail.samples == 1010


def test_no_points_are_an_empty_frame_and_no_rails(client):
    frame = power_points.points(client, "h", ["no-such-drive"], T0, T0 + 1)
    assert (frame.height, frame.columns) == (0, list(power_points.COLUMNS))
    assert power_points.energy_by_rail(frame, T0, T0 + 1) == {}
    assert power_points.points(client, "h", [], T0, T0 + 1).is_empty()


def test_a_gap_longer_than_the_margin_still_has_points_on_both_sides(influxd, client):
    """Of d2: 20 s from T0 on, a gap of 12 s from 5 s on."""
    for k in (*range(501), *range(1700, 2001)):
        gap = 12.0 if k >= 1700 else 0.0
        measured = k * 0.01 - gap
        influxd.write(
            f"power,meter=m1,rail=5v,host=h,drive=d2 watts=2,watts_min=1,watts_max=3,joules={2 * measured!r},"
            f"joules_low={2 * measured + gap!r},joules_high={2 * measured + 3 * gap!r},"
            f'lost={int(gap * 1000)}i,gap_seconds={gap},session="0001" {T0 + k * 10 * MS}'
        )
    interval = (T0 + 4000 * MS, T0 + 8000 * MS)
    (energy,) = power_points.energy_by_rail(
        power_points.points(client, "h", ["d2"], *interval), *interval
    ).values()
    assert energy.joules == pytest.approx(2.0)
    assert (energy.joules_low, energy.joules_high) == (pytest.approx(2.0 + 3.0), pytest.approx(2.0 + 9.0))
    assert energy.lost == 12000
    interval = (T0 + 15_000 * MS, T0 + 18_000 * MS)
    (energy,) = power_points.energy_by_rail(
        power_points.points(client, "h", ["d2"], *interval), *interval
    ).values()
    assert energy.joules == pytest.approx(2.0)
    assert (energy.joules_low, energy.joules_high) == (pytest.approx(2.0 + 2.0), pytest.approx(2.0 + 6.0))


def test_power_csv_gives_back_the_same_points_and_so_the_same_joules(client, tmp_path):
    frame = power_points.points(client, "h", ["d1"], T0 + 1005 * MS, T0 + 2005 * MS)
    back = power_points.read(power_points.write(frame, tmp_path / "run" / "power.csv"))
    assert back.equals(frame)
    interval = (T0 + 1005 * MS, T0 + 2003 * MS)
    assert power_points.energy_by_rail(back, *interval) == power_points.energy_by_rail(frame, *interval)


def test_a_power_csv_with_the_columns_of_a_trace_alone_is_read(tmp_path):
    (tmp_path / "power.csv").write_text(
        "time_ns,rail,watts,watts_min,watts_max,joules\n1,5v,2.0,1.0,3.0,0.5\n"
    )
    frame = power_points.read(tmp_path / "power.csv")
    assert frame.select("time_ns", "rail", "watts", "joules", "session").row(0) == (1, "5v", 2.0, 0.5, None)


def test_no_power_csv_and_an_empty_one_are_none(tmp_path):
    assert power_points.read(tmp_path / "power.csv") is None
    (tmp_path / "power.csv").write_text("")
    assert power_points.read(tmp_path / "power.csv") is None
    (tmp_path / "power.csv").write_text("time_ns,rail,watts\n")
    assert power_points.read(tmp_path / "power.csv") is None


@pytest.mark.parametrize(
    ("content", "why"),
    [("a,b\n1,2\n", "no column 'time_ns'"), ("time_ns,rail,watts\n1,5v,many\n", "cannot be read")],
)
def test_a_power_csv_that_is_none_is_named_in_one_line(tmp_path, content, why):
    (tmp_path / "power.csv").write_text(content)
    with pytest.raises(power_points.PowerFileError) as error:
        power_points.read(tmp_path / "power.csv")
    assert str(tmp_path / "power.csv") in str(error.value)
    assert why in str(error.value)
    assert "\n" not in str(error.value)


def test_points_without_a_session_are_not_guessed_to_be_one(tmp_path):
    (tmp_path / "power.csv").write_text("time_ns,rail,watts,joules\n1,5v,2.0,0.5\n2,5v,2.0,0.6\n")
    frame = power_points.read(tmp_path / "power.csv")
    assert frame["session"].null_count() == frame.height
    (energy,) = power_points.energy_by_rail(frame, 1, 2).values()
    assert energy.joules is None
    assert "session" in energy.reason


def test_write_takes_any_order_of_columns(tmp_path):
    frame = pl.DataFrame(schema=dict(reversed(power_points.COLUMNS.items())))
    power_points.write(frame, tmp_path / "power.csv")
    assert (tmp_path / "power.csv").read_text().strip() == ",".join(power_points.COLUMNS)
