# SPDX-License-Identifier: GPL-3.0-or-later
"""A drive that is not the declared one, or is in use, is refused and untouched."""

from __future__ import annotations

import pytest

from joulerig.rig.common import supervisor
from tests.support.lab_driver import FACTORS, Lab, takes_minutes

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(1500)]


def written(lab: Lab, drive: str) -> tuple[int, int, int]:
    counters = lab.twins()[drive]["counters"]
    return counters["writes"], counters["discards"], counters["flushes"]


# By drive what the inventory says otherwise, and of the refusal's words.
DIFFERENT = {
    "sata-consumer": (
        {"size_bytes": 4294967296 + 512},
        "has 4294967296 bytes, the inventory says 4294967808",
    ),
    "nvme-consumer": ({"serial": "JRNVC9999"}, "no drive with serial 'JRNVC9999'"),
    "hdd-3": ({"wwn": "naa.5000c500a00000ff"}, "has WWN"),
}
MOUNTED = "sata-plp"


@pytest.fixture(scope="module")
def refused(lab: Lab):
    """A campaign over drives that differ from the inventory and one that is mounted.

    Returns what `rig run` came to, its runs by drive, and what was written to each drive before and
    after.
    """
    device = "/dev/disk/by-id/*JRSSP0001"
    lab.ssh(
        f"mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 {device} && mkdir -p /mnt"
        f" && mount {device} /mnt && echo precious > /mnt/file; sync; mount -o remount,ro /mnt"
    )  # read-only: nothing else writes to it

    def differ(host):
        for name, (changes, _) in DIFFERENT.items():
            host["drives"][name].update(changes)

    inventory = lab.inventory_copy(differ, "inventory-different")
    drives = [*DIFFERENT, MOUNTED]
    try:
        before = {name: written(lab, name) for name in drives}
        playbook = lab.playbook(name="differs", drives=drives, factors=FACTORS)
        done = lab.rig("run", str(playbook), inventory=inventory)
        after = {name: written(lab, name) for name in drives}
        assert lab.ssh("cat /mnt/file") == "precious\n"
    finally:
        lab.ssh(f"umount /mnt && blkdiscard {device}")
    return done, {run["cell"].partition("/")[0]: run for run in lab.results_of()["runs"]}, before, after


@pytest.mark.parametrize("drive", DIFFERENT)
def test_a_drive_that_differs_from_the_inventory_is_refused(refused, drive):
    _, runs, _, _ = refused
    assert runs[drive]["status"] == "refused"
    assert DIFFERENT[drive][1] in runs[drive]["reason"]


def test_a_mounted_drive_is_refused(refused):
    _, runs, _, _ = refused
    assert runs[MOUNTED]["status"] == "refused"
    assert "is mounted at /mnt" in runs[MOUNTED]["reason"]


def test_a_campaign_whose_drives_are_refused_fails_and_writes_to_none(refused):
    done, runs, before, after = refused
    assert done.returncode != 0
    assert len(runs) == len(DIFFERENT) + 1
    assert after == before


@takes_minutes
def test_an_array_is_made_by_its_campaign_and_measured_as_the_sum_of_its_members_rails(lab: Lab):
    assert lab.ssh("cat /proc/mdstat").count("active") == 0  # 'rig up' makes none
    done = lab.rig("run", str(lab.playbook(name="array", drives=["hdd-array"], factors=FACTORS)))
    run = lab.results_of()["runs"][0]
    assert done.returncode == 0, done.stdout + done.stderr
    rails = {(e["drive"], e["rail"]) for e in run["energy"] if e["phase"] == "workload"}
    assert rails == {(f"hdd-{n}", rail) for n in (1, 2) for rail in ("5v", "12v")}
    assert abs(run["error_percent"]) <= 1.0


@takes_minutes
def test_a_member_of_an_array_is_refused_and_untouched(lab: Lab):
    """The array is there since the test before."""
    before = written(lab, "hdd-1")
    done = lab.rig("run", str(lab.playbook(name="member", drives=["hdd-1"], factors=FACTORS)))
    run = lab.results_of()["runs"][0]
    assert done.returncode != 0
    assert run["status"] == "refused"
    assert "in use: md" in run["reason"]
    assert written(lab, "hdd-1")[:2] == before[:2]


@pytest.fixture
def foreign(lab: Lab):
    """A drive that holds a file which this rig did not write."""
    device = "/dev/disk/by-id/*JRSSP0001"
    lab.ssh(
        f"mkfs.ext4 -q -F -L photos -E lazy_itable_init=0,lazy_journal_init=0 {device} && mkdir -p /mnt"
        f" && mount {device} /mnt && echo precious > /mnt/file && umount /mnt"
    )
    yield device
    lab.ssh(f"blkdiscard --force {device}")


