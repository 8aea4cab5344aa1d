# SPDX-License-Identifier: GPL-3.0-or-later
"""What `rig doctor` says of test hosts, from facts that are made up."""

import dataclasses

import pytest

from joulerig.rig.doctor import asking, everywhere, hosts, inventory
from joulerig.rig.doctor.finding import Severity
from joulerig.rig.lab.model import Array
from tests.support.host_facts import GIB, NOW_NS, disk, facts, hard_disk, machine

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE


@pytest.fixture
def seen(bench):
    def make(given):
        return hosts.Seen("bench1", bench.hosts["bench1"], given, (NOW_NS, NOW_NS), hosts.quiet_units())

    return make


def test_a_host_that_is_set_up_well_has_nothing_wrong(seen):
    assert hosts.examine(seen(facts())) == []


def own(**more):
    return disk(own={**disk()["own"], **more})


def hdd_own(**more):
    return hard_disk(own={**hard_disk()["own"], **more})


STATES = [{"name": "C6", "latency_microseconds": 133, "disabled": False}]
HELD = {"owner": "bob@lab2", "purpose": "firmware", "campaign": ""}
CASES = {
    "not root": (facts(system={"user": 1000}), ERROR, "system", ["user 1000", "~/.ssh/config"]),
    "an old Python": (facts(system={"python": [3, 6]}), ERROR, "system", ["Python 3.6", "ansible_python_interpreter"]),
    "another distribution": (facts(system={"distribution": "arch", "family": ""}), ERROR, "system", ["arch", "Debian"]),
    "a distribution that was not tried": (facts(system={"distribution": "rhel", "family": "rhel"}), WARNING, "system", ["rhel", "never run"]),
    "no systemd": (facts(system={"systemd": False}), WARNING, "system", ["no systemd"]),
    "a clock that is off": (facts(clock={"now_ns": NOW_NS - 90 * 10**9}), WARNING, "clock", ["s off the controller's", "chronyc makestep"]),
    "a clock that is ahead": (facts(clock={"now_ns": NOW_NS + 90 * 10**9}), WARNING, "clock", ["s off the controller's"]),
    "two that set the clock": (facts(clock={"kept_by": ["chronyd", "ntpd"]}), WARNING, "clock", ["chronyd and ntpd", "disable --now"]),
    "none that sets the clock": (facts(clock={"kept_by": []}), NOTE, "clock", ["nothing sets its clock", "rig up"]),
    "a clock that is not set yet": (facts(clock={"synchronised": False}), NOTE, "clock", ["chronyd has not set it"]),
    "a drive that is refused": (facts(problems={"bare": "no drive with serial 'SERIAL-D'"}), ERROR, "drives", ["bench1/bare", "SERIAL-D", "discover bench1 --print"]),
    "a drive that an array holds": (facts(problems={"bare": "/dev/sdc is in use: md127 holds sdc"}), ERROR, "drives", ["md127"]),
    "a member that its array holds": (facts(problems={"hdd-1": "/dev/sda is in use: md127 holds sda"}), NOTE, "drives", ["bench1/hdd-1", "as pair of the inventory", "--stop /dev/md127' on bench1"]),
    "a member of another use": (facts(problems={"hdd-1": "/dev/sda is in use: dm-0 holds sda"}), ERROR, "drives", ["dm-0"]),
    "a drive that fails": (facts(own(critical_warning=4)), ERROR, "health", ["bench1/fast", "0x4", "nvme smart-log /dev/nvme0n1"]),
    "a drive without spare": (facts(own(available_spare=9)), ERROR, "health", ["9 % spare", "10 %"]),
    "a worn drive": (facts(own(percentage_used=104)), WARNING, "health", ["104 % of its rated life"]),
    "a drive with errors": (facts(own(media_errors=1)), WARNING, "health", ["1 media error;"]),
    "a hot drive": (facts(own(temperature_celsius=74)), WARNING, "health", ["74 °C", "below 70"]),
    "a disk that fails": (facts(hdd_own(passed=False)), ERROR, "health", ["SMART", "smartctl --all /dev/sda"]),
    "multipath": (
        facts(disk(paths=["nvme0c0n1", "nvme0c1n1"])), WARNING, "multipath",
        ["nvme0c0n1, nvme0c1n1", "nvme_core.multipath=N"],
    ),
    "several namespaces": (facts(disk(namespaces=2)), WARNING, "multipath", ["2 namespaces"]),
    "a kernel that hides uses of a drive": (
        facts(lacking={"checks": ["messages", "commands"]}), WARNING, "unseen-uses",
        ["descriptors in messages that wait (seen since Linux 5.6", "; commands to a drive", "safety.md"],
    ),
    "a kernel that counts no commands": (facts(lacking={"checks": ["commands"]}), NOTE, "unseen-uses", ["since Linux 6.13"]),
    "the kernel of Debian 12": (facts(lacking={"checks": ["rings", "commands"]}), NOTE, "unseen-uses", ["files of an io_uring", "since Linux 6.13"]),
    "a host that cannot fence loads in": (
        facts(lacking={"fence": "fence: unshare: Invalid argument"}), ERROR, "fence",
        ["every run would fail: fence: unshare: Invalid argument", "namespaces of PID"],
    ),
    "a governor that varies": (facts(processor={"governors": {"powersave": 8}}), WARNING, "governor", ["powersave (intel_pstate)", "echo performance | sudo tee"]),
    "two governors": (facts(processor={"governors": {"powersave": 4, "performance": 4}}), WARNING, "governor", ["performance, powersave"]),
    "turbo of Intel's": (facts(processor={"turbo": True}), NOTE, "turbo", ["echo 1 | sudo tee", "no_turbo"]),
    "turbo of others": (facts(processor={"turbo": True, "driver": "acpi-cpufreq"}), NOTE, "turbo", ["echo 0 | sudo tee", "cpufreq/boost"]),
    "deep sleep": (facts(processor={"idle_states": STATES}), NOTE, "sleep-states", ["C6 (133 µs)", "--disable-by-latency 100"]),
    "links that sleep": (facts(buses={"aspm": "powersave"}), NOTE, "pcie-links", ["ASPM powersave", "pcie_aspm/parameters/policy"]),
    "a drive that sleeps": (facts(buses={"apst_latency": "100000"}), NOTE, "nvme-power", ["fast", "APST, up to 100000 µs"]),
    "a SATA link that sleeps": (facts(hard_disk(link_power="med_power_with_dipm")), NOTE, "sata-links", ["bench1/hdd-1", "med_power_with_dipm", "max_performance"]),
    "a device that may be suspended": (facts(disk(runtime_pm={"0000:01:00.0": "auto"})), NOTE, "runtime-pm", ["0000:01:00.0", "/sys/bus/pci/devices/0000:01:00.0/power/control"]),
    "a disk that may be suspended": (facts(hard_disk(runtime_pm={"0:0:0:0": "auto"})), NOTE, "runtime-pm", ["/sys/bus/scsi/devices/0:0:0:0/power/control"]),
    "a disk that stops": (facts(hdd_own(apm=1)), WARNING, "disk-timers", ["APM level 1", "hdparm -B 254 /dev/sda"]),
    "a disk with timers": (facts(hdd_own(extended_power=True)), NOTE, "disk-timers", ["EPC", "--EPCfeature disable"]),
    "interrupts that move": (facts(interrupts={"balanced": True}), WARNING, "interrupts", ["irqbalance", "quiet_units"]),
    "units that campaigns leave": (facts(units={"snapd.service": "active", "tuned.service": "inactive"}), WARNING, "background", ["snapd.service may", "quiet_units"]),
    "little space": (facts(space={"/": GIB}), WARNING, "free-space", ["/: 1.0 GiB free", "du --one-file-system"]),
    "no space": (facts(space={"/var/lib": GIB // 4}), ERROR, "free-space", ["/var/lib: 0.2 GiB free"]),
    "an InfluxDB that is not reached": (facts(unreached={"192.0.2.9:8086": "No route to host"}), ERROR, "influxdb", ["192.0.2.9:8086: No route to host", "url_from_hosts"]),
    "a reservation": (facts(users={"reservations": [HELD]}), NOTE, "users", ["reserved by bob@lab2 for firmware", "rig hosts show"]),
    "a run": (facts(users={"runs": ["demo-1/r003"], "load": 9.0}), NOTE, "users", ["executes demo-1/r003"]),
    "people": (facts(users={"logged_in": ["ada"]}), NOTE, "users", ["logged in at a terminal: ada"]),
    "virtual machines": (facts(users={"machines": ["qemu-system-x86"]}), WARNING, "users", ["qemu-system-x86"]),
    "a load": (facts(users={"load": 3.5}), WARNING, "users", ["load 3.5 on 8 processors", "'top' on bench1"]),
    "another address of the controller": (facts(system={"controller": "198.51.100.7"}), NOTE, "addresses", ["198.51.100.7", "192.0.2.1"]),
}  # fmt: skip


@pytest.mark.parametrize(("given", "severity", "check", "expected"), CASES.values(), ids=CASES)
def test_what_is_found(seen, given, severity, check, expected):
    [one] = hosts.examine(seen(given))
    assert (one.severity, one.check) == (severity, check)
    for part in expected:
        assert part in one.line, one.line
    assert "\n" not in one.line


def test_every_check_finds_something():
    assert {check for _, _, check, _ in CASES.values()} == set(hosts.CHECKS)


@pytest.mark.parametrize(
    "given",
    [
        facts(system={"distribution": "linuxmint"}),
        facts(processor={"governors": {}, "turbo": None, "idle_states": []}),
        facts(buses={"aspm": None, "apst_latency": None}),
        facts(hdd_own(apm=254)),
        facts(disk(own={})),
        facts(hard_disk(own={}, link_power=None, runtime_pm={})),
        facts(units={"fstrim.timer": "active"}),  # campaigns stop it
        facts(hard_disk(), buses={"aspm": "powersave", "apst_latency": "100000"}),  # no NVMe drive
        facts(system={"controller": ""}),
    ],
)
def test_what_is_right_or_not_known(seen, given):
    assert hosts.examine(seen(given)) == []


@pytest.mark.parametrize(
    ("why", "remedy"),
    [
        ("Missing sudo password", "ANSIBLE_BECOME_PASSWORD_FILE"),
        ("Failed to connect to the host via ssh: Permission denied (publickey)", "ssh-copy-id"),
        ("Host key verification failed.", "accept its key"),
        ("Connection timed out", "ansible.builtin.ping"),
    ],
)
def test_a_host_that_gives_no_facts(why, remedy):
    one = hosts.unreachable("bench1", why)
    assert one.severity == ERROR
    assert why in one.text
    assert remedy in one.remedy


# --- what is asked, and of whom


@pytest.fixture
def asked(monkeypatch):
    """Stand in for the hosts: asked(HOST=FACTS or ERROR) returns what they were asked."""
    monkeypatch.setattr(everywhere.time, "time_ns", lambda: NOW_NS)
    calls = []
    answers = {}

    def ask(path, given):
        calls.append((path, given))
        return {host: answers[host] for host in given}

    monkeypatch.setattr(asking, "ask", ask)

    def answer(**given):
        answers.update(given)
        return calls

    return answer


def test_a_host_is_asked_of_its_fixed_drives(lab_files, asked):
    lab_files.drives["ram"] = {"interface": "ram", "serial": "ram0", "size_bytes": 1 << 30}
    lab_files.controller["influxdb"] = {"url": "http://192.0.2.9:8086", "token_file": "t"}
    calls = asked(bench1=facts())
    described, _ = inventory.examine(lab_files.write())
    assert everywhere.examine(described, ["bench1"]) == []
    [(path, given)] = calls
    assert path == lab_files.inventory
    assert sorted(given["bench1"]["drives"]) == ["bare", "fast", "hdd-1", "hdd-2"]
    assert given["bench1"]["addresses"] == ["192.0.2.9:8086"]
    assert "snapd.service" in given["bench1"]["units"]


def test_units_that_the_inventory_has_campaigns_stop_are_quiet(lab_files, asked):
    lab_files.host["quiet_units"] = ["snapd.service"]
    asked(bench1=facts(units={"snapd.service": "active", "fstrim.timer": "inactive"}))
    described, _ = inventory.examine(lab_files.write())
    assert everywhere.examine(described, ["bench1"]) == []


def test_one_host_that_cannot_be_asked_does_not_hide_another(lab_files, asked):
    drive = {"interface": "hdd", "serial": "SERIAL-E", "size_bytes": 10**12}
    lab_files.hosts["bench2"] = {"controller_address": "192.0.2.1", "drives": {"other": drive}}
    lab_files.inventory_text += "bench2\n"
    asked(bench1="Connection timed out", bench2=asking.Facts(machine(system={"user": 7}), [], {}))
    described, _ = inventory.examine(lab_files.write())
    found = everywhere.examine(described, ["bench1", "bench2"])
    assert [(one.subject, one.check) for one in found] == [("bench1", "reached"), ("bench2", "system")]


def with_virtual(described, name):
    """The same lab with a virtual host of a name."""
    host = described.lab.hosts["bench1"].model_copy(update={"virtual": object()})
    hosts_ = {**described.lab.hosts, name: host}
    return dataclasses.replace(described, lab=described.lab.model_copy(update={"hosts": hosts_}))


def test_a_virtual_lab_that_is_down_is_not_asked_and_is_said_to_be_down(lab_files, asked, monkeypatch):
    monkeypatch.setattr(everywhere.virtual, "is_up", lambda lab: False)
    calls = asked(bench1=facts())
    described = with_virtual(inventory.examine(lab_files.write())[0], "vhost1")
    [one] = everywhere.examine(described, ["bench1", "vhost1"])
    assert (one.severity, one.subject, one.text) == (ERROR, "vhost1", "the virtual lab is down")
    assert one.remedy == "'rig up' starts it"
    [(_, given)] = calls
    assert list(given) == ["bench1"]
    assert everywhere.examine(described, ["vhost1"]) == [one]
    assert len(calls) == 1, "there is no host to ask"


def test_a_virtual_lab_that_is_up_is_asked(lab_files, asked, monkeypatch):
    monkeypatch.setattr(everywhere.virtual, "is_up", lambda lab: True)
    calls = asked(bench1="Connection timed out")
    described = with_virtual(inventory.examine(lab_files.write())[0], "bench1")
    [one] = everywhere.examine(described, ["bench1"])
    assert one.text == "cannot be asked: Connection timed out"
    assert len(calls) == 1


def test_a_member_that_its_volume_holds(seen):
    one = seen(facts(problems={"hdd-1": "/dev/sda is in use: dm-0 holds sda"}))
    arrays = {"pair": Array(level="lvm-linear", members=["hdd-1", "hdd-2"])}
    volume = dataclasses.replace(one, spec=one.spec.model_copy(update={"arrays": arrays}))
    [found] = hosts.examine(volume)
    assert (found.severity, found.check) == (NOTE, "drives")
    assert "vgremove joulerig_pair" in found.remedy
