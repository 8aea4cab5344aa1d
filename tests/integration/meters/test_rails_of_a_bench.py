# SPDX-License-Identifier: GPL-3.0-or-later
"""Each instrument of a bench measures a rail, from its inventory on, or is refused in one line.

All are emulated at the level of their protocol; libsigrok, the capturers and powerd are real.
"""

import contextlib
import os
import threading
import tty
from pathlib import Path

import pytest

from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import meters
from joulerig.rig.lab.meters import source
from tests.support import ROOT, emulated_pps, emulated_tap, emulated_ut61e, fake_sysfs
from tests.support.capturers import program
from tests.support.emulated_qis import Server
from tests.support.emulated_usb import Kit, Sensor
from tests.support.measured_rail import lab_of, running
from tests.support.programs import wait_for

# A pseudo-terminal has no parity, which the instrument's 19200/7o1 asks for.
PAGE = ROOT / "docs" / "how-to" / "meters.md"
# By instrument, as the page's table names it: the tests that measure a rail with it, and those in
# which it is refused.
MEASURED, REFUSED = {}, {}


def instrument(name, found=MEASURED):
    """Note that a test is about an instrument of the page's table."""

    def note(test):
        found.setdefault(name, []).append(test)
        return test

    return note


UT61E = {"driver": "uni-t-ut61e-ser", "serialcomm": "19200/8n1", "timing": "poll", "sample_rate_hz": 10}
SUPPLY = {"volts": 6, "amps": 3, "ohms": 0.05}


def check(rail, watts, within=0.01, joules=2.0):
    found = rail.measured(joules)
    assert found["watts"] == pytest.approx(watts, rel=within)
    # A gap of a machine that is busy is in the bounds alone: they may both be above the joules.
    assert found["joules_low"] is None or found["joules_low"] <= found["joules_high"]
    return found


# ---------------------------------------------------------------- supplies, multimeters


@instrument("Rigol DP832")
def test_a_supply_with_a_profile_in_libsigrok(tmp_path):
    with emulated_pps.line() as line:
        rail = {"meter": "m", "volts": "V2", "amps": "I2", "supply": SUPPLY}
        with running(tmp_path, {"m": {"driver": "scpi-pps", "connection": line.connection}}, rail) as found:
            check(found, 7.5)


@instrument("Siglent SDM3065X, SPD3303X-E", REFUSED)
@pytest.mark.parametrize(
    ("driver", "identity"),
    [
        ("scpi-pps", "Siglent Technologies,SPD3303X-E,SPD3XGB,1.01.01.02.05,V3.0"),
        ("scpi-dmm", "Siglent Technologies,SDM3065X,SDM36GB,3.01.01.10"),
    ],
)
def test_an_instrument_without_a_profile_in_libsigrok_is_refused_with_the_way(driver, identity):
    with emulated_pps.line() as line:
        line.instrument.identity = identity
        family = meters.shipped().family(driver)
        with pytest.raises(UserError) as refused:
            source.scan(f"{driver}:conn={line.connection}", family, 2.0)
    said = str(refused.value)
    assert "\n" not in said
    assert f"{driver} of libsigrok knows" in said
    assert "driver: command" in said


def test_the_way_for_such_an_instrument_is_a_program_that_asks_it(tmp_path):
    text = """
        import socket, sys, time
        with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as line, line.makefile("r") as replies:
            print("volts,amps", flush=True)
            while True:
                line.sendall(b":INST:NSEL 2\\n:MEAS:VOLT?\\n:MEAS:CURR?\\n")
                print(replies.readline().strip(), replies.readline().strip(), sep=",", flush=True)
                time.sleep(0.05)  # the pace of the instrument
    """
    with emulated_pps.line() as line:
        line.instrument.identity = "Siglent Technologies,SPD3303X-E,SPD3XGB,1.01.01.02.05,V3.0"
        command = [*program(tmp_path, text), str(line.port)]
        meter = {"driver": "command", "command": command, "timing": "poll", "sample_rate_hz": 20}
        rail = {"meter": "m", "volts": "volts", "amps": "amps", "supply": SUPPLY}
        with running(tmp_path, {"m": meter}, rail) as found:
            check(found, 7.5)


@instrument("UNI-T UT61E")
def test_a_multimeters_amps_with_stated_volts(tmp_path):
    with emulated_ut61e.line(function="amps", value=1.5) as line:
        clamp = {**UT61E, "connection": line.connection}
        rail = {"meter": "m", "volts": "5.00 ± 0.05", "amps": "P1", "supply": SUPPLY}
        with running(tmp_path, {"m": clamp}, rail) as found:
            status = check(found, 7.5)
    assert status["joules_high"] - status["joules_low"] > 0.019 * status["joules"]


@instrument("UNI-T UT61E")
def test_two_multimeters_are_a_rail(tmp_path):
    with emulated_ut61e.line(function="amps", value=1.5) as amps, emulated_ut61e.line(value=5.02) as volts:
        both = {"a": {**UT61E, "connection": amps.connection}, "v": {**UT61E, "connection": volts.connection}}
        rail = {"meter": "a", "volts": {"meter": "v", "channel": "P1"}, "amps": "P1", "supply": SUPPLY}
        with running(tmp_path, both, rail) as found:
            assert check(found, 7.53)["volts"] == pytest.approx(5.02, abs=1e-3)


