# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a run's drives is gone with a boot of its host, and made again."""

import pytest

from joulerig.rig.campaign.execution.made_drives import MadeDrives
from joulerig.rig.campaign.execution.outcome import RunOutcome

DISK = {"interface": "hdd", "size_bytes": 1 << 26}


@pytest.fixture
def described(lab_files):
    lab_files.drives["ram"] = {"interface": "ram", "serial": "ram0", "size_bytes": 1 << 27}
    for number in range(3):
        lab_files.drives[f"played-{number}"] = {**DISK, "serial": f"scsi_debug-{number}"}
    lab_files.host["emulated"] = {"access_milliseconds": 2}
    lab_files.host["arrays"]["played"] = {"level": "raid0", "members": ["played-0", "played-1"]}
    return lab_files.load()


class Host:
    """Notes what it is called for; says of each module what `answers` has, else that it is well."""

    def __init__(self, described):
        self.calls, self.answers = [], {}
        self._made = MadeDrives(described, self.call)

    def call(self, module, arguments):
        self.calls.append((module.removeprefix("joulerig_"), arguments))
        return self.answers.get(module, {"changed": True})

    def ensure(self, drive, boot="boot-1", **levels):
        return self._made.ensure({"host": "bench1", "drive": drive, "factors": levels}, boot)

    @property
    def made(self):
        return [module for module, _ in self.calls]


@pytest.fixture
def host(described):
    return Host(described)


def test_a_drive_that_is_there_costs_no_call(host):
    assert host.ensure("fast") is None
    assert host.calls == []


def test_an_array_is_made_when_a_run_stands_on_it_and_once(host):
    assert host.ensure("pair") is None
    assert host.ensure("pair") is None
    ((module, arguments),) = host.calls
    assert (module, arguments["name"]) == ("array", "pair")
    assert list(arguments["drives"]) == arguments["members"]


@pytest.mark.parametrize(("memmap", "made"), [(None, ["nvdimm"]), ("1G!4G", [])])
def test_a_namespace_is_made_of_an_nvdimm_that_is_not_memory_of_the_kernels(lab_files, memmap, made):
    lab_files.drives["nv"] = {"interface": "nvdimm", "serial": "8680-1", "size_bytes": 1 << 30}
    if memmap:
        lab_files.drives["nv"]["serial"] = "e820-0x100000000"
        lab_files.host["nvdimm_memmap"] = memmap
    host = Host(lab_files.load())
    assert host.ensure("nv") is None
    assert host.made == made


def test_a_ram_block_device_is_made_once_in_a_boot(host):
    assert host.ensure("ram") is None
    assert host.ensure("ram") is None
    assert host.made == ["memory_drives"]
    assert list(host.calls[0][1]["drives"]) == ["ram"]
    assert host.calls[0][1]["drives"]["ram"]["size_bytes"] == 1 << 27
    host.ensure("ram", boot="boot-2")
    assert host.made == ["memory_drives"] * 2


def test_emulated_disks_are_made_all_at_once_and_before_the_array_of_them(host):
    assert host.ensure("played") is None
    assert host.made == ["memory_drives", "array"]
    disks, array = (arguments for _, arguments in host.calls)
    assert list(disks["drives"]) == ["played-0", "played-1", "played-2"]
    assert disks["emulated"]["access_milliseconds"] == 2
    assert (array["name"], array["level"], array["members"]) == ("played", "raid0", ["played-0", "played-1"])
    assert list(array["drives"]) == ["played-0", "played-1"]
    host.ensure("played-2")
    assert host.made == ["memory_drives", "array"]  # it came with the others


def test_a_journal_on_one_is_a_reason_too(host):
    assert host.ensure("fast", journal="played-2") is None
    assert host.made == ["memory_drives"]


def test_what_cannot_be_made_is_the_reason_of_each_run_that_needs_it(host):
    host.answers["joulerig_memory_drives"] = {"failed": True, "msg": "ram: brd would take\n128 MiB"}
    for _ in range(2):
        outcome = host.ensure("ram")
        assert outcome == RunOutcome(status="not-run", reason="ram: brd would take 128 MiB")
    assert host.made == ["memory_drives"] * 2
    assert host.ensure("fast") is None
