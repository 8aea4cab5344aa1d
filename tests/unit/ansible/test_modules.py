# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules as Ansible calls them: through main, on a fake host, with fake tools."""

import contextlib
import json
import pathlib
import re
import shutil
import socket
import struct
import threading

import joulerig_array
import joulerig_drives
import joulerig_kernel
import joulerig_memory_drives
import joulerig_nvdimm
import joulerig_packages
import joulerig_run
import pytest
from ansible.module_utils.testing import patch_module_args

from ansible.module_utils.joulerig import limits, paths, tools
from ansible.module_utils.joulerig.changes import record
from ansible.module_utils.joulerig.drives import ownership, wipe_lease
from ansible.module_utils.joulerig.host_lock import HostLock
from ansible.module_utils.joulerig.runs import one_run

GIB = 1 << 30


def call(module, capsys, **arguments):
    """What a module's main answers to these arguments."""
    with patch_module_args(arguments), pytest.raises(SystemExit):
        module.main()
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def host(fake, monkeypatch):
    """The fake host is what the modules find where no other is named."""
    fake.stand_in(monkeypatch)
    return fake


def declared(number, **more):
    return {"interface": "hdd", "serial": f"HDD-{number}", "wwn": None, "size_bytes": GIB, **more}


DRIVES = {"hdd-1": declared(1), "hdd-2": declared(2)}


# --- joulerig_drives


def test_drives_that_are_as_declared(host, capsys):
    host.disk("sda", "HDD-1", vpd=True)
    answer = call(joulerig_drives, capsys, drives={"hdd-1": declared(1)})
    assert not answer.get("failed")
    assert answer["changed"] is False
    assert answer["found"]["hdd-1"]["device"] == "/dev/sda"


def test_a_drive_that_is_missing(host, capsys):
    host.disk("sda", "HDD-1", vpd=True)
    answer = call(joulerig_drives, capsys, drives=DRIVES)
    assert answer["failed"]
    assert answer["msg"] == "hdd-2: no drive with serial 'HDD-2' on this host; present: HDD-1"
    assert list(answer["found"]) == ["hdd-1"]


FAST = {"interface": "nvme", "serial": "SERIAL-A", "size_bytes": GIB}


@pytest.mark.parametrize("other", [("HDD-9", GIB), ("HDD-1", 2 * GIB)])
def test_a_drive_that_itself_reports_something_else_than_the_kernel(host, capsys, other):
    host.disk("sda", "HDD-1", vpd=True)
    host.calls.identities["sda"] = other
    answer = call(joulerig_drives, capsys, drives={"hdd-1": declared(1)})
    assert answer["failed"]
    assert f"the drive itself reports serial {other[0]!r}, {other[1]} bytes; the inventory" in answer["msg"]


@pytest.mark.parametrize(("name", "spec"), [("sda", declared(1)), ("nvme0n1", FAST)])
def test_a_drive_that_does_not_identify_itself(host, capsys, name, spec):
    host.disk(name, spec["serial"], vpd=name == "sda")
    host.calls.identities[name] = None
    answer = call(joulerig_drives, capsys, drives={"one": spec})
    assert f"/dev/{name}: does not identify itself: " in answer["msg"]


def test_an_emulated_disk_is_not_asked_for_its_serial(host, capsys):
    base = host.device("sda", place="devices/pseudo_0/adapter0/host7/target7:0:0/7:0:0:0/block/sda")
    host.put(base / "device/vpd_pg80", b"\x00\x80\x00\x00")
    host.calls.identities["sda"] = ("made up at this load", GIB)
    answer = call(joulerig_drives, capsys, drives={"ehdd-0": declared(0, serial="scsi_debug-0")})
    assert answer["found"]["ehdd-0"]["device"] == "/dev/sda"


def test_an_nvme_drive_is_found_whatever_version_of_a_tool_there_is(host, tool, capsys):
    host.disk("nvme0n1", "SERIAL-A")
    calls = [tool(name, "echo '{}'; exit 1") for name in ("nvme", "smartctl")]
    assert not call(joulerig_drives, capsys, drives={"fast": FAST}).get("failed")
    assert not any(one.exists() for one in calls)


def test_paths_and_protection_information_of_a_drive_are_kept(host, capsys):
    real = host.disk("nvme0n1", "SERIAL-A")
    host.put(real / "integrity/format", "T10-DIF-TYPE1-CRC\n")
    host.path_of("nvme0n1", "nvme0c0n1")
    found = call(joulerig_drives, capsys, drives={"fast": FAST})["found"]["fast"]
    assert (found["paths"], found["protection"]) == (["nvme0c0n1"], "T10-DIF-TYPE1-CRC")


# --- joulerig_packages


@pytest.fixture
def distribution(host, tool, tmp_path, monkeypatch):
    """Return distribution(OS_RELEASE): a host of it, which has fio and no record of changes."""
    monkeypatch.setattr(paths, "STATE", str(tmp_path / "state"))
    monkeypatch.setattr(paths, "ETC", str(host.etc))

    def make(text):
        host.put(host.etc / "os-release", text)
        tool("dpkg-query", "echo 'fio installed'; exit 1")
        tool("rpm", "echo fio; echo 'package chrony is not installed'; exit 1")

    return make


DEBIAN, FEDORA = "ID=debian\n", 'ID=fedora\nVERSION_ID="43"\n'
ALMA = 'ID="almalinux"\nID_LIKE="rhel centos fedora"\n'
LEAP = 'ID="opensuse-leap"\nID_LIKE="suse opensuse"\n'
POLICY = "printf 'chrony:\\n  Installed: (none)\\n  Candidate: 4.3\\n'"


def test_an_optional_package_that_the_host_cannot_have_is_not_installed(distribution, tool, capsys):
    distribution(DEBIAN)
    tool("apt-cache", POLICY)
    apt = tool("apt-get", 'test "$1" = --simulate || echo')
    answer = call(joulerig_packages, capsys, required=["fio", "chrony"], optional=["reiserfsprogs"])
    assert (answer["installed"], answer["lacking"]) == (["chrony"], ["reiserfsprogs"])
    assert answer["changed"] is True
    assert apt.read_text().splitlines()[-1].endswith(" install chrony")


def test_what_is_there_is_not_installed_again(distribution, tool, capsys):
    distribution(DEBIAN)
    apt = tool("apt-get", "")
    assert call(joulerig_packages, capsys, required=["fio"])["changed"] is False
    assert not apt.exists()


def test_without_a_package_that_each_run_needs_nothing_is_installed(distribution, tool, capsys):
    distribution(DEBIAN)
    tool("apt-cache", "true")
    apt = tool("apt-get", "")
    answer = call(joulerig_packages, capsys, required=["fio", "chrony"], optional=["reiserfsprogs"])
    assert answer["failed"]
    assert answer["msg"] == "this host's distribution has no chrony, which each run needs"
    assert not apt.exists()


