# SPDX-License-Identifier: GPL-3.0-or-later
"""The energy and the I/O of a command, from what is in InfluxDB."""

import pytest

from joulerig.analysis.results.schema import Phase
from joulerig.rig.cli.measure import command, measured
from joulerig.rig.common.errors import UserError
from tests.integration.rig.test_record_result import BEGIN, S, power

PHASE = Phase("workload", BEGIN + 2 * S, BEGIN + 6 * S, 3 * S, 50)


@pytest.fixture
def known(bench, influxd, services_up):
    power(influxd)
    return bench


def counted(influxd, drive="fast"):
    """A hundred writes a second by the host's clock, which is 3 s behind."""
    influxd.write(
        *(
            f"blockio,host=bench1,drive={drive} reads=1i,read_bytes=4096i,writes={n * 100}i,"
            f"write_bytes={n * 409600}i,flushes={n}i,discards=0i {BEGIN + (n - 3) * S}"
            for n in range(12)
        )
    )


def test_a_drive_has_joules_with_bounds_and_its_io(known, influxd):
    counted(influxd)
    [found] = measured.energies(known, "bench1", ["fast"], PHASE)
    assert found.joules == pytest.approx(20)
    assert found.mean_watts == pytest.approx(5)
    assert found.why == []
    [rail] = found.rails
    assert (rail["rail"], rail["meter"], rail["lost"]) == ("12v", "tap1", 0)
    assert (found.io["writes"], found.io["write_bytes"], found.io["flushes"]) == (400, 1638400, 4)


def test_bounds_are_those_of_a_run(known, influxd):
    [found] = measured.energies(known, "bench1", ["fast"], PHASE)
    assert found.joules_low is None or found.joules_low <= found.joules <= found.joules_high
    [rail] = found.rails
    assert (found.joules_low, found.joules_high) == (rail["joules_low"], rail["joules_high"])


@pytest.mark.parametrize("step", [2 * S, -2 * S])
def test_a_command_in_which_the_controllers_clock_was_set_has_no_joules(known, influxd, monkeypatch, step):
    counted(influxd)
    booted = iter([7 * S, 7 * S + step])
    monkeypatch.setattr(measured.process, "boot_ns", lambda: next(booted))
    done = measured.here(["true"], known)
    [found] = measured.energies(known, "bench1", ["fast"], PHASE, done.clock_steps)
    word = "forward" if step > 0 else "back"
    assert found.why == [f"the controller's clock was set {word} by 2 s in the run"]
    assert (found.joules, found.joules_low, found.mean_watts) == (None, None, None)
    assert {rail["joules"] for rail in found.rails} == {None}
    assert command.line(found, 4.0).startswith(f"fast: no joules: the controller's clock was set {word}")


def test_a_command_in_which_no_clock_was_set_says_nothing_of_it(known):
    assert measured.here(["true"], known).clock_steps == []


def test_without_points_there_are_no_joules(bench, influxd, services_up, monkeypatch):
    monkeypatch.setattr(measured.measure, "ARRIVAL_SECONDS", 0.2)
    fast, bare = measured.energies(bench, "bench1", ["fast", "bare"], PHASE)
    assert fast.joules is None
    assert fast.why[0].startswith("no energy of fast 12v")
    assert fast.io is None
    assert bare.joules is None
    assert bare.why == ["the inventory gives it no rails"]


def test_influxdb_that_is_away_is_said(bench, services_up, influxd, monkeypatch):
    monkeypatch.setattr(measured.measure, "ARRIVAL_SECONDS", 0.2)
    influxd.stop()
    with pytest.raises(UserError, match="InfluxDB"):
        measured.energies(bench, "bench1", ["fast"], PHASE)
