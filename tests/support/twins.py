# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts real twins (nbdkit with our plugin) for tests and talks to their control sockets."""

import json
import socket
import subprocess
import threading
import time
from pathlib import Path

from joulerig.virtuallab import profile, twin_parameters, twins
from tests.support.programs import built, end, wait_for

PLUGIN = built("nbdkit-twin-plugin.so")
# For so long after an operation its energy flows at the most, which a twin does not report.
ACTIVITY_SECONDS = 0.05
RAIL_12V = "12v,12,0.05,1.5,1.0e-9,2.5e-9,4e-6,2e-4"
RAIL_3V3 = "3v3,3.3,0.03,0.25,0.2e-9,0.4e-9,1e-6,2e-5"


class Twin:
    """One twin in `folder`; a context manager. `options` are further nbdkit parameters."""

    def __init__(self, folder, *, size="64M", serial="JRTEST0001", rails=(RAIL_12V, RAIL_3V3), options=()):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.nbd = self.folder / "nbd.sock"
        self.control = self.folder / "control.sock"
        self.file = self.folder / "drive.img"
        self.uri = f"nbd+unix:///?socket={self.nbd}"
        self.command = [
            "nbdkit", "-f", "--exit-with-parent", "--threads", str(twin_parameters.THREADS),
            "-U", str(self.nbd), PLUGIN,
            f"file={self.file}", f"size={size}", f"serial={serial}", f"control={self.control}",
            *(f"rail={rail}" for rail in rails), *options,
        ]  # fmt: skip
        self.process = None

    def start(self):
        self.nbd.unlink(missing_ok=True)
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE, text=True)
        try:
            wait_for(self.is_up, 10, "the twin listens")
        except BaseException:
            self.stop()
            raise
        return self

    def is_up(self):
        assert self.process.poll() is None, self.process.stderr.read()
        return twins.listens(self.nbd, self.control)

    def stop(self):
        if self.process:
            end(self.process)

    def kill(self):
        """Without a chance to clean up."""
        self.process.kill()
        end(self.process)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    def connect(self):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(10)
        connection.connect(str(self.control))
        return connection

    def ask(self, line):
        with self.connect() as connection:
            connection.sendall(line.encode() + b"\n")
            with connection.makefile() as replies:
                return json.loads(replies.readline())

    def state(self):
        return self.ask("state")

    def joules(self):
        return {rail["name"]: rail["joules"] for rail in self.state()["rails"]}

    def counters(self):
        return self.state()["counters"]

    def io(self, *commands, cache="none"):
        """Runs qemu-io commands on the drive."""
        arguments = ["qemu-io", "-f", "raw", "-t", cache, "-d", "unmap"]
        for command in commands:
            arguments += ["-c", command]
        done = subprocess.run([*arguments, self.uri], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


class TwinTruth:
    """A twin without a host as the `TruthSource` (rig/lab/virtual.py) of a lab's only drive."""

    def __init__(self, twin):
        self.twin = twin

    def state(self, host, drive):
        return twins.request(self.twin.control, "state")

    def history(self, host, drive, instants_ns):
        return twins.request(self.twin.control, f"history {' '.join(map(str, instants_ns))}")


class Stream:
    """The windows that a twin sends from now on: (number, volts and amps of each rail ...)."""

    def __init__(self, twin, window_ns):
        self.window_ns = window_ns
        self.rows = []
        self.connection = twin.connect()
        self.connection.sendall(f"stream {window_ns}\n".encode())
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        with self.connection.makefile() as lines:
            for line in lines:
                number, *values = line.split()
                self.rows.append((int(number), *map(float, values)))

    def wait_rows(self, count):
        """Wait until so many further windows have come."""
        enough = len(self.rows) + count
        wait_for(lambda: len(self.rows) >= enough, 10, f"{enough} windows")

    def stop(self):
        """The windows up to now, also those that the twin has not sent yet."""
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // self.window_ns
        wait_for(
            lambda: (self.rows and self.rows[-1][0] >= now - 1) or not self.thread.is_alive(),
            10,
            "the stream has come to the present",
        )
        self.connection.shutdown(socket.SHUT_RDWR)
        self.thread.join(10)
        self.connection.close()
        return self.rows


def twin_of(folder, name, size="256M", **changed):
    """A twin of a shipped profile; `changed` are parameters that differ, None: left out."""
    return twin_as(folder, profile.load(name), size, **changed)


def twin_as(folder, described, size="256M", **changed):
    """A twin of a profile; `changed` are parameters that differ, None: left out."""
    words = twin_parameters.from_profile(described)
    words = [word for word in words if word.split("=")[0] not in changed]
    words += [f"{key}={value}" for key, value in changed.items() if value is not None]
    rails = [word.removeprefix("rail=") for word in words if word.startswith("rail=")]
    return Twin(folder, size=size, rails=rails, options=[w for w in words if not w.startswith("rail=")])
