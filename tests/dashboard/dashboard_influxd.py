# SPDX-License-Identifier: GPL-3.0-or-later
"""A real influxd 1.x with authentication, in a folder of its own, that a test can stop and start again."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import httpx

DATABASE = "joulerig"
ADMIN = ("admin", "an admin's secret")
READER = ("dashboard", "a reader's secret")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Influxd:
    def __init__(self, folder: Path, **settings: str) -> None:
        """`settings`: further ones of influxd, as environment variables without INFLUXDB_."""
        program = shutil.which("influxd")
        assert program, "influxd is not installed: apt-get install -y influxdb"
        self._program = program
        self._folder = folder
        self._settings = {f"INFLUXDB_{name}": value for name, value in settings.items()}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "empty.conf").touch()
        self._ports = free_port(), free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{self._ports[0]}"
        self._http = httpx.Client(trust_env=False, timeout=10)

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    def start(self) -> None:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._folder),
            "INFLUXDB_META_DIR": str(self._folder / "meta"),
            "INFLUXDB_DATA_DIR": str(self._folder / "data"),
            "INFLUXDB_DATA_WAL_DIR": str(self._folder / "wal"),
            "INFLUXDB_DATA_INDEX_VERSION": "tsi1",
            "INFLUXDB_DATA_QUERY_LOG_ENABLED": "false",
            "INFLUXDB_HTTP_LOG_ENABLED": "false",
            "INFLUXDB_HTTP_BIND_ADDRESS": f"127.0.0.1:{self._ports[0]}",
            "INFLUXDB_BIND_ADDRESS": f"127.0.0.1:{self._ports[1]}",
            "INFLUXDB_HTTP_AUTH_ENABLED": "true",
            "INFLUXDB_MONITOR_STORE_ENABLED": "false",
            "INFLUXDB_REPORTING_DISABLED": "true",
            **self._settings,
        }
        with (self._folder / "influxd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, "-config", str(self._folder / "empty.conf")],
                env=environment,
                stdout=log,
                stderr=log,
            )
        end = time.monotonic() + 20
        while True:
            try:
                if self._http.get(f"{self.url}/ping").status_code == 204:
                    return
            except httpx.HTTPError:
                pass
            assert self._process.poll() is None, (self._folder / "influxd.log").read_text()[-2000:]
            assert time.monotonic() < end, "influxd did not come up"
            time.sleep(0.05)

    def stop(self) -> None:
        if self._process:
            self._process.terminate()
            self._process.wait(20)
            self._process = None

    def prepare(self) -> None:
        """Users and database, at the first start."""
        for statement in (
            f"CREATE USER {ADMIN[0]} WITH PASSWORD '{_quoted(ADMIN[1])}' WITH ALL PRIVILEGES",
            f"CREATE DATABASE {DATABASE}",
            f"CREATE USER {READER[0]} WITH PASSWORD '{_quoted(READER[1])}'",
            f"GRANT READ ON {DATABASE} TO {READER[0]}",
        ):
            auth = None if statement.startswith("CREATE USER admin") else ADMIN
            answer = self._http.post(f"{self.url}/query", params={"q": statement}, auth=auth)
            assert answer.status_code == 200, answer.text
            assert '"error"' not in answer.text, answer.text

    def write(self, lines: list[str]) -> None:
        answer = self._http.post(
            f"{self.url}/write",
            params={"db": DATABASE, "precision": "ns"},
            content="\n".join(lines).encode(),
            auth=ADMIN,
        )
        assert answer.status_code == 204, answer.text


def _quoted(text: str) -> str:
    return text.replace("'", "\\'")
