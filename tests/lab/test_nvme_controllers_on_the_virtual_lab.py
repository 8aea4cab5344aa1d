# SPDX-License-Identifier: GPL-3.0-or-later
"""A virtual host whose NVMe drives are controllers: its kernel's driver, the twins' answers.

Of `make test-nvme`: a lab with `virtual: { nvme: twin }`, the rest of it as it is shipped.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from joulerig.virtuallab import profile, twins
from tests.support import ROOT
from tests.support.lab_driver import FACTORS, Done, Lab
from tests.support.programs import wait_for

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(3000),
    pytest.mark.skipif("JOULERIG_NVME" not in os.environ, reason="make test-nvme runs these"),
]

DRIVE = "nvme-consumer"
MODEL = profile.load(DRIVE)
FUA_WRITES = 64


class OwnControllers(Lab):
    """A lab with its own inventory."""

    inventory: Path

    def rig(self, *words: str, inventory: Path | None = None, timeout: float = 900) -> Done:
        return super().rig(*words, inventory=inventory or self.inventory, timeout=timeout)

    def nvme(self, *words: str) -> dict[str, Any]:
        """What nvme-cli reports of the drive."""
        return dict(json.loads(self.ssh(f"nvme {' '.join(words)} --output-format=json")))


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnControllers]:
    lab = OwnControllers(tmp_path_factory.mktemp("own"))
    folder = lab.folder / "inventory"
    shutil.copytree(ROOT / "host_vars", folder / "host_vars")
    shutil.copy(ROOT / "inventory.ini", folder)
    host_vars = folder / "host_vars" / "vhost1.yml"
    described = yaml.safe_load(host_vars.read_text())
    described["virtual"]["nvme"] = "twin"
    host_vars.write_text(yaml.safe_dump(described))
    lab.inventory = folder / "inventory.ini"
    try:
        done = lab.rig("up", timeout=1800)
        assert done.returncode == 0, done.stdout + done.stderr
        yield lab
    finally:
        lab.rig("down")


@pytest.fixture(scope="module")
def device(own: OwnControllers) -> str:
    """The drive's name on its host."""
    disks = json.loads(own.ssh("lsblk --json --nodeps --output NAME,SERIAL,MODEL,TRAN"))["blockdevices"]
    [disk] = [one for one in disks if one["serial"] == "JRNVC0001"]
    assert disk["model"].strip() == MODEL.model
    return str(disk["name"])


def watts(lab: Lab) -> float:
    [rail] = lab.twins()[DRIVE]["rails"]
    return float(rail["volts"] * rail["amps"])


def test_the_rig_finds_the_drives_of_the_inventory(own):
    for drive, serial in ((DRIVE, "JRNVC0001"), ("nvme-plp", "JRNVP0001")):
        done = own.rig("drives", "look", "vhost1", drive)
        assert done.returncode == 0, done.stdout + done.stderr
        assert serial in done.stdout


def test_the_host_uses_fua_and_the_twin_takes_it(own, device):
    """Linux flushes a raw device after such a write all the same."""
    assert own.ssh(f"cat /sys/block/{device}/queue/fua").strip() == "1"
    before = own.twins()[DRIVE]["counters"]
    own.ssh(f"dd if=/dev/zero of=/dev/{device} bs=4k count={FUA_WRITES} oflag=direct,dsync status=none")
    after = own.twins()[DRIVE]["counters"]
    assert after["fua_writes"] - before["fua_writes"] == FUA_WRITES
    assert after["writes"] - before["writes"] == FUA_WRITES


def test_the_health_log_is_the_twins(own, device):
    log = {key: int(value) for key, value in own.nvme("smart-log", f"/dev/{device}").items()}
    health = own.twins()[DRIVE]["health"]
    assert log["power_cycles"] == health["power_cycles"]
    assert log["unsafe_shutdowns"] == health["unsafe_shutdowns"]
    assert log["temperature"] == pytest.approx(health["temperature_celsius"] + 273, abs=1.5)
    assert log["data_units_written"] == pytest.approx(health["host_bytes_written"] / 512_000, abs=1)
    assert log["host_write_commands"] >= FUA_WRITES


