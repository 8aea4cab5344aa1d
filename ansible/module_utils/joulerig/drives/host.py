# SPDX-License-Identifier: GPL-3.0-or-later
"""What a test host's kernel says of its block devices, in files of /sys, /proc and /dev."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, overload

from ansible.module_utils.joulerig import paths
from ansible.module_utils.joulerig.drives import system_calls
from ansible.module_utils.joulerig.tools import Refused

# Serial of a disk that scsi_debug emulates: its adapter's number. Its own is made of the SCSI
# host's number, which changes with every load of the module.
SCSI_DEBUG = "scsi_debug-"


def unreadable(path: str, error: OSError) -> Refused:
    """Return the refusal for a file on which a check rests and which cannot be read."""
    return Refused(f"{path}: cannot be read, so that no drive is safe: {error.strerror}")


def matches(base: str, pattern: Sequence[str]) -> Iterator[str]:
    """Yield the files below `base` that match a pattern of path components; "**" is a whole tree.

    Not glob's: it passes over a folder that it may not read. Raises Refused for one.
    """
    yield from _matches(base, pattern, set())


def _matches(base: str, pattern: Sequence[str], trees: set[tuple[int, int]]) -> Iterator[str]:
    if not pattern:
        yield base
        return
    first, rest = pattern[0], pattern[1:]
    is_tree = first == "**"
    try:
        if is_tree:
            found = os.stat(base)
            if (found.st_dev, found.st_ino) in trees:  # a link leads back to it
                return
            trees.add((found.st_dev, found.st_ino))
        names = sorted(os.listdir(base)) if "*" in first else [first]
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise unreadable(base, error) from None
    for name in names:
        path = f"{base}/{name}"
        if is_tree and os.path.isdir(path):
            yield from _matches(path, pattern, trees)
        elif (is_tree or fnmatch.fnmatchcase(name, first)) and os.path.lexists(path):
            yield from _matches(path, rest, trees)


def one_line(text: str) -> str:
    """Return a word of a file or a process's name as it stands in a refusal, which is one line."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:200])


def number_of(found: os.stat_result) -> str:
    """Return major:minor of a device node."""
    return f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"