def test_a_multimeter_that_comes_back_at_another_port_is_found_by_its_link(tmp_path):
    link = Path("/dev/shm", f"usb-0:2:1.0-{os.getpid()}")  # below /dev, as udev's links are
    rail = {"meter": "m", "volts": "5.00 ± 0.05", "amps": "P1", "supply": SUPPLY}
    with contextlib.ExitStack() as before, emulated_ut61e.line(function="amps", value=1.5) as after:
        before.callback(link.unlink, missing_ok=True)
        link.symlink_to(before.enter_context(emulated_ut61e.line(function="amps", value=1.5)).connection)
        with running(tmp_path, {"m": {**UT61E, "connection": str(link)}}, rail) as found:
            check(found, 7.5)
            before.close()
            assert found.reason(f"{link} is not there: unplugged?")
            link.symlink_to(after.connection)
            before.callback(link.unlink)
            check(found, 7.5, joules=found.meter["rails"][0]["joules"] + 2)


@pytest.mark.parametrize("shown", ["AC", "HOLD", "MAX", "MIN", "REL"])
def test_a_multimeter_is_believed_only_as_direct_current_of_now(tmp_path, shown):
    with emulated_ut61e.line(function="amps", value=1.5) as line:
        line.instrument.shows = {shown}
        clamp = {**UT61E, "connection": line.connection}
        rail = {"meter": "m", "volts": "5.00 ± 0.05", "amps": "P1", "supply": SUPPLY}
        with running(tmp_path, {"m": clamp}, rail) as found:
            assert "switch it to direct current" in found.reason(f"channel P1 shows {shown}")
            assert found.meter["rails"][0]["joules"] == 0
            line.instrument.shows = set()
            check(found, 7.5)


# ---------------------------------------------------------------- a tap, a clamp, an oscilloscope


def test_a_clamps_amps_with_a_taps_volts(tmp_path):
    with emulated_tap.line() as tap, emulated_ut61e.line(function="amps", value=1.5) as amps:
        both = {
            "tap": {"driver": "hameg-hmo", "connection": tap.connection, "sample_rate_hz": emulated_tap.RATE},
            "clamp": {**UT61E, "connection": amps.connection},
        }
        rail = {"meter": "clamp", "volts": {"meter": "tap", "channel": "CH1"}, "amps": "P1", "supply": SUPPLY}
        with running(tmp_path, both, rail) as found:
            status = found.measured(5.0)
    assert status["amps"] == pytest.approx(1.5, abs=1e-3)
    assert status["watts"] == pytest.approx(1.5 * status["volts"], rel=0.02)


@instrument("R&S HMO, RTA4004", REFUSED)
def test_an_oscilloscope_is_no_tap(tmp_path):
    with emulated_tap.line() as scope:
        scope.instrument.identity = "Rohde&Schwarz,RTA4004,1335.7700k04/102030,01.600"
        meter = {"driver": "hameg-hmo", "connection": scope.connection, "sample_rate_hz": emulated_tap.RATE}
        rail = {"meter": "m", "volts": "CH1", "amps": "CH2"}
        with running(tmp_path, {"m": meter}, rail) as found:
            assert "an oscilloscope is no power tap" in found.reason("is not what is declared")


# ---------------------------------------------------------------- without libsigrok


@instrument("BayLibre ACME", REFUSED)
def test_a_baylibre_acme_is_declared_without_a_connection_and_missed_in_one_line(tmp_path):
    meter = {"driver": "baylibre-acme", "timing": "poll", "sample_rate_hz": 10}
    lab = lab_of(tmp_path, {"m": meter}, {"meter": "m", "watts": "P1_ENRG_PWR"})
    with pytest.raises(UserError) as refused:
        source.scan(source.driver(lab, "m"), lab.controller.meters["m"].family, 2.0)
    assert "has no option" not in str(refused.value)
    assert "\n" not in str(refused.value)


@instrument("INA226, INA228")
@instrument("BayLibre ACME")
def test_a_chip_that_the_kernel_reads(tmp_path, monkeypatch):
    monkeypatch.setenv("JOULERIG_SYSFS", str(tmp_path / "sys"))
    fake_sysfs.hwmon(tmp_path / "sys", 1, "ina226", "1-0040", **fake_sysfs.INA226_HWMON)
    meter = {"driver": "hwmon", "connection": "hwmon/1-0040", "sample_rate_hz": 50}
    rail = {"meter": "m", "volts": "in1", "amps": "curr1", "supply": {"volts": 13, "amps": 3}}
    with running(tmp_path, {"m": meter}, rail) as found:
        check(found, 11.985 * 1.25)


