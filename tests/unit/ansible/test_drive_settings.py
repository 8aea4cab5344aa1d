# SPDX-License-Identifier: GPL-3.0-or-later
"""Power settings of the drives themselves: set, read back, put back, and what is recorded."""

import json
import struct
from contextlib import ExitStack

import pytest

from tests.support import fake_host  # noqa: F401  finds the host's library

from ansible.module_utils.joulerig.leftovers import Leftovers  # isort: skip
from ansible.module_utils.joulerig.settings import record, standby  # isort: skip
from ansible.module_utils.joulerig.settings.drive_settings import DriveSettings  # isort: skip
from ansible.module_utils.joulerig.tools import Failed, Unable  # isort: skip

# Of each state: hundredths of watts, whether it serves, µs to enter and to leave.
STATES = [(849, True, 0, 0), (448, True, 0, 0), (318, True, 0, 0), (4, False, 2000, 1200)]
POWER, AUTONOMOUS, LIMIT = 0x02, 0x0C, 0x23


def controller(states=STATES, autonomous=True, limits=True):
    page = bytearray(4096)
    struct.pack_into("<I", page, 96, int(limits) << 20)
    page[263], page[265] = len(states) - 1, int(autonomous)
    for number, (power, serves, entry, leave) in enumerate(states):
        struct.pack_into("<HxBII", page, 2048 + 32 * number, power, 0 if serves else 2, entry, leave)
    return bytes(page)


def transitions(*entries):
    table = bytearray(256)
    for state, to, idle in entries:
        struct.pack_into("<Q", table, 8 * state, to << 3 | idle << 8)
    return bytes(table)


@pytest.fixture
def nvme(fake):
    """A host with an NVMe drive in state 0, which rests in state 3."""
    real = fake.disk("nvme0n1", "SERIAL-A", place="devices/pci0000:00/0000:01:00.0/nvme/nvme0")
    home = fake.sys / "devices/pci0000:00/0000:01:00.0/nvme/nvme0"
    (real / "device/serial").unlink()
    (real / "device").rmdir()
    (real / "device").symlink_to(home)
    fake.put(home / "power/pm_qos_latency_tolerance_us", "100000\n")
    fake.put(fake.sys / "devices/pci0000:00/0000:01:00.0/power/control", "on\n")
    fake.put(fake.sys / "devices/pci0000:00/0000:01:00.0/link/l1_aspm", "1\n")
    (fake.sys / "class/nvme").mkdir(parents=True)
    (fake.sys / "class/nvme/nvme0").symlink_to(home)
    (home / "device").symlink_to(fake.sys / "devices/pci0000:00/0000:01:00.0")
    fake.calls.pages["nvme0n1"] = (controller(), bytes(512))
    fake.calls.features["nvme0n1"] = {POWER: 0, AUTONOMOUS: 1, LIMIT: 0}
    fake.calls.tables["nvme0n1"] = {AUTONOMOUS: transitions((0, 3, 100), (1, 3, 100), (2, 3, 100))}
    fake.calls.works_in["nvme0n1"] = 0
    return fake


@pytest.fixture
def disk(fake):
    """A host with an ATA disk whose APM is off."""
    real = fake.disk("sda", "SERIAL-1", vpd=True, place="devices/ata1/host0/t")
    fake.put(real / "device/vendor", "ATA     \n")
    words = [0] * 256
    words[82], words[83] = 1 << 3, 1 << 3
    fake.calls.pages["sda"] = (struct.pack("<256H", *words),)
    return fake


def settings(host, drives, **levels):
    asked = [{"factor": factor, "level": level} for factor, level in levels.items()]
    return DriveSettings(asked, drives, host.system())


# --- power states of NVMe drives


def test_a_power_state_is_set_and_put_back(nvme):
    with ExitStack() as undo:
        ours = settings(nvme, {"fast": "nvme0n1"}, power_state="2")
        assert ours.apply(undo) == {"power_state": {"before": "0", "in_effect": "2"}}
        assert nvme.calls.features["nvme0n1"][POWER] == 2
        ours.check_unchanged()
    assert nvme.calls.features["nvme0n1"][POWER] == 0


def test_the_workload_hint_stays(nvme):
    nvme.calls.features["nvme0n1"][POWER] = nvme.calls.works_in["nvme0n1"] = 1 << 5
    with ExitStack() as undo:
        settings(nvme, {"fast": "nvme0n1"}, power_state="1").apply(undo)
        assert nvme.calls.features["nvme0n1"][POWER] == 1 << 5 | 1
    assert nvme.calls.features["nvme0n1"][POWER] == 1 << 5


