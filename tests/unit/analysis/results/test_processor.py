# SPDX-License-Identifier: GPL-3.0-or-later
"""Joules of a host's processor packages over a phase, from a counter that is read once a second."""

import polars as pl
import pytest

from joulerig.analysis.results import processor
from joulerig.analysis.results.run_file import RunFileError
from joulerig.analysis.results.schema import Phase

S = 1_000_000_000
BEGIN = 1_700_000_000 * S


def phase(start=2.0, end=6.0) -> Phase:
    return Phase("workload", BEGIN + round(start * S), BEGIN + round(end * S), 0, 0)


def readings(*points: tuple[float, float]) -> pl.DataFrame:
    """(seconds, joules) of each."""
    rows = [(BEGIN + round(at * S), joules) for at, joules in points]
    return pl.DataFrame(rows, schema=processor.COLUMNS, orient="row")


def test_between_readings_the_counter_is_taken_as_linear():
    found = readings((1.5, 100), (2.5, 120), (3.5, 130), (5.5, 150), (6.5, 190))
    # 110 at 2 s, 170 at 6 s
    assert processor.joules(found, phase()) == pytest.approx(60, abs=1e-9)


def test_readings_at_the_ends_themselves_are_enough():
    assert processor.joules(readings((2, 7.0), (6, 11.5)), phase()) == 4.5


@pytest.mark.parametrize(
    "points",
    [
        [],
        [(1, 5)],
        [(2.1, 1), (7, 9)],
        [(1, 1), (5.9, 9)],
        [(1, 500), (3, 510), (4, 2), (7, 30)],
    ],
    ids=["nothing", "one", "begins late", "ends early", "counter restarted"],
)
def test_what_does_not_cover_the_whole_phase_gives_no_joules(points):
    assert processor.joules(readings(*points), phase()) is None


def test_an_idle_package_draws_nothing_rather_than_nothing_known():
    assert processor.joules(readings((1, 5), (7, 5)), phase()) == 0.0


def test_readings_are_kept_to_the_last_bit(tmp_path):
    found = readings((1, 0.1 + 0.2), (2, 1e15 / 3))
    processor.write(found, tmp_path)
    assert processor.read(tmp_path).equals(found)
    assert processor.read(tmp_path / "elsewhere") is None


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / processor.FILE).write_text("time_ns,package_joules\n1,many\n")
    with pytest.raises(RunFileError, match=f"{tmp_path / processor.FILE}: cannot be read"):
        processor.read(tmp_path)


class Readings:
    """The readings that InfluxDB has, on the host's clock."""

    def __init__(self, *points: tuple[float, float | None]) -> None:
        rows = [(BEGIN + round(at * S), joules) for at, joules in points]
        self.frame = pl.DataFrame(rows, schema={"time": pl.Int64, "package_joules": pl.Float64}, orient="row")

    def query(self, influxql: str, *, host: str | None = None) -> pl.DataFrame:
        assert "host = 'vhost1'" in influxql
        return self.frame


def test_readings_are_kept_from_the_last_before_the_phase_to_the_first_after_it():
    """Read the controller's clock, half a second ahead of the host's."""
    load = Phase("workload", BEGIN + 2 * S, BEGIN + 4 * S, S // 2, 0)
    found = processor.points(Readings(*((at, 10.0 * at) for at in range(8))), "vhost1", load)
    assert ((found["time_ns"] - BEGIN) / S).to_list() == [1.5, 2.5, 3.5, 4.5]
    assert processor.joules(found, load) == pytest.approx(20)
    found = processor.points(Readings((0, 1.0), (1, None), (3, 2.0), (5, None), (6, 3.0)), "vhost1", load)
    assert found["package_joules"].to_list() == [1.0, 2.0, 3.0]
