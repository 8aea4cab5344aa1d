# SPDX-License-Identifier: GPL-3.0-or-later
"""A test host of files in a temporary folder, with scripts in place of its tools."""

from __future__ import annotations

import errno
import os
import struct
import sys
from pathlib import Path

import pytest

import ansible.module_utils
from tests.support import ROOT

# As ansible.cfg does for Ansible: our module_utils are found in addition to its own.
ansible.module_utils.__path__.append(str(ROOT / "ansible" / "module_utils"))
sys.path[:0] = [str(ROOT / "ansible" / "modules" / folder) for folder in ("", "calls", "changes")]

from ansible.module_utils.joulerig.drives import system_calls  # noqa: E402
from ansible.module_utils.joulerig.drives.commands.nvme import StatusError  # noqa: E402
from ansible.module_utils.joulerig.drives.system_calls import SystemCalls  # noqa: E402


class FakeCalls(SystemCalls):
    """The system calls of a lease on a host of files, which answer as its /sys does.

    `claimed`: names of devices that another has opened exclusively. `reserved`: what each says of
    reservations. `namespaces`: those that a format destroys. `pages`: what each NVMe drive (its
    controller, its health) or ATA disk (its identity) says of itself. `features`: the values of an
    NVMe drive's features, `tables` their data. `deaf`: drives that do not do what they are asked.
    `refused`: orders that ATA disks refuse; `orders`: those that they got. `formats`: what an NVMe
    namespace is. `sanitizing`: states that its sanitize goes through; `sanitized`: those that
    began, with their action; `sanitize_status`: NVMe's, with which it is refused. `vital`: pages of
    SCSI disks.
    `identities`: serial and bytes that a drive itself reports, where they are not as in /sys; None:
    it does not answer. `cacheless`: drives without a volatile write cache. `refusal`: the status of
    each attempt to set a feature. `locked`: names of locked drives.
    """

    def __init__(self, host: FakeHost) -> None:
        self._host = host
        self.claimed: set[str] = set()
        self.reserved: dict[str, str] = {}
        self.namespaces = [1]
        self.pages: dict[str, tuple[bytes, ...]] = {}
        self.features: dict[str, dict[int, int]] = {}
        self.tables: dict[str, dict[int, bytes]] = {}
        self.works_in: dict[str, int] = {}  # the power state to which a read wakes an NVMe drive
        self.deaf: set[str] = set()
        self.refused: set[tuple[int, int]] = set()
        self.orders: list[tuple[str, int, int, int]] = []
        self.formats = bytes(4096)
        self.sanitizing = [1]
        self.sanitized: list[tuple[str, int]] = []
        self.sanitize_status = 0
        self.vital: dict[tuple[str, int], bytes] = {}
        self.identities: dict[str, tuple[str, int] | None] = {}
        self.cacheless: set[str] = set()
        self.refusal = 0
        self.locked: set[str] = set()

    def claim(self, path: str) -> int:
        if os.path.basename(path) in self.claimed:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        return self.open(path)

    def number(self, descriptor: int) -> str:
        return self._host.number(self._name(descriptor))

    def size_bytes(self, descriptor: int) -> int:
        return self._host.system().size_bytes(self._name(descriptor))

    def disk_sequence(self, descriptor: int) -> int | None:
        return self._host.system().disk_sequence(self._name(descriptor))

    def flush(self, descriptor: int) -> None:
        pass

    def reservation(self, descriptor: int, name: str) -> str:
        return self.reserved.get(name, "")

    def format_reaches(self, descriptor: int) -> list[int]:
        return self.namespaces

    def identity(self, descriptor: int, name: str) -> tuple[str, int]:
        host = self._host.system()
        found = self.identities.get(name, (host.serial(name) or "", host.size_bytes(name)))
        if found is None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return found

    def has_cache(self, descriptor: int, name: str) -> bool:
        return name not in self.cacheless

    def is_locked(self, descriptor: int, name: str) -> bool:
        return name in self.locked

    def nvme_controller(self, descriptor: int) -> bytes:
        return self._page(descriptor, 0)

    def nvme_health(self, descriptor: int) -> bytes:
        return self._page(descriptor, 1)

    def nvme_extended_health(self, descriptor: int) -> bytes:
        if len(self.pages.get(self._name(descriptor), ())) < 3:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return self._page(descriptor, 2)

    def nvme_feature(self, descriptor: int, number: int, size: int = 0) -> tuple[int, bytes]:
        name = self._name(descriptor)
        if number not in self.features.get(name, {}):
            raise OSError("NVMe status 0x4002")
        return self.features[name][number], self.tables.get(name, {}).get(number, bytes(size))

    def set_nvme_feature(self, descriptor: int, number: int, value: int) -> None:
        if self.refusal:
            raise StatusError(self.refusal)
        name = self._name(descriptor)
        if name not in self.deaf:
            self.features[name][number] = self.works_in[name] = value

    def wake(self, path: str) -> None:
        name = os.path.basename(path)
        self.features[name][0x02] = self.works_in[name]

    def kept_ata_identity(self, descriptor: int) -> bytes:
        return self._page(descriptor, 0)

    def ata_identity(self, descriptor: int) -> bytes:
        return self._page(descriptor, 0)

    def nvme_namespaces(self, descriptor: int) -> list[int]:
        return self.namespaces

    def nvme_namespace(self, descriptor: int) -> bytes:
        return self.formats

    def sanitize(self, descriptor: int, action: int) -> None:
        self.sanitized.append((self._name(descriptor), action))
        if self.sanitize_status:
            raise StatusError(self.sanitize_status)

    def sanitize_state(self, descriptor: int) -> int:
        return self.sanitizing.pop(0)

    def scsi_page(self, descriptor: int, number: int) -> bytes:
        key = self._name(descriptor), number
        if key not in self.vital:
            raise OSError(f"no page {number:#04x}")
        return self.vital[key]

    def set_ata_password(self, descriptor: int, password: str) -> None:
        self._secure(descriptor, 0xF1, 1 << 1)

    def erase_ata(self, descriptor: int, password: str, seconds: float) -> None:
        self._secure(descriptor, 0xF4, 0)

    def unlock_ata(self, descriptor: int, password: str) -> None:
        self._secure(descriptor, 0xF2, 1 << 1)

    def disable_ata_password(self, descriptor: int, password: str) -> None:
        self._secure(descriptor, 0xF6, 0)

    def _secure(self, descriptor: int, command: int, enabled: int) -> None:
        """Take a command of the security feature set: whether it has a password follows."""
        name = self._name(descriptor)
        self.orders.append((name, command, 0, 0))
        if (command, 0) in self.refused:
            raise OSError(f"ATA command {command:#04x}: refused (SCSI status 0x2)")
        words = list(struct.unpack("<256H", self.pages[name][0]))
        words[128] = words[128] & ~(3 << 1) | enabled
        self.pages[name] = (struct.pack("<256H", *words),)

    def order_ata(self, descriptor: int, command: int, feature: int, count: int) -> None:
        name = self._name(descriptor)
        self.orders.append((name, command, feature, count))
        if (command, feature) in self.refused:
            raise OSError(f"ATA command {command:#04x}: refused (SCSI status 0x2)")
        if command == 0xEF and name not in self.deaf:  # SET FEATURES: advanced power management
            words = list(struct.unpack("<256H", self.pages[name][0]))
            on = feature == 0x05
            words[86] = words[86] | 1 << 3 if on else words[86] & ~(1 << 3)
            words[91] = 0x4000 | count
            self.pages[name] = (struct.pack("<256H", *words),)

    def _page(self, descriptor: int, number: int) -> bytes:
        name = self._name(descriptor)
        if name not in self.pages:
            raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))
        return self.pages[name][number]

    def _name(self, descriptor: int) -> str:
        return os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")).removesuffix(" (deleted)")


