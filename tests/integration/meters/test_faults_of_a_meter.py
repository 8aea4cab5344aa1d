# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults through srcap and powerd: a gap of their length, and no effect on the other meter."""

import os
import time
from pathlib import Path

import pytest

from tests.support import emulated_dps, emulated_pps, emulated_tap
from tests.support.power_processes import SRCAP, Emulator, Powerd, settings_of
from tests.support.programs import wait_for

NOWHERE = {"url": "http://127.0.0.1:9", "database": "power"}
AWAY = 3.0  # seconds
FAULTY = 1.5  # seconds

# What is read, how often, and what the rail draws; None: a waveform.
KINDS = {
    "hameg-hmo": (emulated_tap, "hameg-hmo", "stream", 1000, {"volts": "CH1", "amps": "CH2"}, None),
    "scpi-pps": (emulated_pps, "scpi-pps", "poll", 48, {"volts": "V2", "amps": "I2"}, 7.5),
    "rdtech-dps": (emulated_dps, "rdtech-dps", "poll", 95, {"volts": "V", "amps": "I"}, 12.34 * 0.567),
}


def meter(name, driver, timing, rate, channels):
    return {
        "name": name,
        "driver": driver,
        "set": settings_of(driver),
        "timing": timing,
        "sample_rate_hz": rate,
        "samples": "window-mean" if timing == "stream" else "point",
        "silence_seconds": 1,
        "rails": [{"rail": "r", "host": "h", "drive": name, **channels}],
    }


class Bench:
    """powerd with the meter that fails and a second tap."""

    def __init__(self, folder, kind):
        emulator, driver, timing, rate, channels, self.watts = KINDS[kind]
        self.line = emulator.line()
        self.line.instrument.noise = 0.01
        self.second = Emulator(rate=1000)
        self.powerd = Powerd(
            folder,
            {
                "state_dir": str(folder / "powerd"),
                "srcap": SRCAP,
                "status_socket": str(folder / "s.sock"),
                "points_per_second": 10,
                "influx": NOWHERE,
                "meters": [
                    meter("failing", f"{driver}:conn={self.line.connection}", timing, rate, channels),
                    meter("second", self.second.driver, "stream", 1000, {"volts": "CH1", "amps": "CH2"}),
                ],
            },
        )

    def cpu_seconds(self):
        """Of powerd, its captures, and those that have ended."""
        total = 0.0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            pid, parent = int(stat.parent.name), int(fields[1])
            if self.powerd.process.pid == pid:
                total += sum(map(int, fields[11:15]))  # with children that were waited for
            elif self.powerd.process.pid == parent:
                total += sum(map(int, fields[11:13]))
        return total / os.sysconf("SC_CLK_TCK")

    def streaming(self, seconds=15):
        return self.powerd.wait_state("failing", "streaming", seconds)

    def wait_fresh(self, before, seconds):
        """Wait for the samples of so many seconds after the status `before`."""
        enough = counted(before) + seconds * before["sample_rate_hz"]
        wait_for(lambda: counted(self.powerd.meter("failing")) >= enough, 10 + seconds, "fresh samples")

    def close(self):
        if self.powerd.process.poll() is None:
            self.powerd.stop()
        with self.line, self.second:
            pass


@pytest.fixture(params=KINDS)
def bench(request, tmp_path):
    made = Bench(tmp_path, request.param)
    made.powerd.wait_state("second", "streaming", 15)
    begun = made.streaming()
    made.wait_fresh(begun, 2)
    yield made
    made.close()


def balanced(status):
    counts = {
        key: status[key] for key in ("expected", "samples", "lost", "duplicate", "repeated", "over_range")
    }
    return counts["expected"] == sum(counts.values()) - counts["expected"]


def counted(status):
    """Samples that came, those of an old value among them."""
    return status["samples"] + status["repeated"]


