# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs of the power path, each on its own port and in its own folder."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from joulerig.rig.lab import meters
from joulerig.rig.lab.meters import source
from tests.support.programs import built, end, wait_for

SRCAP = built("srcap")


def settings_of(driver: str) -> dict[str, str]:
    """The settings that a driver's family has, as powerd takes them under `set`."""
    return source.limits(meters.shipped().family(driver.partition(":")[0]))


def set_options(driver: str) -> list[str]:
    """The same, as srcap takes them."""
    return [word for key, value in settings_of(driver).items() for word in ("--set", f"{key}={value}")]


POWERD = built("powerd")


class Emulator:
    """emulated_hmo.py as a process, which can be killed like an instrument losing power."""

    def __init__(self, port=0, rate=1000, ppm=0.0, lose_at=None, lose=0, log=None):
        self.rate, self.ppm, self.log = rate, ppm, log
        command = [
            sys.executable,
            str(Path(__file__).with_name("emulated_hmo.py")),
            f"--port={port}",
            f"--rate={rate}",
            f"--ppm={ppm}",
        ]
        if lose_at is not None:
            command += [f"--lose-at={lose_at}", f"--lose={lose}"]
        if log is not None:
            command += [f"--log={log}"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        ready = json.loads(self.process.stdout.readline())
        self.port = ready["port"]
        self.start_monotonic_ns = ready["start_monotonic_ns"]
        self.start_realtime_ns = ready["start_realtime_ns"]

    @property
    def driver(self):
        return f"hameg-hmo:conn=tcp-raw/127.0.0.1/{self.port}"

    def samples_at(self, realtime_ns):
        """How many samples (a float) the instrument has made by then."""
        return (realtime_ns - self.start_realtime_ns) / 1e9 * self.rate / (1 + self.ppm * 1e-6)

    def time_of(self, samples):
        return self.start_realtime_ns + samples / self.rate * (1 + self.ppm * 1e-6) * 1e9

    def sent(self):
        """Return of each block: channel, number of the sample after its last, ns before sending."""
        return [tuple(map(int, line.split())) for line in self.log.read_text().splitlines()]

    def run_with_real_time_priority(self):
        """Schedule the emulator before other processes, where allowed.

        A real instrument does not share the controller's processors.
        """
        with contextlib.suppress(PermissionError):
            for thread in os.listdir(f"/proc/{self.process.pid}/task"):
                least = os.sched_param(os.sched_get_priority_min(os.SCHED_RR))
                os.sched_setscheduler(int(thread), os.SCHED_RR, least)

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()


class Powerd:
    def __init__(self, folder, config, run=()):
        """`run`: a command that runs powerd, in front of powerd's own."""
        self.socket = config["status_socket"]
        path = folder / "powerd.json"
        path.write_text(json.dumps(config))
        self.log_path = folder / "powerd.log"
        self.log = self.log_path.open("w")
        self.process = subprocess.Popen([*run, POWERD, "--config", str(path)], stderr=self.log)

    def status(self):
        connection = http.client.HTTPConnection("powerd", timeout=5)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(self.socket)
        connection.request("GET", "/status")
        answer = json.load(connection.getresponse())
        connection.close()
        return answer

    def meter(self, name):
        try:
            return next(m for m in self.status()["meters"] if m["name"] == name)
        except OSError:
            return None

    def wait_state(self, name, state, seconds):
        def reached():
            m = self.meter(name)
            return m if m and m["state"] == state else None

        return wait_for(reached, seconds, f"meter {name} is {state} (see {self.log_path})")

    def stop(self):
        self.log.close()
        return end(self.process, 15)