@pytest.mark.parametrize(
    ("text", "tool_name", "known", "installed", "lacking"),
    [
        (FEDORA, "dnf", "chrony btrfs-progs nilfs-utils", ["chrony", "btrfs-progs", "nilfs-utils"], []),
        (ALMA, "dnf", "chrony", ["chrony"], ["btrfs-progs", "nilfs-tools"]),
        (LEAP, "zypper", "chrony btrfsprogs", ["chrony", "btrfsprogs"], ["nilfs-tools"]),
    ],
)
def test_packages_have_the_names_of_the_hosts_distribution(
    distribution, tool, capsys, text, tool_name, known, installed, lacking
):
    distribution(text)
    found = [f'<solvable status=not kind=package name=\\"{name}\\"/>' for name in known.split()]
    lines = found if tool_name == "zypper" else known.split()
    asked = tool(
        tool_name, 'case "$*" in *install*) ;; *) ' + "; ".join(f'echo "{one}"' for one in lines) + ";; esac"
    )
    answer = call(
        joulerig_packages, capsys, required=["fio", "chrony"], optional=["btrfs-progs", "nilfs-tools"]
    )
    assert (answer["installed"], answer["lacking"]) == (installed, lacking)
    assert asked.read_text().splitlines()[-1].endswith(" ".join(installed))
    assert record.Record().before(record.PACKAGE) == {name: {"installed": False} for name in installed[::-1]}


@pytest.mark.parametrize(
    ("text", "family", "service"),
    [
        (DEBIAN, "debian", "chrony.service"),
        ("ID=ubuntu\nID_LIKE=debian\n", "debian", "chrony.service"),
        ("ID=linuxmint\nID_LIKE=ubuntu\n", "debian", "chrony.service"),
        (FEDORA, "fedora", "chronyd.service"),
        (ALMA, "rhel", "chronyd.service"),
        (LEAP, "suse", "chronyd.service"),
        ("ID=arch\n", "", "chronyd.service"),
    ],
)
def test_roles_learn_what_a_distribution_calls_its_time_service(distribution, capsys, text, family, service):
    distribution(text)
    found = call(joulerig_packages, capsys)["ansible_facts"]["joulerig_distribution"]
    assert (found["family"], found["time_service"]) == (family, service)


# --- joulerig_array


@pytest.fixture
def pair(host):
    host.disk("sda", "HDD-1", vpd=True)
    host.disk("sdb", "HDD-2", vpd=True)
    return host


def array(capsys, **more):
    arguments = {"name": "pair", "level": "raid0", "members": ["hdd-1", "hdd-2"], "drives": DRIVES, **more}
    return call(joulerig_array, capsys, **arguments)


def test_an_existing_array_is_left_unchanged(pair, tool, capsys):
    calls = tool("mdadm", "")
    pair.array("pair", "md127", ["sda", "sdb"])
    assert array(capsys)["changed"] is False
    assert not calls.exists()


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ({"level": "raid10"}, "is raid10, the inventory says raid0"),
        ({"chunk_size": "524288"}, "has chunks of 512 KiB, the inventory says 64"),
    ],
)
def test_an_array_that_is_another_one_is_refused(pair, tool, capsys, there, expected):
    calls = tool("mdadm", "")
    pair.array("pair", "md127", ["sda", "sdb"], **there)
    answer = array(capsys)
    assert answer["failed"]
    assert expected in answer["msg"]
    assert not calls.exists()


def test_an_array_of_other_members_is_refused(pair, tool, capsys):
    pair.disk("sdc", "HDD-3", vpd=True)
    pair.array("pair", "md127", ["sda", "sdc"])
    assert "has other members than the inventory: sda, sdc" in array(capsys)["msg"]


def test_a_member_that_is_not_declared(pair, capsys):
    assert (
        "member 'hdd-7' is no declared drive; allowed: hdd-1, hdd-2"
        in array(capsys, members=["hdd-1", "hdd-7"])["msg"]
    )


def test_check_mode_reports_what_it_would_do(pair, tool, capsys):
    calls = tool("mdadm", "")
    assert array(capsys, _ansible_check_mode=True)["changed"] is True
    assert not calls.exists()


def test_a_new_array_is_made_of_the_leased_devices(pair, tool, capsys, monkeypatch):
    reads = 'for word in "$@"; do readlink $word; done > $0.got; mv $0.got "$CALLS.got"'
    calls = tool("mdadm", f"{reads}; touch {pair.dev}/md/pair")
    monkeypatch.setenv("CALLS", str(calls))
    answer = array(capsys, level="raid10", chunk_kib=128)
    assert answer["changed"] is True
    words = calls.read_text().split()
    assert words[:2] == ["--create", "/dev/md/pair"]
    assert {"--level=raid10", "--chunk=128", "--raid-devices=2"} <= set(words)
    assert all(word.startswith("/proc/self/fd/") for word in words[-2:])
    assert pathlib.Path(f"{calls}.got").read_text().split() == [str(pair.dev / "sda"), str(pair.dev / "sdb")]


def test_no_array_is_made_when_one_member_is_in_use(pair, tool, capsys):
    calls = tool("mdadm", "")
    pair.mount("/dev/sdb", "/srv", pair.number("sdb"))
    answer = array(capsys)
    assert answer["failed"]
    assert "hdd-2: /dev/sdb is mounted at /srv" in answer["msg"]
    assert not calls.exists()


@pytest.mark.parametrize(
    ("level", "clean", "chunks"),
    [
        ("linear", False, False),
        ("raid0", False, True),
        ("raid1", True, False),
        ("raid10", True, True),
        ("raid5", True, True),
    ],
)
def test_a_new_array_with_redundancy_is_made_clean(pair, tool, capsys, level, clean, chunks):
    """Else its first resync would run during the first campaign."""
    calls = tool("mdadm", f"touch {pair.dev}/md/pair")
    assert array(capsys, level=level)["changed"] is True
    words = calls.read_text().split()
    assert ("--assume-clean" in words) == clean
    assert ("--chunk=64" in words) == chunks


def test_a_level_that_the_kernel_lacks_is_said(pair, tool, capsys):
    """Linux 6.8 to 6.13 have no linear arrays."""
    pair.put(pair.proc / "mdstat", "Personalities : [raid0] \nunused devices: <none>\n")
    calls, loads = tool("mdadm", ""), tool("modprobe", "exit 1")
    answer = array(capsys, level="linear")
    assert (answer["failed"], answer["msg"]) == (True, "pair: this kernel has no md arrays of level linear")
    assert loads.read_text() == "--quiet md-linear\n"
    assert not calls.exists()


def test_a_member_in_use_is_said_before_what_the_kernel_lacks(pair, tool, capsys):
    """A refusal names the danger, on every kernel."""
    pair.put(pair.proc / "mdstat", "Personalities : \nunused devices: <none>\n")
    calls, _loads = tool("mdadm", ""), tool("modprobe", "exit 1")
    pair.mount("/dev/sdb", "/srv", pair.number("sdb"))
    assert "hdd-2: /dev/sdb is mounted at /srv" in array(capsys)["msg"]
    assert not calls.exists()


