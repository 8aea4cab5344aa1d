# SPDX-License-Identifier: GPL-3.0-or-later
"""A drive is wiped only when it is the declared one and unused: mostly what is refused."""

import base64
import contextlib
import errno
import json
import os
import stat
import struct
import time
import zlib

import pytest

from ansible.module_utils.joulerig.drives import (
    contents,
    identity,
    ownership,
    system_calls,
    usage,
    wipe_lease,
)
from ansible.module_utils.joulerig.drives.uses import stillness
from ansible.module_utils.joulerig.drives.writers import UNMARKED, Writer
from ansible.module_utils.joulerig.host_lock import HostLock
from ansible.module_utils.joulerig.tools import Failed, Refused

GIB = 1 << 30
WWN = "eui.0025385b71b00001"
SPEC = {"name": "fast", "interface": "nvme", "serial": "SERIAL-A", "wwn": WWN, "size_bytes": GIB}


SATA = {"name": "s", "interface": "sata-ssd", "serial": "SPARE-1", "wwn": None, "size_bytes": GIB}


@pytest.fixture(autouse=True)
def stand_in(fake, monkeypatch):
    """Files stand for devices here: tests/integration/ansible has the same on real ones."""
    fake.stand_in(monkeypatch)


def take(spec, host):
    """Take the wipe lease of a drive and give it back; return the device's path."""
    with wipe_lease.lease_drive(spec, host.system()) as lease:
        return lease.path


def take_array(name, members, host):
    with wipe_lease.lease_array(name, members, host.system()) as lease:
        return lease.path


def holding(tool, *signatures):
    """Have every drive of the host hold signatures of these types."""
    found = [{"offset": "0x438", "type": one, "uuid": f"{one}-1", "label": None} for one in signatures]
    tool("wipefs", f"cat <<'END'\n{json.dumps({'signatures': found})}\nEND")


@pytest.fixture
def host(fake):
    """A host with the declared drive, a system disk with root on a partition, and a spare."""
    fake.disk("nvme0n1", "SERIAL-A", wwn=WWN)
    fake.disk("sda", "SYSTEM-1", vpd=True, wwn="naa.5000c500a0000001")
    fake.partition("sda", "sda1")
    fake.mount("/dev/sda1", "/", fake.number("sda1"))
    fake.disk("sdb", "SPARE-1", vpd=True, wwn="naa.5000c500a0000002", rotates=False)
    return fake


def refused(call, *parts):
    with pytest.raises(Refused) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message


# --- what is found


def test_found_by_serial(host):
    assert identity.find(SPEC, host.system()) == "nvme0n1"


def test_found_by_serial_on_a_scsi_page(host):
    spec = {**SATA, "wwn": "naa.5000c500a0000002"}
    assert identity.find(spec, host.system()) == "sdb"


@pytest.mark.parametrize("wwn", ["eui.0025385b71b00001", "eui.0025385B71B00001"])
def test_found_with_its_wwn(host, wwn):
    assert identity.find({**SPEC, "wwn": wwn}, host.system()) == "nvme0n1"


@pytest.mark.parametrize("reported", ["naa.5000c500a0000002", "0x5000c500a0000002", "naa.5000C500A0000002"])
def test_a_wwn_is_its_digits_however_it_is_written(fake, reported):
    fake.disk("sdb", "SPARE-1", vpd=True, wwn=reported)
    spec = {
        "name": "s",
        "interface": "hdd",
        "serial": "SPARE-1",
        "wwn": "naa.5000c500a0000002",
        "size_bytes": GIB,
    }
    assert identity.find(spec, fake.system()) == "sdb"


def test_the_paths_of_a_multipath_drive_are_not_drives(host):
    path = host.disk("nvme0c0n1", "SERIAL-A")
    host.put(path / "hidden", "1\n")
    assert identity.find(SPEC, host.system()) == "nvme0n1"


def test_lease_of_an_unused_drive_gives_its_device(host):
    assert take(SPEC, host) == str(host.dev / "nvme0n1")


# --- identity


def test_absent_serial(host):
    refused(
        lambda: take({**SPEC, "serial": "SERIAL-B"}, host),
        "SERIAL-B",
        "SERIAL-A",
        "SPARE-1",
    )


@pytest.mark.parametrize("serial", ["SERIAL", "SERIAL-AA", "serial-a", "SERIAL-A x"])
def test_a_serial_that_is_only_alike(host, serial):
    refused(lambda: take({**SPEC, "serial": serial}, host), repr(serial))


def test_a_host_without_drives(fake):
    refused(lambda: take(SPEC, fake), "present: none")


def test_of_several_namespaces_the_wwn_says_which_is_meant(host):
    host.disk("nvme0n2", "SERIAL-A", wwn="eui.0025385b71b00002")
    host.disk("nvme0n3", "SERIAL-A", wwn="nvme.8086-53-4d-00000003")
    for wwn, name in (
        (WWN, "nvme0n1"),
        ("eui.0025385b71b00002", "nvme0n2"),
        ("nvme.8086-53-4d-00000003", "nvme0n3"),
    ):
        assert identity.find({**SPEC, "wwn": wwn}, host.system()) == name
    refused(
        lambda: take({**SPEC, "wwn": None}, host),
        "several devices: nvme0n1 (WWN eui.0025385b71b00001), nvme0n2 (WWN eui.0025385b71b00002)",
        "put the wwn of the one that is meant into the inventory",
    )
    refused(
        lambda: take({**SPEC, "wwn": "eui.0025385b71b00009"}, host), "none has WWN 'eui.0025385b71b00009'"
    )


def test_a_namespace_of_another_size_is_refused_though_its_wwn_is_right(host):
    host.disk("nvme0n2", "SERIAL-A", wwn="eui.0025385b71b00002", bytes_=2 * GIB)
    refused(lambda: take({**SPEC, "wwn": "eui.0025385b71b00002"}, host), str(2 * GIB), str(GIB))


def test_two_paths_to_one_sas_drive(fake):
    for name in ("sda", "sdb"):
        fake.disk(name, "SPARE-1", vpd=True, wwn="naa.5000c500a0000002", rotates=False)
    spec = {**SATA, "wwn": "naa.5000c500a0000002"}
    refused(lambda: take(spec, fake), "sda, sdb are paths to one drive", "/sys/block/sdb/device/delete")


def test_a_usb_bridge_is_named_where_its_serial_is_not_the_drives(fake):
    fake.disk("sdb", "BRIDGE-1", vpd=True, rotates=False, place="devices/pci0/usb2/2-1/host6")
    refused(lambda: take(SATA, fake), "present: BRIDGE-1 (/dev/sdb, of a USB bridge)")


def test_a_locked_drive_is_explained(host):
    host.calls.locked.add("nvme0n1")
    refused(lambda: take(SPEC, host), "/dev/nvme0n1 encrypts itself and is locked; unlock it", "sedutil-cli")


@pytest.mark.parametrize("size_bytes", [GIB - 512, GIB + 512, 2 * GIB])
def test_wrong_size(host, size_bytes):
    refused(
        lambda: take({**SPEC, "size_bytes": size_bytes}, host),
        str(GIB),
        str(size_bytes),
    )


def test_wrong_wwn(host):
    refused(
        lambda: take({**SPEC, "wwn": "eui.0025385b71b00002"}, host),
        "eui.0025385b71b00002",
    )


def test_a_drive_without_the_wwn_that_is_declared(fake):
    fake.disk("nvme0n1", "SERIAL-A")
    refused(lambda: take(SPEC, fake), "has WWN None")


@pytest.mark.parametrize("wwn", ["eui.0025385b71b00001", "naa.5000c500a0000009", "uuid.6caebeb6"])
def test_a_wwn_that_the_inventory_lacks(fake, wwn):
    """Two drives may have one serial: a bridge's, or a clone's."""
    fake.disk("nvme0n1", "SERIAL-A", wwn=wwn)
    refused(lambda: take({**SPEC, "wwn": None}, fake), f"has WWN {wwn!r}; put it into the inventory")


@pytest.mark.parametrize("wwn", [None, "nvme.1b36-53-51-00000001", "t10.ATA     MODEL      SERIAL"])
def test_a_wwn_that_the_kernel_made_up_need_not_be_declared(fake, wwn):
    fake.disk("nvme0n1", "SERIAL-A", wwn=wwn)
    assert take({**SPEC, "wwn": None}, fake)


@pytest.mark.parametrize(
    "serial", ["0000", "00000000", "FFFFFFFF", "0123456789ABCDEF", "To Be Filled By O.E.M.", "none", "N/A ", "1234-5678-90"]
)  # fmt: skip
def test_a_serial_that_is_a_placeholder(fake, serial):
    fake.disk("nvme0n1", serial)
    refused(lambda: take({**SPEC, "serial": serial, "wwn": None}, fake), repr(serial), "is no serial")


