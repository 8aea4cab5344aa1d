# SPDX-License-Identifier: GPL-3.0-or-later
"""The power tap's Cortex-M image with the real libsigrok, on rails of known volts and amps."""

import re
import signal
import subprocess
import threading
import time

import numpy as np
import pytest

from tests.support.cortex_m import (
    AMPS_STEP,
    RAILS,
    RATE_HZ,
    SINGLE_PRECISION,
    VOLTS_STEP,
    Board,
    Steps,
    amps_of,
    pty_environment,
    volts_of,
)
from tests.support.power_processes import set_options
from tests.support.programs import built, wait_for
from tests.support.srcap_frames import ANALOG, LOGIC, read_frames


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    return pty_environment(tmp_path_factory.mktemp("shim"))


@pytest.fixture
def board():
    """One whose time is exact: no sample is ever missed."""
    with Board() as running:
        yield running


@pytest.fixture
def prompt_board():
    """One whose time is the host's: it answers at once, and now and then misses a sample."""
    with Board(exact=False) as running:
        yield running


class Capture:
    """srcap on a line of the board, until its results are asked for."""

    def __init__(self, board, instrument, environment, channels="CH1,CH2,CH3,CH4"):
        line = board.lines[instrument]
        self.board, self.line, self.channels = board, line, channels.split(",")
        self.driver = line.driver
        self.environment = environment
        # On a busy machine the emulated board may be slower than libsigrok's patience with a scan.
        for _ in range(3):
            if self.start():
                return
        pytest.fail(f"srcap ended by itself: {self.error}")

    def start(self):
        """Whether a whole round of samples came."""
        self.ticks_before = self.board.ticks()
        self.process = subprocess.Popen(
            [built("srcap"), "--driver", self.driver, "--channels", ",".join(self.channels),
             "--silence-seconds", "20", *set_options(self.driver)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment,
        )  # fmt: skip
        self.frames = []
        self.began = threading.Event()
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()
        wait_for(
            lambda: self.began.is_set() or self.process.poll() is not None, 30, "samples, or srcap's end"
        )
        if self.began.is_set():
            return True
        self.error = self.process.stderr.read().decode()
        self.close()
        return False

    def read(self):
        for frame in read_frames(self.process.stdout):
            self.frames.append(frame)
            if frame.type == LOGIC or (frame.type == ANALOG and frame.channel == len(self.channels) - 1):
                self.began.set()  # a whole round

    def close(self):
        self.thread.join(10)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()
        self.line.settle()

    def end(self):
        """Return the samples so far as an array (samples, channels), checked to be complete."""
        now = self.board.ticks()
        wait_for(lambda: self.ticks_before + self.frames[-1].first >= now, 60, "the samples up to now")
        self.process.stdin.write(b"stop\n")
        self.process.stdin.flush()
        assert self.process.wait(10) == 0
        self.close()
        columns = []
        for n, name in enumerate(self.channels):
            logic = name.startswith("D")
            mine = [f for f in self.frames if f.type == (LOGIC if logic else ANALOG)]
            mine = [f for f in mine if logic or f.channel == n]
            starts = np.cumsum([0] + [f.n for f in mine])
            assert [f.first for f in mine] == list(starts[:-1]), f"{name} has a hole"
            if logic:
                bits = np.concatenate(
                    [np.frombuffer(f.payload, "u1").reshape(f.n, f.unit)[:, 0] for f in mine]
                )
                columns.append(bits >> int(name[1:]) & 1)
            else:
                columns.append(np.concatenate([f.samples() for f in mine]).astype(float))
        whole = min(map(len, columns))  # the last round may have been cut off
        assert max(map(len, columns)) - whole <= 128
        return np.stack([column[:whole] for column in columns], axis=1)


def test_sigrok_finds_both_instruments(prompt_board, environment):
    for line, letter in zip(prompt_board.lines, "AB", strict=True):
        done = subprocess.run(
            ["sigrok-cli", "-d", line.driver, "--scan"],
            capture_output=True,
            text=True,
            timeout=20,
            env=environment,
        )
        assert "hameg-hmo - Rohde&Schwarz RTA4004" in done.stdout
        assert f"-{letter}]" in done.stdout


def test_sigrok_cli_shows_volts_and_amps(prompt_board, environment):
    prompt_board.set_rail(1, 12000, 1500)
    prompt_board.set_rail(2, 3300, 2000)
    done = subprocess.run(
        ["sigrok-cli", "-d", prompt_board.lines[0].driver, "-C", "CH1,CH2,CH3,CH4", "--frames", "5",
         "--samples", "1000000000", "-O", "analog"],
        capture_output=True, text=True, timeout=20, env=environment,
    )  # fmt: skip
    readings = {
        (name, unit): float(value) for name, value, unit in re.findall(r"(CH\d): ([\d.]+) (\S+)", done.stdout)
    }
    assert set(readings) == {("CH1", "V"), ("CH2", "A"), ("CH3", "V"), ("CH4", "A")}
    assert readings["CH1", "V"] == pytest.approx(12.0, abs=0.03)
    assert readings["CH2", "A"] == pytest.approx(1.5, abs=0.06)
    assert readings["CH3", "V"] == pytest.approx(3.3, abs=0.03)
    assert readings["CH4", "A"] == pytest.approx(2.0, abs=0.06)


def test_says_what_it_is(prompt_board):
    for line in prompt_board.lines:
        maker, what, _, protocol, firmware, name = line.ask("TAP:IDN?").split(",")
        assert (maker, what, name) == ("Joulerig", "power tap", "lm3s6965")
        assert protocol.isdigit()
        assert re.fullmatch(r"\d+\.\d+\.\d+", firmware)
        assert line.ask("TAP:RATE?") == str(RATE_HZ)


@pytest.mark.long
@pytest.mark.parametrize("instrument", [0, 1])
def test_volts_and_amps_are_those_that_were_set_to_the_chips_resolution(board, environment, instrument):
    """The chip rounds down: between the value and one step of the DIRECT format below it."""
    levels = [(0, 0), (25, 51), (3300, 1), (5000, 2345), (12000, 6000), (19999, 15999)]
    first_rail = 1 + 2 * instrument
    capture = Capture(board, instrument, environment)
    for level, other in zip(levels, levels[::-1], strict=True):
        board.set_rail(first_rail, *level)
        board.set_rail(first_rail + 1, *other)
        board.run(0.2)
    rows = capture.end()
    for column in (0, 2):
        volts, amps = rows[:, column], rows[:, column + 1]
        found = []
        for millivolts, milliamps in levels:
            assert 0 <= millivolts / 1000 - volts_of(millivolts) < VOLTS_STEP
            assert 0 <= milliamps / 1000 - amps_of(milliamps) < AMPS_STEP
            same = np.isclose(volts, volts_of(millivolts), rtol=SINGLE_PRECISION, atol=0)
            same &= np.isclose(amps, amps_of(milliamps), rtol=SINGLE_PRECISION, atol=1e-5)
            assert same.sum() > 0.15 * RATE_HZ, f"{millivolts} mV, {milliamps} mA"
            found.append(same)
        # All others: before the first setting, and the few between setting volts and setting amps.
        any_level = np.any(found, axis=0)
        assert (~any_level[np.argmax(any_level) :]).sum() < 0.1 * RATE_HZ


@pytest.mark.long
def test_streams_both_instruments_without_a_gap(board, environment):
    """Eight channels at once: every sample comes, once and in order, to the end.

    That is seen by the rails' steps: under one number for a capture's first sample, all of them lie
    where the board's own sample clock says.
    """
    steps = Steps(board)
    steps.set(r1=(12000, 0), r2=(3300, 0), r3=(5000, 0), r4=(12000, 0))
    captures = [Capture(board, n, environment) for n in range(2)]
    for n in range(1, 9):
        board.run(1)
        steps.set(r1=(12000, 700 * n), r2=(3300, 900 * n), r3=(5000, 500 * n), r4=(12000 - 100 * n, 300 * n))
    board.run(0.5)
    for capture, rails in zip(captures, ((1, 2), (3, 4)), strict=True):
        rows = capture.end()
        first = steps.first_of(rows, rails)
        print(f"rails {rails}: {len(rows)} samples of 4 channels, the first is the board's {first}")
        assert len(rows) > 8 * RATE_HZ
        assert not np.isnan(rows).any()
    assert board.conversion_errors() == [0] * RAILS
    assert [line.ask("TAP:COUNT?").split(",")[1] for line in board.lines] == ["0", "0"]


def test_a_moment_without_a_conversion_is_a_sample_of_nan_and_is_counted(environment):
    """So a sample's number stays its time; the board stands still for a while, clock and all."""
    still_seconds = 1.2
    with Board(exact=False) as board:
        board.set_rail(1, 12000, 1000)
        capture = Capture(board, 0, environment)
        before, ticks = time.monotonic(), board.ticks()
        for _ in range(8):
            board.run(0.2)
            board.process.send_signal(signal.SIGSTOP)
            time.sleep(still_seconds / 8)
            board.process.send_signal(signal.SIGCONT)
        board.run(0.2)
        made = (board.ticks() - ticks) / RATE_HZ
        # It may be late by what its host makes it, which is far less than it stands still.
        assert made == pytest.approx(time.monotonic() - before, abs=0.6)
        rows = capture.end()
        errors = board.conversion_errors()
    missed = np.isnan(rows[:, 0])
    assert (np.isnan(rows) == missed[:, None]).all()
    print(f"{missed.sum()} of {len(rows)} samples missed, counted {errors}")
    assert missed.sum() > 0.9 * still_seconds * RATE_HZ
    # Before the capture began, and after it ended, the board may have missed more.
    assert missed.sum() <= errors[0]
    assert errors == [errors[0]] * RAILS


@pytest.mark.long
def test_energy_of_a_measurement_is_the_true_energy(board, environment):
    """Known volts and amps, in steps, against joules from libsigrok.

    Truth: the sum over the device's samples of the volts times amps that were set, over the rate.
    What is measured may be less, by what the chip rounds down: one step of volts times the amps,
    and one of amps times the volts; never more. Against what the chip's codes stand for it is
    exact, to single precision. A sample that was under way while the board was stopped for a step
    may be of either side: left out of both.
    """
    levels = [
        (12000, 0),
        (12000, 2000),
        (11900, 4500),
        (11700, 9000),
        (12000, 500),
        (11800, 7000),
        (12000, 0),
    ]
    steps = Steps(board)
    for n, (millivolts, milliamps) in enumerate(levels):
        steps.set(r1=(millivolts, milliamps), r2=(millivolts * 275 // 1000, milliamps // 2))
        if n == 0:
            capture = Capture(board, 0, environment)
        board.run(0.9)
    rows = capture.end()
    assert not np.isnan(rows).any()
    first = steps.first_of(rows, [1, 2])[0]
    for n, rail in enumerate((1, 2)):
        used = steps.sure(first, len(rows))
        volts, amps = (values[used] for values in steps.truth(rail, first, len(rows)))
        measured = float((rows[used, 2 * n] * rows[used, 2 * n + 1]).sum()) / RATE_HZ
        true = float((volts * amps).sum()) / RATE_HZ
        rounding = float((VOLTS_STEP * amps + AMPS_STEP * volts).sum()) / RATE_HZ
        millis = zip(np.round(volts * 1000).astype(int), np.round(amps * 1000).astype(int), strict=True)
        coded = sum(volts_of(v) * amps_of(a) for v, a in millis) / RATE_HZ
        print(
            f"rail {rail}: measured {measured:.5f} J, by the chip's codes {coded:.5f} J, true {true:.5f} J, "
            f"rounded down by at most {rounding:.5f} J; {used.sum()} samples"
        )
        assert measured == pytest.approx(coded, rel=SINGLE_PRECISION)
        assert true - rounding <= measured <= true
        assert true > 20


@pytest.mark.long
def test_a_rail_is_switched_off_and_on_again_and_its_hold_up_is_reported(board, environment):
    steps = Steps(board)
    steps.set(r1=(12000, 2000), r2=(3300, 1000))
    b = board.lines[1]
    cut_pins = 0x40007000 + (0xF0 << 2)  # port D, pins 4 to 7
    assert [b.ask(f"TAP:OUTPUT{rail}?") for rail in range(1, RAILS + 1)] == ["1"] * RAILS
    assert board.word(cut_pins) == 0
    assert b.ask("TAP:HOLDUP1?") == "NONE"

    capture = Capture(board, 0, environment)
    board.run(0.3)
    steps.set(r1=(12000, 3000))
    board.run(0.3)
    b.send("TAP:OUTPUT1 OFF")
    assert [b.ask(f"TAP:OUTPUT{rail}?") for rail in (1, 2)] == ["0", "1"]
    assert board.word(cut_pins) == 0x10
    state, seconds, volts, threshold = wait_for(
        lambda: (text := b.ask("TAP:HOLDUP1?")).startswith("DONE") and text.split(","),
        5,
        "the hold-up is measured",
    )
    # QEMU's chip has no capacitor behind its switch: its volts fall at once.
    assert state == "DONE"
    assert float(volts) == pytest.approx(volts_of(12000), rel=1e-5)
    assert float(threshold) == pytest.approx(volts_of(12000) / 2, rel=1e-5)
    cut = int(b.ask("TAP:OUTPUT1:CUT?"))
    # Its code of amps falls to 0 too, which is the negative end: what a bench would have is set.
    board.set_rail(1, 0, 0)
    board.run(0.3)
    b.send("TAP:OUTPUT1 ON")
    assert b.ask("TAP:OUTPUT1?") == "1"
    assert board.word(cut_pins) == 0
    board.set_rail(1, 12000, 3000)  # what the load does on a bench
    board.run(0.3)
    rows = capture.end()

    assert not np.isnan(rows).any()
    off = np.isclose(rows[:, 0], 0)
    changes = np.flatnonzero(np.diff(off.astype(int)))
    assert len(changes) == 2, "on, off, on"
    assert changes[1] - changes[0] > 0.2 * RATE_HZ
    assert np.median(rows[off, 1]) == 0
    assert np.allclose(rows[:, 2], volts_of(3300)), "the other rail stays as it was"
    assert 0 <= float(seconds) <= 2 / RATE_HZ
    firsts = steps.first_of(rows[: changes[0]], [1, 2])
    assert cut - 2 <= firsts[-1] + changes[0] + 1
    assert firsts[0] + changes[0] + 1 <= cut + 2


@pytest.mark.long
def test_markers_are_sampled_with_volts_and_amps(board, environment):
    """A marker's edges lie in the samples in which it was moved, by the board's count."""
    steps = Steps(board)
    steps.set(r1=(12000, 0), r2=(3300, 0))
    assert board.lines[1].ask("TAP:MARKERS?") == "0"
    capture = Capture(board, 0, environment, "CH1,CH2,CH4,D0,D1")
    edges = {0: [], 1: []}
    for n in range(3):
        for marker, key in enumerate(("up", "down")):
            for down in (True, False):
                board.run(0.15)
                before = board.ticks()
                board.press(key, down)
                edges[marker].append((before, board.ticks()))
        steps.set(r1=(12000, 1000 * (n + 1)))
    board.run(0.2)
    assert board.lines[1].ask("TAP:MARKERS?") == "0"
    rows = capture.end()

    # The first volts and amps are rail 1's; its columns alone give the number of the first sample.
    firsts = steps.first_of(rows[:, :2], [1])
    for marker in (0, 1):
        line = rows[:, 3 + marker]
        changes = np.flatnonzero(np.diff(line)) + 1
        assert len(changes) == len(edges[marker])
        assert (line[changes] == [1, 0] * 3).all()
        for change, (before, after) in zip(changes, edges[marker], strict=True):
            assert before - 1 <= firsts[-1] + change
            assert firsts[0] + change <= after + 1


@pytest.mark.long
def test_a_rail_without_a_chip_has_no_values_and_says_so(environment):
    with Board(rails=3) as board:
        board.set_rail(3, 5000, 1000)
        capture = Capture(board, 1, environment)
        board.run(0.5)
        rows = capture.end()
        assert np.isnan(rows[:, 2:]).all()
        assert not np.isnan(rows[:, :2]).any()
        *others, fourth = board.conversion_errors()
        assert others == [0, 0, 0]
        assert len(rows) <= fourth <= board.samples()


def test_the_next_client_of_a_line_is_not_handed_what_the_one_before_left(board, environment):
    board.set_rail(1, 12000, 1000)
    Capture(board, 0, environment).end()
    board.run(1)
    board.set_rail(1, 5000, 2000)
    board.run(0.1)
    rows = Capture(board, 0, environment).end()
    assert np.allclose(rows[:, 0], volts_of(5000))


def test_what_is_not_known_is_refused(prompt_board):
    line = prompt_board.lines[0]
    line.send("TAP:OUTPUT9 OFF;NONSENSE;TAP:CALIBRATION:SAVE")
    errors = [int(line.ask("SYST:ERR?").split(",")[0]) for _ in range(4)]
    assert errors == [-114, -113, -241, 0]
    for _ in range(20):
        line.send("X" * 100, end="")
        time.sleep(0.002)  # the line's pace
    line.send("")
    assert int(line.ask("SYST:ERR?").split(",")[0]) == -363
    assert line.ask("*OPC?") == "1"
