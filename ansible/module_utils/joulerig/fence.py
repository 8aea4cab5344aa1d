# SPDX-License-Identifier: GPL-3.0-or-later
"""A fence around a module call: a private /dev, in which the leased devices alone are blocks.

The call gets a mount namespace that ends with its last process, and every mount made in it with it:
a run that is killed leaves no file system mounted. The private /dev carries a name that is drawn
for the fence: a process belongs to a fence where its mounts have that name, and no other process
ever does (`name`).

Programs that are started as loads see less (`enclose`): their own processes, a /run without the
system's sockets, and a host that is read-only. They also lose the rights by which root could make a
device node or mount a file system (`drop_rights`).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import socket
import stat
import struct
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ansible.module_utils.joulerig.tools import Failed

# <sched.h>, <sys/mount.h>, <linux/prctl.h>, <linux/sockios.h>, <linux/if.h>
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x08000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 0x1, 0x2, 0x4, 0x8, 0x20
MS_NOSYMFOLLOW, MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 0x100, 0x1000, 0x2000, 0x4000, 0x40000
MNT_DETACH = 2
PR_CAPBSET_DROP = 24
SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1
# Rights that a load keeps, of <linux/capability.h>: CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL,
# SETGID, SETUID, SETPCAP, LINUX_IMMUTABLE, NET_BIND_SERVICE, IPC_LOCK, IPC_OWNER, SYS_CHROOT,
# SYS_NICE, SYS_RESOURCE, LEASE, SETFCAP. By DAC_READ_SEARCH it would open what is covered.
KEPT_RIGHTS = (0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 14, 15, 18, 23, 24, 28, 31)
CHARACTER_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
FOLDERS = ("shm", "pts", "mqueue", "hugepages")
LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
    "log": "/run/systemd/journal/dev-log",
}
NAME = re.compile(r"joulerig-[0-9a-f]{32}")  # of a fence: the source of its /dev
# What a load sees of the host's /run: the agent and the drive; and where the system's log listens.
RUN, RUN_KEPT = "/run", ("joulerig", "systemd/journal/dev-log", "systemd/journal/socket")
# What a load has for itself in /dev: shared memory, message queues, terminals.
OWN_FOLDERS = {
    "/dev/shm": ("tmpfs", "mode=1777"),
    "/dev/mqueue": ("mqueue", None),
    "/dev/pts": ("devpts", "newinstance,ptmxmode=0666,mode=0620"),
}
# What a load may write to, in addition to its own folders.
WRITABLE = ("/tmp", "/var/tmp", "/proc/sys/vm/drop_caches")
FLAGS = {
    "ro": MS_RDONLY,
    "nosuid": MS_NOSUID,
    "nodev": MS_NODEV,
    "noexec": MS_NOEXEC,
    "nosymfollow": MS_NOSYMFOLLOW,
}
_libc = ctypes.CDLL(None, use_errno=True)


def enter(devices: Mapping[str, str], links: Mapping[str, str], dev: str = "/dev") -> None:
    """Fence this process, and those that it starts from now on, in.

    `devices`: major:minor of the block devices that are there, by path below `dev`; `links`: what
    symbolic links lead to, by path. Raises Failed where the kernel does not allow it.
    """
    _call("unshare", CLONE_NEWNS)
    _mount("none", "/", None, MS_REC | MS_PRIVATE)
    place = tempfile.mkdtemp(prefix="joulerig-dev-")
    _mount(f"joulerig-{uuid.uuid4().hex}", place, "tmpfs", MS_NOSUID, "mode=755")
    for name in CHARACTER_DEVICES:
        found = os.stat(f"{dev}/{name}")
        _make_node(f"{place}/{name}", stat.S_IFCHR | 0o666, found.st_rdev)
    for name in FOLDERS:
        if os.path.isdir(f"{dev}/{name}"):
            os.mkdir(f"{place}/{name}")
            _mount(f"{dev}/{name}", f"{place}/{name}", None, MS_BIND | MS_REC)
    for name, target in LINKS.items():
        os.symlink(target, f"{place}/{name}")
    for path, number in devices.items():
        major, minor = map(int, number.split(":"))
        _make_node(place + path[len(dev) :], stat.S_IFBLK | 0o600, os.makedev(major, minor))
    for path, target in links.items():
        link = place + path[len(dev) :]
        os.makedirs(os.path.dirname(link), exist_ok=True)
        os.symlink(target, link)
    _mount(place, dev, None, MS_MOVE)
    os.rmdir(place)


def name(process: int | str = "self") -> str:
    """Return the name of the fence that a process is in; "" where it is in none.

    Raises OSError where the process has ended.
    """
    names = [one.source for one in _mounts(process) if one.kind == "tmpfs" and NAME.fullmatch(one.source)]
    return names[-1] if names else ""  # a fence may be in another: the inner one was mounted later


@contextlib.contextmanager
def new_processes() -> Iterator[None]:
    """Make the process that this thread starts in the block the first of a PID namespace."""
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _call("unshare", CLONE_NEWPID)
        try:
            yield
        finally:
            _call("setns", own, CLONE_NEWPID)
    finally:
        os.close(own)


def enclose(own: Sequence[str], *, network: bool) -> None:
    """Give this process, the first of its PID namespace, what a load may see of the host.

    It may write to WRITABLE and to the folders of `own`, and reach sockets in these. Everything
    else is read-only, device nodes outside of /dev do not open, and no other process is seen.
    `network`: whether it reaches the host's network; else it has a loopback interface alone.
    Raises Failed and OSError.
    """
    place = os.getcwd()
    listening = _listening()
    _call("unshare", CLONE_NEWNS | CLONE_NEWIPC | (0 if network else CLONE_NEWNET))
    if not network:
        _raise_loopback()
    _mount("none", "/", None, MS_REC | MS_PRIVATE)
    _mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    writable = [path for path in (*WRITABLE, *own) if os.path.exists(path)]
    held = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in map(os.path.realpath, writable)}
    for path, (kind, options) in OWN_FOLDERS.items():
        if os.path.isdir(path):
            _mount("joulerig", path, kind, MS_NOSUID, options)
    _renew_run()
    for path, descriptor in sorted(held.items()):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.makedirs(path, exist_ok=True)
        _mount(f"/proc/self/fd/{descriptor}", path, None, MS_BIND | MS_REC)
        os.close(descriptor)
    for path in listening:
        if not any(_is_below(path, one) for one in (RUN, *map(os.path.realpath, own))):
            with contextlib.suppress(OSError):
                if stat.S_ISSOCK(os.stat(path).st_mode):
                    _mount("/dev/null", path, None, MS_BIND)
    topmost = {one.point: one for one in _mounts("self")}
    for one in topmost.values():
        _restrict(one, [RUN, *held])
    os.chdir(place)


def _renew_run() -> None:
    """Leave of /run what a load needs: the system bus, service managers and engines are there."""
    place = tempfile.mkdtemp(prefix="joulerig-run-")
    _mount("joulerig", place, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
    for one in RUN_KEPT:
        path, kept = f"{RUN}/{one}", f"{place}/{one}"
        if not os.path.exists(path):
            continue
        if os.path.isdir(path):
            os.makedirs(kept)
        else:
            os.makedirs(os.path.dirname(kept), exist_ok=True)
            open(kept, "w").close()
        _mount(path, kept, None, MS_BIND | MS_REC)
    _mount(place, RUN, None, MS_MOVE)
    os.rmdir(place)


def _restrict(one: Mount, writable: Sequence[str]) -> None:
    """Make a mount read-only, unless it is `writable`, and have no device node of it open."""
    if _is_below(one.point, "/dev"):
        return
    if one.kind == "proc" and not _is_below(one.point, "/proc"):  # of another root: all processes
        _covered_or_done("umount2", os.fsencode(one.point), MNT_DETACH)
        return
    flags = one.flags | MS_NODEV | (0 if one.point in writable else MS_RDONLY)
    if flags != one.flags:
        point = os.fsencode(one.point)
        _covered_or_done("mount", b"none", point, None, ctypes.c_ulong(MS_REMOUNT | MS_BIND | flags), None)


def _covered_or_done(call: str, *arguments: object) -> None:
    """Make a call upon a mount; what another one covers cannot be reached, by a load neither."""
    if getattr(_libc, call)(*arguments) and (code := ctypes.get_errno()) not in (errno.EINVAL, errno.ENOENT):
        raise Failed(f"fence: {call}: {os.strerror(code)}")


def _listening() -> list[str]:
    """Return the paths at which sockets of this host can be reached."""
    found = []
    with open("/proc/net/unix", errors="surrogateescape") as file:
        for line in file:
            path = line.rstrip("\n").split(" ", 7)[-1].lstrip()
            if path.startswith("/"):
                found.append(os.path.realpath(path))
    return found


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


class Mount(NamedTuple):
    """A mount of a process: where it is, its flags, the file system's kind and its source."""

    point: str
    flags: int
    kind: str
    source: str


