# SPDX-License-Identifier: GPL-3.0-or-later
"""Uses of a drive that no loop device can have: trees of files stand for /sys and /proc here.

No SCSI or NVMe drive, no PCI function and no old kernel can be had where these tests run.
tests/integration/ansible/test_hostile_drives.py has the other uses, on real block devices.
"""

import errno
import os
import shutil
import stat

import pytest

from ansible.module_utils.joulerig.drives import usage, wipe_lease
from ansible.module_utils.joulerig.drives.uses import processes
from ansible.module_utils.joulerig.tools import Refused

GIB = 1 << 30
SPEC = {"name": "fast", "interface": "nvme", "serial": "SERIAL-A", "wwn": None, "size_bytes": GIB}
FUNCTION = "devices/pci0000:00/0000:01:00.0"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: device nodes")


@pytest.fixture
def host(fake, monkeypatch):
    """A host with one NVMe drive behind a PCI function, of the kind that has no multipath."""
    fake.stand_in(monkeypatch)
    monkeypatch.setattr(usage, "WRITER_SECONDS", 0.0)
    drive = fake.disk("nvme0n1", "SERIAL-A", place=f"{FUNCTION}/nvme/nvme0")
    controller = drive.parent
    (drive / "device/serial").rename(controller / "serial")
    (drive / "device").rmdir()
    (drive / "device").symlink_to(controller)
    fake.put(controller / "dev", "240:0\n")
    fake.put(controller / "ng0n1/dev", "241:0\n")
    fake.put(controller / "ng0n2/dev", "241:1\n")
    return fake


def take(host):
    with wipe_lease.lease_drive(SPEC, host.system()) as lease:
        return lease.path


def refused(host, *parts):
    with pytest.raises(Refused) as caught:
        take(host)
    for part in parts:
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def process(host, pid, number, *, flags="0100002", kind=stat.S_IFCHR):
    """Let a process hold a device node as descriptor 3."""
    base = host.proc / str(pid)
    host.put(base / "comm", "qemu\n")
    host.put(base / "fdinfo/3", f"pos:\t0\nflags:\t{flags}\n")
    (base / "fd").mkdir()
    node = base / "node"
    os.mknod(node, kind | 0o600, os.makedev(*map(int, number.split(":"))))
    (base / "fd/3").symlink_to(node)


@pytest.mark.parametrize(
    ("number", "node"), [("240:0", "nvme0"), ("241:0", "ng0n1")], ids=["controller", "generic"]
)
@pytest.mark.parametrize("flags", ["0100000", "0100002"], ids=["reading", "writing"])
def test_an_open_character_node(host, number, node, flags):
    """Commands go through it whichever way it was opened."""
    process(host, 77, number, flags=flags)
    refused(host, f"/dev/nvme0n1 is in use as /dev/{node}: qemu (process 77) has it open")


def test_a_process_that_starts_while_others_are_looked_at(host, monkeypatch):
    """It may be the child of one that has ended by then."""
    (host.proc / "76/fd").mkdir(parents=True)
    look = processes.Opened._look_at_mappings

    def start(opened, task):
        if task == "76":
            process(host, 77, "240:0")
        look(opened, task)

    monkeypatch.setattr(processes.Opened, "_look_at_mappings", start)
    refused(host, "qemu (process 77) has it open")


def test_a_process_with_an_odd_name(host):
    process(host, 77, "240:0")
    host.put(host.proc / "77/comm", "two\nlines\x1b[31m\n")
    refused(host, "two?lines?[31m (process 77)")


def test_a_character_node_of_another_namespace(host):
    process(host, 77, "241:1")
    assert take(host)


def test_a_character_node_that_is_only_named(host):
    process(host, 77, "240:0", flags="010000000")  # O_PATH
    assert take(host)


def test_a_controller_of_a_multipath_drive(host, fake):
    """Its device is the subsystem; the controllers are links in there."""
    subsystem = fake.sys / "devices/virtual/nvme-subsystem/nvme-subsys0"
    drive = (fake.sys / "block/nvme0n1").resolve()
    fake.put(subsystem / "serial", "SERIAL-A\n")
    for number in (0, 1):
        fake.put(fake.sys / f"{FUNCTION}/nvme/nvme{number}/dev", f"240:{number}\n")
        (subsystem / f"nvme{number}").symlink_to(fake.sys / f"{FUNCTION}/nvme/nvme{number}")
    (drive / "device").unlink()
    (drive / "device").symlink_to(subsystem)
    process(fake, 77, "240:1")
    refused(host, "is in use as /dev/nvme1")