def test_a_converters_buffer(tmp_path, monkeypatch):
    monkeypatch.setenv("JOULERIG_SYSFS", str(tmp_path / "sys"))
    monkeypatch.setenv("JOULERIG_DEV", str(tmp_path))
    device = fake_sysfs.iio(tmp_path / "sys", 0, "ina226", "1-0040", **fake_sysfs.INA226_IIO)
    meter = {"driver": "iio", "connection": "iio/1-0040", "timing": "stream", "sample_rate_hz": 200}
    rail = {"meter": "m", "volts": "12.00 ± 0.1", "amps": "current3"}
    with (
        contextlib.closing(fake_sysfs.Buffer(tmp_path, device)),
        running(tmp_path, {"m": meter}, rail) as found,
    ):
        status = wait_for(lambda: (m := found.meter).get("samples") and m, 30, "samples")
        assert (status["state"], status["sample_rate_hz"]) == ("streaming", 200)


def test_a_ppk2_with_stated_volts(tmp_path):
    # What repeats itself to the last digit would be blocks that came twice.
    with Kit(amps=lambda k: 0.54 + 0.02 * (k * 7919 % 1009) / 1009) as kit:
        meter = {"driver": "ppk2", "connection": kit.path, "set": {"millivolts": "5000"}}
        meter |= {"bandwidth_hz": 40_000}
        rail = {"meter": "m", "volts": "5.00 ± 0.05", "amps": "amps"}
        with running(tmp_path, {"m": meter}, rail) as found:
            status = check(found, 2.75)
    assert 0.0199 * status["joules"] <= status["joules_high"] - status["joules_low"] < 0.1 * status["joules"]


def test_points_of_an_unknown_bandwidth_and_supply_have_no_bounds(tmp_path):
    with Sensor() as device:
        meter = {"driver": "powersensor3", "connection": device.path}
        with running(tmp_path, {"m": meter}, {"meter": "m", "volts": "volts0", "amps": "amps0"}) as found:
            status = check(found, 7.5, within=0.03)
    assert (status["joules_low"], status["joules_high"]) == (None, None)


def test_a_powersensor3(tmp_path):
    with Sensor() as device:
        meter = {"driver": "powersensor3", "connection": device.path}
        with running(tmp_path, {"m": meter}, {"meter": "m", "volts": "volts0", "amps": "amps0"}) as found:
            check(found, 7.5, within=0.03)


@instrument("Joulescope JS220")
def test_a_joulescope(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests" / "support" / "joulescope"))
    monkeypatch.setenv("JOULESCOPES", "u/js220/002557")
    meter = {"driver": "joulescope", "connection": "joulescope/002557", "sample_rate_hz": 1000}
    rail = {"meter": "m", "volts": "volts", "amps": "amps", "supply": SUPPLY}
    with running(tmp_path, {"m": meter}, rail) as found:
        check(found, 4.0)


@instrument("Quarch PPM, PAM")
def test_a_quarch_module(tmp_path):
    with contextlib.closing(Server()) as server:
        meter = {"driver": "quarch", "connection": server.connection}
        with running(tmp_path, {"m": meter}, {"meter": "m", "watts": "12V_watts"}) as found:
            check(found, 6.0)


@instrument("PDU, socket that measures")
def test_an_instrument_that_is_read_by_a_program_alone(tmp_path):
    text = """
        import time
        print("watts")
        while True:
            print(3.5)
            time.sleep(0.05)  # the pace of an outlet that measures
    """
    meter = {"driver": "command", "command": program(tmp_path, text), "timing": "poll", "sample_rate_hz": 20}
    with running(tmp_path, {"m": meter}, {"meter": "m", "watts": "watts", "supply": SUPPLY}) as found:
        check(found, 3.5)


@instrument("Raspberry Pi Pico")
def test_a_board_that_prints_its_samples(tmp_path):
    master, slave = os.openpty()
    tty.setraw(slave)
    stop = threading.Event()

    def print_samples():
        os.write(master, b"volts,amps\n")
        while not stop.wait(0.02):
            os.write(master, b"5.00,1.50\n")

    board = threading.Thread(target=print_samples)
    board.start()
    try:
        meter = {
            "driver": "command", "command": ["cat", os.ttyname(slave)],
            "timing": "poll", "sample_rate_hz": 50,
        }  # fmt: skip
        rail = {"meter": "m", "volts": "volts", "amps": "amps", "supply": SUPPLY}
        with running(tmp_path, {"m": meter}, rail) as found:
            check(found, 7.5)
    finally:
        stop.set()
        board.join()
        os.close(master)
        os.close(slave)


# ---------------------------------------------------------------- the page


def rows():
    """Return the page's table: what it says of each instrument, by name."""
    _, _, below = PAGE.read_text().partition("| instrument | a rail by |")
    table = below.strip().split("\n\n")[0].splitlines()[2:]
    return {cells[1].strip(): cells[2:-1] for cells in (row.split("|") for row in table)}


def test_the_page_says_of_each_instrument_what_was_tested():
    said = rows()
    assert len(said) == 10
    assert said.keys() == MEASURED.keys() | REFUSED.keys()
    for name, (way, otherwise) in said.items():
        # One that is refused alone has a program as its way.
        assert ("`command`" in way) or name in MEASURED, name
        assert bool(otherwise.strip()) == (name in REFUSED), name
