# SPDX-License-Identifier: GPL-3.0-or-later
"""NVMe drives with several namespaces, two controllers and 4096-byte sectors, on a real kernel.

Of `make test-nvme`. The lab's host serves them to itself (nvmet, by TCP over loopback), and a
second inventory has it as a physical host.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from joulerig.rig.campaign.drive_record import DriveRecord
from joulerig.rig.lab import model
from tests.support import ROOT, nvmet_drives
from tests.support.lab_driver import FACTORS, Lab
from tests.support.nvmet_drives import DRIVES, MIB, SIZE_MIB
from tests.support.power_cut_witness import Witness
from tests.support.programs import wait_for

pytestmark = [
    pytest.mark.lab,
    pytest.mark.long,
    pytest.mark.timeout(3000),
    pytest.mark.skipif("JOULERIG_NVME" not in os.environ, reason="make test-nvme runs these"),
]

CUT_CAMPAIGN = "000102030405060708090a0b0c0d0e0f"
PRECONDITION = {"purge": "discard", "passes": 1, "round_seconds": 2, "max_rounds": 5, "reuse_within": 1}


@pytest.fixture(scope="module")
def bench(lab: Lab) -> Iterator[Path]:
    """The inventory of the drives, and a host that is provisioned for it."""
    lab.ssh(f"sh -c '{nvmet_drives.script()}'")
    found = nvmet_drives.inventory(lab)
    done = lab.rig("up", inventory=found, timeout=1500)
    assert done.returncode == 0, done.stderr
    yield found
    done = lab.rig("up", timeout=1500)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def campaign(lab: Lab, bench: Path) -> dict[str, Any]:
    """Run ext4 on each drive, preconditioned, with two schedulers."""
    before = {name: nvmet_drives.written_bytes(lab, served) for name, served in DRIVES.items()}
    playbook = lab.playbook(
        name="nvmet",
        drives=list(DRIVES),
        factors={**FACTORS, "scheduler": ["none", "mq-deadline"]},
        phases={"rest_seconds": 0, "idle_seconds": 1, "workload_seconds": 3, "tail_seconds": 1},
        precondition=PRECONDITION,
    )
    done = lab.rig("run", str(playbook), inventory=bench, timeout=2400)
    assert lab.campaigns(), done.stdout + done.stderr
    after = {name: nvmet_drives.written_bytes(lab, served) for name, served in DRIVES.items()}
    found = lab.results_of()
    folder = lab.results / found["campaign"] / "runs"
    for run in found["runs"]:
        settings = folder / run["id"] / "settings.json"
        run["settings"] = json.loads(settings.read_text()) if settings.exists() else {}
    return {
        **found,
        "output": done.stdout + done.stderr,
        "written": {name: after[name] - before[name] for name in DRIVES},
        "by_cell": {tuple(run["cell"].split("/")[:3:2]): run for run in found["runs"]},
    }


def events(lab: Lab, name: str) -> list[dict[str, Any]]:
    with DriveRecord(lab.folder / "var" / "drives.sqlite") as record:
        return record.events(DRIVES[name].serial)


def test_the_host_sees_them_as_they_were_made(lab: Lab, bench: Path):
    assert {name: len(nvmet_drives.paths(lab, served)) for name, served in DRIVES.items()} == {
        "second-namespace": 1, "two-controllers": 2, "large-sectors": 1,
    }  # fmt: skip
    for name in DRIVES:
        done = lab.rig("drives", "look", "vhost1", name, inventory=bench)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("drive", DRIVES)
@pytest.mark.parametrize("scheduler", ["none", "mq-deadline"])
def test_a_run_of_each_is_ok_but_with_a_scheduler_over_two_paths(campaign, drive, scheduler):
    run = campaign["by_cell"][drive, scheduler]
    if (drive, scheduler) == ("two-controllers", "mq-deadline"):
        assert run["status"] == "not-run"
        assert "on each of the paths" in run["reason"]
        return
    assert run["status"] == "ok", campaign["output"]
    queue = run["settings"]["queue"]
    assert queue["scheduler"]["in_effect"] == scheduler
    described = run["settings"]["drive"]
    assert (described["wwn"], described["size_bytes"]) == (DRIVES[drive].wwn, SIZE_MIB * MIB)
    assert described["logical_block_bytes"] == DRIVES[drive].block_bytes
    assert len(described["paths"]) == DRIVES[drive].controllers


@pytest.mark.parametrize("drive", DRIVES)
def test_the_hosts_counters_are_those_of_the_memory_below(lab, campaign, drive):
    """The whole drive is written, then rounds, then runs: each byte is counted once."""
    ended = [one for one in events(lab, drive) if one["event"] == "ended"]
    counted = sum(one["write_bytes"] for one in ended)
    assert ended[0]["write_bytes"] > SIZE_MIB * MIB
    assert ended[0]["discard_bytes"] == SIZE_MIB * MIB
    assert campaign["written"][drive] == counted


@pytest.mark.parametrize("drive", DRIVES)
def test_the_agent_counts_a_load_as_the_host_does(campaign, drive):
    run = campaign["by_cell"][drive, "none"]
    counted = {io["source"]: io for io in run["io"]}
    assert counted["host"]["writes"] > 0
    assert counted["host"]["flushes"] > 0
    assert counted["iod"]["write_bytes"] == pytest.approx(counted["host"]["write_bytes"], rel=0.1)


@pytest.mark.parametrize("drive", DRIVES)
def test_the_writer_of_power_cuts_writes_each_bare_and_reads_it_back(lab, bench, campaign, drive):
    program = {
        "src": str(ROOT / "build" / "durawriter"),
        "dest": "/usr/local/sbin/durawriter",
        "mode": "0755",
    }
    copied = lab.adhoc(bench, "ansible.builtin.copy", program)
    assert not copied.get("failed"), copied
    member = {**model.load(bench).hosts["vhost1"].drives[drive].declared_as(drive), "known": None}
    witness = Witness(held=True)  # where drive and host are fast, the writer would end before its answer
    witness.start()
    options = ["--campaign", CUT_CAMPAIGN, "--generation", "1", "--region-bytes", str(4 * MIB)]
    asked = {"member": member, "options": options}
    reached = {"witness": f"tcp:10.0.2.2:{witness.port}", "secret": "s"}
    begun = lab.adhoc(bench, "joulerig_powercut", {"action": "write", **reached, **asked})
    assert not begun["problem"], begun
    witness.let_go()
    wait_for(lambda: not witness.is_alive(), 120, "the writer has done enough")
    witness.check_whole_blocks(DRIVES[drive].block_bytes)
    found = lab.adhoc(bench, "joulerig_powercut", {"action": "survey", **asked})
    assert not found["problem"], found
    witness.check_survey(found["survey"])