def _mounts(process: int | str) -> list[Mount]:
    found = []
    with open(f"/proc/{process}/mountinfo", "rb") as file:
        for line in file.read().splitlines():
            before, _, after = line.partition(b" - ")
            point, options = before.split(b" ")[4:6]
            kind, source = after.split(b" ")[:2]
            flags = sum(FLAGS.get(one, 0) for one in options.decode().split(","))
            found.append(Mount(os.fsdecode(_unescaped(point)), flags, kind.decode(), os.fsdecode(source)))
    return found


def _unescaped(text: bytes) -> bytes:
    """Return a path of the kernel's tables, in which blanks are octal numbers."""
    return re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), text)


def drop_rights() -> None:
    """Limit programs that this process executes to KEPT_RIGHTS. Call it before exec."""
    with open("/proc/sys/kernel/cap_last_cap") as file:
        last = int(file.read())
    for right in set(range(last + 1)) - set(KEPT_RIGHTS):
        _libc.prctl(PR_CAPBSET_DROP, right, 0, 0, 0)


def _make_node(path: str, mode: int, device: int) -> None:
    os.mknod(path, mode, device)
    os.chmod(path, stat.S_IMODE(mode))


def _mount(source: str, place: str, kind: str | None, flags: int, options: str | None = None) -> None:
    def encoded(text: str | None) -> bytes | None:
        return None if text is None else os.fsencode(text)

    _call("mount", encoded(source), encoded(place), encoded(kind), ctypes.c_ulong(flags), encoded(options))


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments):
        raise Failed(f"fence: {name}: {os.strerror(ctypes.get_errno())}")
