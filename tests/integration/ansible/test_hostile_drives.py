# SPDX-License-Identifier: GPL-3.0-or-later
"""No drive that holds data, or that anything uses, is wiped: by no module, on real block devices.

Each situation is made for real on a loop device, and every way in which a module can destroy a
drive is tried (tests/support/hostile_drive.py). The bytes written are the kernel's count.
`make test-attacks` tries each with every record that a host can have of the drive, and each change
before each person's data; without JOULERIG_ATTACKS both take turns.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT

MIB = 1 << 20
ALL = "JOULERIG_ATTACKS" in os.environ
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: loop devices"),
    pytest.mark.skipif(not Path("/dev/loop-control").exists(), reason="this machine has no loop devices"),
]


@dataclasses.dataclass(frozen=True)
class Situation:
    """What is done to a drive ($DEV, its image $IMG, $NAME) before the modules try it, by `sh`.

    `arrange` comes after the copy of /sys was made ($SYS, and $ETC for the system's tables).
    `declared`: what the inventory says otherwise. `words`: of the refusal, a regular expression.
    `needs`: commands that succeed where the situation can be made. `look`: the drive is looked at,
    and nothing else is tried. `change`: what the rig did to the drive before `make` (`change` of
    hostile_drive). `records`: what the host's record of drives has, in turn: "" is as the situation
    leaves it. `ways`: those that are tried; none: all.
    """

    name: str
    words: str
    make: str = ""
    arrange: str = ""
    declared: dict[str, Any] = dataclasses.field(default_factory=dict)
    needs: tuple[str, ...] = ()
    look: bool = False
    change: str = ""
    records: tuple[str, ...] = ("",)
    ways: tuple[str, ...] = ()


def magic(offset: int, data: str) -> str:
    """Write a signature's bytes (in printf's escapes) as another program's mkfs would."""
    return f"printf '{data}' | dd of=$DEV bs=1 seek={offset} conv=notrunc,fsync status=none"


def python(code: str) -> str:
    """Have a process execute Python, which goes on to hold what it opened."""
    program = (
        f"import fcntl, os, time; held = {code}; open(os.environ['DIR'] + '/ready', 'w'); time.sleep(600)"
    )
    return f'python3 -c "{program}" >/dev/null 2>&1 &' + READY


def holder(kind: str) -> str:
    """Let a process hold the drive in one of the ways of tests/support/device_holders.py."""
    return f"python3 -m tests.support.device_holders {kind} $DEV $DIR/ready >$DIR/holder 2>&1 &" + READY


def named(path: str, text: str) -> str:
    """Write a file of the system's configuration, $DIR being its root."""
    folder = path.rpartition("/")[0]
    return f'mkdir -p "$DIR/{folder}"; cat >"$DIR/{path}" <<END\n{text}\nEND'


def opened_node(kind: str) -> dict[str, str]:
    """Let a process hold a character node for reading, which /sys says is the drive's.

    No drive of this machine has such a node: that of another device stands for it.
    """
    return {
        "make": "mknod $DIR/node c 1 7; sh -c 'exec 3<$DIR/node; touch $DIR/ready; sleep 600' >/dev/null 2>&1 &"
        + READY,
        "arrange": f"mkdir -p $SYS/devices/$NAME/device/{kind}; echo 1:7 >$SYS/devices/$NAME/device/{kind}/dev",
    }


