# SPDX-License-Identifier: GPL-3.0-or-later
"""A program that prints samples, as a capturer reads it: frames, times, ends."""

import contextlib
import itertools
import math
import os
import time

import pytest

from tests.support.capturers import Capture, of_program, program
from tests.support.programs import wait_for

STREAM = ("--set", "samplerate=1000")
POLL = ("--set", "samplerate=50", "--set", "timing=poll")


@pytest.fixture
def capture(tmp_path):
    """capture(text, channels, *more) reads a Python program of that text."""
    with contextlib.ExitStack() as running:

        def start(text, channels, *more, silence=5.0):
            argv = of_program(program(tmp_path, text))
            return running.enter_context(
                contextlib.closing(Capture("command", channels, *argv, *more, silence=silence))
            )

        yield start


STEADY = """
    import time
    print("time,volts,amps")
    for k in range(100000):
        if not 500 <= k < 550:
            print(f"{k / 1000:.3f},5,{0.5 + 0.25 * (k % 2)}")
        if k % 20 == 19:
            time.sleep(0.02)  # the pace of an instrument
"""


def test_a_stream_with_times_has_its_holes_where_samples_are_missing(capture):
    taken = capture(STEADY, ["volts", "amps"], *STREAM)
    taken.wait_samples(700)
    assert taken.stop() == 0
    start = taken.events()[0]
    assert (start["event"], start["driver"], start["samplerate_hz"]) == ("start", "command", 1000)
    assert [c["name"] for c in start["channels"]] == ["volts", "amps"]
    seen = [frame.first + k for frame in taken.frames_of("amps") for k in range(frame.n)]
    assert seen[:700] == [*range(500), *range(550, 750)]
    assert taken.samples("amps")[:4] == [0.5, 0.75, 0.5, 0.75]
    assert {(f.mq, f.unit) for f in taken.frames_of("volts")} == {(10000, 10000)}
    assert {(f.mq, f.unit) for f in taken.frames_of("amps")} == {(10001, 10001)}
    assert taken.events()[-1] == {"event": "end", "requested": True}


def test_over_range_is_infinite_and_what_is_missing_is_no_number(capture):
    text = """
        import time
        print("volts,amps")
        while True:
            for amps in ("1", "OL", "", "2"):
                print("5," + amps)
            time.sleep(0.004)  # the pace of an instrument
    """
    taken = capture(text, ["volts", "amps"], *STREAM)
    taken.wait_samples(40)
    taken.stop()
    one, over, none, two = taken.samples("amps")[:4]
    assert (one, over, two) == (1, math.inf, 2)
    assert math.isnan(none)


@pytest.mark.timed
def test_polled_readings_have_the_time_at_which_they_came(capture):
    text = """
        import json, time
        while True:
            print(json.dumps({"12v.watts": 3.5, "5v.watts": None}))
            time.sleep(0.02)  # the pace of an instrument
    """
    taken = capture(text, ["12v.watts", "5v.watts"], *POLL)
    wait_for(lambda: len(taken.samples("12v.watts")) > 20, 20, "readings")
    taken.stop()
    frames = taken.frames_of("12v.watts")
    assert all(f.n == 1 for f in frames)
    assert {(f.mq, f.unit) for f in frames} == {(10010, 10019)}
    assert taken.samples("5v.watts") == []
    apart = [(b.monotonic_ns - a.monotonic_ns) / 1e9 for a, b in itertools.pairwise(frames)]
    assert sorted(apart)[len(apart) // 2] == pytest.approx(0.02, abs=0.01)


@pytest.mark.timed
def test_readings_that_a_program_holds_back_have_the_time_that_it_gives_them(capture):
    text = """
        import time
        print("time,watts")
        while True:
            lines = []
            for k in range(10):
                lines.append(f"{time.time():.6f},{k}")
                time.sleep(0.02)  # the pace of an instrument
            print("\\n".join(lines))
    """
    taken = capture(text, ["watts"], *POLL, "--set", "clock=unix")
    taken.wait_samples(20)
    now = time.time_ns()
    taken.stop()
    frames = taken.frames_of("watts")
    apart = [(b.monotonic_ns - a.monotonic_ns) / 1e9 for a, b in itertools.pairwise(frames)]
    assert sorted(apart)[len(apart) // 2] == pytest.approx(0.02, abs=0.015)
    assert all(now - 30e9 < f.realtime_ns < now + 1e9 for f in frames)


def test_cumulative_joules_are_a_register_that_keeps_their_precision(capture):
    text = """
        import time
        joules = 123456789.0
        while True:
            joules += 0.001
            print("{\\"joules\\": %.6f}" % joules)
            time.sleep(0.02)  # the pace of an instrument
    """
    taken = capture(text, ["joules"], *POLL)
    taken.wait_samples(10)
    taken.stop()
    joules = [wh * 3600 for wh in taken.samples("joules")]
    assert joules[9] - joules[0] == pytest.approx(0.009, abs=1e-5)
    assert {f.unit for f in taken.frames_of("joules")} == {10020}


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        ("print('volts,amps'); print('5,1'); raise SystemExit(7)", 5, "ended with code 7"),
        ("print('5,1'); import time; time.sleep(60)", 5, "first line of CSV"),
        ("print('volts'); print('5'); import time; time.sleep(60)", 5, "a line has no 'amps'"),
        ("import time; time.sleep(60)", 4, "no samples for"),
        ("print('x' * 70000, end=''); import time; time.sleep(60)", 5, "a line is longer than"),
    ],
)
def test_what_a_program_does_wrong_ends_the_capture_with_one_line(capture, text, code, expected):
    taken = capture(text, ["volts", "amps"], *STREAM, silence=2.0)
    assert taken.ended() == code
    assert expected in taken.said.splitlines()[-1]


def test_a_program_that_is_not_there_is_an_absent_instrument():
    taken = Capture("command", ["volts"], *of_program(["/no/such/program"]), *STREAM)
    assert taken.ended() == 3
    assert "No such file" in taken.said
    taken.close()


def test_the_program_ends_with_its_capturer_however_that_ends(capture, tmp_path):
    text = f"""
        import os, time
        open({str(tmp_path / "pid")!r}, "w").write(str(os.getpid()))
        print("watts")
        while True:
            print(1)
            time.sleep(0.05)  # the pace of an instrument
    """
    for end in ("stop", "kill"):
        taken = capture(text, ["watts"], *POLL)
        taken.wait_samples(2)
        pid = int((tmp_path / "pid").read_text())
        if end == "stop":
            assert taken.stop() == 0
        else:
            taken.process.kill()
        wait_for(
            lambda pid=pid: not os.path.exists(f"/proc/{pid}/stat") or is_dead(pid), 10, f"{end} ends {pid}"
        )


def is_dead(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
