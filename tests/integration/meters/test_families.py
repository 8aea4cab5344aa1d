# SPDX-License-Identifier: GPL-3.0-or-later
"""Each family of meters: real libsigrok, through srcap, on an emulated instrument."""

import pytest

from tests.support import emulated_dmm, emulated_dps, emulated_korad, emulated_load, emulated_pps
from tests.support.power_processes import Emulator
from tests.support.srcap_frames import ANALOG, EVENT

# libsigrok.h: enum sr_mq, enum sr_unit
VOLTAGE, CURRENT, POWER = 10000, 10001, 10010
VOLT, AMPERE, WATT = 10000, 10001, 10019


def check(taken, channel, mq, unit, value, tolerance):
    """All samples of the channel are what the instrument said, in its unit. Their rate."""
    read_mq, read_unit, values, times = taken.analog(channel)
    assert (read_mq, read_unit) == (mq, unit)
    assert values == pytest.approx([value] * len(values), abs=tolerance)
    return (len(times) - 1) / (times[-1] - times[0])


@pytest.mark.timed
def test_scpi_pps_reads_volts_amps_and_watts_of_an_output(capture):
    with emulated_pps.line() as line:
        taken = capture(f"scpi-pps:conn={line.connection}", ["V2", "I2", "P2"])
        taken.wait_samples(60)
        taken.stop()
    assert taken.start["vendor"] == "Rigol"
    assert taken.start["model"] == "DP832"
    assert taken.start["serial"] == "DP8EMU0001"
    assert taken.start["samplerate_hz"] == 0
    rates = [
        check(taken, "V2", VOLTAGE, VOLT, 5.0, 1e-6),
        check(taken, "I2", CURRENT, AMPERE, 1.5, 1e-6),
        check(taken, "P2", POWER, WATT, 7.5, 1e-6),
    ]
    # 97 readings a second in all, although a command and a query go out for each.
    assert 85 < sum(rates) < 101


@pytest.mark.timed
def test_scpi_dmm_reads_the_quantity_that_it_was_set_to(capture):
    with emulated_dmm.line() as line:
        driver = f"scpi-dmm:conn={line.connection}"
        volts = capture(driver, ["P1"])
        volts.wait_samples(60)
        volts.stop()
        rate = check(volts, "P1", VOLTAGE, VOLT, 3.3001234, 1e-6)
        amps = capture(driver, ["P1"], "--set", "measured_quantity=current/dc")
        amps.wait_samples(10)
        amps.stop()
        check(amps, "P1", CURRENT, AMPERE, 0.2500123, 1e-7)
    assert volts.start["serial"] == "MYEMU00001"
    assert 70 < rate < 101


@pytest.mark.timed
def test_rdtech_dps_reads_volts_amps_and_watts_of_one_exchange(capture):
    with emulated_dps.line() as line:
        taken = capture(f"rdtech-dps:conn={line.connection}", ["V", "I", "P"])
        taken.wait_samples(100)
        taken.stop()
    assert taken.start["model"] == "DPS5005"
    rate = check(taken, "V", VOLTAGE, VOLT, 12.34, 1e-5)
    check(taken, "I", CURRENT, AMPERE, 0.567, 1e-6)
    check(taken, "P", POWER, WATT, 7.0, 1e-5)
    assert 60 < rate < 101
    # One exchange: the three have the same index and come at once.
    at = {channel: taken.analog(channel)[3] for channel in "VIP"}
    assert len(at["V"]) == len(at["I"]) == len(at["P"])
    assert max(p - v for v, p in zip(at["V"], at["P"], strict=True)) < 0.02


@pytest.mark.timed
def test_korad_reads_volts_and_amps_one_after_the_other(capture):
    with emulated_korad.line() as line:
        taken = capture(f"korad-kaxxxxp:conn={line.connection}", ["V", "I"], silence=0.8)
        taken.wait_samples(10)
        taken.stop()
    assert taken.start["model"] == "KD3005P"
    rates = [
        check(taken, "V", VOLTAGE, VOLT, 5.02, 1e-5),
        check(taken, "I", CURRENT, AMPERE, 0.731, 1e-6),
    ]
    assert all(3.5 < rate < 4.3 for rate in rates)


@pytest.mark.timed
def test_re_load_pro_pushes_volts_and_amps_together(capture):
    with emulated_load.line() as line:
        driver = f"arachnid-labs-re-load-pro:conn={line.connection}"
        taken = capture(driver, ["V", "I"])
        taken.wait_samples(15)
        taken.stop()
    assert taken.start["version"] == "1.15"
    rate = check(taken, "V", VOLTAGE, VOLT, 3.305, 1e-6)
    check(taken, "I", CURRENT, AMPERE, 1.204, 1e-6)
    assert 4 < rate < 5.5


@pytest.mark.timed
def test_re_load_pro_takes_what_a_faster_tap_pushes(capture):
    with emulated_load.line(interval=0.002) as line:
        driver = f"arachnid-labs-re-load-pro:conn={line.connection}"
        taken = capture(driver, ["V", "I"])
        taken.wait_samples(600)
        taken.stop()
    assert 400 < check(taken, "V", VOLTAGE, VOLT, 3.305, 1e-6) < 510


def test_hameg_hmo_reports_its_rate_and_units(capture):
    with Emulator(rate=2000) as instrument:
        taken = capture(instrument.driver, ["CH1", "CH2"])
        taken.wait_samples()
        taken.stop()
    assert taken.start["samplerate_hz"] == 2000
    assert taken.analog("CH1")[:2] == (VOLTAGE, VOLT)
    assert taken.analog("CH2")[:2] == (CURRENT, AMPERE)


def test_hameg_hmo_refuses_a_setting_while_it_captures_and_goes_on(capture):
    with Emulator(rate=1000) as instrument:
        running = capture(instrument.driver, ["CH1", "CH2"])
        running.wait_samples()
        running.send("set averaging on")
        running.wait(lambda: running.events("set") != [], "the reply to the setting")
        running.wait_samples()
        running.stop()
    [at] = [i for i, f in enumerate(running.frames) if f.type == EVENT and f.event()["event"] == "set"]
    assert not running.frames[at].event()["ok"]
    assert running.frames[at].event()["error"] == "hameg-hmo takes no settings while it captures; use --set"
    assert any(f.type == ANALOG for f in running.frames[at:])


def test_demo_gives_amps_where_it_is_asked_to(capture):
    driver = "demo:analog_channels=2:logic_channels=0"
    more = ["--set", "samplerate=1000", "--set", "A1.measured_quantity=current"]
    taken = capture(driver, ["A0", "A1"], *more)
    taken.wait_samples()
    taken.stop()
    assert taken.analog("A0")[:2] == (VOLTAGE, VOLT)
    assert taken.analog("A1")[:2] == (CURRENT, AMPERE)