@takes_minutes
def test_what_this_rig_did_not_make_refuses_a_campaign_as_a_whole_until_it_is_adopted(lab: Lab, foreign):
    before = written(lab, "sata-plp"), written(lab, "nvme-consumer")
    playbook = str(lab.playbook(name="foreign", drives=["nvme-consumer", "sata-plp"], factors=FACTORS))

    planned = lab.rig("plan", playbook)
    assert planned.returncode == 0, planned.stderr
    assert "holds ext4 'photos'" in planned.stdout
    assert "refused until 'rig drives adopt vhost1 sata-plp' releases it" in " ".join(planned.stdout.split())

    done = lab.rig("run", playbook)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "vhost1/sata-plp (serial JRSSP0001) holds ext4 'photos'" in done.stderr
    assert {run["status"] for run in lab.results_of()["runs"]} == {"planned"}
    campaign = next(name for name in lab.campaigns() if name.startswith("foreign-"))

    wrong = lab.rig("drives", "adopt", "vhost1", "sata-plp", "--yes-wipe", "JRSSP0002")
    assert (wrong.returncode, "nothing was changed" in wrong.stderr) == (2, True)
    assert lab.rig("run", playbook, "--resume", campaign).returncode == 2
    assert (written(lab, "sata-plp"), written(lab, "nvme-consumer")) == before
    assert lab.ssh(f"mount -o ro {foreign} /mnt && cat /mnt/file; umount /mnt") == "precious\n"

    adopted = lab.rig("drives", "adopt", "vhost1", "sata-plp", "--yes-wipe", "JRSSP0001")
    assert adopted.returncode == 0, adopted.stderr
    assert "bytes used" in adopted.stdout
    assert "last mounted on: /mnt" in adopted.stdout
    done = lab.rig("run", playbook, "--resume", campaign)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {run["status"] for run in lab.results_of()["runs"]} == {"ok"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"replicats": 2}, "unknown key 'replicats'; did you mean 'replicates'? allowed: "),
        ({"factors": {**FACTORS, "filesystem": ["ext5"]}}, "'ext5' is unknown; nearest is 'ext4'; allowed: "),
        (
            {"factors": {**FACTORS, "workload": ["varmale"]}},
            "'varmale' is unknown; nearest is 'varmail'; allowed: ",
        ),
        ({"factors": {**FACTORS, "scheduler": ["mq_deadline"]}}, "should match pattern"),
        ({"drives": ["nvme-lost"]}, "'nvme-lost' is unknown; nearest is 'nvme-plp'; allowed: "),
    ],
    ids=["key", "file-system", "workload", "scheduler", "drive"],
)
@pytest.mark.parametrize("launcher", ["rig", "ansible"])
def test_a_bad_campaign_is_one_clear_line_and_leaves_nothing(lab: Lab, changes, words, launcher):
    before = lab.campaigns()
    playbook = lab.playbook(**{"name": "bad", "factors": FACTORS, **changes})
    done = lab.rig("run", str(playbook)) if launcher == "rig" else lab.ansible(playbook)
    assert done.returncode != 0
    if launcher == "rig":
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    said = " ".join((done.stdout + done.stderr).split()).replace("''", "'")
    assert words in said
    assert "Traceback" not in said
    assert lab.campaigns() == before


def test_a_missing_meter_is_one_clear_line_and_leaves_nothing(lab: Lab):
    before = lab.campaigns()
    inventory = lab.inventory_with(
        "nvme-consumer", rails={"3v3": {"meter": "tap9", "volts": "CH3", "amps": "CH4"}}
    )
    done = lab.rig("run", str(lab.playbook(name="meterless", factors=FACTORS)), inventory=inventory)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert (
        "drives.nvme-consumer.rails.3v3.meter: 'tap9' is not a meter of the controller; allowed: tap1a"
        in done.stderr
    )
    assert lab.campaigns() == before


@pytest.mark.parametrize("launcher", ["rig", "ansible"])
def test_an_influxdb_that_is_down_at_the_start_is_one_clear_line_and_leaves_nothing(
    lab: Lab, launcher, monkeypatch
):
    monkeypatch.setenv("JOULERIG_VAR", lab.environment["JOULERIG_VAR"])
    before, untouched = lab.campaigns(), written(lab, "nvme-consumer")
    playbook = lab.playbook(name="no-influx", factors=FACTORS)
    supervisor.halt("influxd")
    try:
        done = lab.rig("run", str(playbook)) if launcher == "rig" else lab.ansible(playbook)
    finally:
        supervisor.restart("influxd")
    assert done.returncode != 0
    said = " ".join((done.stdout + done.stderr).split())
    assert "does not answer" in said
    assert "InfluxDB at http://127.0.0.1:" in said
    if launcher == "rig":
        assert len(done.stderr.strip().splitlines()) == 1
    assert lab.campaigns() == before
    assert written(lab, "nvme-consumer") == untouched
