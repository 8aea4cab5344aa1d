# SPDX-License-Identifier: GPL-3.0-or-later
"""Power cuts of a whole virtual host: the tap cuts its drives, the guest stops at work.

JOULERIG_POWER_CUTS is the number of cuts of the host (make test-powercut-guest: 10), shared by five
rounds of drives and file systems. Without it, none: a cut takes a minute and more.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest
import yaml

from joulerig.rig.lab import filesystems, model
from tests.support import ROOT
from tests.support.programs import descendants, wait_for

CUTS = int(os.environ.get("JOULERIG_POWER_CUTS", "0"))
HOST_SECONDS = 900  # an emulated host on a busy machine may start for more than the default
# Drives that are cut together, with what is on them; those in the lab's array are not to be had.
ROUNDS = (
    {"nvme-consumer": "ext4", "sata-consumer": "xfs", "nvme-plp": "none"},
    {"nvme-consumer": "f2fs", "sata-consumer": "btrfs"},
    {"nvme-consumer": "ext2", "sata-consumer": "ext3"},
    {"nvme-consumer": "nilfs2", "sata-consumer": "reiserfs"},
    {"nvme-consumer": "none", "sata-consumer": "none"},
)

pytestmark = [
    pytest.mark.lab,
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not CUTS, reason="make test-powercut-guest runs these: a minute a cut"),
]


@pytest.fixture(scope="module")
def cut(lab):
    """Every subject of the campaign, by (drive, file system)."""
    definition = {
        "kind": "power-cut",
        "name": "cuts",
        "question": "Is what was fsynced still there?",
        "subjects": [{"drive": d, "filesystem": f} for pairs in ROUNDS for d, f in pairs.items()],
        "cuts": CUTS // len(ROUNDS),
        "seed": 7,
        "host_seconds": HOST_SECONDS,
    }
    path = lab.folder / "power_cut.yml"
    path.write_text(yaml.safe_dump({"campaign": definition}))
    done = lab.ansible(ROOT / "playbooks" / "power_cut.yml", "-e", f"@{path}", timeout=3000)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    reported = json.loads(lab.rig("results", "--json").stdout)
    assert {run["status"] for run in reported["runs"]} == {"ok"}
    return {(s["drive"], s["filesystem"] or "none"): s for s in reported["power_cuts"]}


def test_every_subject_was_cut_and_had_something_to_lose(cut):
    for subject, found in cut.items():
        assert found["failed"] == [], subject
        assert found["verdict"]["cuts"] == CUTS // len(ROUNDS), subject
        assert found["verdict"]["promised_writes"] > 0, subject


def test_no_file_system_lost_what_it_had_promised(cut):
    assert {subject: s["verdict"]["broken_promises"] for subject, s in cut.items()} == dict.fromkeys(cut, 0)


def test_every_file_system_of_the_study_that_the_host_has_is_among_them(cut):
    tried = {filesystem for _, filesystem in cut} - {"none"}
    assert tried == {"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "nilfs2", "reiserfs"}
    assert tried <= set(filesystems.with_power_cuts(model.load()))


def test_a_drive_with_power_loss_protection_kept_what_was_not_flushed_too(cut):
    found = cut["nvme-plp", "none"]["verdict"]
    assert (found["acknowledged_lost"], found["acknowledged_torn"]) == (0, 0)


def test_each_cut_reports_how_long_the_rails_held_up(cut):
    for subject in cut.values():
        for one in subject["cuts"]:
            assert one["hold_up"]
            assert {rail["state"] for rail in one["hold_up"].values()} == {"DONE"}
            assert all(0 < rail["joules"] < 1 for rail in one["hold_up"].values())


def test_energy_per_durable_write_is_measured(cut):
    for subject in cut.values():
        for one in subject["cuts"]:
            assert one["joules"] == pytest.approx(one["true_joules"], rel=0.02)


def test_a_controller_killed_with_the_power_off_makes_the_cut_on_resumption(lab):
    definition = {
        "kind": "power-cut",
        "name": "killed",
        "question": "Does a campaign go on whose controller died with its host off?",
        "subjects": [{"drive": "nvme-consumer", "filesystem": "ext4"}],
        "cuts": 1,
        "seed": 11,
        "off_seconds": 60,  # it is killed long before
        "host_seconds": HOST_SECONDS,
    }
    playbook = lab.write_playbook(definition)

    def is_off() -> bool:
        logs = lab.results.glob("killed-*/runs/*/witness.jsonl")
        return any('"event":"cut"' in log.read_text() for log in logs)

    running = lab.start_rig("run", str(playbook), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(is_off, 900, "the power is off")
    finally:
        # Ansible's workers have sessions of their own.
        for process in [*descendants(running.pid), running.pid]:
            os.kill(process, signal.SIGKILL)
        running.wait()
    [killed] = [name for name in lab.campaigns() if name.startswith("killed-")]
    done = lab.rig("run", str(playbook), "--resume", killed, timeout=1800)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "does not answer: switching its power on" in done.stdout
    reported = lab.results_of(killed)
    assert [run["status"] for run in reported["runs"]] == ["ok"]
    [subject] = reported["power_cuts"]
    assert (subject["verdict"]["cuts"], subject["verdict"]["broken_promises"]) == (1, 0)