def test_a_drive_that_rests_is_woken_before_it_is_asked(nvme):
    """Else the state to put back would be one that the next operation ends."""
    nvme.calls.features["nvme0n1"][POWER], nvme.calls.works_in["nvme0n1"] = 3, 1
    with ExitStack() as undo:
        ours = settings(nvme, {"fast": "nvme0n1"}, power_state="0")
        assert ours.apply(undo) == {"power_state": {"before": "1", "in_effect": "0"}}
        nvme.calls.features["nvme0n1"][POWER] = 3  # it rests after the load
        ours.check_unchanged()
    assert nvme.calls.features["nvme0n1"][POWER] == 1


def test_a_state_in_effect_already_is_not_set(nvme):
    nvme.calls.deaf.add("nvme0n1")
    with ExitStack() as undo:
        settings(nvme, {"fast": "nvme0n1"}, power_state="0").apply(undo)


@pytest.mark.parametrize(
    ("level", "why"), [("3", "power state 3 does not serve"), ("4", "power state 4 is not there")]
)
def test_a_state_that_a_drive_cannot_work_in(nvme, level, why):
    with pytest.raises(Unable, match=f"power_state: /dev/nvme0n1: {why}; allowed: 0, 1, 2$"):
        settings(nvme, {"fast": "nvme0n1"}, power_state=level)


def test_a_drive_that_stays_as_it_was_fails_the_run(nvme):
    nvme.calls.deaf.add("nvme0n1")
    with pytest.raises(Failed, match="power state: set to 1, the drive says 0"), ExitStack() as undo:
        settings(nvme, {"fast": "nvme0n1"}, power_state="1").apply(undo)


def test_a_state_that_changed_during_the_run_fails_it(nvme):
    with ExitStack() as undo:
        ours = settings(nvme, {"fast": "nvme0n1"}, power_state="2")
        ours.apply(undo)
        nvme.calls.features["nvme0n1"][POWER] = nvme.calls.works_in["nvme0n1"] = 0  # it was reset
        with pytest.raises(Failed, match="power state: changed from 2 to 0 during the run"):
            ours.check_unchanged()


# --- limits of power


@pytest.mark.parametrize(("level", "value"), [("4.5", 45000 | 1 << 16), ("8.49", 849 | 2 << 16)])
def test_a_limit_is_set_in_the_unit_that_can_hold_it_and_put_back(nvme, level, value):
    with ExitStack() as undo:
        ours = settings(nvme, {"fast": "nvme0n1"}, power_limit=level)
        assert ours.apply(undo) == {"power_limit": {"before": "off", "in_effect": level}}
        assert nvme.calls.features["nvme0n1"][LIMIT] == value
        ours.check_unchanged()
    assert nvme.calls.features["nvme0n1"][LIMIT] == 0


def test_a_limit_of_before_is_taken_away_for_the_run(nvme):
    nvme.calls.features["nvme0n1"][LIMIT] = 500 | 2 << 16
    with ExitStack() as undo:
        ours = settings(nvme, {"fast": "nvme0n1"}, power_limit="off")
        assert ours.apply(undo) == {"power_limit": {"before": "5", "in_effect": "off"}}
        assert nvme.calls.features["nvme0n1"][LIMIT] == 0
        nvme.calls.features["nvme0n1"][LIMIT] = 600 | 2 << 16
        with pytest.raises(Failed, match="power limit: changed from off to 6 during the run"):
            ours.check_unchanged()
    assert nvme.calls.features["nvme0n1"][LIMIT] == 500 | 2 << 16


def test_a_limit_below_all_states_is_not_asked_for(nvme):
    with pytest.raises(Unable, match=r"power limit 3 W: its least state to work in is 3\.18 W"):
        settings(nvme, {"fast": "nvme0n1"}, power_limit="3")


def test_a_drive_without_such_limits_is_asked_nothing(nvme):
    nvme.calls.pages["nvme0n1"] = (controller(limits=False), bytes(512))
    with pytest.raises(Unable, match="has no limit of its power that a host sets"):
        settings(nvme, {"fast": "nvme0n1"}, power_limit="5")


def test_a_drive_that_takes_another_limit_than_it_was_given_fails_the_run(nvme):
    with ExitStack() as undo:
        ours = settings(nvme, {"fast": "nvme0n1"}, power_limit="5")
        nvme.calls.deaf.add("nvme0n1")
        with pytest.raises(Failed, match="power limit: set to 5, the drive says off"):
            ours.apply(undo)
        nvme.calls.deaf.clear()