def mapped(host, kernel_name, members, path, **attributes):
    """A device of the device mapper, with the link that its tool makes."""
    real = host.device(kernel_name)
    for member in members:
        host.hold(kernel_name, member)
    for key, value in attributes.items():
        host.put(real / "dm" / key, value + "\n")
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(host.dev / kernel_name)


STRIPED = "0 4194304 striped 2 128 8:16 2048 8:0 2048"


def test_a_volume_of_lvm_is_made_over_the_leased_devices(pair, tool, capsys):
    made = pair.dev / "joulerig_pair/array"
    calls = [tool("pvcreate", ""), tool("vgcreate", "")]
    calls.append(tool("lvcreate", f"mkdir -p {made.parent}; touch {pair.dev}/dm-3; ln -s ../dm-3 {made}"))
    assert array(capsys, level="lvm-striped", chunk_kib=128)["changed"] is True
    first, second = f"{pair.dev}/sda", f"{pair.dev}/sdb"
    config = "--config devices { use_devicesfile = 0 }"
    volumes, *others = [one.read_text().strip() for one in calls]
    uuid = "-".join(f"[0-9a-f]{{{digits}}}" for digits in (6, 4, 4, 4, 4, 4, 6))
    options = f"{config} --yes --force --norestorefile --uuid {uuid}"
    assert re.fullmatch(f"{options} {first}\n{options} {second}", volumes)
    assert others == [
        f"{config} --yes joulerig_pair {first} {second}",
        f"{config} --yes --wipesignatures y --extents 100%FREE --name array --stripes 2 --stripesize 128k"
        " joulerig_pair",
    ]
    assert (pair.dev / "joulerig/pair").readlink() == pathlib.Path("../dm-3")


def test_a_volume_that_is_there_is_left_unchanged_and_linked(pair, tool, capsys):
    tool("dmsetup", f"echo '{STRIPED}'")
    calls = tool("lvcreate", "")
    mapped(pair, "dm-3", ["sda", "sdb"], pair.dev / "joulerig_pair/array", name="joulerig_pair-array")
    assert array(capsys, level="lvm-striped")["changed"] is False
    assert not calls.exists()
    assert (pair.dev / "joulerig/pair").resolve() == pair.dev / "dm-3"


@pytest.mark.parametrize(
    ("level", "chunk", "expected"),
    [
        ("lvm-linear", 64, "is striped, the inventory says lvm-linear"),
        ("lvm-striped", 128, "has stripes of 64 KiB, the inventory says 128"),
    ],
)
def test_a_volume_that_is_another_one_is_refused(pair, tool, capsys, level, chunk, expected):
    tool("dmsetup", f"echo '{STRIPED}'")
    mapped(pair, "dm-3", ["sda", "sdb"], pair.dev / "joulerig_pair/array", name="joulerig_pair-array")
    assert expected in array(capsys, level=level, chunk_kib=chunk)["msg"]


def test_a_volume_of_other_members_is_refused(pair, tool, capsys):
    pair.disk("sdc", "HDD-3", vpd=True)
    mapped(pair, "dm-3", ["sda", "sdc"], pair.dev / "joulerig_pair/array", name="joulerig_pair-array")
    assert "has other members than the inventory: sda, sdc" in array(capsys, level="lvm-linear")["msg"]


