# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the devices that the processes of a host have open, in one pass over /proc.

A descriptor is only one way to have a device. Others outlive it: a shared mapping, the registered
files of an io_uring, a message that no process has received yet. Each is looked into here. What is
held where root itself cannot look is reported as hidden: it may be any device.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Iterable

from ansible.module_utils.joulerig.drives.host import Host, number_of, one_line, unreadable

PASSES = 5  # until no process has started meanwhile, perhaps from one that has ended since
DEPTH = 8  # of sockets in flight in sockets in flight
TRIES, TRY_SECONDS = 3, 0.01  # to read the files of an io_uring, which is locked while it is entered
RING = "anon_inode:[io_uring]"
# A shared mapping of a file: its range, the file's device and inode, and its path.
_MAPPING = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) ...s [0-9a-f]+ (\S+) ([1-9]\d*) *(.*)$", re.MULTILINE)
_RING_FILE = re.compile(r"^ *\d+: (.*)$", re.MULTILINE)
_ESCAPED = re.compile(r"\\([0-7]{3})")
_GONE = (FileNotFoundError, ProcessLookupError)


class Opened:
    """The device nodes that other processes have open.

    `blocks`: block devices that can be written to, `characters`: all others, both by major:minor;
    `names`: files of io_urings on kernels that give their names alone. Each has a text about one
    process. `hidden`: texts about what cannot be looked at. Raises Refused where a process cannot
    be looked at.
    """

    def __init__(self, host: Host) -> None:
        self.blocks: dict[str, str] = {}
        self.characters: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.hidden: list[str] = []
        self._host = host
        self._sockets: set[int] = set()
        self._rings: set[int] = set()
        self._mapped_rings: dict[int, str] = {}
        self._other_files: set[tuple[bytes, bytes]] = set()  # mapped ones that are no devices
        seen = {str(os.getpid())}
        for _ in range(PASSES):
            new = [one for one in os.listdir(host.proc) if one.isdigit() and one not in seen]
            for process in new:
                self._look_at(process)
            seen.update(new)
            if not new:
                break
        for ring, task in self._mapped_rings.items():
            if ring not in self._rings:
                self.hidden.append(f"{self._who(task)} uses an io_uring that cannot be looked at")

    def _who(self, task: str) -> str:
        return f"{one_line(self._host.read(f'{self._host.proc}/{task}/comm', '?'))} (process {task})"

    def _look_at(self, process: str) -> None:
        for task in self._tables(process):
            for look in (self._look_at_descriptors, self._look_at_mappings):
                try:
                    look(task)
                except _GONE:  # it ended meanwhile
                    continue
                except OSError as error:
                    raise unreadable(f"{self._host.proc}/{task}", error) from None

    def _tables(self, process: str) -> Iterable[str]:
        """Return a thread of a process for each table of descriptors that its threads have.

        /proc/PID shows the first thread's, which is empty where that thread has ended.
        """
        try:
            threads = os.listdir(f"{self._host.proc}/{process}/task")
        except OSError:
            return [process]
        found = [process]
        for thread in threads:
            if thread != process and not any(self._host.calls.share_files(one, thread) for one in found):
                found.append(thread)
        return found

    def _look_at_descriptors(self, task: str) -> None:
        # Relative to the open folder: thousands of paths are looked up.
        base = f"{self._host.proc}/{task}"
        folder = os.open(f"{base}/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for descriptor in os.listdir(folder):
                try:
                    found = os.stat(descriptor, dir_fd=folder)
                except PermissionError:
                    raise
                except OSError:
                    continue  # closed meanwhile, or a file that its server does not answer for
                kind = stat.S_IFMT(found.st_mode)
                if kind in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFIFO):
                    continue
                try:
                    link = "" if kind else os.readlink(descriptor, dir_fd=folder)
                    self._file(task, descriptor, found, link, f"{base}/fdinfo/{descriptor}")
                except _GONE:
                    continue
        finally:
            os.close(folder)

    def _file(
        self, task: str, descriptor: str, found: os.stat_result, link: str, fdinfo: str, depth: int = 0
    ) -> None:
        """Take down an open file. `depth`: of the messages that it is in; 0 where it is in none."""
        how = "has it in a message, open" if depth else "has it open"
        if stat.S_ISBLK(found.st_mode):
            if _flags(fdinfo) & os.O_ACCMODE != os.O_RDONLY:
                self.blocks.setdefault(number_of(found), f"{self._who(task)} {how} for writing")
        elif stat.S_ISCHR(found.st_mode):
            if number_of(found) not in self.characters and not _flags(fdinfo) & os.O_PATH:
                self.characters[number_of(found)] = f"{self._who(task)} {how}"
        elif stat.S_ISSOCK(found.st_mode):
            if found.st_ino not in self._sockets:
                self._sockets.add(found.st_ino)
                self._socket(task, descriptor, fdinfo, depth)
        elif link == RING:  # before Linux 5.16 all of them have one inode
            self._rings.add(found.st_ino)
            self._ring(task, fdinfo)

    def _socket(self, task: str, descriptor: str, fdinfo: str, depth: int) -> None:
        """Look at the descriptors that wait in a socket, without receiving them."""
        waiting = re.search(r"^scm_fds:\s*(\d+)", _text(fdinfo), re.MULTILINE)
        if not waiting or waiting[1] == "0":
            return
        peeked: list[int] = []
        if depth < DEPTH:
            # A socket that was in a message itself is open in this process.
            owner = str(os.getpid()) if depth else task
            with contextlib.suppress(OSError):
                peeked = self._host.calls.waiting(int(owner), int(descriptor))
        try:
            for one in peeked:
                place = f"{self._host.proc}/self"
                link = os.readlink(f"{place}/fd/{one}")
                self._file(task, str(one), os.fstat(one), link, f"{place}/fdinfo/{one}", depth + 1)
        finally:
            for one in peeked:
                os.close(one)
        if len(peeked) < int(waiting[1]):
            self.hidden.append(
                f"messages that wait for {self._who(task)} carry descriptors that cannot be looked at"
            )

    def _ring(self, task: str, fdinfo: str) -> None:
        """Look at the files that are registered with an io_uring."""
        names: list[str] = []
        there = ""
        for _ in range(TRIES):
            _, there, rest = _text(fdinfo).partition("UserFiles:")
            count, _, listing = rest.partition("\n")
            names = _RING_FILE.findall(listing.partition("UserBufs:")[0])
            if there and (names or count.strip() == "0"):
                break
            time.sleep(TRY_SECONDS)
        if not there:
            self.hidden.append(f"{self._who(task)} uses an io_uring that cannot be looked at")
        for name in names:
            self._ring_file(task, _ESCAPED.sub(lambda one: chr(int(one[1], 8)), name))

    def _ring_file(self, task: str, name: str) -> None:
        words = f"{self._who(task)} has it in an io_uring"
        if name == "<none>" or ":[" in name or name.startswith("/memfd:"):
            return
        if not name.startswith(("/", "(")):  # older kernels give a file's name alone
            self.names.setdefault(name, words)
            return
        there = False
        for root in ("", f"{self._host.proc}/{task}/root"):
            with contextlib.suppress(OSError):
                found = os.stat(root + name)
                there = True
                if stat.S_ISBLK(found.st_mode):
                    self.blocks.setdefault(number_of(found), words)
                elif stat.S_ISCHR(found.st_mode):
                    self.characters.setdefault(number_of(found), words)
        if not there:
            self.hidden.append(
                f"{self._who(task)} has {one_line(name)} in an io_uring, which cannot be looked at"
            )

    def _look_at_mappings(self, task: str) -> None:
        """Look at the shared mappings of files that were opened for writing."""
        base = f"{self._host.proc}/{task}"
        with open(f"{base}/maps", "rb") as file:
            text = file.read()
        for start, end, device, inode, path in _MAPPING.findall(text):
            if path == RING.encode():
                self._mapped_rings.setdefault(int(inode), task)
                continue
            if (device, inode) in self._other_files:
                continue
            place = f"{base}/map_files/{int(start, 16):x}-{int(end, 16):x}"
            try:
                found = os.stat(place)
                # The link has the rights that the mapped file was opened with.
                writable = os.lstat(place).st_mode & stat.S_IWUSR
            except _GONE:
                continue  # unmapped meanwhile
            if not stat.S_ISBLK(found.st_mode):
                self._other_files.add((device, inode))
            elif writable:
                self.blocks.setdefault(number_of(found), f"{self._who(task)} has it mapped for writing")


def _text(path: str) -> str:
    with open(path, errors="replace") as file:
        return file.read()


def _flags(fdinfo: str) -> int:
    found = re.search(r"^flags:\s*([0-7]+)", _text(fdinfo), re.MULTILINE)
    return int(found[1], 8) if found else os.O_RDWR