def test_the_hosts_kernel_lets_the_drive_rest_as_it_likes(own, device):
    """Linux 6.1 goes to the deepest state that is entered and left within 15 ms, after 100 ms."""
    states = own.nvme("id-ctrl", f"/dev/{device}")["psds"][: len(MODEL.power_states)]
    assert [one["max_power"] for one in states[:3]] == [849, 448, 318]
    text = own.ssh(f"nvme get-feature /dev/{device} --feature-id=0x0c --human-readable")
    [idle, state] = [re.search(rf"{what}.*: (\d+)", text)[1] for what in ("ITPT", "ITPS")]
    assert (idle, state) == ("100", "4")
    deepest = MODEL.power_states[4].watts["3v3"]
    wait_for(lambda: watts(own) == pytest.approx(deepest, rel=0.02), 10, "the drive rests")


def test_a_state_that_the_host_sets_is_what_the_drive_draws(own, device):
    kept = own.ssh(f"nvme get-feature /dev/{device} --feature-id=0x0c --raw-binary | base64 -w0").strip()
    table = "--feature-id=0x0c --data-len=256 --data=/tmp/table"
    own.ssh(f"head -c 256 /dev/zero > /tmp/table; nvme set-feature /dev/{device} {table} --value=0")
    for state, expected in ((0, MODEL.rails["3v3"].idle_watts), (3, MODEL.power_states[3].watts["3v3"])):
        own.ssh(f"nvme set-feature /dev/{device} --feature-id=0x02 --value={state}")
        wait_for(
            lambda want=expected: watts(own) == pytest.approx(want, rel=0.02), 10, f"state {state} is drawn"
        )
    own.ssh(f"echo {kept} | base64 -d > /tmp/table; nvme set-feature /dev/{device} {table} --value=1")


def test_a_campaign_is_as_behind_qemus_controller(own):
    playbook = own.playbook(name="own", factors={**FACTORS, "filesystem": ["ext4", "f2fs"]})
    done = own.rig("run", str(playbook), timeout=1500)
    assert done.returncode == 0, done.stdout + done.stderr
    runs = own.results_of()["runs"]
    assert [run["status"] for run in runs] == ["ok", "ok"]
    assert all(run["joules_low"] <= run["true_joules"] <= run["joules_high"] for run in runs)


def test_a_cut_of_the_host_leaves_what_was_promised(own):
    definition = {
        "kind": "power-cut",
        "name": "cuts",
        "question": "Is what was fsynced still there?",
        "subjects": [{"drive": DRIVE, "filesystem": "f2fs"}],
        "cuts": 2,
        "seed": 7,
        "host_seconds": 900,
    }
    path = own.folder / "power_cut.yml"
    path.write_text(yaml.safe_dump({"campaign": definition}))
    own.environment["JOULERIG_INVENTORY"] = str(own.inventory)
    command = ("-i", str(own.inventory), "-e", f"@{path}")
    done = own.ansible(ROOT / "playbooks" / "power_cut.yml", *command, timeout=1800)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    [cut] = own.results_of()["power_cuts"]
    assert cut["failed"] == []
    assert cut["verdict"]["broken_promises"] == 0
    assert cut["verdict"]["promised_writes"] > 0


def test_a_drive_that_loses_its_power_is_gone_from_its_host(own, device):
    """As on a bus: a file system gets errors, not a drive that has forgotten what it held."""
    with own.state():
        twins.request(twins.control_socket("vhost1", DRIVE), "power off 1 all")
        wait_for(
            lambda: own.ssh(f"ls /sys/block | grep -c {device} || true").strip() == "0", 60, "it is gone"
        )
        twins.request(twins.control_socket("vhost1", DRIVE), "power on")
    time.sleep(MODEL.ready_seconds)  # until it takes connections
    own.ssh("systemctl restart lab-drives")
    assert "JRNVC0001" in own.ssh("lsblk --nodeps --output SERIAL")
