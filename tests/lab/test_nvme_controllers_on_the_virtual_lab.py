# SPDX-License-Identifier: GPL-3.0-or-later
"""A virtual host whose NVMe drives are controllers: its kernel's driver, the twins' answers.

Of `make test-nvme`: a lab with `virtual: { nvme: twin }`, and the enterprise NVMe drive with two
power states to work in; the rest of it as it is shipped.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from joulerig.analysis.results import campaign as results
from joulerig.analysis.runs import idle as at_rest
from joulerig.virtuallab import profile, twins
from tests.support import ROOT
from tests.support.lab_driver import FACTORS, Done, Lab
from tests.support.programs import wait_for

pytestmark = [
    pytest.mark.lab,
    pytest.mark.long,
    pytest.mark.timeout(3000),
    pytest.mark.skipif("JOULERIG_NVME" not in os.environ, reason="make test-nvme runs these"),
]

DRIVE = "nvme-consumer"
MODEL = profile.load(DRIVE)
FUA_WRITES = 64
THRIFTY_IDLE_WATTS = 2.0  # of the enterprise drive in its second state


class OwnControllers(Lab):
    """A lab with its own inventory."""

    inventory: Path

    def rig(self, *words: str, inventory: Path | None = None, timeout: float = 900) -> Done:
        return super().rig(*words, inventory=inventory or self.inventory, timeout=timeout)

    def nvme(self, *words: str) -> dict[str, Any]:
        """What nvme-cli reports of the drive."""
        return dict(json.loads(self.ssh(f"nvme {' '.join(words)} --output-format=json")))


def two_states() -> dict[str, Any]:
    """The enterprise profile with a second state, which draws less and is slower."""
    described = yaml.safe_load((ROOT / "virtuallab/profiles/nvme-enterprise.yml").read_text())
    described["power_states"] = [
        {"name": "PS0", "watts": {"12v": 14.0}},
        {"name": "PS1", "watts": {"12v": 9.0}, "idle_watts": {"12v": THRIFTY_IDLE_WATTS}, "rate": 0.5},
    ]
    described["operating_state"] = "PS0"
    return dict(described)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnControllers]:
    lab = OwnControllers(tmp_path_factory.mktemp("own"))

    def own_controllers(host: dict[str, Any]) -> None:
        host["virtual"]["nvme"] = "twin"
        host["drives"]["nvme-plp"]["profile"] = "two-states"

    lab.inventory = lab.inventory_copy(own_controllers)
    profiles = lab.inventory.parent / "profiles"
    profiles.mkdir()
    (profiles / "two-states.yml").write_text(yaml.safe_dump(two_states()))
    with lab.running():
        yield lab


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


def measured(own: OwnControllers, name: str, drive: str, **factors: Any) -> dict[str, Any]:
    """Run a campaign of one drive; return each run by its level of the last factor."""
    playbook = own.playbook(
        name=name,
        drives=[drive],
        factors={**FACTORS, **factors},
        phases={"rest_seconds": 1, "idle_seconds": 3, "workload_seconds": 3, "tail_seconds": 0},
    )
    own.rig("run", str(playbook), timeout=1500)
    [folder] = own.results.glob(f"{name}-*")
    return {run.factors[list(factors)[-1]]: run for run in results.load(folder).runs}


def idle_watts(runs, *levels):
    """Power at rest of each level's run."""
    idles = at_rest.by_run(results.load(runs[levels[0]].folder.parents[1]))
    return [idles[runs[level].id].watts for level in levels]


