# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab as files that a test can change, and a checkout's state in a temporary folder."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from joulerig.rig.campaign import measure, opening
from joulerig.rig.common import paths
from joulerig.rig.lab import model as lab
from tests.support.influxd import Influxd

CONTROLLER: dict[str, Any] = {
    "meters": {
        "tap1": {"driver": "hameg-hmo", "connection": "tcp-raw/192.0.2.7/5025", "sample_rate_hz": 1000},
        "tap2": {"driver": "hameg-hmo", "connection": "tcp-raw/192.0.2.8/5025", "sample_rate_hz": 1000},
    },
    "clock_listen": "0.0.0.0:12300",
}


def _drive(serial: str, meter: str, volts: str, amps: str, **more: Any) -> dict[str, Any]:
    supply = {"volts": 12.6, "amps": 3.0, "ohms": 0.0}
    rails = {"12v": {"meter": meter, "volts": volts, "amps": amps, "supply": supply}}
    return {"interface": "hdd", "serial": serial, "size_bytes": 10**12, "rails": rails, **more}


HOST: dict[str, Any] = {
    "controller_address": "192.0.2.1",
    "drives": {
        "fast": _drive("SERIAL-A", "tap1", "CH1", "CH2", interface="nvme", plp=True),
        "hdd-1": _drive("SERIAL-B", "tap1", "CH3", "CH4"),
        "hdd-2": _drive("SERIAL-C", "tap2", "CH1", "CH2"),
        "bare": {"interface": "sata-ssd", "serial": "SERIAL-D", "size_bytes": 10**12},
    },
    "arrays": {"pair": {"level": "raid0", "members": ["hdd-1", "hdd-2"]}},
}

CAMPAIGN: dict[str, Any] = {
    "name": "study",
    "question": "Which of them does the most per joule?",
    "drives": ["fast"],
    "factors": {
        "filesystem": ["ext4", "xfs", "f2fs"],
        "scheduler": ["none", "bfq"],
        "workload": ["randread", "seqwrite"],
    },
    "replicates": 2,
}


class LabFiles:
    """An inventory with its host_vars, from plain data that a test changes before it loads them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.inventory_text = "[controller]\nboss\n\n[test_hosts]\nbench1\n"
        self.controller = copy.deepcopy(CONTROLLER)
        self.hosts = {"bench1": copy.deepcopy(HOST)}

    @property
    def inventory(self) -> Path:
        return self.folder / "inventory.ini"

    @property
    def host(self) -> dict[str, Any]:
        return self.hosts["bench1"]

    @property
    def drives(self) -> dict[str, Any]:
        return self.host["drives"]

    def write(self) -> Path:
        self.inventory.write_text(self.inventory_text)
        (self.folder / "host_vars").mkdir(exist_ok=True)
        for name, values in {"boss": self.controller, **self.hosts}.items():
            (self.folder / "host_vars" / f"{name}.yml").write_text(yaml.safe_dump(values, sort_keys=False))
        return self.inventory

    def load(self) -> lab.Lab:
        return lab.load(self.write())


@pytest.fixture
def lab_files(tmp_path: Path) -> LabFiles:
    return LabFiles(tmp_path)


@pytest.fixture
def bench(lab_files: LabFiles) -> lab.Lab:
    return lab_files.load()


@pytest.fixture
def mapping() -> dict[str, Any]:
    """A campaign's mapping that is right for `bench`."""
    return copy.deepcopy(CAMPAIGN)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """var/ and results/ in a temporary place; gives it."""
    monkeypatch.setenv("JOULERIG_VAR", str(tmp_path / "var"))
    monkeypatch.setenv("JOULERIG_RESULTS", str(tmp_path / "results"))
    yield tmp_path
    if (tmp_path / "var").exists():
        shutil.rmtree(paths.run())  # where a path is too long for sockets it is not below tmp_path


@pytest.fixture
def services_up(monkeypatch: pytest.MonkeyPatch, influxd: Influxd) -> None:
    """InfluxDB and powerd as they are when all is well."""
    pretend_services(monkeypatch, influxd, ("tap1", "tap2"))


def pretend_services(monkeypatch: pytest.MonkeyPatch, influxd: Influxd, streaming: Sequence[str]) -> None:
    """Have InfluxDB be that of the tests, and powerd report that these meters stream."""
    meters = [{"name": name, "state": "streaming"} for name in streaming]
    monkeypatch.setattr(measure, "ARRIVAL_SECONDS", 0.2)
    monkeypatch.setattr(measure.services, "powerd_status", lambda: {"meters": meters})
    monkeypatch.setattr(measure.services, "power_sessions", lambda: frozenset({"s1", "s2"}))
    monkeypatch.setattr(measure, "client", lambda lab: influxd.databases())
    monkeypatch.setattr(opening.services, "check", lambda lab: None)
    monkeypatch.setattr(opening.provenance, "controller", lambda lab: {"joulerig": "test"})