@pytest.mark.parametrize("interface", ["sata-ssd", "hdd"])
def test_an_nvme_drive_that_is_declared_as_another(host, interface):
    refused(
        lambda: take({**SPEC, "interface": interface}, host),
        f"is an NVMe drive, the inventory says {interface}",
    )


def test_a_disk_that_is_declared_as_an_nvme_drive(fake):
    fake.disk("sdb", "SPARE-1", vpd=True, rotates=False)
    refused(lambda: take({**SATA, "interface": "nvme"}, fake), "is no NVMe drive, the inventory says nvme")


@pytest.mark.parametrize(
    ("rotates", "interface", "words"),
    [(True, "sata-ssd", "rotates, the"), (False, "hdd", "does not rotate, the")],
)
def test_a_disk_that_rotates_otherwise_than_declared(fake, rotates, interface, words):
    fake.disk("sdb", "SPARE-1", vpd=True, rotates=rotates)
    refused(lambda: take({**SATA, "interface": interface}, fake), words, interface)


@pytest.mark.parametrize(("found", "fits"), [("Model X\n", True), ("Model Y\n", False), (None, False)])
def test_a_model_that_is_declared_is_the_drives(host, found, fits):
    if found:
        host.put((host.sys / "block/nvme0n1").resolve() / "device/model", found)
    if fits:
        assert take({**SPEC, "model": "Model X"}, host)
    else:
        refused(lambda: take({**SPEC, "model": "Model X"}, host), "the inventory says 'Model X'")


def test_a_drive_behind_a_usb_bridge(fake):
    fake.disk("sdb", "SPARE-1", vpd=True, rotates=False, place="devices/pci0/usb2/2-1/host6")
    refused(lambda: take(SATA, fake), "is behind a USB bridge")


@pytest.mark.parametrize(("attribute", "words"), [("removable", "is removable"), ("ro", "is read-only")])
def test_a_drive_that_can_go_or_cannot_be_written(host, attribute, words):
    host.put((host.sys / "block/nvme0n1").resolve() / attribute, "1\n")
    refused(lambda: take(SPEC, host), words)


@pytest.mark.parametrize("name", ["loop0", "ram0", "md0", "dm-0"])
def test_devices_other_than_drives_are_never_found(fake, name):
    fake.device(name)
    refused(lambda: take(SPEC, fake), "present: none")


# --- use


def test_mounted_whole(host):
    host.mount("/dev/nvme0n1", "/mnt", host.number("nvme0n1"))
    refused(lambda: take(SPEC, host), "nvme0n1 is mounted at /mnt")


def test_mounted_partition(host):
    host.partition("nvme0n1", "nvme0n1p1")
    host.mount("/dev/nvme0n1p1", "/mnt", host.number("nvme0n1p1"))
    refused(lambda: take(SPEC, host), "mounted at /mnt")


def test_mounted_by_another_name(host):
    link = host.dev / "disk/by-id/nvme-fast"
    link.parent.mkdir(parents=True)
    link.symlink_to(host.dev / "nvme0n1")
    host.mount(str(link), "/mnt", fstype="btrfs")  # btrfs: an anonymous device number
    refused(lambda: take(SPEC, host), "mounted at /mnt")


def test_mounted_by_a_name_that_leads_nowhere(host):
    host.mount("/dev/root", "/mnt", host.number("nvme0n1"))
    refused(lambda: take(SPEC, host), "mounted at /mnt")


def test_swap(host):
    host.swap(str(host.dev / "nvme0n1"))
    refused(lambda: take(SPEC, host), "swap")


def test_swap_on_a_partition(host):
    host.partition("nvme0n1", "nvme0n1p2")
    host.swap(str(host.dev / "nvme0n1p2"))
    refused(lambda: take(SPEC, host), "swap")


@pytest.mark.parametrize("holder", ["md127", "dm-0", "bcache0"])
def test_held(host, holder):
    host.device(holder)
    host.hold(holder, "nvme0n1")
    refused(lambda: take(SPEC, host), f"{holder} holds nvme0n1")


def test_a_partition_is_held(host):
    host.partition("nvme0n1", "nvme0n1p1")
    host.device("dm-0")
    host.hold("dm-0", "nvme0n1p1")
    refused(lambda: take(SPEC, host), "dm-0 holds nvme0n1p1")


def test_partitions_present(host):
    host.partition("nvme0n1", "nvme0n1p1")
    refused(lambda: take(SPEC, host), "has partitions (nvme0n1p1)")


def system_disk():
    wwn = "naa.5000c500a0000001"
    return {"name": "sys", "interface": "hdd", "serial": "SYSTEM-1", "wwn": wwn, "size_bytes": GIB}


def test_the_disk_of_the_root_file_system(host):
    refused(lambda: take(system_disk(), host), "sda")


@pytest.mark.parametrize("point", ["/", "/boot", "/usr", "/var", "/home"])
def test_the_disk_under_dm_under_the_system(fake, point):
    """The holder links are gone, as after a forced removal: what stands upon it still counts."""
    fake.disk("sda", "SYSTEM-1", vpd=True, wwn="naa.5000c500a0000001")
    fake.device("dm-0")
    fake.device("dm-1")
    fake.hold("dm-1", "dm-0")
    fake.hold("dm-0", "sda")
    (fake.sys / "class/block/sda/holders/dm-0").rmdir()
    fake.mount("/dev/mapper/root", point, fake.number("dm-1"))
    refused(lambda: take(system_disk(), fake), f"sda carries {point}")


@pytest.mark.parametrize(
    "signature",
    ["linux_raid_member", "LVM2_member", "zfs_member", "isw_raid_member", "ddf_raid_member", "VMFS_volume_member",
     "crypto_LUKS", "bcache", "drbd", "ceph_bluestore", "BitLocker", "stratis", "DM_snapshot_cow", "ext4", "xfs",
     "btrfs", "bcachefs", "f2fs", "ntfs", "ReFS", "apfs", "hfsplus", "vdo", "DM_integrity", "DM_verity_hash",
     "oracleasm", "ocfs2", "gfs2", "swap", "swsuspend", "jbd", "xfs_external_log", "gpt", "dos", "PMBR", "sun",
     "drbdproxy_datalog", "drbdmanage_control_volume", "mpool", "iso9660", "a type that is not known yet"],
)  # fmt: skip
def test_what_this_rig_did_not_make_is_not_wiped(host, tool, signature):
    holding(tool, signature)
    refused(lambda: take(SPEC, host), "fast: ", f"{signature} ({signature}-1), which this rig did not make",
            "'rig drives adopt HOST fast'")  # fmt: skip


def test_a_member_that_hides_behind_another_signature(host, tool):
    holding(tool, "ext4", "linux_raid_member")
    refused(lambda: take(SPEC, host), "ext4 (ext4-1), linux_raid_member (linux_raid_member-1)")