def away(bench, fault, back):
    """Do a fault for AWAY seconds; return (status before, status after it, CPU s per second)."""
    before = bench.streaming()
    cpu, began = bench.cpu_seconds(), time.monotonic()
    fault()
    time.sleep(AWAY)
    back()

    def well():
        status = bench.powerd.meter("failing")
        ok = status["state"] == "streaming" and status["restarts"] > before["restarts"]
        fresh = counted(status) - counted(before)
        return status if ok and fresh > status["sample_rate_hz"] else None

    # srcap is started again after 0.25, 0.5, 1, 2 s, and each attempt at a mute instrument takes
    # its second.
    after = wait_for(well, 12, "the meter to measure again")
    return before, after, (bench.cpu_seconds() - cpu) / (time.monotonic() - began)


def check(bench, before, after, cpu):
    gap = after["gap_seconds"] - before["gap_seconds"]
    assert AWAY - 0.5 < gap < AWAY + 8
    assert after["worst_gap_seconds"] >= AWAY - 0.5
    assert after["lost"] - before["lost"] == pytest.approx(gap * after["sample_rate_hz"], rel=0.1)
    assert balanced(after)
    rail = after["rails"][0]
    # A gap adds nothing to what was measured; the truth is between the bounds, which it moves. A
    # polled meter has none, as no supply is declared.
    polled = after["timing"] == "poll"
    if polled:
        assert (rail["joules_low"], rail["joules_high"]) == (None, None)
    else:
        assert rail["joules"] < rail["joules_low"] <= rail["joules_high"]
    if bench.watts:
        measured = rail["joules"] / bench.watts
        unknown = after["gap_seconds"]
        if not polled:
            assert (rail["joules_low"] - rail["joules"]) / bench.watts == pytest.approx(unknown, rel=0.02)
        assert measured + unknown == pytest.approx(after["expected"] / after["sample_rate_hz"], rel=0.1)
        assert rail["watts"] == pytest.approx(bench.watts, rel=5e-3)
    second = bench.powerd.meter("second")
    assert (second["lost"], second["restarts"], second["gap_seconds"]) == (0, 0, 0)
    assert second["state"] == "streaming"
    assert cpu < 0.4


@pytest.mark.timed
@pytest.mark.long
def test_mute_for_a_while(bench):
    instrument = bench.line.instrument
    before, after, cpu = away(
        bench, lambda: setattr(instrument, "mute", True), lambda: setattr(instrument, "mute", False)
    )
    check(bench, before, after, cpu)


@pytest.mark.timed
@pytest.mark.long
def test_unplugged_and_back(bench):
    before, after, cpu = away(bench, bench.line.unplug, bench.line.plug)
    check(bench, before, after, cpu)


@pytest.mark.timed
@pytest.mark.long
def test_a_reset_costs_a_second_or_two(bench):
    before = bench.streaming()
    bench.line.reset()

    def well():
        status = bench.powerd.meter("failing")
        fresh = counted(status) - counted(before)
        booked = status["restarts"] > before["restarts"] and fresh > 0.7 * status["sample_rate_hz"]
        return status if booked and status["state"] == "streaming" else None

    after = wait_for(well, 8, "the meter to measure again")
    assert 0.1 < after["gap_seconds"] - before["gap_seconds"] < 4
    second = bench.powerd.meter("second")
    assert (second["lost"], second["restarts"]) == (0, 0)


@pytest.mark.timed
@pytest.mark.long
def test_empty_replies_are_a_gap_and_no_energy(bench):
    instrument = bench.line.instrument
    before, after, cpu = away(
        bench, lambda: setattr(instrument, "empty", True), lambda: setattr(instrument, "empty", False)
    )
    check(bench, before, after, cpu)


def test_replies_in_pieces_and_stale_bytes_change_no_energy(bench):
    instrument = bench.line.instrument
    instrument.fragment = True
    time.sleep(FAULTY)
    instrument.fragment, instrument.stale = False, True
    time.sleep(FAULTY)
    instrument.stale = False
    status = bench.streaming()
    bench.wait_fresh(status, 1)
    assert bench.powerd.meter("second")["lost"] == 0
    rail = bench.powerd.meter("failing")["rails"][0]
    if bench.watts:
        measured = status["expected"] / status["sample_rate_hz"] - status["gap_seconds"]
        assert rail["joules"] <= bench.watts * (measured + 3)
        assert rail["watts_max"] == pytest.approx(bench.watts, rel=5e-3)
        assert rail["watts_min"] == pytest.approx(bench.watts, rel=5e-3)
