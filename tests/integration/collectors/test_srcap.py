# SPDX-License-Identifier: GPL-3.0-or-later
"""srcap against libsigrok's demo driver and against instruments that die."""

import contextlib
import itertools
import resource
import signal
import socket
import subprocess
import time

import pytest

from tests.support import emulated_hmo
from tests.support.captures import Capture
from tests.support.power_processes import SRCAP, Emulator, set_options
from tests.support.srcap_frames import ANALOG, EVENT, RAIL

DEMO = "demo:analog_channels=4:logic_channels=0"
DEMO_RATE = ["--set", "samplerate=10000"]
CAPTURED_SECONDS = 1.0
HALTED_SECONDS = 0.4
STALLED_SECONDS = 2.5  # of a reader; the pipe has long been full


@pytest.fixture
def capture():
    """Start srcap on a driver's channels."""
    with contextlib.ExitStack() as running:

        def start(driver, channels, *more):
            return running.enter_context(contextlib.closing(Capture(driver, channels.split(","), *more)))

        yield start


def piped(driver, channels, *more):
    """srcap whose frames no one reads."""
    return subprocess.Popen(
        [SRCAP, "--driver", driver, "--channels", channels, *set_options(driver), *more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def rail_frames(running, number):
    return [f for f in list(running.frames) if f.type == RAIL and f.channel == number]


def refused(*arguments):
    done = subprocess.run([SRCAP, *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=10)
    return done.returncode, done.stderr.decode()


def test_demo_samples_come_without_a_hole_and_with_both_clocks(capture):
    before = time.monotonic_ns(), time.time_ns()
    running = capture(DEMO, "A1,A3", *DEMO_RATE)
    time.sleep(CAPTURED_SECONDS)
    assert running.stop() == 0
    frames = running.frames
    next_index = {0: 0, 1: 0}
    for frame in (f for f in frames if f.type == ANALOG):
        assert frame.first == next_index[frame.channel]
        next_index[frame.channel] += frame.n
        assert len(frame.samples()) == frame.n
        assert before[0] <= frame.monotonic_ns <= time.monotonic_ns()
        assert before[1] <= frame.realtime_ns <= time.time_ns()
    assert next_index[0] == next_index[1]
    assert 5000 < next_index[0] < 15000
    start, end = frames[0].event(), frames[-1].event()
    assert start["event"] == "start"
    assert start["driver"] == "demo"
    assert start["samplerate_hz"] == 10000
    assert [c["name"] for c in start["channels"]] == ["A1", "A3"]
    assert end == {"event": "end", "requested": True}


def test_settings_are_taken_while_it_runs_and_answered(capture):
    running = capture(DEMO, "A0", *DEMO_RATE)
    running.wait_samples()
    running.send("set averaging on", "set averaging perhaps", "set nonsense 1")
    running.wait(lambda: len(running.events("set")) >= 3, "three replies")
    assert running.stop() == 0
    answers = running.events("set")
    assert [(a["key"], a["ok"]) for a in answers] == [
        ("averaging", True),
        ("averaging", False),
        ("nonsense", False),
    ]
    assert "perhaps" in answers[1]["error"]
    assert "allowed: " in answers[2]["error"]


def test_sigterm_is_a_stop(capture):
    running = capture(DEMO, "A0", *DEMO_RATE)
    running.wait_samples()
    running.process.send_signal(signal.SIGTERM)
    assert running.ended(5) == 0


def test_it_ends_when_no_process_reads():
    process = piped(DEMO, "A0", *DEMO_RATE)
    process.stdout.read(1000)
    process.stdout.close()
    assert process.wait(timeout=5) == 0
    process.stderr.close()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--driver", "demo", "--channels", "A9"], 2, ["--channels", '"A9"', "A0, A1"]),
        (["--driver", "demo", "--channels", "A0,A0"], 2, ["--channels", '"A0"', "twice"]),
        (["--driver", "dmo", "--channels", "A0"], 2, ["--driver", '"dmo"', "sigrok-cli -L"]),
        (["--driver", "demo:rate=3", "--channels", "A0"], 2, ["--driver", '"rate"', "analog_channels"]),
        (["--driver", "demo:analog_channels=x", "--channels", "A0"], 2, ["analog_channels", '"x"']),
        (
            ["--driver", "demo", "--channels", "A0", "--set", "colour=red"],
            2,
            ["--set", '"colour"', "samplerate"],
        ),
        (["--driver", "demo", "--channels", "A0", "--set", "samplerate=fast"], 2, ["samplerate", '"fast"']),
        (["--driver", "demo"], 2, ["--channels is missing"]),
        (["--channels", "A0"], 2, ["--driver is missing"]),
        (["--driver", "demo", "--channels", "A0", "--silence-seconds", "-1"], 2, ["--silence-seconds"]),
        (["--driver", "demo", "--channels", "A0", "--point", "0"], 2, ["--point"]),
        (
            ["--driver", "demo", "--channels", "A0,A1", "--rail", "A0,A9,1,0,1,0"],
            2,
            ["--rail", "A9", "channels"],
        ),
        (["--driver", "demo", "--channels", "A0,A1", "--rail", "A0,A1,1,0,x,0"], 2, ["--rail", "number"]),
        (["--driver", "demo", "--channels", "A0,A1", "--rail", "A0,A1"], 2, ["--rail", "six"]),
        (
            ["--driver", "hameg-hmo:conn=tcp-raw/127.0.0.1/1", "--channels", "CH1"],
            3,
            ["no instrument answers", "tcp-raw"],
        ),
    ],
)
def test_what_is_wrong_is_named(arguments, code, words):
    got, err = refused(*arguments)
    assert got == code
    last = err.strip().splitlines()[-1]
    assert last.startswith("srcap: ")
    for word in words:
        assert word in last


def test_hmo_frames_are_the_instruments_own_samples_and_do_not_end(capture):
    with Emulator() as instrument:
        running = capture(instrument.driver, "CH1,CH2,CH3,CH4")
        running.wait_samples(1001)
        assert running.stop() == 0
    frames = running.frames
    channels = {
        c: b"".join(f.payload for f in frames if f.type == ANALOG and f.channel == c) for c in range(4)
    }
    assert [next(f.mq for f in frames if f.type == ANALOG and f.channel == c) for c in range(4)] == [
        10000,
        10001,
    ] * 2
    whole_frames = min(len(data) for data in channels.values()) // 4
    assert whole_frames > 1000
    # The same window on all four channels, somewhere in the waveform.
    phases = set()
    for channel, data in channels.items():
        reference = b"".join(emulated_hmo.window(channel + 1, 0, 1000) for _ in range(5))
        at = reference.find(data[: 4 * whole_frames])
        while at % 4:
            at = reference.find(data[: 4 * whole_frames], at + 1)
        assert at >= 0, f"channel {channel} has a hole or a wrong sample"
        phases.add(at)
    assert len(phases) == 1


def test_a_packet_is_stamped_when_it_arrived_and_not_when_srcap_got_its_turn(capture):
    with Emulator() as instrument:
        running = capture(instrument.driver, "CH1")
        running.wait_samples(100)
        running.process.send_signal(signal.SIGSTOP)
        halted = time.monotonic_ns()
        time.sleep(HALTED_SECONDS)
        resumed = time.monotonic_ns()
        running.process.send_signal(signal.SIGCONT)
        running.wait_samples(100)
        assert running.stop() == 0
    analog = [f for f in running.frames if f.type == ANALOG]
    # The answer to the request that was under way came while srcap stood still.
    (waited,) = [f for f in analog if halted < f.monotonic_ns < resumed]
    assert waited.monotonic_ns - halted < 100e6
    # Both clocks tell of the same moment.
    offset = time.time_ns() - time.monotonic_ns()
    assert all(abs(f.realtime_ns - f.monotonic_ns - offset) < 1e6 for f in analog)
    assert [f.monotonic_ns for f in analog] == sorted(f.monotonic_ns for f in analog)


def test_rails_are_added_up_as_their_samples_would_be(capture):
    """Two captures of one periodic waveform: what one gives as samples the other gives as sums."""
    scale = {1: (1.0, 0.0, 1.0, 0.0), 2: (1.01, -0.02, 0.98, 0.003)}
    volts, amps = emulated_hmo.WAVEFORM[3], emulated_hmo.WAVEFORM[4]
    gain_v, offset_v, gain_a, offset_a = scale[2]
    corrected = [(gain_v * v + offset_v, gain_a * a + offset_a) for v, a in zip(volts, amps, strict=True)]
    period = len(corrected)
    with Emulator() as instrument:
        rails = [f"--rail=CH{2 * r - 1},CH{2 * r},{','.join(map(str, scale[r]))}" for r in scale]
        running = capture(instrument.driver, "CH1,CH2,CH3,CH4", *rails, "--point", "7")
        running.wait(
            lambda: len(of_rail := rail_frames(running, 1)) > 50 and sum(f.n for f in of_rail) > period,
            "a period of sums",
        )
        assert running.stop() == 0
    frames = running.frames
    windows = rail_frames(running, 1)
    assert len(windows) > 40
    assert sum(f.n for f in windows) > period
    # Samples come of the last window alone: the capture may end before a rail's other channel has
    # come.
    ends = {f.channel: f.first + f.n for f in frames if f.type == RAIL}
    alone = [f for f in frames if f.type == ANALOG]
    assert all(f.first == ends[f.channel // 2] for f in alone)
    assert len({f.channel for f in alone}) == len(alone)
    assert all(b.first == a.first + a.n for a, b in itertools.pairwise(windows))
    # Where in the waveform the capture began: of all places, the one where the first window's marks
    # lie.
    step = max(1, windows[0].n // 16)
    marks = windows[0].marks()
    (origin,) = (
        at
        for at in range(period)
        if all(
            (volts[(at + i * step) % period], amps[(at + i * step) % period]) == pair
            for i, pair in enumerate(marks)
        )
    )
    for window in windows:
        at = window.first
        for n, *found in window.stretches():
            assert 0 < n <= 7
            assert at + n == window.first + window.n or (at + n) % 7 == 0
            pairs = [corrected[(origin + k) % period] for k in range(at, at + n)]
            watts = [v * a for v, a in pairs]
            expected = [sum(v for v, _ in pairs), sum(a for _, a in pairs), sum(watts)]
            expected += [min(watts), max(watts), watts[0], watts[-1]]
            assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)
            at += n
        assert at == window.first + window.n


def test_windows_that_are_over_range_come_as_samples(capture):
    amps = emulated_hmo.WAVEFORM[2]
    limit = sorted(amps)[-3]
    with Emulator() as instrument:
        running = capture(
            instrument.driver, "CH1,CH2", f"--rail=CH1,CH2,1,0,1,0,inf,{limit}", "--point", "10"
        )
        running.wait(
            lambda: (
                sum(f.n for f in rail_frames(running, 0)) > len(amps)
                and any(f.type == ANALOG for f in running.frames)
            ),
            "windows within range and one over it",
        )
        assert running.stop() == 0
    over = [f for f in running.frames if f.type == ANALOG and f.channel == 1]
    assert max(max(f.samples()) for f in over) >= limit
    for window in rail_frames(running, 0):
        assert max(amp for _, amp in window.marks()) < limit


def test_samples_of_a_rail_come_while_they_are_asked_for(capture):
    with Emulator() as instrument:
        running = capture(instrument.driver, "CH1,CH2", "--rail=CH1,CH2,1,0,1,0", "--point", "10")
        running.wait(lambda: len(rail_frames(running, 0)) >= 10, "sums")
        running.send("raw on")
        running.wait_samples(500)
        sums = len(rail_frames(running, 0))
        running.send("raw off")
        running.wait(lambda: len(rail_frames(running, 0)) >= sums + 10, "sums again")
        assert running.stop() == 0
    frames = running.frames
    switches = [i for i, f in enumerate(frames) if f.type == EVENT and f.event()["event"] == "raw"]
    assert [frames[i].event()["on"] for i in switches] == [True, False]
    on, off = switches
    kinds = [
        {f.type for f in part if f.type != EVENT} for part in (frames[:on], frames[on:off], frames[off:])
    ]
    # A window whose volts had come already goes out as it came.
    assert RAIL in kinds[0]
    assert kinds[1] == {ANALOG}
    assert RAIL in kinds[2]
    seen = {0: 0, 1: 0}
    for f in frames:
        for channel in (0, 1) if f.type == RAIL else [f.channel] if f.type == ANALOG else []:
            assert f.first == seen[channel], "a sample is missing or comes twice"
            seen[channel] = f.first + f.n


def test_samples_are_stamped_between_their_sending_and_the_next_request(capture, tmp_path):
    """So a stamp is late by the way to srcap alone, however busy the machine is."""
    with Emulator(log=tmp_path / "sent") as instrument:
        running = capture(instrument.driver, "CH1,CH2,CH3,CH4")
        running.wait(lambda: sum(f.type == ANALOG for f in list(running.frames)) > 150, "150 frames")
        assert running.stop() == 0
        sent = instrument.sent()
    stamps = [(f.channel + 1, f.first + f.n, f.monotonic_ns) for f in running.frames if f.type == ANALOG]
    assert len(stamps) > 100
    origin = sent[0][1] - stamps[0][1]
    for stamp, block, answer_to_the_next in zip(stamps, sent, sent[1:], strict=False):
        assert (stamp[0], stamp[1] + origin) == block[:2]
        assert block[2] <= stamp[2] <= answer_to_the_next[2]


def test_an_instrument_that_is_killed_is_noticed_without_burning_cpu(capture):
    with Emulator() as instrument:
        running = capture(instrument.driver, "CH1,CH2", "--silence-seconds", "3")
        running.wait_samples(100)
        instrument.kill()
        began = time.monotonic()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert running.ended(10) == 4
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert time.monotonic() - began < 3.5
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert used < 1.2, "it span on the closed connection"
    assert running.frames[-1].event()["event"] == "silence"


def test_an_instrument_that_stops_answering_is_noticed(capture):
    with Emulator() as instrument:
        running = capture(instrument.driver, "CH1,CH2", "--silence-seconds", "1")
        running.wait_samples(100)
        instrument.freeze()
        began = time.monotonic()
        assert running.ended(10) == 4
    assert time.monotonic() - began < 2.5
    frames = running.frames
    assert any(f.type == ANALOG for f in frames)
    assert frames[-1].event()["event"] == "silence"


def test_an_instrument_that_never_answers_does_not_hang_the_scan():
    with socket.create_server(("127.0.0.1", 0)) as mute:
        began = time.monotonic()
        code, _err = refused(
            "--driver",
            f"hameg-hmo:conn=tcp-raw/127.0.0.1/{mute.getsockname()[1]}",
            "--channels",
            "CH1",
            "--silence-seconds",
            "1",
        )
    assert code == 4
    assert time.monotonic() - began < 2.5


def test_a_reader_that_stalls_is_not_the_instruments_silence():
    process = piped(DEMO, "A0,A1", "--set", "samplerate=1000000", "--silence-seconds", "1")
    time.sleep(STALLED_SECONDS)
    assert process.poll() is None
    process.stdout.read(100)
    process.stdout.close()
    assert process.wait(timeout=5) == 0
    process.stderr.close()