def test_a_block_device_that_is_open_for_reading(host):
    process(host, 77, host.number("nvme0n1"), flags="0100000", kind=stat.S_IFBLK)
    assert take(host)


def test_a_block_device_that_is_open_for_writing(host):
    process(host, 77, host.number("nvme0n1"), kind=stat.S_IFBLK)
    refused(host, "qemu (process 77) has it open for writing")


@pytest.mark.parametrize(
    ("listing", "found"),
    [
        ("UserFiles:\t1\n    0: nvme0n1\nUserBufs:\t0\n", "in use: database (process 78) has it in an io_uring"),
        ("UserFiles:\t1\n    0: ng0n1\nUserBufs:\t0\n", "in use as /dev/ng0n1: database (process 78) has it in an io_uring"),
        ("UserFiles:\t2\n    0: <none>\n    1: TCP\nUserBufs:\t0\n", ""),
        ("UserFiles:\t1\n    0: data.db\nUserBufs:\t0\n", ""),
        ("UserFiles:\t0\nUserBufs:\t0\n", ""),
        ("UserFiles:\t8\nUserBufs:\t0\n", ""),  # a table that has no file yet
        ("UserFiles:\t1\n    0: /memfd:x\\040(deleted)\nUserBufs:\t0\n", ""),
        ("UserFiles:\t1\n    0: socket:[5]\nUserBufs:\t1\n    0: 0x7f/4096\n", ""),
        ("UserFiles:\t1\n    0: /gone/node\\040(deleted)\n", "has /gone/node (deleted) in an io_uring, which cannot"),
        ("SqMask:\t0x3\n", "uses an io_uring that cannot be looked at"),
    ],
    ids=["named", "its character node", "none of it", "another file", "empty", "sparse", "memory", "socket", "gone", "locked"],
)  # fmt: skip
def test_files_of_an_io_uring(host, monkeypatch, listing, found):
    """Older kernels give a file's name alone."""
    host.put(host.proc / "78/comm", "database\n")
    host.put(host.proc / "78/fdinfo/5", listing)
    (host.proc / "78/fd").mkdir()
    (host.proc / "78/fd/5").symlink_to("/proc/self/fd/99")
    monkeypatch.setattr(processes, "TRY_SECONDS", 0.0)
    readlink, look = os.readlink, os.stat
    anonymous = os.stat_result((stat.S_IRUSR | stat.S_IWUSR, 11, 0, 1, 0, 0, 0, 0, 0, 0))
    monkeypatch.setattr(
        os, "readlink", lambda path, **at: processes.RING if at and path == "5" else readlink(path, **at)
    )
    monkeypatch.setattr(os, "stat", lambda path, **at: anonymous if at and path == "5" else look(path, **at))
    if found:
        refused(host, found)
    else:
        assert take(host)


def test_a_virtual_function_that_a_program_has(host):
    function = host.sys / FUNCTION
    host.put(function / "virtfn0/driver-of/x", "")
    (host.sys / "bus/pci/drivers/vfio-pci").mkdir(parents=True)
    (function / "virtfn0/driver").symlink_to(host.sys / "bus/pci/drivers/vfio-pci")
    refused(host, "is in use: vfio-pci has a virtual function of 0000:01:00.0")


@pytest.mark.parametrize(
    ("override", "is_refused"), [("vfio-pci", True), ("nvme", False), ("(null)", False), ("", False)]
)
def test_a_function_that_is_to_be_a_virtual_machines(host, override, is_refused):
    function = host.sys / FUNCTION
    (host.sys / "bus/pci/drivers/nvme").mkdir(parents=True)
    (function / "driver").symlink_to(host.sys / "bus/pci/drivers/nvme")
    host.put(function / "driver_override", f"{override}\n")
    if is_refused:
        refused(host, "is to be given to vfio-pci: the driver_override of 0000:01:00.0 says so")
    else:
        assert take(host)