def test_a_disk_has_no_power_states_of_nvme(disk):
    with pytest.raises(Unable, match="power_state: /dev/sda: is no NVMe drive"):
        settings(disk, {"slow": "sda"}, power_state="0")


def test_a_drive_that_gives_no_answer_cannot_do_the_level(nvme):
    nvme.calls.features["nvme0n1"].clear()
    with pytest.raises(Unable, match="power_state: /dev/nvme0n1: NVMe status"):
        settings(nvme, {"fast": "nvme0n1"}, power_state="0")


# --- autonomous transitions


def tolerance(host):
    return (host.sys / "class/nvme/nvme0/power/pm_qos_latency_tolerance_us").read_text().strip()


def test_a_drive_does_not_rest_with_apst_off(nvme):
    nvme.calls.features["nvme0n1"][AUTONOMOUS] = 0  # as the kernel has it do
    with ExitStack() as undo:
        ours = settings(nvme, {"fast": "nvme0n1"}, apst="off")
        found = ours.apply(undo)["apst"]
        assert (found["before"], found["in_effect"], tolerance(nvme)) == ("100000", "off", "0")
        assert found["drive"]["enabled"] is False
        ours.check_unchanged()
        nvme.calls.features["nvme0n1"][AUTONOMOUS] = 1
        with pytest.raises(Failed, match=r"apst: .*changed to on during the run"):
            ours.check_unchanged()
    assert tolerance(nvme) == "100000"


def test_the_drives_own_answer_counts(nvme):
    with pytest.raises(Failed, match="set to off, the drive has them on"), ExitStack() as undo:
        settings(nvme, {"fast": "nvme0n1"}, apst="off").apply(undo)


@pytest.mark.parametrize("level", ["any", "25000"])
def test_the_states_that_the_kernel_allows(nvme, level):
    with ExitStack() as undo:
        found = settings(nvme, {"fast": "nvme0n1"}, apst=level).apply(undo)["apst"]
        assert tolerance(nvme) == level
        assert found["drive"]["transitions"][0] == {"state": 0, "to": 3, "idle_milliseconds": 100}


@pytest.mark.parametrize("enabled", [0, 1])
def test_no_state_is_quick_enough(nvme, enabled):
    """Linux 6.1 leaves the transitions enabled, with a table that has none."""
    nvme.calls.features["nvme0n1"][AUTONOMOUS] = enabled
    nvme.calls.tables["nvme0n1"][AUTONOMOUS] = transitions()
    with (
        pytest.raises(Unable, match="no state to rest in that is entered and left within 10 µs"),
        ExitStack() as undo,
    ):
        settings(nvme, {"fast": "nvme0n1"}, apst="10").apply(undo)
    assert tolerance(nvme) == "100000"


def test_a_drive_without_autonomous_transitions(nvme):
    (nvme.sys / "class/nvme/nvme0/power/pm_qos_latency_tolerance_us").unlink()
    with pytest.raises(Unable, match="does not change power states by itself"):
        settings(nvme, {"fast": "nvme0n1"}, apst="off")


# --- disks


def test_a_level_of_apm(disk):
    with ExitStack() as undo:
        ours = settings(disk, {"slow": "sda"}, apm="128")
        assert ours.apply(undo) == {"apm": {"before": "off", "in_effect": "128"}}
        ours.check_unchanged()
        assert record.drive(disk.system(), "sda")["apm"] == 128
    assert disk.calls.orders == [("sda", 0xEF, 0x05, 128), ("sda", 0xEF, 0x85, 0)]
    assert record.drive(disk.system(), "sda")["apm"] is None


def test_a_disk_that_cannot_be_without_apm(disk):
    disk.calls.refused.add((0xEF, 0x85))
    with pytest.raises(Unable, match=r"^APM off: /dev/sda: ATA command 0xef: refused"), ExitStack() as undo:
        settings(disk, {"slow": "sda"}, apm="off").apply(undo)


def test_a_disk_without_apm(disk):
    disk.calls.pages["sda"] = (bytes(512),)
    with pytest.raises(Unable, match="apm: /dev/sda: has no advanced power management"):
        settings(disk, {"slow": "sda"}, apm="128")


def test_a_disk_that_keeps_its_level_fails_the_run(disk):
    disk.calls.deaf.add("sda")
    with pytest.raises(Failed, match="APM: set to 128, the disk says off"), ExitStack() as undo:
        settings(disk, {"slow": "sda"}, apm="128").apply(undo)


