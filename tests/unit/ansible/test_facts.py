# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of a test host: read from its kernel's files, whatever is missing there."""

import os
import re
import socket
import struct

import pytest

from joulerig.rig.doctor import hosts as doctor
from tests.support import fake_host  # noqa: F401  finds the host's library

from ansible.module_utils.joulerig import fence  # isort: skip
from ansible.module_utils.joulerig.drives.host import Host  # isort: skip
from ansible.module_utils.joulerig.facts import checks, disks, machine  # isort: skip
from ansible.module_utils.joulerig.settings import record  # isort: skip
from ansible.module_utils.joulerig.tools import Failed  # isort: skip

NAA = "naa.5000c500a1b2c3d4"


def nvme_pages(*, warning=0, celsius=40, spare=100, threshold=10, used=3, errors=0, autonomous=True, ports=0):
    controller, health = bytearray(4096), bytearray(512)
    controller[76], controller[263], controller[265], controller[525] = ports, 4, int(autonomous), 1
    health[0] = warning
    health[1:3] = (celsius + 273).to_bytes(2, "little")
    health[3:6] = bytes((spare, threshold, used))
    health[160:176] = errors.to_bytes(16, "little")
    return bytes(controller), bytes(health)


def ata_page(*, apm=None, extended=False):
    words = [0] * 256
    if apm is not None:
        words[86], words[91] = 1 << 3, 0x4000 | apm
    words[120] = (1 << 7) if extended else 0
    return (struct.pack("<256H", *words),)


def only(fake):
    [found] = disks.look(fake.system())
    return found


# --- disks


def test_a_disk_is_known_as_an_inventory_declares_it(fake):
    fake.disk(
        "sda", "ZC10A1B2", wwn=NAA, vpd=True, bytes_=4000787030016, place="devices/pci0000:00/ata1/host0/t"
    )
    found = only(fake)
    assert (found["serial"], found["wwn"], found["size_bytes"]) == ("ZC10A1B2", NAA, 4000787030016)
    assert (found["transport"], found["rotates"], found["use"]) == ("ata", True, "")


@pytest.mark.parametrize(
    ("name", "place", "expected"),
    [
        ("nvme0n1", "devices/pci0000:00/0000:01:00.0/nvme/nvme0", "nvme"),
        ("sda", "devices/pci0000:00/0000:00:17.0/ata3/host2/target2:0:0/2:0:0:0/block", "ata"),
        ("sdb", "devices/pci0000:00/0000:00:14.0/usb2/2-1/host6/target6:0:0/6:0:0:0/block", "usb"),
        ("sdc", "devices/pci0000:00/0000:02:00.0/host1/port-1:0/end_device-1:0/target1:0:0/block", "sas"),
        ("sdd", "devices/pci0000:00/0000:02:00.0/host1/target1:2:0/1:2:0:0/block", "scsi"),
        ("vda", "devices/pci0000:00/0000:00:04.0/virtio1/block", "virtual"),
    ],
)
def test_how_a_disk_is_reached(fake, name, place, expected):
    fake.disk(name, "SERIAL-1", vpd=name.startswith("sd"), place=place)
    assert only(fake)["transport"] == expected


def test_nvdimms_are_regions_with_what_uses_them(fake):
    fake.region("region0", "8680-1", "8680-2", namespace="pmem0")
    fake.region("region1", "8680-3", bytes_=2 << 30)
    fake.mount("/dev/pmem0", "/data", number=fake.number("pmem0"))
    first, second = disks.nvdimms(fake.system())
    assert (first["serial"], first["size_bytes"], first["devices"]) == ("8680-1+8680-2", 1 << 30, ["pmem0"])
    assert "mounted at /data" in first["use"]
    assert second == {"serial": "8680-3", "size_bytes": 2 << 30, "devices": [], "use": ""}


def test_a_mounted_disk_says_where(fake):
    fake.disk("sda", "SERIAL-1", vpd=True)
    fake.partition("sda", "sda1")
    fake.mount("/dev/sda1", "/", number=fake.number("sda1"))
    assert "mounted at /" in only(fake)["use"]


