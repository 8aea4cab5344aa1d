# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs on the lab's clock: this interpreter, with the library preloaded.

It waits in the ways in which QEMU, nbdkit and libsigrok do.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from joulerig.virtuallab.clock.page import ENVIRONMENT, LabClock
from tests.support import ROOT
from tests.support.slow_motion import slow_down

LIBRARY = ROOT / "build/lab_clock.so"
SLOW = 8.0
LAB_SECONDS = 0.2
# A busy machine wakes late, never early.
LATEST_SECONDS = 0.5

WAITS = {
    "clock_nanosleep": "time.sleep({s})",
    "poll": "select.poll().poll(1000 * {s})",
    "select": "select.select([read], [], [], {s})",
    "epoll_wait": "select.epoll().poll({s})",
    "sem_clockwait": "threading.Lock().acquire() and held.acquire(timeout={s})",
    "nanosleep": "libc.nanosleep(ctypes.byref(Time(0, int(1e9 * {s}))), None)",
    "usleep": "libc.usleep(int(1e6 * {s}))",
    "ppoll": "libc.ppoll(None, 0, ctypes.byref(Time(0, int(1e9 * {s}))), None)",
    "sem_timedwait": "libc.sem_timedwait(semaphore, from_now(time.CLOCK_REALTIME, {s}))",
    "pthread_cond_timedwait": "until_over(lambda: libc.pthread_cond_timedwait(condition, mutex, deadline),"
    " deadline := from_now(time.CLOCK_REALTIME, {s}))",
    "pthread_cond_clockwait": "until_over(lambda: libc.pthread_cond_clockwait(condition, mutex, 1, deadline),"
    " deadline := from_now(time.CLOCK_MONOTONIC, {s}))",
}
PROGRAM = """
import ctypes, errno, json, os, select, sys, threading, time

class Time(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]

libc = ctypes.CDLL(None)
condition, mutex, semaphore = (ctypes.create_string_buffer(64) for _ in range(3))
libc.pthread_mutex_lock(mutex)
held = threading.Lock()
held.acquire()
read, write = os.pipe()

def from_now(clock, seconds):
    ns = time.clock_gettime_ns(clock) + int(1e9 * seconds)
    return ctypes.byref(Time(ns // 10**9, ns % 10**9))

def until_over(once, _):
    while once() != errno.ETIMEDOUT:
        pass

begin = time.monotonic()
exec(sys.argv[1])
print(json.dumps(time.monotonic() - begin))
"""


@pytest.fixture
def clock(tmp_path: Path):
    clock = LabClock.create(tmp_path / "lab_clock")
    yield clock
    clock.close()


def on_the_lab(clock: LabClock, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "LD_PRELOAD": str(LIBRARY), ENVIRONMENT: str(clock.path)}
    return subprocess.Popen(
        [sys.executable, "-c", *arguments], env=environment, stdout=subprocess.PIPE, text=True
    )


def printed_by(process: subprocess.Popen[str]):
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return json.loads(said)


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_wait_lasts_as_long_on_the_labs_clock_as_it_was_asked_for(clock, wait):
    slow_down(clock, SLOW)
    process = on_the_lab(clock, PROGRAM, wait.replace("{s}", str(LAB_SECONDS)))
    began = time.monotonic()
    lasted = printed_by(process)
    assert LAB_SECONDS <= lasted < LAB_SECONDS + LATEST_SECONDS / SLOW
    assert time.monotonic() - began >= LAB_SECONDS * SLOW


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_wait_that_the_lab_becomes_faster_in_ends_earlier(clock, wait):
    slow_down(clock, 100)
    process = on_the_lab(clock, PROGRAM, wait.replace("{s}", str(LAB_SECONDS)))
    changed = threading.Timer(1.0, clock.set_slowness, [1.0])  # it would last for 20 s
    changed.start()
    began = time.monotonic()
    assert printed_by(process) >= LAB_SECONDS
    assert time.monotonic() - began < 10
    changed.join()


def test_all_clocks_of_a_program_are_the_labs(clock):
    slow_down(clock, SLOW)
    names = ["MONOTONIC", "MONOTONIC_RAW", "BOOTTIME", "REALTIME"]
    program = (
        "import time, json; print(json.dumps([[time.clock_gettime_ns(getattr(time, 'CLOCK_' + name)) for name"
        f" in {names}], time.time()]))"
    )
    before = clock.monotonic_ns(), clock.real_ns()
    *monotonic, real = (found := printed_by(on_the_lab(clock, program)))[0]
    after = clock.monotonic_ns(), clock.real_ns()
    assert all(before[0] <= one <= after[0] for one in monotonic)
    assert before[1] <= real <= after[1]
    assert before[1] - 1000 <= found[1] * 1e9 <= after[1] + 1000


# CLOCK_TAI stays the machine's. Between two readings no more time can pass in the lab than there.
STEADY = """
import time, json
def look():
    before = time.clock_gettime_ns(time.CLOCK_TAI)
    return before, time.monotonic_ns(), time.clock_gettime_ns(time.CLOCK_TAI)
found = [look()]
while found[-1][1] < found[0][1] + 1_000_000_000:
    found.append(look())
steps = [(b[1] - a[1], b[2] - a[0]) for a, b in zip(found, found[1:])]
print(json.dumps([min(lab for lab, _ in steps), max(lab - wall for lab, wall in steps)]))
"""


def test_the_labs_time_goes_on_without_a_step_when_it_becomes_slower_or_faster(clock):
    process = on_the_lab(clock, STEADY)
    for slowness in (3.0, 20.0, 1.5, 7.0, 1.0) * 3:
        slow_down(clock, slowness)
    shortest, too_long = printed_by(process)
    assert shortest >= 0
    assert too_long <= 0


def test_the_page_and_the_library_agree_on_what_time_it_is(clock):
    program = "import time, json; print(json.dumps(time.monotonic_ns()))"
    for slowness in (1.0, 4.0, 1.0, 30.0):
        slow_down(clock, slowness)
        before = clock.monotonic_ns()
        assert before <= printed_by(on_the_lab(clock, program)) <= clock.monotonic_ns()


def test_a_program_without_a_page_has_the_machines_clocks(clock):
    slow_down(clock, SLOW)
    environment = {**os.environ, "LD_PRELOAD": str(LIBRARY)}
    environment.pop(ENVIRONMENT, None)
    program = "import time; begin = time.monotonic(); time.sleep(0.1); print(time.monotonic())"
    before = time.monotonic()
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
    assert before <= float(done.stdout) <= time.monotonic()


def test_a_program_whose_page_is_none_does_not_begin(clock, tmp_path):
    other = tmp_path / "other"
    other.write_bytes(b"something else" * 20)
    for path in (other, tmp_path / "none"):
        environment = {**os.environ, "LD_PRELOAD": str(LIBRARY), ENVIRONMENT: str(path)}
        done = subprocess.run(["/bin/true"], env=environment, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (127, f"lab clock: {path}: no page of a lab's clock\n")