@pytest.mark.parametrize(
    ("path", "text"),
    [("etc/libvirt/qemu/guest.xml", "<address domain='0x0000' bus='0x01' slot='0x00' function='0x0'/>"),
     ("etc/pve/qemu-server/100.conf", "hostpci0: 01:00.0,pcie=1"),
     ("etc/driverctl.d/0000:01:00.0", "vfio-pci"),
     ("etc/libvirt/qemu/guest.xml", "<source dev='/dev/ng0n1'/>".replace("/dev", "{dev}")),
     ("etc/tgt/targets.conf", "backing-store {dev}/nvme0n1p1"),
     ("etc/multipath/wwids", "/eui.0025385b71b00001/"),
     ("etc/fstab", "/dev/disk/by-id/nvme-eui.0025385b71b00001-part1 /srv ext4"),
     ("etc/lvm/devices/system.devices", "IDTYPE=sys_wwid IDNAME=eui.0025385b71b00001 DEVNAME=/dev/none")],
)  # fmt: skip
def test_named_by_what_only_a_real_drive_has(host, path, text):
    host.put((host.sys / "block/nvme0n1").resolve() / "wwid", "eui.0025385b71b00001\n")
    host.put(host.etc.parent / path, text.format(dev=host.dev) + "\n")
    with pytest.raises(Refused, match="/dev/nvme0n1 is named in ") as caught:
        usage.check_unnamed([("fast", "nvme0n1", ())], host.system())
    assert path in str(caught.value)


@pytest.mark.parametrize(
    ("path", "text"),
    [("etc/fstab", "/dev/sda1 / ext4\n# {dev}/nvme0n1 /srv ext4\n"),
     ("etc/fstab", "{dev}/nvme0n10 /srv ext4"),
     ("etc/pve/qemu-server/100.conf", "hostpci0: 0001:01:00.0"),
     ("etc/systemd/system/x.service", "ExecStart=/bin/x SERIAL-AB XSERIAL-A"),
     ("etc/smartd.conf", "{dev}/nvme0n1 -a"),
     ("etc/multipath.conf", "blacklist {{ devnode {dev}/nvme0n1 }}"),
     ("etc/lvm/lvm.conf", 'global_filter = [ "r|{dev}/nvme0n1|" ]')],
    ids=["a comment", "a longer name", "another domain", "longer words", "watched", "left out", "filtered out"],
)  # fmt: skip
def test_not_named(host, path, text):
    host.put(host.etc.parent / path, text.format(dev=host.dev) + "\n")
    usage.check_unnamed([("fast", "nvme0n1", ())], host.system())


@pytest.mark.parametrize(
    "text",
    [
        "UUID={}",
        "ARRAY /dev/md0 UUID={}",
        "ARRAY /dev/md0 uuid=colons",
        '"fsid": "{}"',
        "/dev/disk/by-uuid/{}",
    ],
)
def test_named_by_the_uuid_of_what_is_on_it(host, text):
    """An array's UUID has colons in mdadm.conf, at other places."""
    uuid = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
    text = text.replace("colons", "0a1b2c3d:4e5f6071:8293a4b5:c6d7e8f9")
    host.put(host.etc / "fstab", text.format(uuid.replace("-", "") if "ARRAY" in text else uuid.upper()))
    with pytest.raises(Refused, match="is named in"):
        usage.check_unnamed([("fast", "nvme0n1", {uuid})], host.system())


def test_a_link_in_a_tree_that_leads_back(host):
    (host.etc / "libvirt/qemu").mkdir(parents=True)
    (host.etc / "libvirt/qemu/again").symlink_to(host.etc / "libvirt")
    host.put(host.etc / "libvirt/qemu/guest.xml", f"<source dev='{host.dev}/nvme0n1'/>")
    with pytest.raises(Refused, match=r"guest\.xml"):
        usage.check_unnamed([("fast", "nvme0n1", ())], host.system())