def test_what_an_nvme_drive_says_of_itself(fake):
    fake.disk("nvme0n1", "SERIAL-1", rotates=False)
    fake.calls.pages["nvme0n1"] = nvme_pages(warning=4, celsius=71, spare=9, used=101, errors=2, ports=1)
    own = only(fake)["own"]
    assert own["critical_warning"] == 4
    assert own["temperature_celsius"] == 71
    assert (own["available_spare"], own["spare_threshold"], own["percentage_used"]) == (9, 10, 101)
    assert own["media_errors"] == 2
    assert (own["power_states"], own["autonomous"], own["several_ports"]) == (5, True, True)


@pytest.mark.parametrize(("apm", "extended"), [(None, False), (1, False), (254, True)])
def test_what_an_ata_disk_says_of_its_timers(fake, tool, apm, extended):
    tool("smartctl", "exit 1")
    fake.disk("sda", "SERIAL-1", vpd=True, place="devices/ata1/host0/t")
    fake.calls.pages["sda"] = ata_page(apm=apm, extended=extended)
    assert only(fake)["own"] == {"apm": apm, "extended_power": extended}


@pytest.mark.parametrize(("passed", "expected"), [("true", True), ("false", False)])
def test_the_health_check_of_a_sata_disk(fake, tool, passed, expected):
    calls = tool("smartctl", f'echo \'{{"smart_status": {{"passed": {passed}}}}}\'; exit 8')
    fake.disk("sda", "SERIAL-1", vpd=True, place="devices/ata1/host0/t")
    assert only(fake)["own"]["passed"] is expected
    assert "--nocheck=standby" in calls.read_text()


def test_a_disk_that_gives_no_answer_has_no_own_facts(fake, tool):
    tool("smartctl", "exit 1")
    fake.disk("sda", "SERIAL-1", vpd=True, place="devices/ata1/host0/t")
    assert only(fake)["own"] == {}


def test_paths_and_namespaces_of_an_nvme_drive(fake):
    fake.disk("nvme0n1", "SERIAL-1")
    fake.disk("nvme0n2", "SERIAL-1")
    for path in ("nvme0c0n1", "nvme0c1n1"):
        real = fake.disk(path, "SERIAL-1")
        fake.put(real / "hidden", "1\n")
    first, second = disks.look(fake.system())
    assert (first["paths"], second["paths"]) == (["nvme0c0n1", "nvme0c1n1"], [])
    assert (first["namespaces"], second["namespaces"]) == (2, 2)


def test_power_management_of_a_disk_and_of_what_it_hangs_on(fake):
    place = "devices/pci0000:00/0000:01:00.0/ata1/host0/target0:0:0/0:0:0:0/block"
    fake.disk("sda", "SERIAL-1", vpd=True, place=place)
    real = fake.sys / "devices/pci0000:00/0000:01:00.0"
    fake.put(real / "power/control", "auto\n")
    fake.put(real / "ata1/host0/target0:0:0/0:0:0:0/power/control", "on\n")
    fake.put(fake.sys / "class/scsi_host/host0/link_power_management_policy", "med_power_with_dipm\n")
    found = only(fake)
    assert found["runtime_pm"] == {"0000:01:00.0": "auto", "0:0:0:0": "on"}
    assert found["link_power"] == "med_power_with_dipm"


def test_schedulers_of_a_queue(fake):
    real = fake.disk("sda", "SERIAL-1", vpd=True)
    assert only(fake)["schedulers"] == []
    fake.put(real / "queue/scheduler", "none [mq-deadline] bfq\n")
    assert only(fake)["schedulers"] == ["none", "mq-deadline", "bfq"]


def spec(**more):
    return {"interface": "hdd", "serial": "SERIAL-1", "wwn": None, "size_bytes": 1 << 30, **more}


def test_a_declared_drive_is_found_as_a_campaign_finds_it(fake):
    fake.disk("sda", "SERIAL-1", vpd=True)
    declared = {"right": spec(), "absent": spec(serial="SERIAL-9"), "larger": spec(size_bytes=1 << 31)}
    found = disks.declared(fake.system(), declared)
    assert found["right"] == {"device": "sda", "problem": ""}
    assert found["absent"]["problem"].startswith(
        "no drive with serial 'SERIAL-9' on this host; present: SERIAL-1"
    )
    assert found["larger"]["problem"] == "/dev/sda has 1073741824 bytes, the inventory says 2147483648"


