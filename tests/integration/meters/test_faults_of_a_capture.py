# SPDX-License-Identifier: GPL-3.0-or-later
"""Instruments' faults in srcap: a quick end, no made-up sample, no spinning."""

import time
from dataclasses import dataclass

import pytest

from tests.support import (
    emulated_dps,
    emulated_hmo,
    emulated_korad,
    emulated_load,
    emulated_pps,
    emulated_tap,
)
from tests.support.srcap_frames import ANALOG


@dataclass
class Case:
    """A kind of instrument, the channels to read, and how long it may be quiet."""

    emulator: object
    driver: str
    channels: list
    silence: float = 1.0

    def capture(self, capture, line):
        return capture(f"{self.driver}:conn={line.connection}", self.channels, silence=self.silence)


CASES = {
    "hameg-hmo": Case(emulated_tap, "hameg-hmo", ["CH1", "CH2"]),
    "scpi-pps": Case(emulated_pps, "scpi-pps", ["V2", "I2"]),
    "rdtech-dps": Case(emulated_dps, "rdtech-dps", ["V", "I"]),
    "korad": Case(emulated_korad, "korad-kaxxxxp", ["V", "I"], silence=0.8),
    "re-load-pro": Case(emulated_load, "arachnid-labs-re-load-pro", ["V", "I"]),
}
ALL = pytest.mark.parametrize(
    "case",
    [
        # A korad answers slowly, so its driver takes seconds to give up.
        pytest.param(case, id=name, marks=[pytest.mark.long] if name == "korad" else [])
        for name, case in CASES.items()
    ],
)


def ended_after(running, case, line, fault):
    """Do `fault` to a running capture; return (exit code, CPU seconds, wall seconds) since."""
    running.wait_samples(2)
    assert running.process.poll() is None
    before = running.cpu_seconds()
    began = time.monotonic()
    running.fault_ns = time.monotonic_ns()
    fault()
    used = before
    while running.process.poll() is None and time.monotonic() - began < 10:
        try:
            used = max(used, running.cpu_seconds())
        except (FileNotFoundError, ProcessLookupError):
            break
        time.sleep(0.01)  # samples of the processor time, which ends with the process
    code = running.ended(5)
    return code, used - before, time.monotonic() - began


def made_up(running, after_seconds):
    """Samples that came more than so long after the fault."""
    late = running.fault_ns + after_seconds * 1e9
    return [f for f in running.frames if f.type == ANALOG and f.monotonic_ns > late]


@pytest.mark.timed
@ALL
def test_an_instrument_that_goes_mute(case, capture):
    with case.emulator.line() as line:
        running = case.capture(capture, line)
        code, cpu, seconds = ended_after(running, case, line, lambda: setattr(line.instrument, "mute", True))
    assert code == 4, running.error
    assert seconds < case.silence + 1.5
    assert cpu < 0.2
    assert made_up(running, 0.3) == []


@pytest.mark.timed
@ALL
def test_an_instrument_that_is_unplugged(case, capture):
    with case.emulator.line() as line:
        running = case.capture(capture, line)
        code, cpu, seconds = ended_after(running, case, line, line.unplug)
    assert code != 0, running.error
    assert seconds < case.silence + 1.5
    assert cpu < 1.0
    assert made_up(running, 0.3) == []


@pytest.mark.timed
@ALL
def test_a_connection_that_is_reset(case, capture):
    with case.emulator.line() as line:
        running = case.capture(capture, line)
        code, cpu, seconds = ended_after(running, case, line, line.reset)
        again = case.capture(capture, line)
        again.wait_samples()
        again.stop()
    assert code != 0, running.error
    assert seconds < case.silence + 1.5
    assert cpu < 1.0
    assert any(f.type == ANALOG for f in again.frames), again.error


@pytest.mark.timed
@ALL
def test_an_instrument_that_never_answers(case, capture):
    with case.emulator.line() as line:
        line.instrument.mute = True
        began = time.monotonic()
        running = case.capture(capture, line)
        code = running.ended(20)
    assert code in (3, 4), running.error
    assert not [f for f in running.frames if f.type == ANALOG]
    assert time.monotonic() - began < 14


def values(running, channel):
    return running.analog(channel)[2]


@pytest.mark.parametrize("fault", ["fragment", "stale"])
def test_replies_in_pieces_and_stale_bytes_over_tcp_do_not_shift_volts_and_amps(capture, fault):
    case = CASES["scpi-pps"]
    with case.emulator.line() as line:
        running = case.capture(capture, line)
        running.wait_samples(20)
        setattr(line.instrument, fault, True)
        running.wait_samples(40)
        setattr(line.instrument, fault, False)
        running.wait_samples(20)
        running.stop()
    assert set(values(running, "V2")) == {5.0}
    assert set(values(running, "I2")) == {1.5}
    assert len(values(running, "V2")) > 60


@pytest.mark.parametrize("fault", ["fragment", "stale"])
def test_blocks_in_pieces_and_stale_bytes_leave_the_samples_whole(capture, fault):
    case = CASES["hameg-hmo"]
    with case.emulator.line() as line:
        running = case.capture(capture, line)
        running.wait_samples(500)
        setattr(line.instrument, fault, True)
        running.wait_samples(1500)
        setattr(line.instrument, fault, False)
        running.stop()
    for channel, number in (("CH1", 1), ("CH2", 2)):
        taken = b"".join(f.payload for f in running.frames if f.type == ANALOG and f.channel == number - 1)
        whole = b"".join(emulated_hmo.window(number, 0, 1000) for _ in range(6))
        at = whole.find(taken)
        assert at >= 0, f"{channel} has a hole or a wrong sample"
        assert len(taken) > 4 * 800


@pytest.mark.timed
@pytest.mark.parametrize("fault", ["fragment", "stale"])
def test_modbus_finds_its_own_errors(capture, fault):
    case = CASES["rdtech-dps"]
    with case.emulator.line() as line:
        running = case.capture(capture, line)
        running.wait_samples(20)
        setattr(line.instrument, fault, True)
        time.sleep(0.5)  # a reply with an error gives no sample to wait for
        setattr(line.instrument, fault, False)
        running.wait_samples(20)
        running.stop()
    assert values(running, "V") == pytest.approx([12.34] * len(values(running, "V")), abs=1e-5)
    assert values(running, "I") == pytest.approx([0.567] * len(values(running, "I")), abs=1e-6)


@pytest.mark.timed
def test_an_empty_block_is_an_end_and_no_sample(capture):
    case = CASES["hameg-hmo"]
    with case.emulator.line() as line:
        running = case.capture(capture, line)
        code, cpu, seconds = ended_after(running, case, line, lambda: setattr(line.instrument, "empty", True))
    assert code != 0
    assert seconds < 2.5
    assert cpu < 0.2


@pytest.mark.parametrize("name", ["scpi-pps", "rdtech-dps"])
def test_an_empty_reply_is_not_a_sample(name, capture):
    case = CASES[name]
    with case.emulator.line() as line:
        running = case.capture(capture, line)
        code, cpu, seconds = ended_after(running, case, line, lambda: setattr(line.instrument, "empty", True))
    assert code == 4, running.error
    assert seconds < case.silence + 1.5
    assert cpu < 0.5  # it asks again at once
    assert made_up(running, 0.3) == []