# Put the drive behind a PCI function, of which this machine's loop devices have none.
BEHIND_PCI = "pci=$SYS/devices/0000:01:00.0; mkdir $pci; mv $SYS/devices/region0 $pci/; ln -s $pci/region0 $SYS/devices/region0; "
READY = " until [ -e $DIR/ready ]; do sleep 0.02; done"
MOUNT = "mkdir $DIR/mnt; mkfs.ext4 -q -F $DEV; "
FOREIGN = "which this rig did not make"
SITUATIONS = [
    # --- in use
    Situation("mounted", "is mounted at", MOUNT + "mount -o ro $DEV $DIR/mnt"),
    Situation("mounted in another mount namespace", "cannot be opened exclusively",
              MOUNT + "unshare --mount sh -c 'mount -o ro $DEV $DIR/mnt; touch $DIR/ready; sleep 600' >/dev/null 2>&1 &" + READY),
    Situation("a loop device upon it, whose file system is mounted", "is a loop device upon it",
              MOUNT + "mount -o ro $(losetup --show --find $DEV) $DIR/mnt"),
    Situation("a loop device upon it, at an offset", "is a loop device upon it",
              "losetup --find --offset 1048576 $DEV"),
    Situation("a loop device upon it, made by another node", "is a loop device upon it",
              "mknod $DIR/node b $(cat /sys/block/$NAME/dev | tr : ' '); losetup --find $DIR/node; rm $DIR/node"),
    Situation("a loop device upon a loop device upon it", "is a loop device upon it",
              "losetup --find $(losetup --show --find $DEV)"),
    Situation("a loop device upon a partition of it", "has partitions|is a loop device upon it",
              "echo ',16M,L' | sfdisk --quiet $DEV; partx --add $DEV || true; sleep 0.2; losetup --find ${DEV}p1", needs=("which sfdisk", "which partx")),
    Situation("a partition that the kernel has not read, mounted through a loop device", "is a loop device upon it",
              "echo '2048,32M,L' | sfdisk --quiet --no-reread --no-tell-kernel $IMG; mkdir $DIR/mnt; "
              "upon=$(losetup --show --find --offset 1048576 --sizelimit 32M $DEV); mkfs.ext4 -q -F $upon; mount -o ro $upon $DIR/mnt", needs=("which sfdisk",)),
    Situation("a partition that is swapped to", "has partitions|is in use as swap",
              "echo ',16M,S' | sfdisk --quiet $DEV; partx --add $DEV || true; sleep 0.2; mkswap ${DEV}p1 >/dev/null; swapon ${DEV}p1", needs=("which sfdisk", "which partx", "which mkswap")),
    Situation("swapped to", "is in use as swap", "mkswap $DEV >/dev/null; swapon $DEV", needs=("which mkswap",)),
    Situation("open for writing", "has it open for writing", "sh -c 'exec <>$DEV; touch $DIR/ready; sleep 600' >/dev/null 2>&1 &" + READY),
    Situation("open for writing and nothing else, by a process in another mount namespace", "has it open for writing",
              "unshare --mount sh -c 'exec 3>>$DEV; touch $DIR/ready; sleep 600' >/dev/null 2>&1 &" + READY),
    Situation("open for writing by another node", "has it open for writing",
              "mknod $DIR/node b $(cat /sys/block/$NAME/dev | tr : ' '); sh -c 'exec <>$DIR/node; touch $DIR/ready; sleep 600' >/dev/null 2>&1 &" + READY),
    Situation("a dd that runs", "has it open for writing",
              "dd if=/dev/zero of=$DEV bs=4k count=1 status=none; (sleep 600 | dd of=$DEV bs=4k seek=2 2>/dev/null) >/dev/null 2>&1 & "
              "until pgrep -x dd >/dev/null; do sleep 0.05; done; sleep 0.2", needs=("which pgrep",)),
    Situation("opened exclusively for reading", "cannot be opened exclusively",
              python("os.open(os.environ['DEV'], os.O_RDONLY | os.O_EXCL)")),
    Situation("mapped, and its descriptor closed", "has it mapped", holder("mapped")),
    Situation("mapped by another node", "has it mapped", holder("mapped_by_another_node")),
    Situation("registered with an io_uring, and its descriptor closed", "has it in an io_uring", holder("ring")),
    Situation("registered with an io_uring by another node", "in an io_uring, which cannot be looked at", holder("ring_by_another_node")),
    Situation("registered with an io_uring that is closed", "an io_uring that cannot be looked at", holder("closed_ring")),
    Situation("its descriptor is in flight", "has it in a message", holder("in_flight")),
    Situation("its descriptor is in flight behind another one", "descriptors that cannot be looked at", holder("in_flight_second")),
    Situation("its descriptor is in flight in a socket that is in flight", "has it in a message", holder("in_flight_in_flight")),
    Situation("its descriptor is in flight to a server that does not accept", "descriptors that cannot be looked at", holder("in_flight_to_a_listener")),
    Situation("open for writing in a thread with a table to itself", "has it open for writing", holder("thread")),
    Situation("open for writing by a process whose first thread has ended", "has it open for writing", holder("thread_without_a_leader")),
    Situation("its SCSI generic node is open", "is in use as /dev/sg9", **opened_node("scsi_generic/sg9")),
    Situation("its node for block commands is open", "is in use as /dev/0:0:0:0", **opened_node("bsg/0:0:0:0")),
    Situation("its PCI function is to be a virtual machine's", "is to be given to vfio-pci",
              arrange=BEHIND_PCI + "echo vfio-pci >$pci/driver_override"),
    Situation("a virtual machine has a virtual function of its controller", "vfio-pci has a virtual function",
              arrange=BEHIND_PCI + "mkdir -p $pci/virtfn0 $SYS/drivers/vfio-pci; ln -s $SYS/drivers/vfio-pci $pci/virtfn0/driver"),
    Situation("its PCI function belongs to a virtual machine that is off", "guest.xml: 0000:01:00.0",
              arrange=BEHIND_PCI + named("etc/libvirt/qemu/guest.xml", "<address domain='0x0000' bus='0x01' slot='0x00' function='0x0'/>")),
    Situation("a USB gadget serves it", "a USB gadget serves it",
              arrange="rm $SYS/kernel; lun=$SYS/kernel/config/usb_gadget/g1/functions/mass_storage.0/lun.0; mkdir -p $lun; echo $DEV >$lun/file"),
    Situation("read by what no list shows", "was read or written", holder("reader")),
    Situation("a device-mapper volume upon it", "is in use: dm-",
              "dmsetup create joulerig-hostile-$NAME --table \"0 2048 linear $DEV 0\"", needs=("dmsetup version",)),
    Situation("partitions that the kernel has read", "has partitions",
              "echo 'label: gpt\n,16M,L\n' | sfdisk --quiet $DEV; partx --add $DEV || true; sleep 0.2", needs=("which sfdisk", "which partx")),
    Situation("a mounted partition", "is mounted at",
              "mkdir $DIR/mnt; echo ',16M,L' | sfdisk --quiet $DEV; partx --add $DEV || true; sleep 0.2; mkfs.ext4 -q -F ${DEV}p1; mount -o ro ${DEV}p1 $DIR/mnt", needs=("which sfdisk", "which partx")),
    Situation("named in fstab", "fstab: ", arrange="mkdir -p $ETC; echo \"$DEV /srv ext4 noauto 0 2\" >$ETC/fstab"),
    Situation("named in fstab by another link", "fstab: ",
              arrange="ln -s $DEV /dev/joulerig-hostile-$NAME; mkdir -p $ETC; echo \"/dev/joulerig-hostile-$NAME /srv ext4 noauto 0 2\" >$ETC/fstab"),
    Situation("named in crypttab", "crypttab: ", arrange="mkdir -p $ETC; echo \"vault $DEV none luks\" >$ETC/crypttab"),
    Situation("named in mdadm.conf", "mdadm.conf: ",
              arrange="mkdir -p $ETC/mdadm; echo \"ARRAY /dev/md0 devices=/dev/none,$DEV\" >$ETC/mdadm/mdadm.conf"),
    Situation("named in zpool.cache", "zpool.cache: ",
              arrange="mkdir -p $ETC/zfs; printf '\\000\\000path\\000%s\\000\\000' $DEV >$ETC/zfs/zpool.cache"),
    Situation("named in fstab by a partition that is not there", "fstab: ", arrange=named("etc/fstab", "${DEV}p1 /srv ext4 noauto 0 2")),
    Situation("named in fstab by a link that is not there", "fstab: ",
              arrange=named("etc/fstab", "/dev/disk/by-id/ata-DISK_HOSTILE-1-part1 /srv ext4 noauto 0 2")),
    Situation("named in a mount unit", "srv-data.mount: ", arrange=named("etc/systemd/system/srv-data.mount", "[Mount]\nWhat=$DEV\nWhere=/srv/data")),
    Situation("named in a swap unit", "swap: ", arrange=named("run/systemd/system/dev-disk.swap", "[Swap]\nWhat=/dev/disk/by-id/ata-DISK_HOSTILE-1")),
    Situation("named by the name of a swap unit", "dev-$NAME.swap|dev-loop", arrange=named("usr/lib/systemd/system/dev-$NAME.swap", "[Swap]\nPriority=5")),
    Situation("named by the escaped name of a swap unit", "swap: hostile.1",
              arrange=named("etc/systemd/system/dev-disk-by\\x2did-ata\\x2dDISK_HOSTILE\\x2d1.swap", "[Swap]\nPriority=5")),
    Situation("named in a unit that needs it", "backup.service: ", arrange=named("etc/systemd/system/backup.service", "[Unit]\nBindsTo=dev-$NAME.device")),
    Situation("named in a drop-in of a unit", "10-where.conf: ", arrange=named("etc/systemd/system/srv.mount.d/10-where.conf", "[Mount]\nWhat=$DEV")),
    Situation("a disk of a virtual machine that is off", "guest.xml: ",
              arrange=named("etc/libvirt/qemu/guest.xml", "<disk type='block'><source dev='$DEV'/></disk>")),
    Situation("a disk of a Proxmox machine that is off", "100.conf: ", arrange=named("etc/pve/qemu-server/100.conf", "scsi1: $DEV,size=64M")),
    Situation("a disk of an Incus instance that is off", "db.bin: ", arrange=named("var/lib/incus/database/global/db.bin", "source$DEV\t")),
    Situation("given to a container that is off", "hostconfig.json: ",
              arrange=named("var/lib/docker/containers/12ab/hostconfig.json", '{"Devices":[{"PathOnHost":"$DEV"}]}')),
    Situation("a target that is not started", "saveconfig.json: ",
              arrange=named("etc/target/saveconfig.json", '{"storage_objects": [{"dev": "$DEV", "plugin": "block"}]}')),
    Situation("a target that is not started, with slashes escaped", "saveconfig.json: ",
              arrange=named("etc/rtslib-fb-target/saveconfig.json", '{"dev": "\\/dev\\/$NAME"}')),
    Situation("a target of tgt that is not started", "disk.conf: ", arrange=named("etc/tgt/conf.d/disk.conf", "backing-store $DEV")),
    Situation("served by an nbd-server that is not started", "nbd-server/config: ", arrange=named("etc/nbd-server/config", "[disk]\nexportname = $DEV")),
    Situation("named in a map of autofs", "auto.data: ", arrange=named("etc/auto.data", "disk -fstype=ext4 :$DEV")),
    Situation("named in LVM's list of devices", "system.devices: ",
              arrange=named("etc/lvm/devices/system.devices", "IDTYPE=sys_serial IDNAME=HOSTILE-1 DEVNAME=/dev/none PVID=none")),
    Situation("where a zram device writes to after the next boot", "zram-generator.conf: ",
              arrange=named("etc/systemd/zram-generator.conf", "[zram0]\nwriteback-device=$DEV")),
    Situation("the disk of a DRBD resource that is down", "r0.res: ", arrange=named("etc/drbd.d/r0.res", "on bench1 { disk $DEV; }")),
    Situation("a ceph OSD's disk, by a link", "osd/ceph-0/block: ",
              arrange="mkdir -p $DIR/var/lib/ceph/osd/ceph-0; ln -s /dev/disk/by-id/ata-DISK_HOSTILE-1 $DIR/var/lib/ceph/osd/ceph-0/block"),
    Situation("named on the kernel's command line", "cmdline: ",
              arrange="cp /proc/cmdline $DIR/cmdline; echo systemd.mount-extra=$DEV:/srv >>$DIR/cmdline; mount --bind $DIR/cmdline /proc/cmdline"),
    Situation("named as the place of hibernation", "conf.d/resume: ",
              arrange="mkdir -p $ETC/initramfs-tools/conf.d; echo RESUME=$DEV >$ETC/initramfs-tools/conf.d/resume"),
    # --- not the declared one
    Situation("another serial", "no drive with serial", declared={"serial": "HOSTILE-9"}),
    Situation("a serial that is only alike", "no drive with serial", declared={"serial": "hostile-1"}),
    Situation("a placeholder as serial", "is no serial", arrange="echo 0000000000 >$SYS/devices/$NAME/device/serial",
              declared={"serial": "0000000000"}),
    Situation("two devices of one serial", "is that of several devices|present: HOSTILE-1, HOSTILE-1",
              arrange="echo HOSTILE-1 >$SYS/devices/${OTHER#/dev/}/device/serial"),
    Situation("a sector less than declared", "the inventory says", declared={"size_bytes": 64 * MIB + 512}),
    Situation("another WWN", "has WWN", arrange="echo naa.5000c500a0000001 >$SYS/devices/$NAME/device/wwid",
              declared={"wwn": "naa.5000c500a0000002"}),
    Situation("a WWN that is not declared", "put it into the inventory",
              arrange="echo naa.5000c500a0000001 >$SYS/devices/$NAME/device/wwid"),
    Situation("no WWN where one is declared", "has WWN None", declared={"wwn": "naa.5000c500a0000002"}),
    Situation("an NVMe drive is declared", "is no NVMe drive", declared={"interface": "nvme"}),
    Situation("read-only", "is read-only",
              arrange="blockdev --setro $DEV; rm $SYS/devices/$NAME/ro; echo 1 >$SYS/devices/$NAME/ro"),
    Situation("removable", "is removable", arrange="echo 1 >$SYS/devices/$NAME/removable"),
    Situation("a name that leads to another device", "is device",
              arrange="mount -t tmpfs none /mnt; cp -a /dev/. /mnt/ 2>/dev/null || true; rm /mnt/$NAME; "
              "mknod /mnt/$NAME b $(cat /sys/block/${OTHER#/dev/}/dev | tr : ' '); mount --move /mnt /dev"),
    # --- holds what the rig did not make
    Situation("ext4", "holds ext4", "mkfs.ext4 -q -F -L photos $DEV"),
    Situation("ext2", "holds ext2", "mke2fs -q -F -t ext2 $DEV"),
    Situation("another file system's external journal", "holds jbd", "mke2fs -q -F -O journal_dev $DEV"),
    Situation("swap space that is not in use", "holds swap", "mkswap $DEV >/dev/null", needs=("which mkswap",)),
    Situation("the image of a hibernated system", "holds swsuspend",
              "mkswap $DEV >/dev/null; " + magic(4086, "S1SUSPEND"), needs=("which mkswap",)),
    Situation("a GPT that the kernel has not read", "holds a partition table gpt",
              "echo 'label: gpt\n,16M,L\n' | sfdisk --quiet --no-reread --no-tell-kernel $IMG", needs=("which sfdisk",)),
    Situation("an MBR that the kernel has not read", "holds a partition table dos",
              "echo 'label: dos\n,16M,7\n' | sfdisk --quiet --no-reread --no-tell-kernel $IMG", needs=("which sfdisk",)),
    Situation("LUKS", "holds crypto_LUKS", magic(0, "LUKS\\272\\276\\000\\001aes")),
    Situation("LUKS whose header is elsewhere", "data without a signature",
              "dd if=/dev/urandom of=$DEV bs=1M count=64 iflag=fullblock conv=fsync status=none"),
    Situation("a ZFS pool's label", FOREIGN,
              "for at in 135168 136192 137216 138240; do printf '\\014\\261\\272\\000\\000\\000\\000\\000' | dd of=$DEV bs=1 seek=$at conv=notrunc status=none; done; sync $DEV"),
    Situation("a firmware RAID's member (isw)", "holds isw_raid_member|data without a signature",
              magic(64 * MIB - 1024, "Intel Raid ISM Cfg Sig. 1.1.00")),
    Situation("a hardware RAID's member (ddf)", "holds ddf_raid_member|data without a signature",
              magic(64 * MIB - 512, "\\336\\021\\336\\021")),
    Situation("BitLocker", FOREIGN, magic(0, "\\353\\130\\220-FVE-FS-")),
    Situation("NTFS", FOREIGN,
              magic(0, "\\353R\\220NTFS    \\000\\002\\010\\000\\000\\000\\000\\000\\000\\370")
              + "; " + magic(40, "\\377\\377\\001\\000\\000\\000\\000\\000\\004\\000\\000\\000\\000\\000\\000\\000")
              + "; " + magic(64, "\\366\\000\\000\\000\\001") + "; " + magic(510, "\\125\\252")
              + "; " + magic(16384, "FILE")),
    Situation("XFS", "holds xfs", "TEST_DIR=x TEST_DEV=x QA_CHECK_FS=x mkfs.xfs -q -f $DEV", needs=("which mkfs.xfs",)),
    Situation("btrfs", "holds btrfs", magic(65600, "_BHRfS_M")),
    Situation("LVM", "holds LVM2_member", "pvcreate --quiet $DEV", needs=("which pvcreate",)),
    Situation("an md array's member", "holds linux_raid_member", "mdadm --create /dev/md/hostile --run --level=0 --force --raid-devices=1 $DEV; mdadm --stop /dev/md/hostile", needs=("which mdadm", "test -e /proc/mdstat")),
    Situation("bcache", FOREIGN, magic(4120, "\\306\\205s\\366N\\032E\\312\\202e\\365\\177H\\272m\\201")),
    Situation("an Oracle ASM disk", "holds oracleasm", magic(32, "ORCLDISK")),
    Situation("a VMFS volume", "holds VMFS_volume_member", magic(1048576, "\\015\\320\\001\\300")),
    Situation("a VDO volume", "holds vdo", magic(0, "dmvdo001")),
    Situation("dm-integrity", FOREIGN, magic(0, "integrt")),
    Situation("dm-verity", "holds DM_verity_hash", magic(0, "verity\\000\\000\\001")),
    Situation("a ceph OSD", "holds ceph_bluestore", magic(0, "bluestore block device")),
    Situation("Stratis", FOREIGN, magic(512 + 4, "!Stra0tis\\206\\377\\002^\\101rh")),
    Situation("OCFS2", "holds ocfs2", magic(4096, "OCFSV2")),
    Situation("GFS2", FOREIGN, magic(65536, "\\001\\026\\031p\\000\\000\\000\\001")),
    Situation("APFS", FOREIGN, magic(32, "NXSB")),
    Situation("a CD's image", FOREIGN, magic(32769, "CD001")),
    Situation("a database without a signature", "data without a signature",
              "yes 'a row' | dd of=$DEV bs=1M count=64 iflag=fullblock conv=fsync status=none"),
    Situation("data at its end alone", "data without a signature", magic(64 * MIB - 4000, "the last page")),
    # --- what the rig made, and what came after it
    Situation("the rig's record is of another file system", FOREIGN, "mkfs.ext4 -q -F $DEV",
              arrange='echo \'{"version": 1, "drives": {"HOSTILE-1": {"made": {"signatures": '
              '[["ext4", "11111111-2222-3333-4444-555555555555"]], "digest": null}}}}\' >$DIR/drives.json'),
    Situation("adopted, and changed since", FOREIGN, "mkfs.ext4 -q -F $DEV",
              arrange='echo \'{"version": 1, "drives": {"HOSTILE-1": {"adopted": {"signatures": '
              '[["swap", "1"]], "digest": null}}}}\' >$DIR/drives.json'),
    Situation("the rig's record cannot be read", "drives.json: cannot be read", arrange="echo '{' >$DIR/drives.json"),
    # --- checks that cannot be made
    Situation("no /etc/fstab to be read", "fstab: cannot be read", arrange="mkdir -p $ETC/fstab"),
    Situation("a target's configuration that cannot be read", "saveconfig.json: cannot be read",
              arrange="mkdir -p $ETC/target; truncate -s 65M $ETC/target/saveconfig.json"),
]  # fmt: skip