def test_a_declared_drive_that_is_in_use(fake):
    fake.disk("sda", "SERIAL-1", vpd=True)
    fake.swap("/dev/sda")
    found = disks.declared(fake.system(), {"mine": spec()})
    assert found["mine"] == {"device": "sda", "problem": "/dev/sda is in use as swap"}


# --- the machine


def cpu(fake, number, governor):
    fake.put(fake.sys / f"devices/system/cpu/cpu{number}/cpufreq/scaling_governor", governor + "\n")


def test_governors_are_counted(fake):
    for number, governor in enumerate(("performance", "powersave", "powersave")):
        cpu(fake, number, governor)
    fake.put(fake.sys / "devices/system/cpu/cpu0/cpufreq/scaling_driver", "intel_pstate\n")
    found = record.processor(fake.system())
    assert found["governors"] == {"performance": 1, "powersave": 2}
    assert found["driver"] == "intel_pstate"


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("intel_pstate/no_turbo", "0", True),
        ("intel_pstate/no_turbo", "1", False),
        ("cpufreq/boost", "1", True),
        ("cpufreq/boost", "0", False),
        (None, "", None),
    ],
)
def test_turbo(fake, file, text, expected):
    if file:
        fake.put(fake.sys / "devices/system/cpu" / file, text + "\n")
    assert record.processor(fake.system())["turbo"] is expected


def test_idle_states_in_their_order(fake):
    for number, (name, latency, disabled) in enumerate((("POLL", 0, 0), ("C1E", 10, 0), ("C6", 133, 1))):
        place = fake.sys / f"devices/system/cpu/cpu0/cpuidle/state{number}"
        for key, value in (("name", name), ("latency", latency), ("disable", disabled)):
            fake.put(place / key, f"{value}\n")
    states = record.processor(fake.system())["idle_states"]
    assert [state["name"] for state in states] == ["POLL", "C1E", "C6"]
    assert states[2] == {"name": "C6", "latency_microseconds": 133, "disabled": True}


def test_a_machine_without_power_management(fake):
    found = record.processor(fake.system())
    assert (found["governors"], found["idle_states"], found["driver"]) == ({}, [], None)
    assert record.buses(fake.system()) == {"aspm": None, "apst_latency": None, "nvme_multipath": False}


def test_how_buses_are_managed(fake):
    modules = fake.sys / "module"
    fake.put(modules / "pcie_aspm/parameters/policy", "default performance [powersave] powersupersave\n")
    fake.put(modules / "nvme_core/parameters/default_ps_max_latency_us", "100000\n")
    fake.put(modules / "nvme_core/parameters/multipath", "Y\n")
    found = record.buses(fake.system())
    assert found == {"aspm": "powersave", "apst_latency": "100000", "nvme_multipath": True}


def process(fake, number, name, environ=b"", parent=1):
    fake.put(fake.proc / str(number) / "comm", name + "\n")
    fake.put(fake.proc / str(number) / "environ", environ)
    fake.put(fake.proc / str(number) / "stat", f"{number} ({name} (x)) S {parent} 1 1\n")


def test_who_keeps_the_clock(fake):
    process(fake, 5, "chronyd")
    process(fake, 6, "systemd-timesyn")
    found = machine.clock(machine.programs(fake.system()))
    assert found["kept_by"] == ["chronyd", "systemd-timesyn"]
    assert isinstance(found["synchronised"], bool)
    assert found["error_microseconds"] >= 0


def test_the_controllers_address_is_found_above_sudo(fake):
    process(fake, 10, "sshd", parent=1)
    process(fake, 11, "sh", b"HOME=/root\0SSH_CONNECTION=fd00::1 50000 fd00::2 22\0", parent=10)
    process(fake, 12, "sudo", parent=11)
    process(fake, 13, "python3", b"HOME=/root\0", parent=12)
    assert machine.client_address(fake.system(), 13) == "fd00::1"
    assert machine.client_address(fake.system(), 10) == ""