def test_a_host_without_the_tools_of_an_array(pair, capsys, monkeypatch, tmp_path):
    (tmp_path / "wipefs").symlink_to(shutil.which("wipefs"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert array(capsys, level="lvm-linear")["msg"] == "pair: lvcreate: not found on this host"
    assert "cryptsetup: not found" in array(capsys, level="crypt", members=["hdd-1"])["msg"]


def test_a_drive_is_encrypted_with_a_key_that_nothing_keeps(pair, tool, capsys):
    made = pair.dev / "mapper/joulerig_pair"
    script = f"""for word in "$@"; do [ -f "$word" ] && stat -c "%s %a" $word >> $0.keys; done
    [ $1 = open ] && mkdir -p {made.parent} && touch {pair.dev}/dm-0 && ln -s ../dm-0 {made}; true"""
    calls = tool("cryptsetup", script)
    assert array(capsys, level="crypt", members=["hdd-1"])["changed"] is True
    formatted, opened = calls.read_text().splitlines()
    assert formatted.startswith("luksFormat --batch-mode --type luks2 --cipher aes-xts-plain64")
    assert formatted.endswith(f" {pair.dev}/sda")
    assert opened.endswith(f" {pair.dev}/sda joulerig_pair")
    key = pathlib.Path(opened.split()[4])
    assert not key.exists()
    [bin_folder] = {calls.parent / "bin"}
    assert (bin_folder / "cryptsetup.keys").read_text().splitlines()[:1] == ["64 600"]
    assert (pair.dev / "joulerig/pair").readlink() == pathlib.Path("../dm-0")


def test_the_resync_of_an_existing_array_is_awaited(pair, tool, capsys, monkeypatch):
    pair.array("pair", "md127", ["sda", "sdb"], level="raid10", sync_action="resync", resync_start="0")
    md = (pair.sys / "block/md127").resolve() / "md"
    waited = []

    def end(seconds):
        waited.append(seconds)
        pair.put(md / "sync_action", "idle\n")
        pair.put(md / "resync_start", "none\n")

    monkeypatch.setattr(joulerig_array.time, "sleep", end)
    assert array(capsys, level="raid10")["changed"] is True
    assert waited == [1]
    assert array(capsys, level="raid10")["changed"] is False


def test_a_resync_that_waits_for_the_first_write_is_begun(pair, tool, capsys, monkeypatch):
    pair.array(
        "pair", "md127", ["sda", "sdb"], level="raid10", array_state="read-auto", sync_action="idle",
        resync_start="0",
    )  # fmt: skip
    start = (pair.sys / "block/md127").resolve() / "md/resync_start"
    calls = tool("mdadm", f"echo none > {start}")
    assert array(capsys, level="raid10")["changed"] is True
    assert calls.read_text() == f"--readwrite {pair.dev}/md127\n"


def test_a_resync_that_does_not_end_fails_with_its_progress(pair, tool, capsys, monkeypatch):
    monkeypatch.setattr(limits, "WHOLE", limits.Work(0.0, 0.0))
    pair.array(
        "pair", "md127", ["sda", "sdb"], level="raid10", sync_action="resync", sync_completed="5 / 90",
        resync_start="5",
    )  # fmt: skip
    answer = array(capsys, level="raid10")
    assert answer["failed"]
    assert "is still at its resync after 0 s (sectors: 5 / 90)" in answer["msg"]


def test_an_array_of_real_drives_is_never_taken_down(pair, tool, capsys):
    calls = tool("mdadm", "")
    pair.array("pair", "md127", ["sda", "sdb"])
    assert array(capsys, state="absent")["changed"] is False
    assert not calls.exists()


@pytest.fixture
def played(host):
    """An array of two emulated disks, with the arguments that declare it."""
    for number, name in enumerate(("sda", "sdb")):
        place = f"devices/pseudo_0/adapter{number}/host7/target7:0:0/7:0:0:0/block/{name}"
        host.device(name, place=place)
        host.put((host.sys / "block" / name / "device/x").resolve(), "")
    host.array("pair", "md127", ["sda", "sdb"])
    specs = {f"hdd-{n + 1}": {**declared(n + 1), "serial": f"scsi_debug-{n}"} for n in (0, 1)}
    return host, {"state": "absent", "drives": specs}


def test_an_array_of_emulated_disks_is_taken_down(played, tool, capsys):
    host, arguments = played
    base = f"{host.sys}/class/block"
    calls = tool("mdadm", f"[ $1 != --stop ] || rmdir {base}/sda/holders/md127 {base}/sdb/holders/md127")
    assert array(capsys, **arguments)["changed"] is True
    assert calls.read_text().splitlines() == [
        f"--stop {host.dev}/md127", f"--zero-superblock {host.dev}/sda", f"--zero-superblock {host.dev}/sdb"
    ]  # fmt: skip


def test_a_disk_of_an_array_that_was_taken_down_is_still_the_rigs(played, tool, capsys):
    """Without its superblock it holds data without a signature, as foreign ones do."""
    host, arguments = played
    base = f"{host.sys}/class/block"
    script = f"[ $1 != --stop ] || rmdir {base}/sda/holders/md127 {base}/sdb/holders/md127"
    tool("mdadm", f"{script}; [ $1 != --zero-superblock ] || echo what the array held > $2")
    array(capsys, **arguments)
    spec = {"name": "hdd-1", **arguments["drives"]["hdd-1"]}
    assert (host.dev / "sda").read_text() == "what the array held\n"
    with wipe_lease.lease_drive(spec, host.system()):
        pass


def test_an_array_of_emulated_disks_in_use_is_left(played, tool, capsys):
    host, arguments = played
    calls = tool("mdadm", "")
    host.mount("/dev/md127", "/srv", host.number("md127"))
    answer = array(capsys, **arguments)
    assert "pair: /dev/md127 is mounted at /srv" in answer["msg"]
    assert not calls.exists()


def test_an_array_of_emulated_disks_that_is_gone_already(host, tool, capsys):
    specs = {f"hdd-{n + 1}": {**declared(n + 1), "serial": f"scsi_debug-{n}"} for n in (0, 1)}
    assert array(capsys, state="absent", drives=specs)["changed"] is False


# --- joulerig_memory_drives

RAM = {"ram": {"interface": "ram", "serial": "ram0", "size_bytes": GIB}}


@pytest.fixture
def brd(host, tool):
    """A host with room; modprobe loads and unloads as the kernel would, and its calls are kept."""
    host.put(host.proc / "meminfo", "MemAvailable: 4194304 kB\n")
    host._numbers["ram0"] = "1:0"
    host.device("ram0")
    place = host.sys / "module/brd"
    tool("udevadm", "")
    calls = tool(
        "modprobe",
        f"if [ $1 = --remove ]; then rm -r {place}; else mkdir -p {place}/parameters; "
        f"echo 1 > {place}/parameters/rd_nr; echo 1048576 > {place}/parameters/rd_size; fi",
    )
    return host, calls


def test_drives_of_memory_are_made_once(brd, capsys):
    _, calls = brd
    answer = call(joulerig_memory_drives, capsys, drives=RAM)
    assert (answer["changed"], answer["modules"]) == (True, ["brd"])
    assert call(joulerig_memory_drives, capsys, drives=RAM)["changed"] is False
    assert calls.read_text() == "brd rd_nr=1 rd_size=1048576\n"


def test_drives_of_memory_are_taken_away_once(brd, capsys):
    _, calls = brd
    call(joulerig_memory_drives, capsys, drives=RAM)
    assert call(joulerig_memory_drives, capsys, drives=RAM, state="absent")["changed"] is True
    assert call(joulerig_memory_drives, capsys, drives=RAM, state="absent")["changed"] is False
    assert calls.read_text().splitlines()[1:] == ["--remove brd"]


def test_a_drive_of_memory_in_use_is_left(brd, capsys):
    host, calls = brd
    call(joulerig_memory_drives, capsys, drives=RAM)
    host.mount("/dev/ram0", "/srv", host.number("ram0"))
    answer = call(joulerig_memory_drives, capsys, drives=RAM, state="absent")
    assert "ram: /dev/ram0 is mounted at /srv" in answer["msg"]
    assert "--remove" not in calls.read_text()


def test_check_mode_makes_no_drive_of_memory(brd, capsys):
    _, calls = brd
    assert call(joulerig_memory_drives, capsys, drives=RAM, _ansible_check_mode=True)["changed"] is True
    assert not calls.exists()


def test_a_module_that_is_not_ours_is_left(brd, capsys):
    host, calls = brd
    host.put(host.sys / "module/brd/parameters/rd_size", "16384\n")
    for state in ("present", "absent"):
        answer = call(joulerig_memory_drives, capsys, drives=RAM, state=state)
        assert "brd is loaded with rd_size=16384, the inventory says 1048576" in answer["msg"]
    assert not calls.exists()


def test_seeks_of_a_multipath_drive_are_not_counted_as_none(host):
    host.disk("nvme0n1", "SERIAL-A")
    host.path_of("nvme0n1", "nvme0c0n1")
    with one_run._seeks({"seeks": True}, {"fast": ("nvme0n1", "nvme")}) as seeks:
        assert seeks is None


# --- joulerig_nvdimm

NVDIMM = {"name": "nvdimm", "interface": "nvdimm", "serial": "8680-1", "size_bytes": GIB}


def ndctl(host, tool, *namespaces, creates="true"):
    host.region("region0", "8680-1")
    region = {"dev": "region0", "size": GIB, "mappings": [{"dimm": "nmem0"}], "namespaces": list(namespaces)}
    listing = json.dumps({"regions": [region]})
    return tool("ndctl", f"if [ $1 = list ]; then echo '{listing}'; else {creates}; fi")


def created(calls):
    return [line for line in calls.read_text().splitlines() if line.startswith("create-namespace")]


def test_a_correct_namespace_is_left_unchanged(host, tool, capsys):
    calls = ndctl(host, tool, {"dev": "namespace0.0", "mode": "fsdax", "blockdev": "pmem0"})
    answer = call(joulerig_nvdimm, capsys, nvdimm=NVDIMM)
    assert (answer["changed"], answer["blockdev"]) == (False, "pmem0")
    assert created(calls) == []


def test_a_namespace_is_made_where_there_is_none(host, tool, capsys):
    calls = ndctl(host, tool)
    assert call(joulerig_nvdimm, capsys, nvdimm=NVDIMM)["changed"] is True
    assert created(calls) == ["create-namespace --mode=fsdax --region=region0"]


def raw_namespace(host, tool, creates):
    """A raw namespace with text on it, which `creates` (shell) makes an fsdax one of."""
    ndctl(host, tool, {"dev": "namespace0.0", "mode": "raw", "blockdev": "pmem0"}, creates=creates)
    tool("wipefs", "true")
    host.device("pmem0", place="devices/ndbus0/region0/namespace0.0/block/pmem0")
    host.put(host.dev / "pmem0", "of the raw one")


def adopted_nvdimm():
    """Release what is on the NVDIMM, as a person does who looked at it."""
    lease = wipe_lease.lease_drive(NVDIMM)
    lease.adopt(lease.look()["identity"])


def test_a_change_of_a_namespace_is_recorded_before_and_its_content_after_it(host, tool, capsys):
    kept, device = host.sys.parent / "meanwhile.json", host.dev / "pmem0"
    raw_namespace(host, tool, f"cp {paths.DRIVES} {kept}; printf 'of the new one' > {device}")
    adopted_nvdimm()
    assert call(joulerig_nvdimm, capsys, nvdimm=NVDIMM)["changed"] is True
    assert set(json.loads(kept.read_text())["drives"]["8680-1"]) == {"changing"}
    assert set(ownership.Record().entry("8680-1")) == {"made"}
    with wipe_lease.lease_drive(NVDIMM):
        pass  # what the rig left there may be wiped
    device.write_text("of a person")
    with pytest.raises(tools.Refused, match="which this rig did not make"), wipe_lease.lease_drive(NVDIMM):
        pass


def test_a_namespace_that_could_not_be_made_stays_as_it_was_and_the_rigs(host, tool, capsys):
    raw_namespace(host, tool, "echo 'libndctl: busy' >&2; exit 1")
    adopted_nvdimm()
    assert call(joulerig_nvdimm, capsys, nvdimm=NVDIMM)["msg"] == "ndctl: exit 1: libndctl: busy"
    assert set(ownership.Record().entry("8680-1")) == {"changing"}
    with wipe_lease.lease_drive(NVDIMM):
        pass


def test_a_raw_namespace_that_is_mounted_is_not_touched(host, tool, capsys):
    calls = ndctl(host, tool, {"dev": "namespace0.0", "mode": "raw", "blockdev": "pmem0"})
    host.device("pmem0", place="devices/ndbus0/region0/namespace0.0/block/pmem0")
    host.mount("/dev/pmem0", "/mnt", host.number("pmem0"))
    answer = call(joulerig_nvdimm, capsys, nvdimm=NVDIMM)
    assert "pmem0 is mounted at /mnt" in answer["msg"]
    assert created(calls) == []


def test_a_namespace_whose_use_is_unknown_is_not_touched(host, tool, capsys):
    calls = ndctl(host, tool, {"dev": "namespace0.0", "mode": "devdax", "chardev": "dax0.0"})
    assert "mode 'devdax'" in call(joulerig_nvdimm, capsys, nvdimm=NVDIMM)["msg"]
    assert created(calls) == []


@pytest.mark.parametrize("listed", ["", "[]", '{"regions": []}', '[{"dev": "region1"}]'])
def test_a_region_that_ndctl_does_not_list(host, tool, capsys, listed):
    host.region("region0", "8680-1")
    tool("ndctl", f"echo '{listed}'")
    assert "ndctl does not list region0" in call(joulerig_nvdimm, capsys, nvdimm=NVDIMM)["msg"]


# --- joulerig_kernel


def test_a_kernel_is_looked_at_and_started(tool, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "RUN_LOCK", str(tmp_path / "run.lock"))
    monkeypatch.setattr(joulerig_kernel, "PATIENCE_SECONDS", 0.0)
    tool("systemctl", "echo running")
    later = tool("systemd-run", "")
    reported = call(joulerig_kernel, capsys, settled=True)
    assert (reported["status"], reported["changed"]) == ("ok", False)
    assert set(reported["kernel"]) == {"release", "tick_hertz", "boot_id", "of_rig"}
    assert not later.exists()
    tool("systemctl", "echo starting; exit 1")  # some host never comes to an end with it
    assert call(joulerig_kernel, capsys)["status"] == "ok"
    reported = call(joulerig_kernel, capsys, start=True, release="6.1.1-none-such")
    assert (reported["status"], reported["changed"]) == ("not-run", False)
    assert "no vmlinuz and no initrd" in reported["reason"]
    reported = call(joulerig_kernel, capsys, start=True)
    assert (reported["status"], reported["changed"]) == ("ok", True)
    assert later.read_text().endswith("systemctl reboot\n")


def test_a_kernel_is_not_started_under_a_run(tool, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "RUN_LOCK", str(tmp_path / "run.lock"))
    monkeypatch.setattr(joulerig_kernel, "PATIENCE_SECONDS", 0.0)
    later = tool("systemd-run", "")
    with HostLock():
        reported = call(joulerig_kernel, capsys, start=True)
    assert (reported["status"], reported["cause"], reported["changed"]) == ("not-run", "busy", False)
    assert not later.exists()


# --- joulerig_run


@pytest.fixture
def rig(pair, tool, monkeypatch, tmp_path):
    """A host on which a run succeeds: files play the kernel, scripts the tools."""
    for name in ("sda", "sdb"):
        pair.put(pair.sys / "block" / name / "queue/scheduler", "none [mq-deadline] bfq\n")
        pair.put(pair.sys / "block" / name / "queue/write_cache", "write back\n")
        pair.put(pair.sys / "block" / name / "queue/iostats", "1\n")
        pair.put(pair.sys / "block" / name / "stat", "1 0 8 0 1 0 8 0 0 0 0 0 0 0 0 1 0\n")
    monkeypatch.setattr(one_run, "MOUNT_POINT", str(tmp_path / "mnt"))
    monkeypatch.setattr(one_run.filesystem, "check", lambda definition: None)
    monkeypatch.setattr(one_run.pagecache, "drop", lambda folder: {"pages_cached": 0})
    monkeypatch.setattr(one_run.pagecache, "look", lambda folder: {"pages_cached": 7})
    monkeypatch.setattr(
        one_run.offset,
        "measure",
        lambda server: {"at_ns": 1, "offset_ns": 0, "error_ns": 1, "exchanges": 1},
    )
    mounted = []

    def mount(undo, lease, *_):
        mounted.append(lease.path)
        undo.callback(mounted.remove, lease.path)
        return "rw,relatime"

    (tmp_path / "mnt").mkdir()

    monkeypatch.setattr(one_run.filesystem, "mount", mount)
    pair.mounted = mounted
    pair.mkfs = tool("mkfs.odd", "")
    tool("smartctl", 'echo \'{"smart_status": {"passed": true}}\'')
    fio(tool)
    return pair


def fio(tool, end="exit 0"):
    tool(
        "fio",
        """[ "$1" != --version ] || exit 0
for word in "$@"; do job=$word; done
for way in prerun postrun; do sed -n "s/^exec_$way=//p" "$job" | sh > /dev/null; done
echo '{'
echo '"jobs": [{"jobname": "j", "error": 0, "read": {"total_ios": 0, "io_bytes": 0},'
echo '"write": {"total_ios": 5, "io_bytes": 20480}}]'
echo '}'
"""
        + end,
    )


def run(capsys, **more):
    arguments = {
        "run": "study-1-0001", "campaign": "study-1", "host": "bench1", "drive": "hdd-1",
        "members": [{"name": "hdd-1", **declared(1)}],
        "filesystem": {"name": "odd", "type": "odd", "mkfs": ["mkfs.odd"], "mount_options": []},
        "scheduler": "bfq", "workload": {"name": "j", "tool": "fio", "job": "[j]\n"},
        "phases": {"rest": 0, "idle": 0, "workload": 1, "tail": 0}, "seed": 1, "clock_server": "127.0.0.1:1",
        "agent_socket": "/nonexistent/iod.sock", **more,
    }  # fmt: skip
    return call(joulerig_run, capsys, **arguments)


def scheduler(host, name="sda"):
    return (host.sys / "block" / name / "queue/scheduler").read_text().strip()


def test_a_run_that_goes_through(rig, capsys):
    answer = run(capsys)
    assert (answer["status"], answer["reason"]) == ("ok", "")
    assert [p["phase"] for p in answer["phases"]] == ["prepare", "setup", "idle", "workload", "tail"]
    assert answer["settings"]["queue"]["scheduler"] == {"before": "mq-deadline", "in_effect": "bfq"}
    assert answer["settings"]["mkfs"] == ["mkfs.odd", str(rig.dev / "sda")]
    assert answer["settings"]["filesystem_size"]["asked"] is None
    assert answer["health"]["before"] == answer["health"]["after"] == {"smart_status": {"passed": True}}
    assert len(answer["clock"]) == 2
    assert answer["report"]["jobs"]


def test_a_pool_is_made_of_leased_drives_and_their_io_adds_up(rig, capsys):
    members = [{"name": name, **spec} for name, spec in DRIVES.items()]
    answer = run(capsys, drive="both", array=True, pool=True, members=members)
    assert (answer["status"], answer["reason"]) == ("ok", "")
    assert rig.mkfs.read_text() == f"{rig.dev / 'sda'} {rig.dev / 'sdb'}\n"
    assert set(answer["made"]) == set(answer["settings"]["queue"]) == set(answer["touched"]) == set(DRIVES)
    assert "array" not in answer["settings"]


def test_no_pool_is_made_when_one_of_its_drives_is_in_use(rig, capsys):
    rig.mount("/dev/sdb", "/srv", rig.number("sdb"))
    members = [{"name": name, **spec} for name, spec in DRIVES.items()]
    answer = run(capsys, drive="both", array=True, pool=True, members=members)
    assert (answer["status"], answer["changed"]) == ("refused", False)
    assert "hdd-2: /dev/sdb is mounted at /srv" in answer["reason"]
    assert not rig.mkfs.exists()


@pytest.fixture
def ata(rig):
    """The host whose drive understands ATA and has advanced power management."""
    words = [0] * 256
    words[82], words[83] = 1 << 3, 1 << 3
    rig.put((rig.sys / "block/sda").resolve() / "device/vendor", "ATA     \n")
    rig.calls.pages["sda"] = (struct.pack("<256H", *words),)
    return rig


def test_how_power_is_managed_is_in_the_settings_of_each_run(ata, capsys):
    power = run(capsys)["settings"]["power"]
    assert power["host"]["processor"]["governors"] == {}
    assert power["drive"] == {
        "apm": None,
        "extended_power": False,
        "link_power": None,
        "pcie_link": {},
        "runtime_pm": {},
    }
    assert ata.calls.orders == []


def test_what_factors_ask_of_a_drive_is_set_recorded_and_put_back(ata, capsys):
    answer = run(capsys, drive_settings=[{"factor": "apm", "level": "128"}])
    assert (answer["status"], answer["reason"]) == ("ok", "")
    assert answer["settings"]["drive_settings"] == {"apm": {"before": "off", "in_effect": "128"}}
    assert answer["settings"]["power"]["drive"]["apm"] == 128
    assert ata.calls.orders == [("sda", 0xEF, 0x05, 128), ("sda", 0xEF, 0x85, 0)]


def test_a_drives_settings_are_put_back_after_a_load_that_failed(ata, tool, capsys):
    fio(tool, end="exit 1")
    assert run(capsys, drive_settings=[{"factor": "apm", "level": "128"}])["status"] == "failed"
    assert ata.calls.orders[-1] == ("sda", 0xEF, 0x85, 0)


def test_a_level_that_a_drive_refuses_is_not_run_and_untouched(ata, capsys):
    ata.calls.refused.add((0xEF, 0x05))
    answer = run(capsys, drive_settings=[{"factor": "apm", "level": "128"}])
    assert (answer["status"], answer["changed"]) == ("not-run", False)
    assert answer["reason"] == "APM 128: /dev/sda: ATA command 0xef: refused (SCSI status 0x2)"
    assert scheduler(ata) == "mq-deadline"
    assert not ata.mkfs.exists()


def test_a_drive_that_cannot_have_a_level_is_not_run_and_untouched(rig, capsys):
    answer = run(capsys, drive_settings=[{"factor": "power_state", "level": "0"}])
    assert (answer["status"], answer["changed"]) == ("not-run", False)
    assert answer["reason"] == (
        "power_state: /dev/sda: is no NVMe drive, and has no power states that a host sets"
    )
    assert not rig.mkfs.exists()


def test_the_last_that_a_run_has_its_agent_do_is_to_count_and_send(rig, capsys, tmp_path):
    path, received = str(tmp_path / "iod.sock"), []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent:
        agent.bind(path)
        agent.settimeout(20)

        def listen():
            while received[-1:] != ["send\n"]:
                received.append(agent.recv(65536).decode())

        listener = threading.Thread(target=listen)
        listener.start()
        run(capsys, agent_socket=path)
        listener.join()
    assert "phase=tail" in received[-2]
    assert "end_ns=" in received[-2]


def test_a_file_system_of_another_size_than_the_campaign_uses_fails_the_run(rig, capsys):
    bounded = {"name": "odd", "type": "odd", "mkfs": ["mkfs.odd"], "mkfs_bounded": ["{device}", "{blocks}"]}
    answer = run(capsys, filesystem={**bounded, "mount_options": []}, use_bytes=1 << 50)
    assert answer["status"] == "failed"
    assert answer["reason"].startswith("odd: was made for 1125899906842624 bytes; mounted, it has room for ")
    assert rig.mkfs.read_text() == f"{rig.dev / 'sda'} {1 << 38}\n"


def test_the_first_bytes_bound_the_time_of_a_layout_but_not_of_mkfs_which_may_discard_all(
    rig, capsys, monkeypatch
):
    given = {}

    def make(lease, definition, journal_lease, seconds, use_bytes, pool):
        given["mkfs"] = seconds
        return {"mkfs": []}

    def surroundings(*all_of_it):
        given["layout"] = all_of_it[-1]
        raise tools.Failed("far enough")

    monkeypatch.setattr(one_run.filesystem, "make", make)
    monkeypatch.setattr(one_run.filesystem, "check_size", lambda *_: {})
    monkeypatch.setattr(one_run.load, "Surroundings", surroundings)
    assert run(capsys, use_bytes=1 << 30)["reason"] == "far enough"
    member = {"name": "hdd-1", **declared(1)}
    assert given["mkfs"] == limits.seconds([member], limits.METADATA)
    assert given["layout"] == limits.seconds([member], limits.WHOLE, 1 << 30)


def test_a_host_that_runs_another_kernel_by_now_is_not_loaded(rig, capsys, monkeypatch):
    monkeypatch.setattr(one_run.platform, "release", lambda: "6.1.0-40-amd64")
    answer = run(capsys, kernel="6.1.1-hz100-a")
    assert answer["status"] == "failed"
    assert answer["reason"] == "the host runs kernel 6.1.0-40-amd64, no longer 6.1.1-hz100-a"
    assert not answer["changed"]
    assert run(capsys, kernel="6.1.0-40-amd64")["status"] == "ok"


def test_everything_is_put_back(rig, capsys):
    run(capsys)
    assert scheduler(rig) == "mq-deadline"
    assert rig.mounted == []


def test_everything_is_put_back_after_a_load_that_failed(rig, tool, capsys):
    fio(tool, "case $job in */load.fio) echo 'fio: no space' >&2; exit 1;; esac")
    answer = run(capsys)
    assert (answer["status"], answer["reason"]) == ("failed", "fio: exit 1: fio: no space")
    assert answer["report"]["jobs"]
    assert [p["phase"] for p in answer["phases"]][-1] == "workload"
    assert scheduler(rig) == "mq-deadline"
    assert rig.mounted == []


def test_a_drive_in_use_is_refused_and_untouched(rig, capsys):
    rig.mount("/dev/sda", "/srv", rig.number("sda"))
    answer = run(capsys)
    assert (answer["status"], answer["reason"]) == ("refused", "hdd-1: /dev/sda is mounted at /srv")
    assert answer["changed"] is False
    assert not rig.mkfs.exists()
    assert scheduler(rig) == "none [mq-deadline] bfq"


@pytest.mark.parametrize(
    "other", [{"serial": "HDD-9"}, {"size_bytes": 2 * GIB}, {"wwn": "naa.5000c500a0000009"}]
)
def test_a_drive_that_is_not_the_declared_one_is_refused_and_untouched(rig, capsys, other):
    answer = run(capsys, members=[{"name": "hdd-1", **declared(1, **other)}])
    assert answer["status"] == "refused"
    assert not rig.mkfs.exists()


def test_a_drive_that_is_exchanged_between_lease_and_mkfs_is_not_wiped(rig, capsys, monkeypatch):
    """The scheduler is set in between: that is where the other drive appears.

    The run has failed: refused is said of a drive on which nothing was changed.
    """
    real = one_run.blockqueue.apply

    def exchange(*arguments, **more):
        rig.put((rig.sys / "block/sda").resolve() / "device/vpd_pg80", b"\x00\x80\x00\x05OTHER")
        return real(*arguments, **more)

    monkeypatch.setattr(one_run.blockqueue, "apply", exchange)
    answer = run(capsys)
    assert answer["status"] == "failed"
    assert "no drive with serial 'HDD-1'" in answer["reason"]
    assert not rig.mkfs.exists()


def test_a_program_whose_package_the_host_lacks_makes_no_run(rig, tool, capsys):
    tool("dpkg-query", "echo 'gcc installed'; exit 1")
    workload = {"name": "mail", "tool": "program", "packages": ["gcc", "postmark"]}
    answer = run(capsys, workload=workload)
    assert (answer["status"], answer["reason"]) == (
        "not-run",
        "mail: needs postmark, which this host has not",
    )
    assert not rig.mkfs.exists()


def test_a_scheduler_the_kernel_lacks_makes_no_run(rig, capsys):
    answer = run(capsys, scheduler="kyber")
    assert answer["status"] == "not-run"
    assert "'kyber' is not available" in answer["reason"]
    assert not rig.mkfs.exists()


def test_mkfs_that_fails(rig, tool, capsys):
    tool("mkfs.odd", "echo 'mkfs.odd: device too small' >&2; exit 1")
    answer = run(capsys)
    assert (answer["status"], answer["reason"]) == ("failed", "mkfs.odd: exit 1: mkfs.odd: device too small")
    assert scheduler(rig) == "mq-deadline"


def test_a_scheduler_that_changes_during_the_load_fails_the_run(rig, tool, capsys):
    fio(tool, f"echo none > {rig.sys}/block/sda/queue/scheduler")
    answer = run(capsys)
    assert answer["status"] == "failed"
    assert "the scheduler changed during the run to 'none'" in answer["reason"]


def test_a_restore_that_fails_is_reported_with_what_it_came_upon(rig, tool, capsys, monkeypatch):
    fio(tool, "echo 'fio: no space' >&2; exit 1")

    def mount(undo, *_):
        def umount():
            raise tools.Failed("umount: target is busy")

        undo.callback(umount)
        return "rw"

    monkeypatch.setattr(one_run.filesystem, "mount", mount)
    answer = run(capsys)
    assert (answer["status"], answer["reason"]) == (
        "failed", "fio: exit 1: fio: no space; then: umount: target is busy",
    )  # fmt: skip


def test_of_an_array_the_members_are_scheduled_and_reported_separately(rig, capsys, monkeypatch):
    """An md device has no own scheduler: its level would be in name only."""
    rig.array("pair", "md127", ["sda", "sdb"])
    rig.put(rig.sys / "block/md127/stat", "1 0 8 0 1 0 8 0 0 0 0\n")
    rig.put(rig.sys / "block/md127/queue/iostats", "1\n")
    during = []
    look = lambda folder: during.append((scheduler(rig, "sda"), scheduler(rig, "sdb")))  # noqa: E731
    monkeypatch.setattr(one_run.pagecache, "drop", look)
    members = [{"name": name, **spec} for name, spec in DRIVES.items()]
    answer = run(capsys, drive="pair", array=True, members=members)
    assert (answer["status"], answer["reason"]) == ("ok", "")
    assert during == [("bfq", "bfq")]
    assert set(answer["settings"]["queue"]) == set(answer["health"]["after"]) == {"hdd-1", "hdd-2"}
    assert answer["settings"]["mkfs"] == ["mkfs.odd", str(rig.dev / "md127")]
    assert scheduler(rig, "sda") == scheduler(rig, "sdb") == "mq-deadline"


def test_an_array_that_begins_a_resync_during_the_load_fails_the_run(rig, tool, capsys):
    rig.array("pair", "md127", ["sda", "sdb"], level="raid10", sync_action="idle", resync_start="none")
    rig.put(rig.sys / "block/md127/stat", "1 0 8 0 1 0 8 0 0 0 0\n")
    rig.put(rig.sys / "block/md127/queue/iostats", "1\n")
    fio(tool, f"echo check > {rig.sys}/block/md127/md/sync_action")
    members = [{"name": name, **spec} for name, spec in DRIVES.items()]
    answer = run(capsys, drive="pair", array=True, members=members)
    assert answer["status"] == "failed"
    assert "during the run: pair: /dev/md127 is busy with 'check'" in answer["reason"]
    assert answer["settings"]["array"]["level"] == "raid10"
    assert answer["settings"]["array"]["resync_start"] == "none"


def test_io_is_counted_in_a_run_on_a_drive_that_does_not_by_default(rig, capsys, monkeypatch):
    iostats = rig.sys / "block/sda/queue/iostats"
    iostats.write_text("0\n")
    during = []
    monkeypatch.setattr(one_run.pagecache, "drop", lambda folder: during.append(iostats.read_text()))
    assert "counters" in run(capsys)
    assert (during, iostats.read_text()) == (["1"], "0")


def test_a_drive_that_counts_no_io_gives_no_counters(rig, capsys):
    """brd: its zeros would say that there was no I/O."""
    rig._numbers["ram0"] = "1:0"
    real = rig.device("ram0")
    rig.put(real / "queue/scheduler", "none\n")
    rig.put(real / "queue/write_cache", "write through\n")
    member = {"name": "ram", "interface": "ram", "serial": "ram0", "size_bytes": GIB}
    answer = run(capsys, drive="ram", members=[member], scheduler="none")
    assert (answer["status"], answer["reason"]) == ("ok", "")
    assert "counters" not in answer


@pytest.mark.parametrize("asked", [False, True])
def test_seeks_are_counted_of_all_drives_of_the_run_where_it_is_asked_for(
    rig, tool, capsys, monkeypatch, asked
):
    class Seeks(contextlib.nullcontext):
        def __init__(self, drives):
            super().__init__(self)
            self.found = {"drives": drives, "lost": 0}

    tool("mkjournal.odd", "")
    fio(tool, "")
    monkeypatch.setattr(one_run.blocktrace, "Seeks", Seeks)
    answer = with_journal(capsys, seeks=asked)
    assert answer["status"] == "ok"
    expected = {"drives": {"hdd-1": "sda", "hdd-2": "sdb"}, "lost": 0} if asked else None
    assert answer.get("seeks") == expected


# --- a run with its journal on another drive

JOURNALED = {
    "name": "odd", "type": "odd", "mkfs": ["mkfs.odd"], "mount_options": [],
    "external_journal": {"make": ["mkjournal.odd", "{journal}"], "mkfs": ["-J", "{journal}"], "mount_options": []},
}  # fmt: skip


def with_journal(capsys, number=2, **more):
    return run(capsys, **{"filesystem": JOURNALED, "journal": {"name": "hdd-2", **declared(number)}, **more})


def test_a_run_with_an_external_journal(rig, tool, capsys, monkeypatch):
    journal = tool("mkjournal.odd", "")
    during = []
    look = lambda folder: during.append((scheduler(rig, "sda"), scheduler(rig, "sdb")))  # noqa: E731
    monkeypatch.setattr(one_run.pagecache, "drop", look)
    counted = f"{rig.sys}/block/sdb/stat"
    fio(tool, f"case $job in */load.fio) echo 1 0 8 0 5 0 88 0 0 0 0 0 0 0 0 3 0 > {counted};; esac")
    answer = with_journal(capsys)
    assert (answer["status"], answer["reason"]) == ("ok", "")
    assert during == [("bfq", "bfq")]
    assert scheduler(rig, "sda") == scheduler(rig, "sdb") == "mq-deadline"
    assert journal.read_text() == f"{rig.dev}/sdb\n"
    assert rig.mkfs.read_text() == f"-J {rig.dev}/sdb {rig.dev}/sda\n"
    assert set(answer["settings"]["queue"]) == set(answer["health"]["after"]) == {"hdd-1", "hdd-2"}
    assert (answer["counters"]["writes"], answer["counters"]["write_bytes"]) == (4, 80 * 512)


def untouched(host, journal):
    return not host.mkfs.exists() and not journal.exists() and "[mq-deadline]" in scheduler(host, "sda")


def test_a_journals_drive_in_use_is_refused_and_nothing_is_touched(rig, tool, capsys):
    journal = tool("mkjournal.odd", "")
    rig.mount("/dev/sdb", "/srv", rig.number("sdb"))
    answer = with_journal(capsys)
    assert (answer["status"], answer["reason"]) == ("refused", "hdd-2: /dev/sdb is mounted at /srv")
    assert untouched(rig, journal)


def test_a_journals_drive_that_is_not_the_declared_one(rig, tool, capsys):
    journal = tool("mkjournal.odd", "")
    answer = with_journal(capsys, number=7)
    assert answer["status"] == "refused"
    assert "no drive with serial 'HDD-7'" in answer["reason"]
    assert untouched(rig, journal)


def test_a_journal_on_the_drive_itself(rig, tool, capsys):
    journal = tool("mkjournal.odd", "")
    answer = with_journal(capsys, number=1)
    assert answer["status"] == "refused"
    assert "hdd-2: is a drive that the file system itself is on" in answer["reason"]
    assert untouched(rig, journal)


def test_a_journal_on_a_member_of_the_array(rig, tool, capsys):
    rig.array("pair", "md127", ["sda", "sdb"])
    journal = tool("mkjournal.odd", "")
    members = [{"name": name, **spec} for name, spec in DRIVES.items()]
    answer = with_journal(capsys, drive="pair", array=True, members=members)
    assert answer["status"] == "refused"
    assert "hdd-2: is a drive that the file system itself is on" in answer["reason"]
    assert untouched(rig, journal)


def test_a_file_system_without_external_journals_makes_no_run_with_one(rig, capsys):
    answer = with_journal(
        capsys, filesystem={"name": "odd", "type": "odd", "mkfs": ["mkfs.odd"], "mount_options": []}
    )
    assert (answer["status"], answer["reason"]) == ("not-run", "odd: has no external journal")
    assert untouched(rig, rig.mkfs)


# --- a run that asks for DAX

DAX = {"name": "odd-dax", "type": "odd", "mkfs": ["mkfs.odd"], "mount_options": ["dax=always"], "dax": True}


def test_a_drive_that_cannot_do_dax_makes_no_run(rig, capsys):
    answer = run(capsys, filesystem=DAX)
    assert (answer["status"], answer["reason"]) == ("not-run", "odd-dax: /dev/sda cannot do DAX")
    assert not rig.mkfs.exists()


def test_dax_that_fell_back_silently_fails_the_run_and_everything_is_put_back(rig, capsys):
    rig.put(rig.sys / "block/sda/queue/dax", "1\n")
    answer = run(capsys, filesystem=DAX)
    assert answer["status"] == "failed"
    assert "odd-dax: mounted, but without DAX" in answer["reason"]
    assert (rig.mounted, scheduler(rig)) == ([], "mq-deadline")


def test_a_missing_argument_is_named(capsys):
    with patch_module_args({"run": "r"}), pytest.raises(SystemExit):
        joulerig_run.main()
    assert "missing required arguments: campaign" in json.loads(capsys.readouterr().out)["msg"]