def test_a_pipe_among_the_files_is_not_waited_for(host):
    (host.etc / "libvirt").mkdir(parents=True)
    os.mkfifo(host.etc / "libvirt/pipe")
    usage.check_unnamed([("fast", "nvme0n1", ())], host.system())


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("etc/rtslib-fb-target/saveconfig.json", '{{"dev": "{escaped}\\/nvme0n1"}}'),
        ("etc/auto.data", "disk -fstype=ext4 :{dev}/nvme0n1"),
        ("etc/exports.d/../fstab.d/x", "{dev}/nvme0n1:/srv"),
        ("etc/fstab", "/dev/disk/by-label/Photos /srv ext4".replace("/dev", "{dev}")),
        ("etc/systemd/system/x.service", "BindsTo=dev-disk-by\\x2dlabel-photos.device"),
        ("etc/systemd/system/x.service", "BindsTo=dev-nvme0n1p2.device"),
        ("etc/fstab", "LABEL=PHOTOS /srv ext4"),
        ("etc/iet/x", "serial-a"),
    ],
    ids=["escaped slashes", "after a colon", "before a colon", "a link that is not there", "an escaped unit",
         "a unit", "a label", "a serial"],
)  # fmt: skip
def test_named_in_another_way(host, path, text):
    escaped = str(host.dev).replace("/", "\\/")
    host.put((host.etc.parent / path).resolve(), text.format(dev=host.dev, escaped=escaped) + "\n")
    with pytest.raises(Refused, match="is named in"):
        usage.check_unnamed([("fast", "nvme0n1", {"Photos"})], host.system())


def test_named_by_a_link_to_nowhere(host):
    link = host.etc.parent / "var/lib/ceph/osd/ceph-0/block"
    link.parent.mkdir(parents=True)
    link.symlink_to("/dev/disk/by-id/nvme-DISK_SERIAL-A")
    with pytest.raises(Refused, match="osd/ceph-0/block: serial-a"):
        usage.check_unnamed([("fast", "nvme0n1", ())], host.system())


@pytest.mark.parametrize(("serial", "is_named"), [("A1B2C", False), ("A1B2C3", True)])
def test_a_short_serial_is_in_many_a_word(fake, serial, is_named):
    fake.disk("nvme0n1", serial)
    fake.put(fake.etc / "fstab", f"an option={serial} of something\n")
    names = lambda: usage.check_unnamed([("fast", "nvme0n1", ())], fake.system())  # noqa: E731
    if is_named:
        with pytest.raises(Refused, match="is named in"):
            names()
    else:
        names()


def test_a_file_that_is_too_large_refuses_every_drive(host):
    host.put(host.etc / "target/saveconfig.json", "{}")
    os.truncate(host.etc / "target/saveconfig.json", (64 << 20) + 1)
    refused(host, "saveconfig.json: cannot be read, so that no drive is safe: File too large")


# --- processes


class Clock:
    """Time that goes on when it is slept; `then` happens with the first sleep."""

    def __init__(self, then):
        self.now, self._then = 0.0, then

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self._then()


@pytest.mark.parametrize("goes", [True, False])
def test_a_writer_is_given_a_moment_to_go(host, monkeypatch, goes):
    process(host, 77, host.number("nvme0n1"), kind=stat.S_IFBLK)
    clock = Clock(lambda: shutil.rmtree(host.proc / "77", ignore_errors=True) if goes else None)
    monkeypatch.setattr(usage, "time", clock)
    monkeypatch.setattr(usage, "WRITER_SECONDS", 3.0)
    if goes:
        assert take(host)
        assert 0 < clock.now < 1
    else:
        refused(host, "qemu (process 77) has it open for writing")
        assert clock.now >= 3.0


def test_the_members_of_an_array_are_looked_at_too(host):
    host.array("pair", "md127", ["nvme0n1"])
    process(host, 77, host.number("nvme0n1"), kind=stat.S_IFBLK)
    with pytest.raises(Refused, match="pair: /dev/md127 is in use: qemu"):
        usage.check_unopened([("pair", "md127")], host.system())