def test_the_distribution(fake):
    fake.put(fake.etc / "os-release", 'ID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_ID="22"\n')
    fake.put(fake.proc / "meminfo", "MemTotal:       16384 kB\n")
    found = machine.system(fake.system())
    assert (found["distribution"], found["family"], found["version"]) == ("linuxmint", "debian", "22")
    assert found["memory_bytes"] == 16 << 20


def login(kind, user):
    record = bytearray(384)
    struct.pack_into("@h", record, 0, kind)
    record[44 : 44 + len(user)] = user.encode()
    return bytes(record)


def test_who_is_logged_in(tmp_path):
    file = tmp_path / "utmp"
    file.write_bytes(
        login(2, "reboot") + login(7, "grace") + login(7, "ada") + login(7, "ada") + login(8, "bob")
    )
    assert machine.logged_in(str(file)) == ["ada", "grace"]
    assert machine.logged_in(str(tmp_path / "none")) == []


def test_what_is_not_reached():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert machine.unreached(address) == ""
    assert machine.unreached(address) == "Connection refused"


def test_all_facts_of_a_bare_host_can_be_gathered(fake, tmp_path, monkeypatch):
    """Nothing that is missing there is an error."""
    fake.stand_in(monkeypatch)
    found = machine.look(fake.system(), [], [], str(tmp_path / "utmp"))
    assert found["users"]["processors"] == os.cpu_count()
    assert found["users"]["reservations"] == []
    assert found["units"] == {}
    assert found["space"]["/"] > 0


def test_processes_are_listed_once(fake, tmp_path, monkeypatch):
    """A host with thousands of them is asked while it may be in a run."""
    fake.stand_in(monkeypatch)
    for number, name in enumerate(("chronyd", "irqbalance", "qemu-system-x86"), 5):
        process(fake, number, name)
    reads, system = [], fake.system()
    read = type(system).read
    monkeypatch.setattr(type(system), "read", lambda host, path: reads.append(path) or read(host, path))
    found = machine.look(system, [], [], str(tmp_path / "utmp"))
    assert [path for path in reads if path.endswith("/5/comm")] == [f"{fake.proc}/5/comm"]
    assert found["clock"]["kept_by"] == ["chronyd"]
    assert found["interrupts"]["balanced"]
    assert found["users"]["machines"] == ["qemu-system-x86"]


def test_a_file_system_is_named_once(tmp_path):
    (tmp_path / "below").mkdir()
    found = machine.space((str(tmp_path), str(tmp_path / "below"), "/proc"))
    assert list(found) == [str(tmp_path), "/proc"]


# --- the checks of a drive's use that a host can make

KERNEL = tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups()))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: other processes are looked into")
def test_the_checks_are_tried_on_this_kernel(monkeypatch):
    found = checks.lacking(Host("/sys", "/proc", "/dev", "/etc"))
    assert ("messages" not in found) == (KERNEL >= (5, 6))
    assert ("mappings" not in found) == (KERNEL >= (4, 3))
    assert ("disk-sequence" not in found) == (KERNEL >= (5, 15))
    assert ("commands" not in found) == (KERNEL >= (6, 13))
    monkeypatch.setattr(checks, "FIRST_PROCESS_NAMESPACE", "pid:[1]")
    assert "processes" in checks.lacking(Host("/sys", "/proc", "/dev", "/etc"))


def test_a_fence_is_tried(monkeypatch):
    assert checks.fence_problem() == ""

    def refuse(own, network):
        raise Failed("fence: mount: Operation not permitted")

    monkeypatch.setattr(fence, "enclose", refuse)
    assert checks.fence_problem() == ("fence: mount: Operation not permitted" if os.geteuid() == 0 else "")


def test_a_host_that_shows_nothing_lacks_every_check(fake, monkeypatch):
    def refuse(task, descriptor):
        raise OSError("no such call")

    fake.stand_in(monkeypatch)
    monkeypatch.setattr(fake.calls, "waiting", refuse)
    assert {*checks.lacking(fake.system()), "rings"} == {*doctor.UNSEEN}  # without io_uring it lacks none


def test_a_host_that_forbids_to_look_into_processes(fake, monkeypatch):
    fake.stand_in(monkeypatch)
    fake.put(fake.proc / "sys/kernel/yama/ptrace_scope", "3\n")
    assert not checks.sees_messages(fake.system())