class Host:
    """Paths of the running system, and its system calls; tests give others."""

    def __init__(
        self,
        sys: str | None = None,
        proc: str | None = None,
        dev: str | None = None,
        etc: str | None = None,
        calls: Any = None,
    ) -> None:
        self.sys, self.proc, self.dev = sys or paths.SYS, proc or paths.PROC, dev or paths.DEV
        self.etc, self.calls = etc or paths.ETC, calls or system_calls.CALLS
        self.root = os.path.dirname(self.etc).rstrip("/")  # configuration is not in /etc alone

    @overload
    def read(self, path: str) -> str | None: ...

    @overload
    def read(self, path: str, default: str) -> str: ...

    def read(self, path: str, default: str | None = None) -> str | None:
        try:
            with open(path, "rb") as file:
                return file.read().decode("ascii", "replace").strip("\x00 \n\t")
        except OSError:
            return default

    def require(self, path: str) -> str:
        """Read a file on which a check rests. Raises Refused where it cannot be read."""
        try:
            with open(path, "rb") as file:
                return file.read().decode("utf-8", "replace").strip("\x00 \n\t")
        except OSError as error:
            raise unreadable(path, error) from None

    def boot_id(self) -> str:
        """Return the id of this boot. Raises Refused where there is none."""
        return self.require(f"{self.proc}/sys/kernel/random/boot_id")

    def number(self, name: str) -> str:
        """Return a device's major:minor. Raises Refused where it has gone."""
        return self.require(f"{self.sys}/block/{name}/dev")

    def named(self, number: str) -> str:
        """Return the kernel name of the device with `number`. Raises Refused where none has it."""
        path = f"{self.sys}/dev/block/{number}"
        if not os.path.exists(path):
            raise Refused(f"{path}: no such device any more")
        return os.path.basename(os.path.realpath(path))

    def disk_sequence(self, name: str) -> int | None:
        """Return the number that the kernel gave this very disk; None before Linux 5.15.

        No other disk of this boot has it, nor the same one plugged in again.
        """
        text = self.read(f"{self.sys}/block/{name}/diskseq")
        return int(text) if text else None

    def block_devices(self) -> Iterator[str]:
        """Yield the names of whole disks: no partitions, no loop, RAM, md or device-mapper devices.

        The single paths of a multipath NVMe drive are hidden disks with the serial of the real one.
        """
        for name in sorted(os.listdir(f"{self.sys}/block")):
            base = f"{self.sys}/block/{name}"
            if os.path.exists(f"{base}/device") and self.read(f"{base}/hidden", "0") == "0":
                yield name

    def paths(self, name: str) -> list[str]:
        """List the single paths of a multipath NVMe drive: nvme0n1 has nvme0c0n1, nvme0c1n1.

        None of any other drive. The device above them neither schedules I/O nor, before Linux 6.5,
        counts it.
        """
        found = re.fullmatch(r"nvme(\d+)n(\d+)", name)
        if not found:
            return []
        pattern = re.compile(rf"nvme{found[1]}c\d+n{found[2]}")
        return sorted(one for one in os.listdir(f"{self.sys}/block") if pattern.fullmatch(one))

    def is_behind_usb(self, name: str) -> bool:
        return "/usb" in os.path.realpath(f"{self.sys}/block/{name}")

    @contextlib.contextmanager
    def opened(self, name: str) -> Iterator[int]:
        """Open a drive for commands to itself, for reading. Raises OSError."""
        descriptor = self.calls.open(f"{self.dev}/{name}")
        try:
            yield descriptor
        finally:
            self.calls.close(descriptor)

    def serial(self, name: str) -> str | None:
        """Return the serial number of a whole disk as its firmware gives it, or None."""
        if (adapter := self.debug_adapter(name)) is not None:
            return SCSI_DEBUG + adapter
        base = f"{self.sys}/block/{name}/device"
        if (serial := self.read(f"{base}/serial")) is not None:
            return serial
        try:
            with open(f"{base}/vpd_pg80", "rb") as page:  # unit serial number page: 4 bytes of header
                return page.read()[4:].decode("ascii", "replace").strip("\x00 ")
        except OSError:
            return None

    def debug_adapter(self, name: str) -> str | None:
        """Return the number of the adapter that scsi_debug emulates for a disk.

        None for any other disk.
        """
        words = os.path.realpath(f"{self.sys}/block/{name}").split("/")
        if "pseudo_0" not in words[:-1]:
            return None
        adapter = words[words.index("pseudo_0") + 1]
        return adapter[len("adapter") :] if adapter.startswith("adapter") else None

    def wwn(self, name: str) -> str | None:
        base = f"{self.sys}/block/{name}"
        return self.read(f"{base}/wwid") or self.read(f"{base}/device/wwid")

    def size_bytes(self, name: str) -> int:
        return int(self.read(f"{self.sys}/block/{name}/size", "0")) * 512

    def numbers(self, name: str) -> dict[str, str | None]:
        """Return major:minor of a device and of each of its partitions, by name."""
        base = f"{self.sys}/block/{name}"
        found = {name: self.read(f"{base}/dev")}
        for entry in os.listdir(base):
            if os.path.exists(f"{base}/{entry}/partition"):
                found[entry] = self.read(f"{base}/{entry}/dev")
        return found

    def nodes(self, name: str) -> dict[str, str]:
        """Return major:minor of the character nodes by which a disk is reached, by name.

        These are sg and bsg of a SCSI or ATA disk; of an NVMe drive ng, and its controllers.
        """
        base = f"{self.sys}/block/{name}/device"
        if nvme := re.fullmatch(r"nvme(\d+)n(\d+)", name):
            # That is the controller, or a multipath drive's subsystem, which has its controllers.
            own = [os.path.realpath(base)]
            places = own + self._entries(base, rf"ng{nvme[1]}n{nvme[2]}|nvme\d+")
        else:
            places = self._entries(f"{base}/scsi_generic", ".*") + self._entries(f"{base}/bsg", ".*")
        found = {os.path.basename(place): self.read(f"{place}/dev") for place in places}
        return {one: number for one, number in found.items() if number}

    def _entries(self, folder: str, pattern: str) -> list[str]:
        names = os.listdir(folder) if os.path.isdir(folder) else []
        return [f"{folder}/{one}" for one in sorted(names) if re.fullmatch(pattern, one)]

    def pci_function(self, name: str) -> str:
        """Return the folder in /sys of the PCI function that a disk is behind; "" where none is."""
        path = os.path.realpath(f"{self.sys}/block/{name}")
        while path != "/":
            if re.fullmatch(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", os.path.basename(path)):
                return path
            path = os.path.dirname(path)
        return ""

    def holders(self, name: str) -> list[str]:
        """List what is built upon a device or its partitions: md, device mapper, bcache."""
        found = []
        for part in self.numbers(name):
            base = f"{self.sys}/class/block/{part}/holders"
            if os.path.isdir(base):
                found += [f"{holder} holds {part}" for holder in sorted(os.listdir(base))]
        return found

    def mounts(self) -> Iterator[tuple[str, str, str]]:
        """Yield (major:minor, source, mount point) of every mount."""
        for line in self.require(f"{self.proc}/self/mountinfo").splitlines():
            fields = line.split()
            yield fields[2], fields[fields.index("-") + 2], fields[4]

    def swaps(self) -> list[str]:
        lines = self.require(f"{self.proc}/swaps").splitlines()[1:]
        return [line.split()[0] for line in lines]

    def ancestors(self, number: str | None) -> set[str]:
        """Return the names of all devices below `number` (major:minor).

        These are its disk, and the slaves of dm and md devices.
        """
        path = os.path.realpath(f"{self.sys}/dev/block/{number}")
        if not os.path.isdir(path):
            return set()
        if os.path.exists(f"{path}/partition"):
            path = os.path.dirname(path)
        found = {os.path.basename(path)}
        slaves = f"{path}/slaves"
        for slave in os.listdir(slaves) if os.path.isdir(slaves) else ():
            found |= self.ancestors(self.read(f"{self.sys}/class/block/{slave}/dev"))
        return found