class FakeHost:
    """A host's /sys, /proc, /dev and /etc as a tree of files.

    A device's number is made of its name; its content is that of its file in /dev.
    """

    def __init__(self, root: Path) -> None:
        self.sys, self.proc, self.dev, self.etc = (root / name for name in ("sys", "proc", "dev", "etc"))
        self.calls = FakeCalls(self)
        self._numbers: dict[str, str] = {}
        self.put(self.proc / "sys/kernel/random/boot_id", "boot-1\n")
        self.put(self.proc / "self/mountinfo", "21 1 0:20 / /proc rw - proc proc rw\n")
        self.put(self.proc / "cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro\n")
        self.put(self.proc / "mdstat", "Personalities : [linear] [raid0] [raid1] [raid6] [raid5] [raid10] \n")
        self.put(self.proc / "swaps", "Filename\tType\tSize\tUsed\tPriority\n")
        for folder in (self.sys / "block", self.sys / "dev/block", self.sys / "class/block", self.dev / "md"):
            folder.mkdir(parents=True)

    def put(self, path: Path, text: str | bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)

    def stand_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Be the host that modules find where no other is named."""
        from ansible.module_utils.joulerig import fence, paths

        root = self.sys.parent
        places = {
            "SYS": self.sys, "PROC": self.proc, "DEV": self.dev, "ETC": self.etc,
            "RUN_LOCK": root / "run.lock", "DRIVES": root / "drives.json",
            "LEFTOVERS": root / "leftovers.json", "STATE": root / "var/lib/joulerig",
            "QUIET": root / "run/joulerig/quiet",
        }  # fmt: skip
        for name, path in places.items():
            monkeypatch.setattr(paths, name, str(path))
        monkeypatch.setattr(system_calls, "CALLS", self.calls)
        monkeypatch.setattr(fence, "enter", lambda devices, links, dev="/dev": None)

    def system(self):
        from ansible.module_utils.joulerig.drives.host import Host

        return Host(str(self.sys), str(self.proc), str(self.dev), str(self.etc), self.calls)

    def device(self, name: str, *, bytes_=1 << 30, place: str | None = None) -> Path:
        """A block device without hardware behind it; gives its folder in /sys."""
        real = self.sys / (place or f"devices/virtual/block/{name}")
        number = self._numbers.setdefault(name, f"8:{16 * len(self._numbers)}")
        self.put(real / "dev", number + "\n")
        self.put(real / "size", f"{bytes_ // 512}\n")
        self.put(real / "removable", "0\n")
        self.put(real / "ro", "0\n")
        self.put(real / "stat", " 0" * 17 + "\n")
        self.put(real / "inflight", "0 0\n")
        self.put(real / "queue/iostats", "1\n")
        (real / "holders").mkdir()
        (real / "slaves").mkdir()
        for link in (
            self.sys / "block" / name,
            self.sys / "class/block" / name,
            self.sys / "dev/block" / number,
        ):
            link.symlink_to(real)
        self.put(self.dev / name, b"")
        return real

    def disk(
        self,
        name: str,
        serial: str,
        *,
        wwn: str | None = None,
        bytes_=1 << 30,
        vpd=False,
        rotates=True,
        place="devices/pci0",
    ) -> Path:
        """Make a whole disk: NVMe without `vpd`, else SCSI with a serial page, below `place`."""
        real = self.device(name, bytes_=bytes_, place=f"{place}/{name}")
        self.put(real / "queue/rotational", f"{int(rotates)}\n")
        if vpd:
            self.put(real / "device/vpd_pg80", b"\x00\x80\x00\x14" + serial.encode().rjust(20))
        else:
            self.put(real / "device/serial", serial.ljust(20) + "\n")
        if wwn:
            self.put(real / ("device/wwid" if vpd else "wwid"), wwn + "\n")
        return real

    def partition(self, disk: str, name: str) -> None:
        real = (self.sys / "block" / disk).resolve() / name
        number = self._numbers.setdefault(name, f"259:{len(self._numbers)}")
        self.put(real / "partition", "1\n")
        self.put(real / "dev", number + "\n")
        (real / "holders").mkdir()
        for link in (self.sys / "class/block" / name, self.sys / "dev/block" / number):
            link.symlink_to(real)
        self.put(self.dev / name, b"")

    def number(self, name: str) -> str:
        return self._numbers[name]

    def path_of(self, drive: str, path: str, **queue: str) -> Path:
        """Make one of a multipath NVMe drive's hidden paths; `queue`: attributes of its queue."""
        real = self.device(path, place=f"devices/pci0/{path}")
        self.put(real / "hidden", "1\n")
        for key, value in {"scheduler": "[none]", "write_cache": "write back", **queue}.items():
            self.put(real / "queue" / key, value + "\n")
        return real

    def region(self, name: str, *dimms: str, bytes_=1 << 30, namespace: str | None = None) -> None:
        """A region of persistent memory on modules with these ids, and its block device."""
        bus = self.sys / "devices/ndbus0"
        self.put(bus / "provider", "ACPI.NFIT\n")
        self.put(bus / name / "size", f"{bytes_}\n")
        self.put(bus / name / "mappings", f"{len(dimms)}\n")
        base = self.sys / "bus/nd/devices"
        base.mkdir(parents=True, exist_ok=True)
        for number, dimm in enumerate(dimms):
            module = f"nmem{sum(map(ord, dimm)) % 97}"
            self.put(bus / name / f"mapping{number}", f"{module},0,{bytes_},{number}\n")
            self.put(base / module / "nfit/id", dimm + "\n")
        (base / name).symlink_to(bus / name)
        if namespace:
            self.device(
                namespace, bytes_=bytes_, place=f"devices/ndbus0/{name}/namespace0.0/block/{namespace}"
            )

    def hold(self, holder: str, held: str) -> None:
        """`holder` (md0, dm-0) is built upon `held`."""
        (self.sys / "class/block" / held / "holders" / holder).mkdir()
        (self.sys / "block" / holder / "slaves" / held).mkdir()

    def mount(self, source: str, point: str, number: str = "0:99", fstype: str = "ext4") -> None:
        with open(self.proc / "self/mountinfo", "a") as file:
            file.write(f"30 1 {number} / {point} rw,relatime shared:1 - {fstype} {source} rw\n")

    def swap(self, path: str) -> None:
        with open(self.proc / "swaps", "a") as file:
            file.write(f"{path} partition\t1048572\t0\t-2\n")

    def array(self, name: str, kernel_name: str, members: list[str], **attributes: str) -> None:
        real = self.device(kernel_name)
        for member in members:
            self.hold(kernel_name, member)
        for key, value in {"level": "raid0", "chunk_size": "65536", **attributes}.items():
            self.put(real / "md" / key, value + "\n")
        (self.dev / "md" / name).symlink_to(self.dev / kernel_name)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    from ansible.module_utils.joulerig.drives.uses import stillness

    monkeypatch.setattr(stillness, "STILL_SECONDS", 0.0)  # nothing moves on files
    return FakeHost(tmp_path / "host")


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return tool(NAME, SHELL): it puts a script before the PATH and logs its calls."""
    place = tmp_path / "bin"
    place.mkdir()
    monkeypatch.setenv("PATH", f"{place}:/usr/sbin:/usr/bin:/sbin:/bin")

    def make(name: str, script: str) -> Path:
        calls = tmp_path / f"{name}.calls"
        (place / name).write_text(f'#!/bin/sh\necho "$@" >> {calls}\n{script}\n')
        (place / name).chmod(0o755)
        return calls

    return make
