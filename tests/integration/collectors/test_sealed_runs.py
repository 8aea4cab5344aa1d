# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rig says of a measurement that is wrong: `python -m tests.bench.sealed` in short.

From a twin through the tap, libsigrok, srcap, powerd and InfluxDB to the energy of a load.
"""

import pytest

from tests.bench.sealed import chain, faults
from tests.bench.sealed.__main__ import sealed_runs

BY_NAME = {setup.name: setup for setup in faults.PLANTED}


def planted(name, tmp_path, influxd):
    outcome = chain.measure_once(BY_NAME[name], tmp_path / "run", influxd)
    print(outcome.inside, outcome.error_percent, outcome.reported)
    return outcome


def test_twenty_faults_are_planted():
    assert len(BY_NAME) == 20


def test_a_draw_is_as_dirty_as_the_declaration_allows_and_repeats():
    draws = [faults.draw(1, number) for number in range(200)]
    assert draws == [faults.draw(1, number) for number in range(200)]
    gains = [abs(draw.tap["gain.2"] - 1) for draw in draws]
    assert 0.0025 < max(gains) <= faults.ACCURACY["amps"]["gain_percent"] / 100


def test_sealed_draws_are_read_with_their_key_alone():
    draws = [faults.draw(7, number) for number in range(3)]
    sealed = faults.seal(draws, b"key")
    assert b"gain" not in sealed
    assert faults.unseal(sealed, b"key") == draws
    with pytest.raises(ValueError, match=r"decode|JSON|Expecting"):
        faults.unseal(sealed, b"another")


@pytest.mark.long
def test_the_truth_lies_within_the_bounds_of_a_tap_as_dirty_as_it_is_declared(tmp_path):
    said = []
    found = sealed_runs(2, 43, tmp_path, said.append)
    print("\n".join(said))
    assert said[0].endswith(found["details"]["sealed_digest"])  # before the first run
    assert (found["sealed_runs"], found["sealed_inside"]) == (2, 2)


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("500 ms clock offset", "off the operations"),
        ("cut tail", "interval not covered"),
        ("other instrument's serial", "the calibration is of serial"),
        ("dropped peaks", "its amps "),  # do not explain its volts, or only at another instant
        ("doubled blocks", "duplicate"),
    ],
)
def test_a_planted_fault_is_reported(tmp_path, influxd, name, word):
    assert any(word in text for text in planted(name, tmp_path, influxd).reported)


@pytest.mark.parametrize(
    ("name", "word"),
    [("5 ms window shift", "late"), ("warm shunt", "check after the run, 12v: joules are")],
)
def test_a_fault_that_a_check_alone_finds_is_not_reported_by_a_campaign(tmp_path, influxd, name, word):
    outcome = planted(name, tmp_path, influxd)
    assert any(word in text for text in outcome.checked)
    assert outcome.reported == []


@pytest.mark.long
def test_a_load_that_changes_within_a_sample_is_within_the_bounds(tmp_path, influxd):
    assert planted("5 kHz load", tmp_path, influxd).inside
