# SPDX-License-Identifier: GPL-3.0-or-later
"""Find a drive that a file of the system's configuration names: it is for a use of another day.

A blank drive may be a virtual machine's disk that is off, a target's backing store, a swap space
that a unit makes at the next boot. There are many formats of such files, and a new one with each
storage server. None is parsed here: any word that leads to the drive refuses it, be it a path, a
name below /dev/disk that is not there now, a serial number, a WWN, a UUID or label of what is on
it, the name of a systemd unit, or the address of its PCI function.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence, Set

from ansible.module_utils.joulerig.drives.host import Host, matches, unreadable

# Files that say what a drive is for, below the root; "**" is a folder's whole tree. Left out are
# those that name drives without a use of their content, or exclude them: smartd.conf, hdparm.conf,
# multipath.conf, lvm.conf, udev's rules, LVM's backups.
FILES = (
    # mounts, swap, encryption, integrity, arrays, pools
    "etc/fstab", "etc/fstab.d/**", "etc/crypttab", "etc/veritytab", "etc/integritytab",
    "etc/mdadm.conf", "etc/mdadm/**", "etc/mdadm.conf.d/**", "etc/zfs/zpool.cache",
    "etc/lvm/devices/*.devices", "etc/multipath/wwids", "etc/auto.*", "etc/auto.*.d/**", "etc/autofs/**",
    "etc/systemd/zram-generator.conf", "etc/systemd/zram-generator.conf.d/**",
    "usr/lib/systemd/zram-generator.conf", "usr/lib/systemd/zram-generator.conf.d/**",
    "etc/default/zramswap", "etc/bcachefs*", "etc/stratis/**", "etc/vdoconf.yml", "etc/driverctl.d/**",
    "etc/initramfs-tools/conf.d/resume",
    # systemd's units
    "etc/systemd/system/**", "etc/systemd/user/**", "run/systemd/system/**", "run/systemd/generator*/**",
    "run/systemd/transient/**", "usr/lib/systemd/system/**", "usr/local/lib/systemd/system/**",
    "lib/systemd/system/**",
    # virtual machines and containers
    "etc/libvirt/**", "etc/pve/**", "etc/xen/**", "etc/qemu/**", "var/lib/incus/database/global/db.bin",
    "var/lib/lxd/database/global/db.bin", "var/snap/lxd/common/lxd/database/global/db.bin",
    "var/lib/lxc/*/config", "var/lib/docker/containers/*/hostconfig.json", "etc/containers/systemd/**",
    "var/lib/containers/storage/*-containers/*/userdata/config.json", "etc/kubernetes/manifests/**",
    # targets and storage servers
    "etc/target/saveconfig.json", "etc/rtslib-fb-target/**", "etc/tgt/**", "etc/scst.conf", "etc/iet/**",
    "etc/ietd.conf", "etc/istgt/**", "etc/nvmet/**", "etc/spdk/**", "etc/nbd-server/**", "etc/nbdkit/**",
    "etc/drbd.conf", "etc/drbd.d/**", "etc/ceph/**", "var/lib/ceph/osd/*/*", "var/lib/ceph/*/osd.*/*",
    "etc/glusterfs/**", "etc/aerospike/**", "etc/trafficserver/storage.config", "etc/mysql/**",
    "etc/my.cnf", "etc/my.cnf.d/**", "etc/bacula/**", "etc/bareos/**", "etc/modprobe.d/**",
)  # fmt: skip
MOST_BYTES = 64 << 20
SHORTEST_SERIAL = 6  # a shorter one is in many a word
_KEY = re.compile(r"\b(?:part)?(?:uuid|label)=[\"']?([^\s\"',;]+)")
_UNIT = re.compile(r"(?<![\w.-])dev-[\w:.\\@-]+?(?=\.(?:swap|device|mount|automount|service)\b)")
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")
_COMMENT = re.compile(r"^\s*[#;].*$", re.MULTILINE)
# A PCI function's address as libvirt writes it.
_ADDRESS = re.compile(
    r"domain=.0x([0-9a-f]{4}).\s+bus=.0x([0-9a-f]{2}).\s+slot=.0x([0-9a-f]{2}).\s+function=.0x([0-7])"
)


class Names:
    """The names by which a file may mean a drive.

    `nodes`: names of its nodes below /dev, without those of partitions; `is_at(path)`: whether a
    path that is there leads to it; `marks`: UUIDs and labels of what is on it, in lower case.
    """

    def __init__(
        self,
        disks: Sequence[str],
        nodes: Sequence[str],
        marks: Set[str],
        is_at: Callable[[str], bool],
        host: Host,
    ) -> None:
        self._is_at, self._marks, self._dev = is_at, marks, host.dev
        self._path = re.compile(re.escape(host.dev) + r"/[^\s\"'<>,;|()\[\]{}\x00-\x1f\x7f-\x9f]+")
        partitions = [rf"{re.escape(one)}(?:{'p' if one[-1].isdigit() else ''}\d+)?" for one in disks]
        self._node = re.compile("|".join([*partitions, *map(re.escape, nodes)]))
        words = [word for one in disks for word in _words(one, host)]
        # mdadm.conf has colons in an array's UUID, at other places than the dashes.
        words += ["[-:]?".join(one.replace("-", "")) for one in marks if _is_uuid(one)]
        self._words = re.compile(rf"(?<![0-9a-z])(?:{'|'.join(words)})(?![0-9a-z])") if words else None

    def find(self, text: str) -> str:
        """Return the first word of a text that means the drive; "" where there is none."""
        for path in self._path.findall(text):
            if self._is_meant(path):
                return path
        for unit in _UNIT.findall(text):
            if self._is_meant(f"{self._dev}/{_unescaped(unit[4:].replace('-', '/'))}"):
                return unit
        plain = _ADDRESS.sub(r"\1:\2:\3.\4", _unescaped(text).lower())
        for value in _KEY.findall(plain):
            if value in self._marks:
                return value
        found = self._words.search(plain) if self._words else None
        return found[0] if found else ""

    def _is_meant(self, path: str) -> bool:
        """Check whether a path is the drive's; what follows a colon may be another word."""
        path = path.rstrip(".:=\\")
        while True:
            name = path[len(self._dev) + 1 :]
            by = name.startswith("disk/by-") and os.path.basename(_unescaped(name)).lower() in self._marks
            if by or self._node.fullmatch(name) or self._is_at(path):
                return True
            path, colon, _ = path.rpartition(":")
            if not colon:
                return False


