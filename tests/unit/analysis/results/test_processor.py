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
