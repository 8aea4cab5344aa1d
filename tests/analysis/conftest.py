# SPDX-License-Identifier: GPL-3.0-or-later
"""A real InfluxDB with authentication on, for the tests that ask one."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest


@dataclass
class Influxd:
    """A running influxd 1.x: its address, its users' passwords, and a way to write."""

    url: str
    database: str = "joulerig"
    admin: tuple[str, str] = ("admin", "a secret")
    reader: tuple[str, str] = ("analysis", "r'eader\"")

    def statement(self, influxql: str, auth: tuple[str, str] | None = None) -> None:
        answer = httpx.post(
            f"{self.url}/query", params={"q": influxql}, auth=auth or self.admin, trust_env=False
        )
        answer.raise_for_status()
        assert '"error"' not in answer.text, answer.text

    def write(self, *lines: str) -> None:
        answer = httpx.post(
            f"{self.url}/write",
            params={"db": self.database, "precision": "ns"},
            content="\n".join(lines).encode(),
            auth=self.admin,
            trust_env=False,
        )
        assert answer.status_code == 204, answer.text


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="session")
def influxd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Influxd]:
    program = shutil.which("influxd")
    if program is None:
        pytest.fail("influxd is not installed: apt-get install -y influxdb")
    folder: Path = tmp_path_factory.mktemp("influxd")
    (folder / "empty.conf").touch()
    port = _free_port()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "INFLUXDB_META_DIR": str(folder / "meta"),
        "INFLUXDB_DATA_DIR": str(folder / "data"),
        "INFLUXDB_DATA_WAL_DIR": str(folder / "wal"),
        "INFLUXDB_DATA_INDEX_VERSION": "tsi1",
        "INFLUXDB_HTTP_BIND_ADDRESS": f"127.0.0.1:{port}",
        "INFLUXDB_BIND_ADDRESS": f"127.0.0.1:{_free_port()}",
        "INFLUXDB_HTTP_AUTH_ENABLED": "true",
        "INFLUXDB_REPORTING_DISABLED": "true",
    }
    with (folder / "influxd.log").open("wb") as log:
        process = subprocess.Popen(
            [program, "-config", str(folder / "empty.conf")], env=environment, stdout=log, stderr=log
        )
    try:
        server = Influxd(f"http://127.0.0.1:{port}")
        for _ in range(200):
            try:
                httpx.get(f"{server.url}/ping", trust_env=False)
                break
            except httpx.TransportError:
                assert process.poll() is None, (folder / "influxd.log").read_text()
                time.sleep(0.05)
        server.statement(f"CREATE USER admin WITH PASSWORD '{server.admin[1]}' WITH ALL PRIVILEGES")
        server.statement(f"CREATE DATABASE {server.database}")
        server.statement("CREATE USER analysis WITH PASSWORD 'r\\'eader\"'")
        server.statement("CREATE USER stranger WITH PASSWORD 'stranger'")
        server.statement(f"GRANT READ ON {server.database} TO analysis")
        yield server
    finally:
        process.terminate()
        process.wait(timeout=10)