def sources(host: Host) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each file that may name a drive. Raises Refused."""
    yield f"{host.proc}/cmdline", host.require(f"{host.proc}/cmdline")
    seen: set[tuple[int, int]] = set()
    for pattern in FILES:
        for path in matches(host.root, pattern.split("/")):
            if text := _text(path, pattern, seen, host):
                yield path, text


def _text(path: str, pattern: str, seen: set[tuple[int, int]], host: Host) -> str:
    """Return a file's path, what it links to, and its content; "" for one that was read before."""
    try:
        link = os.readlink(path) if os.path.islink(path) else ""
        text = f"{path[len(host.root) :]} {link}\n"
        found = os.stat(path)
        if stat.S_ISDIR(found.st_mode) and "*" not in pattern:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(found.st_mode) or (found.st_dev, found.st_ino) in seen:
            return text if link else ""
        seen.add((found.st_dev, found.st_ino))
        if found.st_size > MOST_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        with open(path, "rb") as file:
            content = file.read(MOST_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:  # a link to nowhere, or it has gone
        return text if link else ""
    except OSError as error:
        raise unreadable(path, error) from None
    return text + _COMMENT.sub("", content.replace("\\/", "/"))


def _words(disk: str, host: Host) -> Iterator[str]:
    """Yield patterns of a disk's serial number, WWN and PCI address, in lower case."""
    serial = (host.serial(disk) or "").strip().lower()
    if len(serial) >= SHORTEST_SERIAL:
        yield re.sub(r"[^0-9a-z]+", lambda one: "." * len(one[0]), serial)
    number = (host.wwn(disk) or "").strip().lower().rpartition(".")[2]
    if re.fullmatch(r"[0-9a-f]{16,32}", number):
        yield f"(?:0x|[238])?{number}"
    if address := os.path.basename(host.pci_function(disk)):
        # The domain is left out where it is 0.
        short = address.partition(":")[2]
        yield re.escape(address)
        if address.startswith("0000:"):
            yield rf"(?<![0-9a-f]:){re.escape(short)}"


def _is_uuid(mark: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", mark) is not None


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda one: chr(int(one[1], 16)), text) if "\\x" in text else text
