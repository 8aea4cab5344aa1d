# SPDX-License-Identifier: GPL-3.0-or-later
"""srcap as the tests of meters run it, and what lets libserialport open pseudo-terminals."""

from __future__ import annotations

import io
import os
import subprocess
import time
from pathlib import Path

import pytest

from joulerig.rig.lab import meters
from joulerig.rig.lab.meters import source
from tests.support import ROOT
from tests.support.power_processes import set_options
from tests.support.programs import built
from tests.support.srcap_frames import ANALOG, read_frames

# Emulator (of the tap) and Powerd are there.


@pytest.fixture(scope="module", autouse=True)
def ptys(tmp_path_factory) -> Path:
    """Let every program that a module's tests start open a pseudo-terminal as a serial line."""
    library = tmp_path_factory.mktemp("shim") / "ptyshim.so"
    source = ROOT / "tests" / "support" / "ptyshim.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", str(library), str(source), "-ldl"], check=True)
    before = os.environ.get("LD_PRELOAD")
    os.environ["LD_PRELOAD"] = str(library)
    yield library
    if before is None:
        del os.environ["LD_PRELOAD"]
    else:
        os.environ["LD_PRELOAD"] = before


class Capture:
    """srcap on a driver, from its start to `stop()`: frames, exit code and CPU seconds."""

    def __init__(self, driver, channels, *more, silence=2.0):
        family = meters.shipped().family(driver.partition(":")[0])
        more = [*source.srcap_options(family), *set_options(driver), *more]
        command = [built("srcap"), "--driver", driver, "--channels", ",".join(channels)]
        command += ["--silence-seconds", f"{silence:g}", *more]
        self.channels = channels
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def cpu_seconds(self):
        """Of the process so far, user and system."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self, after=0.0):
        time.sleep(after)
        out, err = self.process.communicate(b"stop\n", timeout=20)
        self.frames = list(read_frames(io.BytesIO(out)))
        self.error = err.decode()
        return self

    def ended(self, seconds):
        """The exit code, within `seconds`; what was written till then is in `frames`."""
        out, err = self.process.communicate(timeout=seconds)
        self.frames = list(read_frames(io.BytesIO(out)))
        self.error = err.decode()
        return self.process.returncode

    @property
    def start(self):
        return self.frames[0].event()

    def analog(self, channel):
        """(mq, unit, values, monotonic seconds of each frame) of a channel."""
        frames = [f for f in self.frames if f.type == ANALOG and f.channel == self.channels.index(channel)]
        values = [value for frame in frames for value in frame.samples()]
        [kind] = {(f.mq, f.unit) for f in frames}
        return (*kind, values, [f.monotonic_ns / 1e9 for f in frames])


@pytest.fixture
def capture():
    running = []

    def start(*arguments, **more):
        running.append(Capture(*arguments, **more))
        return running[-1]

    yield start
    for one in running:
        one.process.kill()
        one.process.wait()
        for pipe in (one.process.stdin, one.process.stdout, one.process.stderr):
            pipe.close()