def test_a_scsi_disk_is_no_ata_disk(disk):
    disk.put((disk.sys / "block/sda").resolve() / "device/vendor", "SEAGATE \n")
    for factor in ("apm", "standby_timer"):
        with pytest.raises(Unable, match=f"{factor}: /dev/sda: is no ATA disk"):
            settings(disk, {"slow": "sda"}, **{factor: "off"})
    assert disk.calls.orders == []


def test_a_standby_timer_is_put_back_to_off_as_it_cannot_be_read(disk):
    with ExitStack() as undo:
        found = settings(disk, {"slow": "sda"}, standby_timer="60").apply(undo)
        expected = {"before": None, "in_effect": None, "asked": "60", "put_back": "off"}
        assert found == {"standby_timer": expected}
    assert disk.calls.orders == [("sda", 0xE3, 0, 12), ("sda", 0xE3, 0, 0)]


@pytest.mark.parametrize(
    ("level", "code"),
    [
        ("off", 0),
        ("5", 1),
        ("1200", 240),
        ("1800", 241),
        ("19800", 251),
        ("7", -1),
        ("1205", -1),
        ("21600", -1),
    ],
)
def test_times_that_ata_can_say(level, code):
    assert standby.code(level) == code


# --- several drives, and a killed run


def test_settings_of_several_drives_are_by_drive(disk):
    real = disk.disk("sdb", "SERIAL-2", vpd=True, place="devices/ata2/host1/t")
    disk.put(real / "device/vendor", "ATA     \n")
    disk.calls.pages["sdb"] = disk.calls.pages["sda"]
    with ExitStack() as undo:
        found = settings(disk, {"one": "sda", "two": "sdb"}, apm="254").apply(undo)
        assert found == {"apm": {one: {"before": "off", "in_effect": "254"} for one in ("one", "two")}}


def test_a_killed_run_leaves_how_its_settings_are_put_back(nvme, disk, tmp_path):
    left = tmp_path / "left.json"
    drives = {"fast": "nvme0n1"}
    nvme.put((nvme.sys / "block/nvme0n1").resolve() / "diskseq", "7\n")
    nvme.calls.features["nvme0n1"][AUTONOMOUS] = 0
    with ExitStack() as undo:
        leftovers = Leftovers(str(left))
        settings(nvme, drives, power_state="1", apst="off").apply(undo, leftovers)
        settings(disk, {"slow": "sda"}, apm="1", standby_timer="5").apply(undo, leftovers)
        held = json.loads(left.read_text())["settings"]
    commands = [one["command"] for one in held if "command" in one]
    assert commands == [
        ["nvme", "set-feature", "/dev/nvme0", "--feature-id=0x02", "--value=0"],
        ["smartctl", "--set=apm,off", "/dev/sda"],
        ["smartctl", "--set=standby,off", "/dev/sda"],
    ]
    assert held[0]["sequence"] == 7
    assert [one["before"] for one in held if "before" in one] == ["100000"]


# --- what is recorded whatever is asked


def test_how_an_nvme_drive_is_managed(nvme):
    found = record.drive(nvme.system(), "nvme0n1")
    assert found["power_state"] == 0
    assert [one["operational"] for one in found["power_states"]] == [True, True, True, False]
    assert found["power_states"][0]["max_watts"] == 8.49
    assert found["power_states"][3]["exit_microseconds"] == 1200
    assert found["autonomous"]["enabled"] is True
    assert len(found["autonomous"]["transitions"]) == 3
    assert found["latency_tolerance"] == "100000"
    assert found["runtime_pm"] == {"0000:01:00.0": "on"}
    assert found["pcie_link"] == {"l1_aspm": "1"}


def test_a_drive_that_gives_no_answer_is_recorded_as_that(nvme):
    nvme.calls.pages.clear()
    assert "gave no answer" in record.drive(nvme.system(), "nvme0n1")["problem"]


def test_how_a_disk_is_managed(disk):
    disk.put(disk.sys / "class/scsi_host/host0/link_power_management_policy", "med_power_with_dipm\n")
    found = record.drive(disk.system(), "sda")
    assert (found["apm"], found["extended_power"]) == (None, False)
    assert found["link_power"] == "med_power_with_dipm"


def test_limits_of_processors_sleep(fake):
    for number, limit in enumerate(("0", "20", "20")):
        fake.put(fake.sys / f"devices/system/cpu/cpu{number}/power/pm_qos_resume_latency_us", limit + "\n")
    assert record.host(fake.system())["processor"]["idle_latency_limits"] == ["0", "20"]
