# SPDX-License-Identifier: GPL-3.0-or-later
"""An InfluxDB 2.x with tokens: what the collectors write there, and what the analysis reads."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from joulerig.analysis.results.influxdb.client import Client, InfluxError
from joulerig.rig.common.errors import UserError
from joulerig.rig.controller import influxdb, services
from tests.support import ROOT
from tests.support.influxd import Influxd
from tests.support.influxdb2 import READER, WRITER, Influxdb2
from tests.support.lab_files import LabFiles
from tests.support.programs import built, end, wait_for

HOST = ROOT / "collectors" / "internal" / "testdata" / "host1"


@pytest.fixture
def server(influxd: Influxd) -> Iterator[Influxdb2]:
    with Influxdb2(influxd) as server:
        yield server


def agent(folder: Path, server: Influxdb2, token: str) -> subprocess.Popen[bytes]:
    """An agent that writes what its host does, as `rig up` configures it."""
    (folder / "token").write_text(token + "\n")
    config = {
        "host": "bench1",
        "interval_seconds": 0.1,
        "socket": str(folder / "iod.sock"),
        "spool_dir": str(folder / "spool"),
        "influx": {
            "url": server.url, "database": Influxd.database, "username": "agent",
            "password_file": str(folder / "token"),
        },
        "drives": [{"name": "a", "serial": "JRNVP0001"}],
        "proc_root": str(HOST / "proc"), "sys_root": str(HOST / "sys"), "dev_root": str(HOST / "dev"),
    }  # fmt: skip
    (folder / "iod.json").write_text(json.dumps(config))
    return subprocess.Popen([built("iod"), "--config", str(folder / "iod.json")], stderr=subprocess.PIPE)


def test_points_of_an_agent_are_written_by_its_token_and_read_by_another(
    server: Influxdb2, tmp_path: Path
) -> None:
    process = agent(tmp_path, server, WRITER)
    try:
        with Client(server.url, Influxd.database, "anything", READER) as client:
            wait_for(lambda: client.query("SELECT writes FROM blockio").height, 30, "points")
            found = client.query("SELECT writes FROM blockio")
    finally:
        end(process, 10)
    assert found["writes"][0] > 0
    assert server.users == {"agent", "anything"}


def test_an_agents_token_cannot_read(server: Influxdb2) -> None:
    with Client(server.url, Influxd.database, "anything", WRITER) as client, pytest.raises(InfluxError):
        client.query("SELECT writes FROM blockio")


def test_the_rig_knows_a_right_token_from_a_wrong_one(
    server: Influxdb2, lab_files: LabFiles, tmp_path: Path, state: Path
) -> None:
    token = tmp_path / "token"
    lab_files.controller["influxdb"] = {
        "url": server.url, "database": Influxd.database, "token_file": str(token),
        "host_token_file": str(tmp_path / "token-{host}"),
    }  # fmt: skip
    (tmp_path / "token-bench1").write_text(WRITER)
    token.write_text(READER)
    influxdb.check(lab_files.load())
    assert services.deployment(lab_files.load(), "bench1")["rig_agent"]["password"] == WRITER
    token.write_text("another")
    with pytest.raises(UserError, match=r"HTTP 401: .*unauthorized access"):
        influxdb.check(lab_files.load())