def test_data_without_a_signature_is_not_wiped(host):
    (host.dev / "nvme0n1").write_bytes(bytes(GIB // 256) + b"a database that no prober knows".ljust(4096))
    host.put((host.sys / "block/nvme0n1").resolve() / "size", f"{(GIB // 256 + 4096) // 512}\n")
    refused(
        lambda: take({**SPEC, "size_bytes": GIB // 256 + 4096}, host),
        "data without a signature that is known",
    )


@pytest.mark.parametrize("byte", [b"\x00", b"\xff"])
def test_a_blank_drive_is_wiped(host, byte):
    (host.dev / "nvme0n1").write_bytes(byte * (1 << 20))
    assert take(SPEC, host)


def test_a_blank_drive_that_waits_for_its_adoption(host):
    (host.dev / "nvme0n1").write_bytes(bytes(1 << 20))
    spec = {**SPEC, "wipe_blank": False}
    refused(lambda: take(spec, host), "is blank, and the inventory has wipe_blank: false", "rig drives adopt")
    seen = wipe_lease.lease_drive(spec, host.system()).look()
    assert (seen["holds"], seen["free"]) == ("nothing", "")
    wipe_lease.lease_drive(spec, host.system()).adopt(seen["identity"])
    assert take(spec, host)


def test_a_t10_wwn_is_the_same_whatever_blanks_pad_it(host):
    found = "t10.ATA     SLOW 4000                    ZC10A1B2"
    assert identity._digits(found) == identity._digits("t10.ATA SLOW 4000 ZC10A1B2")


def test_a_drive_that_cannot_be_probed(host, tool):
    tool("wipefs", "echo 'wipefs: error: probing initialization failed: Input/output error' >&2; exit 1")
    refused(lambda: take(SPEC, host), "cannot be probed", "Input/output error")


def test_a_host_without_the_prober(host, tool, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    refused(lambda: take(SPEC, host), "cannot be probed", "not found on this host")


def luks():
    return b"LUKS\xba\xbe" + struct.pack(">H", 1) + b"aes".ljust(32, b"\0") + bytes(560)


def lvm():
    label = b"LABELONE" + struct.pack("<QIIQ", 1, 0, 32, 0)[:-8] + b"LVM2 001" + b"u" * 32 + bytes(440)
    crc = zlib_crc(label[20:512])
    return bytes(512) + label[:16] + struct.pack("<I", crc) + label[20:512]


def zlib_crc(data):
    """LVM's CRC: zlib's polynomial, its own start, no final inversion."""
    return zlib.crc32(data, 0xF597A6CF ^ 0xFFFFFFFF) ^ 0xFFFFFFFF


@pytest.mark.parametrize(("image", "signature"), [(luks(), "crypto_LUKS"), (lvm(), "LVM2_member")])
def test_signatures_as_the_real_prober_finds_them(host, image, signature):
    (host.dev / "nvme0n1").write_bytes(image + bytes(8 << 20))
    refused(lambda: take(SPEC, host), f"holds {signature}")


def test_real_prober_on_an_empty_drive(host):
    (host.dev / "nvme0n1").write_bytes(bytes(8 << 20))
    assert take(SPEC, host)


# --- use that leaves neither mount nor holder


def test_a_loop_device_upon_it(host):
    host.put(host.device("loop3") / "loop/backing_file", f"{host.dev}/nvme0n1\n")
    refused(lambda: take(SPEC, host), "in use: loop3 is a loop device upon it")


def test_a_loop_device_upon_another_drive(host):
    host.put(host.device("loop3") / "loop/backing_file", f"{host.dev}/sdb\n")
    assert take(SPEC, host)


def test_compressed_memory_that_writes_to_it(host):
    host.put(host.device("zram0") / "backing_dev", f"{host.dev}/nvme0n1\n")
    refused(lambda: take(SPEC, host), "in use: zram0 writes to it")


@pytest.mark.parametrize(
    ("path", "who"),
    [("target/core/iblock_0/disk/udev_path", "LIO's target"), ("target/core/fileio_2/x/udev_path", "LIO's target"),
     ("nvmet/subsystems/nqn.a/namespaces/1/device_path", "the NVMe target")],
)  # fmt: skip
def test_served_to_other_hosts(host, path, who):
    host.put(host.sys / "kernel/config" / path, f"{host.dev}/nvme0n1\n")
    refused(lambda: take(SPEC, host), f"in use: {who} serves it to other hosts")


@pytest.mark.parametrize("word", ["resume={dev}/nvme0n1", "resume=LABEL=ours", "resume=UUID=EXT4-1"])
def test_a_place_of_hibernation(host, tool, word):
    made_by_the_rig(host, tool)
    host.put(host.proc / "cmdline", f"root=/dev/sda1 {word.format(dev=host.dev)} quiet\n")
    refused(lambda: take(SPEC, host), "is named in", "cmdline")


def test_a_place_of_hibernation_by_number(host):
    host.put(host.sys / "power/resume", host.number("nvme0n1") + "\n")
    refused(lambda: take(SPEC, host), "resumes from after hibernation")


def test_a_place_of_hibernation_in_the_initial_ramdisk(host, tool):
    made_by_the_rig(host, tool)
    host.put(host.etc / "initramfs-tools/conf.d/resume", "RESUME=UUID=ext4-1\n")
    refused(lambda: take(SPEC, host), "is named in", "conf.d/resume")


@pytest.mark.parametrize(
    ("table", "line"),
    [("fstab", "{dev}/nvme0n1 /srv ext4 noauto 0 2"), ("fstab", "UUID=ext4-1 /srv ext4 noauto 0 2"),
     ("fstab", 'LABEL="ours" /srv ext4 noauto 0 2'), ("crypttab", "vault {dev}/nvme0n1 none luks"),
     ("crypttab", "vault UUID=ext4-1 none luks"), ("mdadm/mdadm.conf", "ARRAY /dev/md0 devices={dev}/sdb,{dev}/nvme0n1"),
     ("zfs/zpool.cache", "\x00\x00path\x00\x00{dev}/nvme0n1\x00\x00")],
)  # fmt: skip
def test_named_in_a_table_of_the_system(host, tool, table, line):
    made_by_the_rig(host, tool)
    host.put(host.etc / table, f"# {line}\n")
    assert take(SPEC, host)
    host.put(host.etc / table, line.format(dev=host.dev) + "\n")
    refused(lambda: take(SPEC, host), f"/dev/nvme0n1 is named in {host.etc}/{table}")


def found(tool, *signatures):
    """Let the drive hold these signatures: (type, UUID, label)."""
    listed = [
        {"offset": "0x438", "type": kind, "uuid": uuid, "label": label} for kind, uuid, label in signatures
    ]
    tool("wipefs", f"case $* in *nvme0n1) cat <<'END'\n{json.dumps({'signatures': listed})}\nEND\n;; esac")


OURS = ("ext4", "ext4-1", "ours")


def adopt(host):
    """Release the drive with what it holds, as a person does who was shown it."""
    lease = wipe_lease.lease_drive(SPEC, host.system())
    lease.adopt(lease.look()["identity"])


def made_by_the_rig(host, tool):
    """Make the drive's ext4 the rig's: it is free to be wiped."""
    found(tool, OURS)
    adopt(host)
    with wipe_lease.lease_drive(SPEC, host.system()) as lease:
        lease.begin()


def record(host, **entry):
    drives = {"version": 1, "drives": {SPEC["serial"]: entry}}
    host.put(host.sys.parent / "drives.json", json.dumps(drives))


def recorded(host):
    return json.loads((host.sys.parent / "drives.json").read_text())["drives"][SPEC["serial"]]


@pytest.mark.parametrize(
    "held", ["a reservation of type 1, 2 hosts registered", "a reservation by the key 00ff"]
)
def test_reserved_by_another_host(host, held):
    host.calls.reserved["nvme0n1"] = held
    refused(lambda: take(SPEC, host), f"is reserved by another host: {held}")


def test_a_drive_that_does_not_answer_for_its_reservations(host, monkeypatch):
    def silent(descriptor, name):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(host.calls, "reservation", silent)
    refused(lambda: take(SPEC, host), "does not say whether another host has reserved it")


USED = {
    "is mounted at /mnt": lambda host: host.mount("/dev/nvme0n1", "/mnt", host.number("nvme0n1")),
    "has it open for writing": lambda host: opened_for_writing(host),
    "is named in": lambda host: host.put(host.etc / "fstab", "UUID=ext4-1 /srv ext4 noauto 0 2\n"),
    "is reserved by another host": lambda host: host.calls.reserved.update(nvme0n1="by the key 00ff"),
}


def opened_for_writing(host):
    """Let a process hold a node with the number that /sys gives the drive."""
    base = host.proc / "77"
    host.put(base / "fdinfo/3", "flags:\t0100002\n")
    (base / "fd").mkdir()
    number = (host.sys / "block/nvme0n1").resolve() / "dev"
    host.put(number, "1:7\n")
    os.mknod(base / "node", stat.S_IFBLK | 0o600, os.makedev(1, 7))
    (base / "fd/3").symlink_to(base / "node")
    host._numbers["nvme0n1"] = "1:7"
    (host.sys / "dev/block/1:7").symlink_to(number.parent)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: device nodes")
@pytest.mark.parametrize("problem", USED)
def test_a_look_says_why_the_drive_is_refused_in_any_case(host, tool, monkeypatch, problem):
    monkeypatch.setattr(usage, "WRITER_SECONDS", 0.0)
    found(tool, OURS)
    USED[problem](host)
    seen = wipe_lease.lease_drive(SPEC, host.system()).look()
    assert problem in seen["problem"]
    assert seen["holds"] == "ext4 'ours' (ext4-1)"


def test_what_was_not_shown_is_not_adopted(host, tool):
    found(tool, OURS)
    lease = wipe_lease.lease_drive(SPEC, host.system())
    seen = lease.look()["identity"]
    os.truncate(host.dev / "nvme0n1", GIB)
    written(host, GIB - 100, b"a page at its end")
    refused(lambda: lease.adopt(seen), "holds ext4 'ours' (ext4-1) now: not what was shown")
    refused(lambda: take(SPEC, host), "which this rig did not make")


def test_a_claim_that_a_killed_run_gives_up_is_waited_for(host, monkeypatch):
    tries = []
    claim = host.calls.claim

    def busy_twice(path):
        tries.append(path)
        if len(tries) < 3:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        return claim(path)

    monkeypatch.setattr(host.calls, "claim", busy_twice)
    monkeypatch.setattr(wipe_lease.time, "sleep", lambda seconds: None)
    assert take(SPEC, host)
    assert len(tries) == 3


def test_what_is_written_until_it_is_claimed_counts(host, tool, monkeypatch):
    claim = host.calls.claim

    def after_the_other(path):
        found(tool, OURS)
        return claim(path)

    monkeypatch.setattr(host.calls, "claim", after_the_other)
    refused(lambda: take(SPEC, host), "holds ext4 'ours' (ext4-1)", "which this rig did not make")


def test_a_claim_of_another_device_is_no_claim(host, monkeypatch):
    monkeypatch.setattr(host.calls, "claim", lambda path: host.calls.open(str(host.dev / "sdb")))
    refused(lambda: take(SPEC, host), f"/dev/nvme0n1 is device {host.number('sdb')}")


@pytest.mark.parametrize("difference", [-512, 512])
def test_an_open_device_of_another_size_is_another_one(host, monkeypatch, difference):
    monkeypatch.setattr(host.calls, "size_bytes", lambda descriptor: GIB + difference)
    refused(lambda: take(SPEC, host), f"has {GIB + difference} bytes, nvme0n1 {GIB}")


def test_a_kernel_that_numbers_no_disks_is_no_obstacle(host, monkeypatch):
    """Before Linux 5.15; the open device may have a number all the same."""
    monkeypatch.setattr(host.calls, "disk_sequence", lambda descriptor: 7)
    assert take(SPEC, host)


def test_a_sanitize_reaches_all_namespaces_whatever_a_format_does(host, monkeypatch):
    monkeypatch.setattr(host.calls, "format_reaches", lambda descriptor: [1])
    host.calls.namespaces = [1, 2]
    with wipe_lease.lease_drive(SPEC, host.system()) as lease:
        lease.check_format()
        refused(lease.check_sanitize, "a sanitize destroys all namespaces: 1, 2; use discard")


def test_a_drive_that_does_not_say_what_a_format_destroys(host, monkeypatch):
    def silent(descriptor):
        raise OSError(errno.EIO, "Input/output error")

    for name in ("format_reaches", "nvme_namespaces"):
        monkeypatch.setattr(host.calls, name, silent)
    with wipe_lease.lease_drive(SPEC, host.system()) as lease:
        refused(lease.check_format, "does not say what a format destroys")
        refused(lease.check_sanitize, "does not say what a sanitize destroys")


@pytest.mark.parametrize(("rotates", "places"), [("0", 64), ("1", 62)])
def test_a_lease_reads_as_many_blocks_as_suit_the_drive(host, rotates, places):
    host.put((host.sys / "block/nvme0n1").resolve() / "queue/rotational", f"{rotates}\n")
    with wipe_lease.lease_drive(SPEC, host.system()) as lease:
        assert len(lease.contents()._places) == places + 2


def test_what_an_earlier_call_left_is_still_there_or_the_drive_is_refused(host, tool):
    found(tool, OURS)
    adopt(host)
    with wipe_lease.lease_drive(SPEC, host.system()) as lease:
        left = lease.contents().identity()
        lease.check_left(None)
        lease.check_left(left)
        refused(lambda: lease.check_left({**left, "digest": "0"}), "another campaign changed it")


def test_a_claim_that_was_lent_to_a_tool_that_fails_is_taken_again(host, lease):
    def fail():
        with lease.lent():
            assert lease._claim is None
            raise Failed("mkfs: failed")

    with pytest.raises(Failed, match="mkfs: failed"):
        fail()
    assert lease._claim is not None


def test_a_format_that_would_reach_another_namespace(host):
    with wipe_lease.lease_drive(SPEC, host.system()) as lease:
        lease.check_format()
        host.calls.namespaces = [1, 3]
        refused(lease.check_format, "a format destroys all namespaces: 1, 3; use discard")


# --- a source that cannot be read refuses every drive


@pytest.mark.parametrize("path", ["self/mountinfo", "swaps", "sys/kernel/random/boot_id", "cmdline"])
def test_without_a_source_of_a_check_no_drive_is_wiped(host, path):
    (host.proc / path).unlink()
    refused(lambda: take(SPEC, host), f"{host.proc}/{path}: cannot be read", "No such file")


def test_a_table_that_cannot_be_read(host):
    (host.etc / "fstab").mkdir(parents=True)
    refused(lambda: take(SPEC, host), "fstab: cannot be read")


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 2, "drives": {}}', '{"version": 1}'])
def test_a_record_of_drives_that_cannot_be_read(host, text):
    host.put(host.sys.parent / "drives.json", text)
    refused(lambda: take(SPEC, host), f"{host.sys.parent}/drives.json: ")


# --- whose content it is


def test_what_the_rig_made_is_wiped(host, tool):
    made_by_the_rig(host, tool)
    assert take(SPEC, host)


@pytest.mark.parametrize(
    "others",
    [
        [("ext4", "ext4-2", "ours")],
        [("xfs", "ext4-1", "ours")],
        [OURS, ("swap", "swap-1", None)],
        [("ext4", None, "ours")],
    ],
    ids=["another one of its kind", "another kind", "one more", "one without a UUID"],
)
def test_what_came_after_the_rig_is_not_wiped(host, tool, others):
    made_by_the_rig(host, tool)
    found(tool, *others)
    refused(lambda: take(SPEC, host), "'ours'", "which this rig did not make")


def test_the_rigs_own_file_system_is_a_persons_once_it_was_mounted(host, tool):
    """Its superblock changes: what was stored there since is not the rig's."""
    made_by_the_rig(host, tool)
    with open(host.dev / "nvme0n1", "r+b") as device:
        device.seek(0x400 + 0x30)  # s_wtime
        device.write(b"\1")
    refused(lambda: take(SPEC, host), "holds ext4 'ours' (ext4-1), which this rig did not make")


@pytest.mark.parametrize("kind", ["linux_raid_member", "LVM2_member", "crypto_LUKS"])
def test_a_member_of_the_rigs_array_is_the_rigs_whatever_was_written_to_the_array(host, tool, kind):
    found(tool, (kind, "1", None))
    adopt(host)
    with wipe_lease.lease_drive(SPEC, host.system()) as lease:
        lease.begin()
    (host.dev / "nvme0n1").write_bytes(b"noise" * 4000)
    assert take(SPEC, host)
    found(tool, (kind, "2", None))
    refused(lambda: take(SPEC, host), "which this rig did not make")


def test_what_another_drive_holds_is_not_the_rigs(host, tool):
    """The record is by serial: the same file system, copied to another drive, is foreign there."""
    made_by_the_rig(host, tool)
    held = json.loads((host.sys.parent / "drives.json").read_text())
    held["drives"] = {"SERIAL-B": held["drives"]["SERIAL-A"]}
    host.put(host.sys.parent / "drives.json", json.dumps(held))
    refused(lambda: take(SPEC, host), "which this rig did not make")


def test_what_the_controller_recorded_serves_a_host_that_has_no_record(host, tool):
    found(tool, OURS)
    adopt(host)
    with wipe_lease.lease_drive(SPEC, host.system()) as lease:
        known = lease.contents().identity()
    (host.sys.parent / "drives.json").unlink()
    refused(lambda: take(SPEC, host), "which this rig did not make")
    assert take({**SPEC, "known": known}, host)
    other = {"signatures": [["xfs", "1"]], "digest": known["digest"]}
    for entry in ({"made": other}, {"adopted": {**other, "at": "2026-11-25T00:00:00Z"}}):
        record(host, **entry)
        refused(lambda: take({**SPEC, "known": known}, host), "which this rig did not make")


def test_the_record_of_one_drive_keeps_the_others(host, tool):
    drives = {"version": 1, "drives": {"SERIAL-B": {"made": {"signatures": [], "digest": "0"}}}}
    host.put(host.sys.parent / "drives.json", json.dumps(drives))
    made_by_the_rig(host, tool)
    held = json.loads((host.sys.parent / "drives.json").read_text())["drives"]
    assert set(held) == {"SERIAL-A", "SERIAL-B"}


def test_the_record_is_read_and_written_while_no_other_call_does(host, tool, monkeypatch):
    """Calls of lanes write to the one file at the same time."""
    locked, seen = [], []

    @contextlib.contextmanager
    def alone(what):
        locked.append(what)
        yield
        locked.pop()

    put, opened = ownership.Record.put, ownership.Record.__init__
    monkeypatch.setattr(ownership, "alone_with", alone)
    monkeypatch.setattr(
        ownership.Record, "put", lambda record, *rest: seen.append(("put", *locked)) or put(record, *rest)
    )
    monkeypatch.setattr(
        ownership.Record,
        "__init__",
        lambda record, path: seen.append(("read", *locked)) or opened(record, path),
    )
    found(tool, OURS)
    one = ownership.Ownership("fast", SPEC["serial"])
    with wipe_lease.lease_drive({**SPEC, "wipe_blank": True}, host.system())._host.opened(
        "nvme0n1"
    ) as device:
        held = contents.look("fast", str(host.dev / "nvme0n1"), device, GIB, False, host.calls)
        for change in (one.adopt, lambda held: one.begin(["1f2e"], held), one.made):
            seen.clear()
            change(held)
            assert seen == [("read", "drives"), ("put", "drives")]


@pytest.mark.parametrize("place", [0x430, (2 << 20) + 100, (4 << 20) + 100])
def test_a_superblock_that_changed_is_a_persons_wherever_it_lies(host, tool, place):
    os.truncate(host.dev / "nvme0n1", GIB)
    made_by_the_rig(host, tool)
    written(host, 1 << 20, b"data of a file")
    assert take(SPEC, host)
    written(host, place, b"\1")
    refused(lambda: take(SPEC, host), "which this rig did not make")


def test_a_file_system_next_to_a_container_is_known_by_its_superblock_too(host, tool):
    both = [("crypto_LUKS", "1", None), OURS]
    found(tool, *both)
    adopt(host)
    with wipe_lease.lease_drive(SPEC, host.system()) as lease:
        lease.begin()
    assert take(SPEC, host)
    (host.dev / "nvme0n1").write_bytes(b"mounted since" * 400)
    refused(lambda: take(SPEC, host), "which this rig did not make")


@pytest.mark.parametrize("parts", [b"\0" * 4096 + b"\xff" * 4096, b"\0" * 4096 + b"x", b"x" + b"\0" * 4096])
def test_a_drive_is_blank_where_it_reads_the_same_everywhere(host, parts):
    device = host.dev / "nvme0n1"
    device.write_bytes(parts)
    host.put((host.sys / "block/nvme0n1").resolve() / "size", "16384\n")
    os.truncate(device, 8 << 20)
    refused(lambda: take({**SPEC, "size_bytes": 8 << 20}, host), "data without a signature")


def test_a_drive_that_cannot_be_read(host, monkeypatch):
    def unreadable(descriptor, places):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(host.calls, "read_all", unreadable)
    refused(lambda: take(SPEC, host), "its content cannot be read: Input/output error")


def test_a_drive_without_signature_is_known_by_its_content(host):
    device = host.dev / "nvme0n1"
    device.write_bytes(b"noise" * 4000)
    with pytest.raises(Refused):
        take(SPEC, host)
    device.write_bytes(b"")
    with wipe_lease.lease_drive(SPEC, host.system()) as lease:
        lease.begin()
        device.write_bytes(b"noise" * 4000)
    assert take(SPEC, host)
    device.write_bytes(b"other" * 4000)
    refused(lambda: take(SPEC, host), "data without a signature")


# --- adoption


@pytest.mark.parametrize("kind", ["ntfs", "crypto_LUKS"])
def test_an_adopted_drive_is_wiped_until_its_content_changes(host, tool, kind):
    """Any change: of one byte that is read, too, also in a container."""
    found(tool, (kind, "1", None))
    refused(lambda: take(SPEC, host), kind)
    adopt(host)
    assert take(SPEC, host)
    with open(host.dev / "nvme0n1", "r+b") as device:
        device.seek(GIB // 2)
        device.write(b"a page")
    refused(lambda: take(SPEC, host), f"holds {kind} (1), which this rig did not make")


def test_an_adoption_keeps_what_the_rig_made(host, tool):
    made_by_the_rig(host, tool)
    found(tool, ("xfs", "1", None))
    adopt(host)
    found(tool, OURS)  # a person put it back
    assert take(SPEC, host)


@pytest.mark.parametrize("at", ["soon", None, 7])
def test_an_adoption_of_no_known_time_has_ended(host, tool, at):
    found(tool, OURS)
    adopt(host)
    record(host, adopted={**recorded(host)["adopted"], "at": at})
    refused(lambda: take(SPEC, host), "which this rig did not make")


def test_an_adoption_is_as_old_in_every_time_zone(host, tool, monkeypatch):
    monkeypatch.setenv("TZ", "Etc/GMT+5")
    time.tzset()
    found(tool, OURS)
    adopt(host)
    assert take(SPEC, host)
    monkeypatch.undo()
    time.tzset()


def test_an_adoption_is_used_up_by_the_first_change(host, tool):
    found(tool, OURS)
    adopt(host)
    with wipe_lease.lease_drive(SPEC, host.system()) as lease:
        lease.begin("1f2e")
        assert "adopted" not in recorded(host)
        found(tool, ("xfs", "1f2e", None))
    found(tool, OURS)  # a person put it back
    refused(lambda: take(SPEC, host), "ext4 'ours'")


@pytest.mark.parametrize(("hours", "holds"), [(0, True), (23, True), (25, False), (-1, False)])
def test_an_adoption_ends_after_a_day(host, tool, hours, holds):
    """Also one of the future: the clock was set back."""
    found(tool, OURS)
    adopt(host)
    then = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3600 * hours))
    record(host, adopted={**recorded(host)["adopted"], "at": then})
    if holds:
        assert take(SPEC, host)
    else:
        refused(lambda: take(SPEC, host), "which this rig did not make")


# --- a change that was cut short

NEW = "1f2e3d4c5b6a79880716253443526170"


@pytest.fixture
def killed(host, tool):
    """killed(*identifiers, writer=UNMARKED): a change of the rig's ext4 is begun, and killed."""

    def kill(*identifiers, writer=UNMARKED):
        os.truncate(host.dev / "nvme0n1", GIB)
        made_by_the_rig(host, tool)
        with wipe_lease.lease_drive(SPEC, host.system()) as lease:
            lease.begin(*identifiers, writer=writer)
            left = recorded(host)
        record(host, **left)

    return kill


@pytest.mark.parametrize(
    ("left", "known"),
    [
        ([OURS], True),
        ([("xfs", "1F2E3D4C-5b6a-7988-0716-253443526170", None)], True),
        ([("jfs", "other", NEW)], True),
        ([OURS, ("xfs", NEW, None)], True),
        ([("xfs", "2f2e3d4c-5b6a-7988-0716-253443526170", None)], False),
        ([("ext4", "ext4-2", "ours")], False),
        ([("xfs", None, None)], False),
        ([("xfs", NEW, None), ("swap", "1", None)], False),
    ],
    ids=["before", "new", "new by label", "both", "another", "its kind", "no UUID", "new and another"],
)
def test_a_change_that_was_cut_short_is_known_by_its_identifier(host, tool, killed, left, known):
    killed(NEW)
    found(tool, *left)
    if known:
        assert take(SPEC, host)
    else:
        refused(lambda: take(SPEC, host), "which this rig did not make")


def written(host, offset, data):
    with open(host.dev / "nvme0n1", "r+b") as device:
        device.seek(offset)
        device.write(data)


def of_fio(offset, count):
    """Sectors as fio writes them: each has its offset at the start of a cache line."""
    sectors = range(offset, offset + count, 512)
    return b"".join(b"x" * 64 + at.to_bytes(8, "little") + b"x" * 440 for at in sectors)


FIO, DURAWRITER = Writer("fio"), Writer("durawriter", "ab" * 16)
OF_DURAWRITER = (b"JRSECT01" + b"\xab" * 16 + b"x" * 488) * 8


@pytest.mark.parametrize(
    ("writer", "data", "boot", "known"),
    [
        (FIO, b"", 1, True),
        (FIO, of_fio(1 << 20, 8192), 1, True),
        (FIO, of_fio(1 << 20, 8192), 2, False),
        (FIO, of_fio(2 << 20, 8192), 1, False),
        (FIO, of_fio(1 << 20, 7680) + b"a person's sector" * 31, 1, False),
        (UNMARKED, of_fio(1 << 20, 8192), 1, False),
        (UNMARKED, b"\xff" * 8192, 1, True),
        (UNMARKED, b"\xff" * 8192, 2, False),
        (DURAWRITER, OF_DURAWRITER, 1, True),
        (DURAWRITER, OF_DURAWRITER, 2, True),
        (DURAWRITER, OF_DURAWRITER[:1024] + bytes(3072), 1, True),
        (DURAWRITER, OF_DURAWRITER.replace(b"\xab", b"\xac"), 1, False),
        (DURAWRITER, b"a person's data", 1, False),
    ],
    ids=[
        "nothing", "fio's", "fio's before a boot", "fio's, moved", "fio's and another's", "fio's, that was not begun",
        "erased", "erased before a boot", "a cut writer's", "a cut writer's before a boot", "a cut writer's first sectors",
        "another campaign's", "a person's",
    ],
)  # fmt: skip
def test_content_without_signature_is_known_by_its_writer(host, tool, killed, writer, data, boot, known):
    killed(NEW, writer=writer)
    found(tool)
    written(host, 1 << 20, data)
    host.put(host.proc / "sys/kernel/random/boot_id", f"boot-{boot}\n")
    if known:
        assert take(SPEC, host)
    else:
        refused(lambda: take(SPEC, host), "data without a signature")


def test_a_superblock_that_a_power_cut_tore_is_known_by_its_place(host, tool):
    """libblkid sees none where its checksum is wrong; a cut is followed by another boot."""
    found(tool, ("ext4", NEW, None))
    adopt(host)
    with wipe_lease.lease_drive(SPEC, host.system()) as lease:
        lease.begin_power_cuts()
        left = recorded(host)
    record(host, **left)
    host.put(host.proc / "sys/kernel/random/boot_id", "boot-2\n")
    found(tool)
    written(host, 1 << 20, b"data of the writer's files")
    written(host, 0x468, bytes.fromhex(NEW))
    assert take(SPEC, host)
    record(host, **left)
    written(host, 0x468, b"a person's data!")
    refused(lambda: take(SPEC, host), "data without a signature")


@pytest.mark.parametrize("known", [True, False], ids=["there", "of the drive's beginning"])
def test_a_writers_marks_are_those_of_their_place_on_the_drive(host, tool, killed, known):
    killed(NEW, writer=FIO)
    found(tool)
    place, _ = contents.sample_places(GIB, rotates=True)[5]
    written(host, place, of_fio(place if known else 0, 4096))
    if known:
        assert take(SPEC, host)
    else:
        refused(lambda: take(SPEC, host), "data without a signature")


def cut(host, tool, *signatures, at=0x438):
    """Begin power cuts on a drive of the rig's with these signatures; return what is recorded."""
    os.truncate(host.dev / "nvme0n1", GIB)
    listed = [
        {"offset": hex(at + 0x100 * number), "type": kind, "uuid": uuid, "label": None}
        for number, (kind, uuid) in enumerate(signatures)
    ]
    tool("wipefs", f"cat <<'END'\n{json.dumps({'signatures': listed})}\nEND")
    adopt(host)
    with wipe_lease.lease_drive(SPEC, host.system()) as lease:
        lease.begin_power_cuts()
        left = recorded(host)
        lease.begin_power_cuts()
        assert recorded(host) == left  # of the first cut it may be torn already
    record(host, **left)
    host.put(host.proc / "sys/kernel/random/boot_id", "boot-2\n")
    return left["changing"]


OTHER = "00112233445566778899aabbccddeeff"


def test_power_cuts_keep_the_place_of_the_first_superblock_with_an_identifier(host, tool):
    begun = cut(host, tool, ("PMBR", None), ("ext4", NEW), ("swap", OTHER))
    assert (begun["to"], begun["torn_at"]) == ([NEW, OTHER], 0x538)


@pytest.mark.parametrize(("at", "place"), [(0, 32), (8192 + 0x438, 8192 + 0x468)], ids=["at 0", "behind 0"])
def test_a_torn_superblock_is_looked_for_in_its_own_block(host, tool, at, place):
    cut(host, tool, ("xfs", NEW), ("swap", OTHER), at=at)
    found(tool)
    written(host, 1 << 20, b"data of the writer's files")
    written(host, place + 4096, bytes.fromhex(NEW))
    refused(lambda: take(SPEC, host), "data without a signature")
    written(host, place, bytes.fromhex(NEW))
    assert take(SPEC, host)


def test_an_identifier_of_a_few_digits_is_found_in_no_torn_block(host, tool):
    """The four bytes of FAT, for one, are in many a block."""
    cut(host, tool, ("vfat", "abcd-0123"))
    found(tool)
    written(host, 1 << 20, b"a person's data")
    written(host, 0x468, bytes.fromhex("abcd0123"))
    refused(lambda: take(SPEC, host), "data without a signature")


def test_a_torn_superblock_is_not_looked_for_where_another_signature_is(host, tool):
    """A boot sector was there before, and has no identifier."""
    cut(host, tool, ("PMBR", None), ("ext4", NEW))
    written(host, 1 << 20, b"a person's data")
    written(host, 0x568, bytes.fromhex(NEW))
    found(tool, ("PMBR", None, None))
    refused(lambda: take(SPEC, host), "PMBR, which this rig did not make")


def test_a_block_is_as_it_was_where_it_was(host, tool):
    """A discard that was cut short erased one block; two others changed places since."""
    os.truncate(host.dev / "nvme0n1", GIB)
    found(tool)
    written(host, 1 << 20, b"a" * 4096 + b"b" * 4096 + b"c" * 4096)
    adopt(host)
    with wipe_lease.lease_drive(SPEC, host.system()) as lease:
        lease.begin(NEW)
        left = recorded(host)
    record(host, **left)
    written(host, (1 << 20) + 8192, bytes(4096))
    assert take(SPEC, host)
    record(host, **left)
    written(host, 1 << 20, b"b" * 4096 + b"a" * 4096)
    refused(lambda: take(SPEC, host), "data without a signature")


@pytest.mark.parametrize("more", [-4, 4], ids=["fewer", "more"])
def test_the_hashes_of_other_samples_say_nothing(host, tool, killed, more):
    killed(NEW)
    left = recorded(host)
    hashes = base64.b64decode(left["changing"]["before"])
    other = hashes[:more] if more < 0 else hashes + bytes(more)
    left["changing"]["before"] = base64.b64encode(other).decode()
    record(host, **left)
    found(tool)
    written(host, 1 << 20, b"\xff" * 4096)
    refused(lambda: take(SPEC, host), "data without a signature")


def test_the_next_lease_ends_a_change_that_was_cut_short(host, tool, killed):
    """Know the drive from then on by what it was found to hold."""
    killed(NEW)
    found(tool, ("xfs", NEW, None))
    take(SPEC, host)
    assert list(recorded(host)) == ["made"]
    written(host, 0, b"mounted since")
    refused(lambda: take(SPEC, host), f"xfs ({NEW})")


def test_a_change_that_fails_is_ended_though_its_claim_was_lent(host, tool):
    """A tool that makes an array, and fails, has no claim any more."""
    found(tool)

    def fail():
        with wipe_lease.lease_drive(SPEC, host.system()) as lease:
            lease.begin(NEW)
            lease.lend()
            raise Failed("mdadm: failed")

    with pytest.raises(Failed):
        fail()
    assert list(recorded(host)) == ["made"]


def test_a_change_stays_open_while_its_writer_has_the_drive(host, tool):
    found(tool)
    with wipe_lease.lease_drive(SPEC, host.system()) as lease:
        lease.begin(NEW)
        lease.lend()
        host.calls.claimed.add("nvme0n1")
    assert list(recorded(host)) == ["changing"]


def test_what_a_killed_call_left_is_recorded_by_the_next_call(host, tool, killed):
    killed(NEW)
    found(tool, ("xfs", NEW, None))
    noted = json.loads(json.dumps(wipe_lease.lease_drive(SPEC, host.system()).noted))
    assert wipe_lease.end_change(noted, host.system()) == "what a killed call left on fast recorded"
    assert list(recorded(host)) == ["made"]
    assert wipe_lease.end_change(noted, host.system()) == ""


def test_what_may_be_of_another_is_left_alone_by_the_next_call(host, tool, killed):
    killed(NEW)
    before = recorded(host)
    found(tool, ("xfs", "a person's", None))
    assert wipe_lease.end_change(wipe_lease.lease_drive(SPEC, host.system()).noted, host.system()) == ""
    assert recorded(host) == before


@pytest.mark.parametrize(
    "entry",
    [
        {"made": {"signatures": [["ext4", "ext4-1"]]}},
        {"made": "ext4"},
        {"changing": {"to": ["ext4"], "from": {"signatures": [], "digest": None}, "at": "2026-11-25"}},
        {"changing": {"boot_id": "boot-1"}},
        {"adopted": {"signatures": [["ext4", "ext4-1"]], "digest": None, "at": "2026-11-25"}},
        {"adopted": []},
        [],
    ],
)
def test_an_entry_that_cannot_be_read_gives_no_right(host, tool, entry):
    found(tool, OURS)
    drives = {"version": 1, "drives": {SPEC["serial"]: entry}}
    host.put(host.sys.parent / "drives.json", json.dumps(drives))
    refused(lambda: take(SPEC, host), "ext4 'ours'")
    adopt(host)
    assert take(SPEC, host)


# --- how much of a drive is read


@pytest.mark.parametrize(
    ("size", "rotates", "places"),
    [
        (GIB, False, 64),
        (GIB, True, 62),
        (256 * GIB, False, 4096),
        (16 * 10**12, False, 4096),
        (16 * 10**12, True, 62),
    ],
)
def test_how_many_blocks_are_read_follows_from_the_kind_of_drive(size, rotates, places):
    first, *between, last = contents.sample_places(size, rotates)
    assert (first, sum(last)) == ((0, contents.END_BYTES), size)
    assert len(between) == places
    offsets = [offset for offset, _ in between]
    gaps = {late - offsets[at] for at, late in enumerate(offsets[1:])}
    assert max(gaps) - min(gaps) <= contents.BLOCK_BYTES


# --- the kernel's own word


def test_a_drive_that_another_has_claimed(host, monkeypatch):
    monkeypatch.setattr(wipe_lease, "CLAIM_SECONDS", 0.0)
    host.calls.claimed.add("nvme0n1")
    refused(lambda: take(SPEC, host), "cannot be opened exclusively", "busy")


def test_a_path_that_is_not_a_block_device(tmp_path):
    (tmp_path / "file").touch()
    calls = system_calls.SystemCalls()
    descriptor = calls.open(str(tmp_path / "file"))
    refused(lambda: calls.number(descriptor), "is no block device")


# --- the lease is bound to a device and a boot


@pytest.fixture
def lease(host):
    host.put((host.sys / "block/nvme0n1").resolve() / "diskseq", "7\n")
    with wipe_lease.lease_drive(SPEC, host.system()) as taken:
        yield taken


def test_lease_after_a_reboot(host, lease):
    host.put(host.proc / "sys/kernel/random/boot_id", "boot-2\n")
    refused(lease.check, "rebooted")


def test_lease_after_the_drive_moved_to_another_name(host, lease):
    host.put((host.sys / "block/nvme0n1").resolve() / "device/serial", "SERIAL-Z\n")
    host.disk("nvme1n1", "SERIAL-A", wwn=WWN)
    refused(lease.check, "is not the device that the wipe lease was taken for")


def test_lease_after_another_drive_came_in_its_place(host, lease):
    """Hot plug: same name, same number, another drive."""
    host.put((host.sys / "block/nvme0n1").resolve() / "device/serial", "SERIAL-Z\n")
    refused(lease.check, "no drive with serial 'SERIAL-A'")


def test_lease_after_the_same_drive_was_plugged_in_again(host, lease, monkeypatch):
    monkeypatch.setattr(host.calls, "disk_sequence", lambda descriptor: 7)
    host.put((host.sys / "block/nvme0n1").resolve() / "diskseq", "8\n")
    refused(lease.check, "is disk number 8 of this boot; the wipe lease was taken for number 7")


def test_lease_after_it_was_mounted(host, lease):
    host.mount("/dev/nvme0n1", "/mnt", host.number("nvme0n1"))
    refused(lease.check, "mounted at /mnt")


def test_lease_after_it_was_partitioned(host, lease):
    host.partition("nvme0n1", "nvme0n1p1")
    refused(lease.check, "has partitions")


def test_a_name_that_leads_to_another_device(host):
    """The node was made again for another disk, as after a change of names."""
    (host.dev / "nvme0n1").unlink()
    (host.dev / "nvme0n1").symlink_to(host.dev / "sdb")
    refused(lambda: take(SPEC, host), f"/dev/nvme0n1 is device {host.number('sdb')}")


def test_a_look_at_a_name_that_leads_to_another_device(host):
    """A look has no claim, whose number would be compared."""
    (host.dev / "nvme0n1").unlink()
    (host.dev / "nvme0n1").symlink_to(host.dev / "sdb")
    lease = wipe_lease.lease_drive(SPEC, host.system())
    refused(lease.look, f"/dev/nvme0n1 is device {host.number('sdb')}")


def exchange(host):
    host.put((host.sys / "block/nvme0n1").resolve() / "device/serial", "SERIAL-Z\n")


def test_the_claim_of_a_drive_that_was_exchanged_is_not_lent(host, lease):
    exchange(host)
    refused(lambda: lease.lent().__enter__(), "no drive with serial 'SERIAL-A'")
    assert lease._claim is not None


def test_a_drive_that_is_exchanged_while_it_is_watched_is_not_leased(host, monkeypatch):
    monkeypatch.setattr(stillness, "watch", lambda drives, at, look_around: exchange(host))
    refused(lambda: take(SPEC, host), "no drive with serial 'SERIAL-A'")


def test_a_claim_is_lent_and_taken_again(host, lease):
    with lease.lent() as device:
        assert device == str(host.dev / "nvme0n1")
        host.calls.claimed.add("nvme0n1")
        host.calls.claimed.clear()
    assert lease.descriptor is not None


def test_a_claim_that_another_took_while_it_was_lent(host, lease, monkeypatch):
    monkeypatch.setattr(wipe_lease, "CLAIM_SECONDS", 0.0)
    with pytest.raises(Failed, match=r"during the work on it: .* cannot be opened exclusively"), lease.lent():
        host.calls.claimed.add("nvme0n1")
    host.calls.claimed.clear()


def test_a_lease_leaves_nothing_open(host):
    before = len(os.listdir("/proc/self/fd"))
    take(SPEC, host)
    host.mount("/dev/nvme0n1", "/mnt", host.number("nvme0n1"))
    with pytest.raises(Refused):
        take(SPEC, host)
    assert len(os.listdir("/proc/self/fd")) == before


# --- arrays

MEMBERS = [
    {"name": f"hdd-{n}", "interface": "hdd", "serial": f"HDD-{n}", "wwn": None, "size_bytes": GIB}
    for n in (1, 2)
]


@pytest.fixture
def raid(fake):
    fake.disk("sda", "HDD-1", vpd=True)
    fake.disk("sdb", "HDD-2", vpd=True)
    fake.disk("sdc", "HDD-3", vpd=True)
    return fake


def test_lease_of_an_array_of_the_declared_drives(raid):
    raid.array("pair", "md127", ["sda", "sdb"])
    assert take_array("pair", MEMBERS, raid) == str(raid.dev / "md127")


def test_absent_array(raid):
    refused(lambda: take_array("pair", MEMBERS, raid), "no such array")


@pytest.mark.parametrize("members", [["sda", "sdc"], ["sda"], ["sda", "sdb", "sdc"], []])
def test_array_with_other_members(raid, members):
    raid.array("pair", "md127", members)
    refused(lambda: take_array("pair", MEMBERS, raid), "the inventory's members are sda, sdb")


def test_array_with_a_member_of_another_size(raid):
    raid.array("pair", "md127", ["sda", "sdb"])
    members = [MEMBERS[0], {**MEMBERS[1], "size_bytes": 2 * GIB}]
    refused(lambda: take_array("pair", members, raid), "hdd-2", str(2 * GIB))


def test_array_that_is_mounted(raid):
    raid.array("pair", "md127", ["sda", "sdb"])
    raid.mount("/dev/md127", "/srv", raid.number("md127"))
    refused(lambda: take_array("pair", MEMBERS, raid), "mounted at /srv")


def test_array_that_is_degraded(raid):
    raid.array("pair", "md127", ["sda", "sdb"], degraded="1")
    refused(lambda: take_array("pair", MEMBERS, raid), "degraded")


@pytest.mark.parametrize("action", ["resync", "recover", "check", "reshape"])
def test_array_that_works_for_itself(raid, action):
    raid.array("pair", "md127", ["sda", "sdb"], sync_action=action)
    refused(lambda: take_array("pair", MEMBERS, raid), f"busy with '{action}'")


def test_a_name_that_leads_to_no_array(raid):
    (raid.dev / "md" / "pair").symlink_to(raid.dev / "sdc")
    refused(lambda: take_array("pair", MEMBERS, raid), "is made of nothing")


def test_a_member_of_an_array_gets_no_separate_lease(raid):
    raid.array("pair", "md127", ["sda", "sdb"])
    refused(lambda: take(MEMBERS[0], raid), "md127 holds sda")


def test_the_record_of_an_array_is_of_its_drives_in_any_order(raid, tool):
    raid.array("pair", "md127", ["sda", "sdb"])
    tool("wipefs", f"cat <<'END'\n{json.dumps({'signatures': []})}\nEND")
    (raid.dev / "md127").write_bytes(b"noise" * 4000)
    lease = wipe_lease.lease_array("pair", MEMBERS, raid.system())
    lease.adopt(lease.look()["identity"])
    assert take_array("pair", MEMBERS[::-1], raid)
    (raid.dev / "md" / "pair").unlink()
    raid.array("pair", "md126", ["sda", "sdc"])
    (raid.dev / "md126").write_bytes(b"noise" * 4000)
    others = [MEMBERS[0], {**MEMBERS[1], "name": "hdd-3", "serial": "HDD-3"}]
    refused(lambda: take_array("pair", others, raid), "which this rig did not make")


def test_lease_of_an_array_after_a_member_was_replaced(raid):
    raid.array("pair", "md127", ["sda", "sdb"])
    with wipe_lease.lease_array("pair", MEMBERS, raid.system()) as lease:
        raid.put((raid.sys / "block/sdb").resolve() / "device/vpd_pg80", b"\x00\x80\x00\x05OTHER")
        refused(lease.check, "no drive with serial 'HDD-2'")


# --- NVDIMMs

NVDIMM = {"name": "nvdimm", "interface": "nvdimm", "serial": "8680-56341200", "size_bytes": GIB}


def test_nvdimms_are_found_by_their_modules_and_the_size_of_their_region(fake):
    fake.region("region0", "8680-56341200", namespace="pmem0")
    fake.region("region1", "8680-56341201", bytes_=2 * GIB, namespace="pmem1")
    second = {**NVDIMM, "serial": "8680-56341201", "size_bytes": 2 * GIB}
    assert identity.find(NVDIMM, fake.system()) == "pmem0"
    assert identity.find(second, fake.system()) == "pmem1"


@pytest.mark.parametrize("serial", ["8680-1+8680-2", "8680-2+8680-1"])
def test_an_interleaved_nvdimm_is_all_its_modules(fake, serial):
    fake.region("region0", "8680-1", "8680-2", namespace="pmem0")
    assert identity.find({**NVDIMM, "serial": serial}, fake.system()) == "pmem0"


@pytest.mark.parametrize("serial", ["8680-1", "8680-2", "8680-1+8680-3", "8680-1+8680-2+8680-3", "8680-9"])
def test_an_nvdimm_of_other_modules(fake, serial):
    fake.region("region0", "8680-1", "8680-2", namespace="pmem0")
    refused(
        lambda: identity.find({**NVDIMM, "serial": serial}, fake.system()),
        f"no NVDIMM {serial!r} on this host",
        "present: 8680-1+8680-2",
    )


def test_nvdimm_of_another_size(fake):
    fake.region("region0", "8680-56341200", bytes_=2 * GIB, namespace="pmem0")
    refused(lambda: identity.find(NVDIMM, fake.system()), str(2 * GIB), str(GIB))


def test_nvdimm_without_a_namespace(fake):
    fake.region("region0", "8680-56341200")
    refused(lambda: identity.find(NVDIMM, fake.system()), "the campaign that needs it makes it")


def test_nvdimm_with_several_namespaces(fake):
    fake.region("region0", "8680-56341200", namespace="pmem0")
    fake.device("pmem0.1", place="devices/ndbus0/region0/namespace0.1/block/pmem0.1")
    refused(lambda: identity.find(NVDIMM, fake.system()), "several block devices: pmem0, pmem0.1")


def test_a_host_without_nvdimms(fake):
    refused(lambda: identity.find(NVDIMM, fake.system()), "present: none")


EMULATED = {"name": "nvdimm", "interface": "nvdimm", "serial": "e820-0x300000000", "size_bytes": GIB}


def memmap(fake, *, start="0x300000000", bytes_=GIB, provider="e820"):
    bus = fake.sys / "devices/platform/e820_pmem/ndbus0"
    fake.put(bus / "provider", provider + "\n")
    fake.put(bus / "region0/resource", start + "\n")
    fake.put(bus / "region0/size", f"{bytes_}\n")
    (fake.sys / "bus/nd/devices").mkdir(parents=True)
    (fake.sys / "bus/nd/devices/region0").symlink_to(bus / "region0")
    fake.device(
        "pmem0", bytes_=bytes_, place="devices/platform/e820_pmem/ndbus0/region0/namespace0.0/block/pmem0"
    )


def test_emulated_nvdimm_is_found_by_where_it_lies_in_memory(fake):
    memmap(fake)
    assert take(EMULATED, fake) == str(fake.dev / "pmem0")


@pytest.mark.parametrize("other", [{"start": "0x400000000"}, {"bytes_": 2 * GIB}, {"provider": "ACPI.NFIT"}])
def test_emulated_nvdimm_that_is_another_one(fake, other):
    memmap(fake, **other)
    refused(lambda: take(EMULATED, fake), "nvdimm: ")


def test_emulated_nvdimm_before_the_reboot(fake):
    refused(lambda: take(EMULATED, fake), "no NVDIMM 'e820-0x300000000'", "present: none")


# --- one run at a time


def test_a_second_run_is_refused(tmp_path):
    path = str(tmp_path / "lock" / "run.lock")
    with HostLock(path=path):
        refused(lambda: HostLock(path=path).__enter__(), "another run is in progress")


def test_a_run_whose_controller_went_away_is_waited_for(tmp_path):
    import threading

    path = str(tmp_path / "run.lock")
    first = HostLock(path=path).__enter__()
    threading.Timer(0.3, first.__exit__).start()
    with HostLock(patience_seconds=20, path=path):
        pass


def test_the_lock_is_free_afterwards(tmp_path):
    path = str(tmp_path / "run.lock")
    for _ in range(2):
        with HostLock(path=path):
            pass


# --- arrays with redundancy


@pytest.mark.parametrize("start", ["0", "409600"])
def test_array_that_has_a_resync_before_it(raid, start):
    raid.array("pair", "md127", ["sda", "sdb"], sync_action="idle", resync_start=start)
    refused(lambda: take_array("pair", MEMBERS, raid), "has a resync to do")


def test_array_that_is_synchronised(raid):
    raid.array("pair", "md127", ["sda", "sdb"], sync_action="idle", resync_start="none")
    assert take_array("pair", MEMBERS, raid) == str(raid.dev / "md127")


def test_lease_of_an_array_after_its_resync_began(raid):
    raid.array("pair", "md127", ["sda", "sdb"], sync_action="idle", resync_start="none")
    with wipe_lease.lease_array("pair", MEMBERS, raid.system()) as lease:
        raid.put((raid.sys / "block/md127").resolve() / "md/sync_action", "resync\n")
        refused(lease.check, "busy with 'resync'")


# --- drives that the kernel makes of memory

RAM = {"name": "ram", "interface": "ram", "serial": "ram0", "size_bytes": GIB}


def ram0(fake, number="1:0", **more):
    fake._numbers["ram0"] = number
    fake.device("ram0", **more)


def test_ram_block_device(fake):
    ram0(fake)
    assert take(RAM, fake) == str(fake.dev / "ram0")


def test_ram_block_device_that_is_not_there(fake):
    refused(lambda: take(RAM, fake), "no RAM block device 'ram0'")


def test_ram_block_device_of_another_size(fake):
    ram0(fake, bytes_=2 * GIB)
    refused(lambda: take(RAM, fake), "2147483648 bytes, the inventory says 1073741824")


def test_a_device_of_that_name_that_is_not_brds(fake):
    ram0(fake, number="252:0")
    refused(lambda: take(RAM, fake), "no RAM block device 'ram0'")


def test_ram_block_device_in_use(fake):
    ram0(fake)
    fake.swap("/dev/ram0")
    refused(lambda: take(RAM, fake), "in use as swap")


def emulated(fake, name, adapter):
    """A disk of scsi_debug: both of a host report the same serial when the module is asked to."""
    real = fake.device(
        name, place=f"devices/pseudo_0/adapter{adapter}/host7/target7:0:0/7:0:0:0/block/{name}"
    )
    fake.put(real / "device/vpd_pg80", b"\x00\x80\x00\x042000")
    fake.put(real / "device/wwid", "naa.3333333000003e80\n")  # made up, as the serial is


def played(number):
    return {"name": "ehdd", "interface": "hdd", "serial": f"scsi_debug-{number}", "size_bytes": GIB}


def test_emulated_disk_is_known_by_its_adapter(fake):
    emulated(fake, "sda", 0)
    emulated(fake, "sdb", 1)
    assert identity.find(played(1), fake.system()) == "sdb"


def test_emulated_disk_that_is_not_there(fake):
    emulated(fake, "sda", 0)
    refused(
        lambda: identity.find(played(1), fake.system()), "no drive with serial 'scsi_debug-1'", "scsi_debug-0"
    )


def test_the_serial_of_an_emulated_disk_does_not_identify_it(fake):
    emulated(fake, "sda", 0)
    spec = {**played(0), "serial": "2000"}
    refused(lambda: identity.find(spec, fake.system()), "no drive with serial '2000'")


def test_a_real_disk_is_not_taken_for_an_emulated_one(fake):
    fake.disk("sda", "scsi_debug", vpd=True)
    refused(lambda: identity.find(played(0), fake.system()), "no drive with serial 'scsi_debug-0'")