@pytest.mark.parametrize(("call", "of"), [("open", "fd"), ("stat", "3")])
def test_a_process_that_root_cannot_look_at_refuses_every_drive(host, monkeypatch, call, of):
    process(host, 77, "1:3")
    look = getattr(os, call)

    def forbidden(path, *given, **more):
        if str(path) == of or str(path).endswith(f"77/{of}"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return look(path, *given, **more)

    monkeypatch.setattr(os, call, forbidden)
    refused(host, f"{host.proc}/77: cannot be read, so that no drive is safe: Permission denied")


@pytest.mark.parametrize("access", ["rw-s", "r--s"])
def test_a_mapping_of_a_process_whose_descriptors_are_gone(host, access):
    """Its first thread has ended; what is mapped shared may be made writable again."""
    base = host.proc / "77"
    host.put(base / "comm", "database\n")
    host.put(base / "maps", f"7f0000000000-7f0000001000 {access} 00000000 00:05 5 /dev/x\n")
    (base / "map_files").mkdir()
    os.mknod(base / "node", stat.S_IFBLK | 0o600, os.makedev(*map(int, host.number("nvme0n1").split(":"))))
    (base / "map_files/7f0000000000-7f0000001000").symlink_to(base / "node")
    refused(host, "database (process 77) has it mapped for writing")


def ring(host, monkeypatch, *listings):
    """Let process 78 have an io_uring whose fdinfo reads so, one time after the other."""
    host.put(host.proc / "78/comm", "database\n")
    host.put(host.proc / "78/fdinfo/5", "")
    (host.proc / "78/fd").mkdir()
    (host.proc / "78/fd/5").symlink_to("/proc/self/fd/99")
    monkeypatch.setattr(processes, "TRY_SECONDS", 0.0)
    left = list(listings)
    text = processes._text
    monkeypatch.setattr(
        processes, "_text", lambda path: left.pop(0) if path.endswith("78/fdinfo/5") and left else text(path)
    )
    readlink, look = os.readlink, os.stat
    anonymous = os.stat_result((stat.S_IRUSR | stat.S_IWUSR, 11, 0, 1, 0, 0, 0, 0, 0, 0))
    monkeypatch.setattr(
        os, "readlink", lambda path, **at: processes.RING if at and path == "5" else readlink(path, **at)
    )
    monkeypatch.setattr(os, "stat", lambda path, **at: anonymous if at and path == "5" else look(path, **at))


def test_an_io_uring_that_is_locked_for_a_moment_is_looked_at_again(host, monkeypatch):
    ring(host, monkeypatch, "SqMask:\t0x3\n", "UserFiles:\t0\nUserBufs:\t0\n")
    assert take(host)


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [
        ("", stat.S_IFBLK, "is in use: database (process 78) has it in an io_uring"),
        ("241:0", stat.S_IFCHR, "is in use as /dev/ng0n1: database (process 78) has it in an io_uring"),
    ],
)
def test_a_node_of_any_name_in_an_io_uring(host, monkeypatch, tmp_path, number, kind, words):
    """Its blanks are octal numbers in the listing."""
    node = tmp_path / "a node"
    os.mknod(node, kind | 0o600, os.makedev(*map(int, (number or host.number("nvme0n1")).split(":"))))
    listed = str(node).replace(" ", "\\040")
    ring(host, monkeypatch, f"UserFiles:\t1\n    0: {listed}\nUserBufs:\t0\n")
    refused(host, words)


# --- what comes while the rig has its claim


def test_a_loop_device_upon_another_node_of_it(host, tmp_path):
    node = tmp_path / "node"
    os.mknod(node, stat.S_IFBLK | 0o600, os.makedev(*map(int, host.number("nvme0n1").split(":"))))
    host.put(host.device("loop10") / "loop/backing_file", f"{node}\n")
    refused(host, "in use: loop10 is a loop device upon it")


MEANWHILE = {
    "is mounted at": lambda host: host.mount("/dev/nvme0n1", "/mnt", host.number("nvme0n1")),
    "md127 holds nvme0n1": lambda host: [host.device("md127"), host.hold("md127", "nvme0n1")],
    "loop3 is a loop device": lambda host: host.put(
        host.device("loop3") / "loop/backing_file", f"{host.dev}/nvme0n1\n"
    ),
    "LIO's target serves it": lambda host: host.put(
        host.sys / "kernel/config/target/core/iblock_0/disk/udev_path", f"{host.dev}/nvme0n1\n"
    ),
    "udev_path: cannot be read": lambda host: (
        host.sys / "kernel/config/target/core/iblock_0/disk/udev_path"
    ).mkdir(parents=True),
}


@pytest.mark.parametrize("words", MEANWHILE)
def test_a_use_that_needs_no_claim_is_seen_by_the_next_check(host, words):
    with wipe_lease.lease_drive(SPEC, host.system()) as lease:
        lease.check()
        MEANWHILE[words](host)
        with pytest.raises(Refused, match=words):
            lease.check()
