# SPDX-License-Identifier: GPL-3.0-or-later
"""The example of a physical lab: a file like the shipped one, with other values."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from joulerig.rig.campaign import definition, playbook
from joulerig.rig.common import paths
from joulerig.rig.controller import services
from joulerig.rig.lab import model

INVENTORY = paths.ROOT / "inventory.example-bench.ini"


@pytest.fixture(scope="module")
def example():
    return model.load(INVENTORY)


def test_it_is_a_physical_lab(example):
    assert not example.virtual
    assert all(meter.connection for meter in example.controller.meters.values())


def test_it_has_a_drive_of_each_kind(example):
    drives = example.hosts["bench1"].drives.values()
    kinds = sorted((drive.interface, drive.plp) for drive in drives)
    assert kinds == sorted(
        [("nvme", True), ("nvme", False), ("sata-ssd", True), ("sata-ssd", False), ("nvdimm", True)]
        + [("ram", False)]
        + 4 * [("hdd", False)]
    )
    assert example.hosts["bench1"].arrays["hdd-array"].level == "raid5"


def test_every_drive_but_those_of_memory_is_measured(example):
    unmeasured = [name for name, drive in example.hosts["bench1"].drives.items() if not drive.rails]
    assert unmeasured == ["nvdimm", "ram"]


@pytest.mark.parametrize(
    "name", ["demo", "ai_matrix", "f2fs_supercap", "journal_placement", "mtime_interval", "nvmm_fs"]
)
def test_every_shipped_study_can_be_planned_on_it(example, name):
    path = paths.ROOT / f"playbooks/{name}.yml"
    campaign = definition.parse(playbook.mapping(path), example, path.name)
    assert {run.host for run in definition.plan(campaign, example)} == {"bench1"}


def test_rig_plan_names_its_serials(state):
    done = subprocess.run(
        [sys.executable, "-m", "joulerig.rig.cli.main", "plan", "--offline", "playbooks/demo.yml"],
        cwd=paths.ROOT, env={**os.environ, "JOULERIG_INVENTORY": str(INVENTORY)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    drives = model.load(INVENTORY).hosts["bench1"].drives
    assert drives["nvme-plp"].serial in done.stdout
    assert drives["nvme-consumer"].serial in done.stdout
    assert drives["hdd-1"].serial not in done.stdout


def test_ansible_reads_it():
    program = Path(sys.executable).parent / "ansible-inventory"
    done = subprocess.run(
        [program, "-i", INVENTORY, "--list"], cwd=paths.ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    listing = json.loads(done.stdout)
    assert listing["test_hosts"]["hosts"] == ["bench1"]
    assert listing["controller"]["hosts"] == ["bench-controller"]
    variables = listing["_meta"]["hostvars"]["bench1"]
    assert variables["ansible_user"] == "lab"
    assert "profile" not in json.dumps(variables)


def test_the_power_daemon_can_be_configured_with_it(state, example, tmp_path):
    token = tmp_path / "token"
    token.write_text("secret")
    influx = example.controller.influxdb.model_copy(update={"token_file": token, "host_token_file": token})
    own = example.model_copy(
        update={"controller": example.controller.model_copy(update={"influxdb": influx})}
    )
    services._powerd(own)
    config = json.loads((state / "var/powerd/config.json").read_text())
    assert sum(len(meter["rails"]) for meter in config["meters"]) == 12
    assert config["influx"].items() >= {
        "url": "http://192.168.40.2:8086", "database": "joulerig_power", "username": "joulerig", "password_file": str(token)
    }.items()  # fmt: skip
    agent = services.deployment(own, "bench1")["rig_agent"]["config"]
    assert agent["influx"]["url"] == "http://192.168.40.2:8086"