RECORDS = ("", "killed", "killed power cut", "adopted")
# Whose own record of drives is what refuses it.
WITH_A_RECORD = ("the rig's record is", "adopted, and changed", "the rig's record cannot")


class Drive:
    """Two loop devices with images in memory; the first is the drive under attack."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.image, self.other = folder / "image", folder / "other-image"
        self.names: list[str] = []
        for image in (self.image, self.other):
            image.touch()
            os.truncate(image, 64 * MIB)
            # Without a loop device of the host's own there is none in the namespace either.
            command = ["losetup", "--find", "--show", "--partscan", str(image)]
            self.names.append(
                subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()[5:]
            )

    def attack(self, situation: Situation) -> dict[str, dict[str, dict[str, Any]]]:
        """Return what each way came to, by record of drives: {reason, written}."""
        description = {
            "folder": str(self.folder), "device": self.names[0], "other": self.names[1],
            **dataclasses.asdict(situation),
        }  # fmt: skip
        (self.folder / "situation.json").write_text(json.dumps(description))
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        command += [sys.executable, "-m", "tests.support.hostile_drive", str(self.folder / "situation.json")]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def content(self) -> str:
        return hashlib.sha256(self.image.read_bytes()).hexdigest()

    def close(self) -> None:
        subprocess.run(["dmsetup", "remove", f"joulerig-hostile-{self.names[0]}"], capture_output=True)
        Path(f"/dev/joulerig-hostile-{self.names[0]}").unlink(missing_ok=True)
        for name in reversed(self._loops()):
            for part in (f"/dev/{name}", *map(str, Path("/dev").glob(f"{name}p*"))):
                subprocess.run(["swapoff", part], capture_output=True)
            subprocess.run(["blockdev", "--setrw", f"/dev/{name}"], capture_output=True)
            subprocess.run(["losetup", "--detach", f"/dev/{name}"], capture_output=True)

    def _loops(self) -> list[str]:
        """The drives, and the loop devices upon them, lowest first.

        A loop device that was made in another mount namespace has its file by another path.
        """
        listing = subprocess.run(["losetup", "--list", "--json"], capture_output=True, text=True, check=True)
        files = {one["name"][5:]: one["back-file"] for one in json.loads(listing.stdout)["loopdevices"]}
        found = list(self.names)
        for lower in found:  # it grows meanwhile
            found += [
                name
                for name, file in files.items()
                if name not in found and (re.search(rf"/{lower}(p\d+)?$", file) or self.folder.name in file)
            ]
        return found


@contextlib.contextmanager
def new_drive() -> Iterator[Drive]:
    # A disk would take most of the time: what is written is synced, and much is. Loads do not see
    # /dev/shm. By the folder's name within it, a loop device of another namespace is recognised.
    with tempfile.TemporaryDirectory(prefix="jr") as mount:
        subprocess.run(["mount", "-t", "tmpfs", "joulerig-hostile", mount], check=True)
        folder = Path(mount) / Path(mount).name
        folder.mkdir()
        made = Drive(folder)
        try:
            yield made
        finally:
            made.close()
            subprocess.run(["umount", "--lazy", mount], check=True)


@pytest.fixture
def drive() -> Iterator[Drive]:
    with new_drive() as made:
        yield made


def attacked(situation: Situation) -> dict[str, dict[str, dict[str, Any]]]:
    with new_drive() as drive:
        return drive.attack(situation)


@pytest.fixture(scope="module")
def attacks(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[Any]]]:
    """Try the selected situations, two at a time; give the results by name."""
    pool = ThreadPoolExecutor(2)
    try:
        yield {
            one.callspec.id: pool.submit(attacked, one.callspec.params["situation"])
            for one in request.session.items
            if "situation" in getattr(getattr(one, "callspec", None), "params", {})
            and one.path == request.path
            and not lacking(one.callspec.params["situation"])
        }
    finally:
        pool.shutdown(cancel_futures=True)


def lacking(situation: Situation) -> str:
    """Return the command that shows that a situation cannot be made here, or an empty text."""
    failed = (
        one for one in situation.needs if subprocess.run(one, shell=True, capture_output=True).returncode
    )
    return next(failed, "")


def check_untouched(attacks: dict[str, Future[Any]], request: pytest.FixtureRequest, situation: Situation):
    if command := lacking(situation):
        pytest.skip(f"{command}: fails here; it is needed to make the situation")
    found = attacks[request.node.callspec.id].result()
    assert set(found) == set(situation.records), found
    for kind, ways in found.items():
        for way, one in ways.items():
            # A machine that is short of memory swaps to a drive that is in use as swap.
            assert one["written"] <= one["swapped_out"], (kind, way, one)
            if way == "provisioning":  # it looks at identity alone, and changes nothing
                continue
            assert re.search(situation.words, one["reason"]), (kind, way, one)
            assert "\n" not in one["reason"], (kind, way, one)


def test_a_blank_drive_is_written_by_every_way(drive: Drive):
    """Else the tests below could not fail."""
    found = drive.attack(Situation("blank", ""))[""]
    for way, one in found.items():
        if way not in ("power cut: write", "power cut: survey", "provisioning"):
            assert one["written"] > 0, (way, one)


@pytest.mark.long
def test_a_drive_that_is_only_read_is_written_by_every_way(drive: Drive):
    """As udev and smartd read it; what processes do with other devices is no use of it either."""
    found = drive.attack(Situation("read", "", holder("harmless")))[""]
    for way, one in found.items():
        if way not in ("power cut: write", "power cut: survey", "provisioning"):
            assert one["written"] > 0, (way, one)


# One of each kind for `make test`; each row takes the rig's commands seconds.
IN_MAKE_TEST = {
    "mounted", "a partition that is swapped to", "open for writing by another node",
    "named in a mount unit", "a loop device upon it, whose file system is mounted",
    "run that is killed under load, then ext4", "adoption, then a mount",
}  # fmt: skip


def rows(situations: list[Situation]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "situation",
        [
            pytest.param(one, id=one.name, marks=[] if one.name in IN_MAKE_TEST else [pytest.mark.long])
            for one in situations
        ],
    )


RECORDS_IN_TURN = itertools.cycle([RECORDS] if ALL else [(one,) for one in RECORDS])


@rows(
    [
        one if one.name.startswith(WITH_A_RECORD) else dataclasses.replace(one, records=records)
        for one, records in zip(SITUATIONS, RECORDS_IN_TURN, strict=False)
    ]
)
def test_nothing_is_written_to_a_drive(attacks, request, situation: Situation):
    """Whatever the host has recorded of it: nothing, a change that was killed, an old adoption."""
    check_untouched(attacks, request, situation)


# --- a change of the rig's that was killed, or has ended, is no licence for what comes after it

CHANGES = (
    "power-cut campaign", "power cut without a survey", "bare power cut without a survey",
    "mkfs that is killed before it writes", "mkfs that is killed while it writes", "run that is killed under load",
    "precondition that is killed before it writes", "precondition that is killed",
    "array that fails before it writes", "array that fails",
)  # fmt: skip
PERSONS = {
    "ext4": ("holds ext4 'THESIS'", "mkfs.ext4 -q -F -L THESIS $DEV", ()),
    "XFS": (
        "holds xfs", "TEST_DIR=x TEST_DEV=x QA_CHECK_FS=x mkfs.xfs -q -f $DEV", ("which mkfs.xfs",)
    ),
    "LUKS": ("holds crypto_LUKS", magic(0, "LUKS\\272\\276\\000\\001aes"), ()),
    "raw data": (
        "data without a signature",
        "dd if=/dev/urandom of=$DEV bs=1M count=64 iflag=fullblock conv=fsync status=none", (),
    ),
    "a little raw data": (
        "holds", "dd if=/dev/urandom of=$DEV bs=1M count=3 conv=fsync status=none", (),
    ),
}  # fmt: skip
PAIRS = itertools.product(CHANGES, PERSONS) if ALL else zip(CHANGES, itertools.cycle(PERSONS), strict=False)
AFTER_CHANGES = [
    Situation(f"{change}, then {what}", words, make, needs=("which fio", *needs), change=change)
    for change, what in PAIRS
    for words, make, needs in [PERSONS[what]]
]
AFTER_CHANGES += [
    Situation(f"adoption, then {what}", "holds ext4 'THESIS'", make, change="adoption")
    for what, make in (
        ("another file", "mount $DEV $DIR/mnt; echo 2 >$DIR/mnt/two; umount $DIR/mnt"),
        ("a mount", "mount $DEV $DIR/mnt; umount $DIR/mnt"),
    )
]


@rows(AFTER_CHANGES)
def test_what_a_person_stores_after_a_change_is_theirs(attacks, request, situation: Situation):
    check_untouched(attacks, request, situation)


RESUMED = [
    Situation(f"{change}, then the next run", "", needs=("which fio",), change=change, ways=("run",))
    for change in ("adoption", *CHANGES)
]


@rows(RESUMED)
def test_a_campaign_goes_on_after_a_change_without_a_person(attacks, request, situation: Situation):
    found = attacks[request.node.callspec.id].result()[""]["run"]
    assert found["written"] > 0, found


def test_a_look_says_what_is_there_and_leaves_no_trace(drive: Drive):
    """Neither a write nor a flush: a drive that is looked at is as it was."""
    device = f"/dev/{drive.names[0]}"
    with tempfile.TemporaryDirectory(prefix="jr") as mount:  # the superblock has 64 bytes for its path
        for command in (
            ["mkfs.ext4", "-q", "-F", "-L", "photos", device], ["mount", device, mount],
            ["dd", "if=/dev/urandom", f"of={mount}/file", "bs=1M", "count=8"], ["umount", mount],
        ):  # fmt: skip
            subprocess.run(command, check=True, capture_output=True)
    before = drive.content()
    look = drive.attack(Situation("looked at", "", look=True))[""]["look"]
    assert (drive.content(), look["written"], look["flushes"]) == (before, 0, 0)
    found = look["said"]["found"]["drive"]
    assert found["holds"].startswith("ext4 'photos' (")
    assert found["free"] == found["problem"] == ""
    used, place, mounted, _ = found["details"]
    assert 8 * MIB < int(used.split()[0]) < 24 * MIB
    assert place == f"last mounted on: {mount}"
    assert mounted.startswith("last mounted: 20")


def test_the_number_of_an_open_drive_is_given_to_no_other(drive: Drive):
    """A lease rests on it: what it compared stays true for as long as it is open."""
    number = os.open(f"/dev/{drive.names[0]}", os.O_RDONLY)
    subprocess.run(["losetup", "--detach", f"/dev/{drive.names[0]}"], check=True)
    new = subprocess.run(
        ["losetup", "--find", "--show", drive.other], capture_output=True, text=True, check=True
    )
    drive.names.append(new.stdout.strip()[5:])
    assert drive.names[-1] != drive.names[0]
    assert os.fstat(number).st_rdev != os.stat(f"/dev/{drive.names[-1]}").st_rdev
    os.close(number)


def test_the_situations_are_as_many_as_the_page_says():
    assert len(SITUATIONS) > 100


def test_the_rows_of_make_test_are_there():
    assert {one.name for one in (*SITUATIONS, *AFTER_CHANGES, *RESUMED)} >= IN_MAKE_TEST