def test_the_power_state_is_a_factor_and_changes_the_watts(own):
    runs = measured(own, "states", "nvme-plp", power_state=[0, 1, 2])
    assert [runs[level].status for level in ("0", "1")] == ["ok", "ok"], [one.reason for one in runs.values()]
    assert runs["2"].status == "not-run"
    assert runs["2"].reason.endswith(": power state 2 is not there; allowed: 0, 1")
    watts = dict(zip("01", idle_watts(runs, "0", "1"), strict=True))
    idle = profile.load("nvme-enterprise").rails["12v"].idle_watts
    assert watts["0"] == pytest.approx(idle, rel=0.05)
    assert watts["1"] == pytest.approx(THRIFTY_IDLE_WATTS, rel=0.05)
    for level in ("0", "1"):
        settings = runs[level].settings
        assert settings["drive_settings"]["power_state"] == {"before": "0", "in_effect": level}
        assert settings["power"]["drive"]["power_state"] == int(level)
        assert [one["max_watts"] for one in settings["power"]["drive"]["power_states"]] == [14.0, 9.0]
    disks = json.loads(own.ssh("lsblk --json --nodeps --output NAME,SERIAL"))["blockdevices"]
    [device] = [one["name"] for one in disks if one["serial"] == "JRNVP0001"]
    left = own.ssh(f"nvme get-feature /dev/{device} --feature-id=0x02")
    assert re.search(r"value:\s*(0x)?0+\s*$", left), left


def test_autonomous_transitions_are_a_factor_and_change_the_watts(own):
    runs = measured(own, "resting", DRIVE, apst=["off", "any", 1])
    assert [runs[level].status for level in ("off", "any")] == ["ok", "ok"]
    assert runs["1"].status == "not-run"
    assert "no state to rest in that is entered and left within 1 µs" in runs["1"].reason
    awake, resting = idle_watts(runs, "off", "any")
    assert awake == pytest.approx(MODEL.rails["3v3"].idle_watts, rel=0.05)
    assert resting < awake / 2
    for level in ("off", "any"):
        settings = runs[level].settings
        assert settings["drive_settings"]["apst"]["before"] == "100000"
        assert bool(settings["power"]["drive"]["autonomous"]["transitions"]) is (level == "any")
    tolerance = own.ssh("cat /sys/class/nvme/nvme*/power/pm_qos_latency_tolerance_us").split()
    assert tolerance[0] == "100000"


@pytest.mark.parametrize(
    ("factor", "level", "reason"),
    [
        ("governor", "performance", "scaling_governor: No such file"),
        ("c_states", "none", "cpuidle/state0/name: No such file"),
        ("apm", 128, "has no advanced power management"),
        ("standby_timer", 60, "has no standby timer"),
        ("power_state", 0, "is no NVMe drive"),
    ],
)
def test_what_a_virtual_host_lacks_is_not_run(own, factor, level, reason):
    [run] = measured(own, f"lacks-{factor.replace('_', '-')}", "sata-plp", **{factor: [level]}).values()
    assert run.status == "not-run"
    assert reason in run.reason


def test_settings_of_a_sata_disk_are_set_and_put_back(own):
    [run] = measured(own, "sata", "sata-plp", link_power=["min_power"], runtime_pm=["on"]).values()
    assert (run.status, run.reason) == ("ok", "")
    assert run.settings["kernel_files"]["link_power"]["in_effect"] == "min_power"
    assert run.settings["kernel_files"]["runtime_pm"]["in_effect"] == "on"
    assert run.settings["power"]["drive"]["link_power"] == "min_power"
    policies = own.ssh("cat /sys/class/scsi_host/host*/link_power_management_policy").split()
    assert "min_power" not in policies


def test_a_drive_that_is_hot_makes_its_run_partial(own, device):
    own.ssh(f"nvme set-feature /dev/{device} --feature-id=0x04 --value=0x110")  # 272 K: it is above that
    [run] = measured(own, "hot", DRIVE, apst=["any"]).values()
    own.ssh(f"nvme set-feature /dev/{device} --feature-id=0x04 --value=0x157")
    assert (run.status, run.result.joules > 0) == ("partial", True)
    assert "nvme-consumer was hot: its temperature was past a threshold at the end" in run.reason


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
