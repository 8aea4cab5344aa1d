# SPDX-License-Identifier: GPL-3.0-or-later
"""Drives of memory, external journals and arrays, on a real kernel: DAX, brd, jbd2, md, scsi_debug.

Of `make test-arrays`: two more inventories have to be provisioned.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from joulerig.rig.common import wait
from tests.support import ROOT
from tests.support.lab_driver import FACTORS, Lab

pytestmark = [
    pytest.mark.lab,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif("JOULERIG_ARRAYS" not in os.environ, reason="make test-arrays runs these"),
]

SHORT = {"rest_seconds": 0, "idle_seconds": 1, "workload_seconds": 3, "tail_seconds": 1}
ERROR_BAR_PERCENT = 1.0
DISKS = ("ehdd-1", "ehdd-2", "ehdd-3")


def settings(lab: Lab, found: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    return json.loads((lab.results / found["campaign"] / "runs" / run["id"] / "settings.json").read_text())


@pytest.fixture(scope="module")
def memory(lab: Lab) -> dict[str, Any]:
    """Run ext4 and xfs with DAX, and ext4 without, on NVDIMM and on a RAM disk without DAX."""
    playbook = lab.playbook(
        name="memory",
        drives=["nvdimm", "ram"],
        factors={**FACTORS, "filesystem": ["ext4", "ext4-dax", "xfs-dax"]},
        exclude=[{"drive": "ram", "filesystem": "xfs-dax", "reason": "one refusal is enough here"}],
        phases=SHORT,
    )
    done = lab.rig("run", str(playbook))
    found = lab.results_of()
    return {"code": done.returncode, "output": done.stdout, **found, "by_cell": {
        "/".join(run["cell"].split("/")[:2]): run for run in found["runs"]
    }}  # fmt: skip


@pytest.mark.parametrize("cell", ["nvdimm/ext4", "nvdimm/ext4-dax", "nvdimm/xfs-dax", "ram/ext4"])
def test_a_drive_without_a_rail_has_performance_and_no_joules_and_says_so(memory, cell):
    run = memory["by_cell"][cell]
    assert (run["status"], run["reason"]) == ("ok", f"no joules: {cell.split('/')[0]}: no rail")
    assert run["performance"]["ops"] > 0
    assert (run["joules"], run["energy"], run["ai_ops_per_joule"]) == (None, [], None)
    assert "ops/s, no rail" in memory["output"]


def test_the_io_of_an_nvdimm_is_counted_and_brds_is_not_reported_as_none(memory):
    counted = {io["source"]: io for io in memory["by_cell"]["nvdimm/ext4"]["io"]}
    assert counted["host"]["writes"] > 0
    assert memory["by_cell"]["ram/ext4"]["io"] == []


def test_dax_is_in_effect_where_it_is_asked_for_and_nowhere_else(lab: Lab, memory):
    found = {
        cell: settings(lab, memory, run)["dax"]["in_effect"]
        for cell, run in memory["by_cell"].items()
        if run["status"] == "ok"
    }
    assert found == {"nvdimm/ext4": False, "nvdimm/ext4-dax": True, "nvdimm/xfs-dax": True, "ram/ext4": False}
    options = settings(lab, memory, memory["by_cell"]["nvdimm/ext4-dax"])["mount_options"]
    assert "dax=always" in options.split(",")


def test_a_drive_that_cannot_do_dax_makes_no_run(memory):
    run = memory["by_cell"]["ram/ext4-dax"]
    assert (run["status"], run["reason"]) == ("not-run", "ext4-dax: /dev/ram0 cannot do DAX")
    assert memory["code"] != 0


@pytest.fixture(scope="module")
def journals(lab: Lab) -> dict[str, Any]:
    """An array of hard disks with its journal on an SSD."""
    playbook = lab.playbook(
        name="journals",
        drives=["hdd-array"],
        factors={**FACTORS, "filesystem": ["ext4", "xfs"], "journal": ["sata-plp"]},
        phases=SHORT,
    )
    before = lab.twins()["sata-plp"]["counters"]["write_bytes"]
    done = lab.rig("run", str(playbook))
    assert done.returncode == 0, done.stdout + done.stderr
    return {**lab.results_of(), "journal_bytes": lab.twins()["sata-plp"]["counters"]["write_bytes"] - before}


def test_energy_of_an_external_journal_is_in_the_sum_and_reported_separately(journals):
    for run in journals["runs"]:
        load = [row for row in run["energy"] if row["phase"] == "workload"]
        assert {row["drive"] for row in load} == {"hdd-1", "hdd-2", "sata-plp"}
        assert run["joules"] == pytest.approx(sum(row["joules"] for row in load))
        assert run["true_joules"] == pytest.approx(sum(row["true_joules"] for row in load))
        assert abs(run["error_percent"]) <= ERROR_BAR_PERCENT


def test_the_journals_drive_is_written_in_the_load(journals):
    for run in journals["runs"]:
        counted = {io["source"]: io for io in run["io"]}
        assert counted["iod sata-plp"]["write_bytes"] > 0
        whole = sum(counted[f"iod {name}"]["write_bytes"] for name in ("hdd-array", "sata-plp"))
        assert counted["iod"]["write_bytes"] == whole
    ext4 = next(run for run in journals["runs"] if "/ext4/" in run["cell"])
    transactions = {io["source"]: io["journal_transactions"] for io in ext4["io"]}
    assert transactions["iod sata-plp"] > 0
    assert journals["journal_bytes"] > 0


def test_the_journal_is_where_it_was_asked_for(lab: Lab, journals):
    for run in journals["runs"]:
        found = settings(lab, journals, run)
        assert found["queue"]["sata-plp"]["scheduler"]["in_effect"] == "none"
        device = found["drive"]["sata-plp"]["device"]
        assert any(device in word for word in found["mkfs"])
        assert found["array"]["level"] == "raid0"


@pytest.fixture(scope="module")
def emulated(lab: Lab) -> Iterator[dict[str, Any]]:
    """Give a host without hard disks three, and RAID-5 over them; remove them afterwards."""

    def with_disks(host: dict[str, Any]) -> None:
        for number, name in enumerate(DISKS):
            host["drives"][name] = {
                "interface": "hdd", "serial": f"scsi_debug-{number}", "size_bytes": 64 << 20,
            }  # fmt: skip
        host["emulated"] = {"by": "scsi_debug", "access_milliseconds": 2}
        host["arrays"]["ehdd-array"] = {"level": "raid5", "members": list(DISKS)}

    inventory = lab.inventory_copy(with_disks, "inventory-emulated")
    try:
        done = lab.rig("up", inventory=inventory)
        assert done.returncode == 0, done.stderr
        playbook = lab.playbook(name="emulated", drives=["ehdd-array"], factors=FACTORS, phases=SHORT)
        done = lab.rig("run", str(playbook), inventory=inventory)
        assert done.returncode == 0, done.stdout + done.stderr
        yield {"inventory": inventory, "output": done.stdout, **lab.results_of()}
    finally:
        done = retire(lab, inventory)
        assert done.returncode == 0, done.stdout
        assert "scsi_debug" not in lab.ssh("lsmod")
        done = lab.rig("up")
        assert done.returncode == 0, done.stderr


def retire(lab: Lab, inventory: Path):
    return lab.ansible(ROOT / "playbooks" / "retire.yml", "-i", str(inventory))


def test_every_result_of_an_emulated_array_says_that_it_is(lab: Lab, emulated):
    [run] = emulated["runs"]
    assert (run["status"], run["joules"]) == ("ok", None)
    assert run["emulated"] == dict.fromkeys(DISKS, "scsi_debug, 2 ms a request")
    assert "emulated by scsi_debug, 2 ms a request" in " ".join(emulated["output"].split())
    reported = settings(lab, emulated, run)["drive"]
    assert {reported[name]["emulated"] for name in DISKS} == {"scsi_debug, 2 ms a request"}
    done = lab.rig("report", emulated["campaign"], "--format", "html")
    assert done.returncode == 0, done.stderr
    page = (lab.results / emulated["campaign"] / "report" / "report.html").read_text()
    assert page.count("hdd, emulated by scsi_debug, 2 ms a request") == len(DISKS)


def test_an_emulated_disk_takes_its_time(emulated):
    """A synchronous 4 KiB write to RAID-5 takes several requests of 2 ms, one after another."""
    [run] = emulated["runs"]
    assert run["performance"]["latency_p50_seconds"] > 0.002


def test_an_array_with_redundancy_is_clean_and_does_not_resync_in_a_run(lab: Lab, emulated):
    [run] = emulated["runs"]
    found = settings(lab, emulated, run)["array"]
    assert (found["level"], found["sync_action"], found["resync_start"]) == ("raid5", "idle", "none")


def test_emulated_disks_in_use_are_not_taken_down(lab: Lab, emulated):
    lab.ssh("mkfs.ext4 -q -F /dev/md/ehdd-array && mount /dev/md/ehdd-array /mnt")
    try:
        done = retire(lab, emulated["inventory"])
        assert done.returncode != 0
        assert "is mounted at /mnt" in done.stdout
        assert lab.ssh("mountpoint /mnt").strip() == "/mnt is a mountpoint"
    finally:
        lab.ssh("umount /mnt")


def test_what_a_reboot_takes_away_is_made_again(lab: Lab, emulated):
    before = lab.ssh("cat /proc/sys/kernel/random/boot_id")
    lab.ssh("systemd-run --quiet --on-active=1 systemctl reboot")

    def booted() -> bool:
        done = lab.rig("lab", "ssh", "vhost1", "--", "cat /proc/sys/kernel/random/boot_id")
        return done.returncode == 0 and done.stdout != before

    assert wait.until(booted, 300, 5)
    lab.ssh("systemctl is-system-running --wait || true")
    assert "brd" not in lab.ssh("lsmod")
    playbook = lab.playbook(name="again", drives=["ehdd-array", "ram"], factors=FACTORS, phases=SHORT)
    done = lab.rig("run", str(playbook), inventory=emulated["inventory"])
    assert done.returncode == 0, done.stdout + done.stderr
    found = {run["cell"].split("/")[0]: run["status"] for run in lab.results_of()["runs"]}
    assert found == {"ehdd-array": "ok", "ram": "ok"}
