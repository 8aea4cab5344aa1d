# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs of the power path as a test runs them, each on its own port and in its own folder."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRCAP = str(ROOT / "build" / "srcap")
POWERD = str(ROOT / "build" / "powerd")

for _program in (SRCAP, POWERD):
    if not os.access(_program, os.X_OK):
        raise RuntimeError(
            f"{_program} is not built: make -C collectors/srcap && "
            "CGO_ENABLED=0 go build -o build/powerd ./collectors/powerd"
        )


def free_port(kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_INET, kind) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"after {seconds} s still not: {what}"
        time.sleep(0.02)


class Emulator:
    """emulated_hmo.py in a process, so that it can be killed like an instrument that loses its power."""

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
        """Of each block, before it was sent: channel, number of the sample after its last, monotonic ns."""
        return [tuple(map(int, line.split())) for line in self.log.read_text().splitlines()]

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


class Influx:
    """A real influxd with its own folder."""

    def __init__(self, folder, database="power"):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.database = database
        config = folder / "influxdb.conf"
        config.write_text("")
        env = dict(
            os.environ,
            INFLUXDB_META_DIR=str(folder / "meta"),
            INFLUXDB_DATA_DIR=str(folder / "data"),
            INFLUXDB_DATA_WAL_DIR=str(folder / "wal"),
            INFLUXDB_HTTP_BIND_ADDRESS=f"127.0.0.1:{self.port}",
            INFLUXDB_BIND_ADDRESS=f"127.0.0.1:{free_port()}",
            INFLUXDB_REPORTING_DISABLED="true",
            INFLUXDB_HTTP_LOG_ENABLED="false",
        )
        self.log = (folder / "influxd.log").open("w")
        self.process = subprocess.Popen(
            ["influxd", "-config", str(config)], env=env, stdout=self.log, stderr=self.log
        )
        wait_for(self.answers, 20, "influxd answers")
        self.query(f"CREATE DATABASE {database}", method="POST")

    def answers(self):
        try:
            with urllib.request.urlopen(self.url + "/ping", timeout=2):
                return True
        except OSError:
            return False

    def query(self, q, method="GET"):
        """Rows of the first series as dicts."""
        arguments = urllib.parse.urlencode({"db": self.database, "q": q, "epoch": "ns"})
        request = urllib.request.Request(f"{self.url}/query?{arguments}", method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            series = json.load(answer)["results"][0].get("series")
        if not series:
            return []
        return [dict(zip(series[0]["columns"], row, strict=True)) for row in series[0]["values"]]

    def points(self, meter, rail, where=""):
        return self.query(
            f"SELECT * FROM power WHERE meter='{meter}' AND rail='{rail}' {where} ORDER BY time"
        )

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=20)
        self.log.close()


class Powerd:
    def __init__(self, folder, config):
        self.socket = config["status_socket"]
        path = folder / "powerd.json"
        path.write_text(json.dumps(config))
        self.log_path = folder / "powerd.log"
        self.log = self.log_path.open("w")
        self.process = subprocess.Popen([POWERD, "--config", str(path)], stderr=self.log)

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
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=15)
        self.log.close()
        return code
