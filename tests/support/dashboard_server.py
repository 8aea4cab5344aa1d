# SPDX-License-Identifier: GPL-3.0-or-later
"""The dashboard as the supervisor starts it: a process with a configuration file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support import ROOT
from tests.support.influxd import Influxd
from tests.support.programs import end


class Dashboard:
    def __init__(self, folder: Path, influx_url: str, listen: str = "127.0.0.1:0") -> None:
        self.folder = folder
        self.results = folder / "results"
        self.results.mkdir(parents=True, exist_ok=True)
        self.socket = folder / "status.sock"
        self.config = folder / "dashboard.json"
        secret = folder / "password"
        secret.write_text(Influxd.reader[1] + "\n")
        self.settings = {
            "listen": listen,
            "results_dir": str(self.results),
            "influx": {
                "url": influx_url,
                "database": Influxd.database,
                "username": Influxd.reader[0],
                "password_file": str(secret),
                "hosts": list(Influxd.hosts),
            },
            "powerd_status_socket": str(self.socket),
        }
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    def start(self) -> None:
        self.config.write_text(json.dumps(self.settings))
        with (self.folder / "dashboard.log").open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "joulerig.rig.dashboard", "--config", str(self.config)],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line.startswith("dashboard: http://"), (line, self.log())
        self.url = line.split()[1]
        self.settings["listen"] = self.url.removeprefix("http://").rstrip("/")  # a restart keeps the port

    def stop(self) -> None:
        if self._process:
            end(self._process)
            self._process = None

    def log(self) -> str:
        return (self.folder / "dashboard.log").read_text()
