# SPDX-License-Identifier: GPL-3.0-or-later
"""A fence around a module call: a private /dev, in which the leased devices alone are blocks.

The call gets a mount namespace that ends with its last process, and every mount made in it with it:
a run that is killed leaves no file system mounted. Programs that are started as loads lose, in
addition, the rights by which root could make a device node, mount a file system or look through
another process's eyes (`drop_rights`).
"""

from __future__ import annotations

import ctypes
import os
import stat
import tempfile
from collections.abc import Mapping

from ansible.module_utils.joulerig.tools import Failed

# <sched.h>, <sys/mount.h>, <linux/prctl.h>
CLONE_NEWNS = 0x00020000
MS_NOSUID, MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 0x2, 0x1000, 0x2000, 0x4000, 0x40000
PR_CAPBSET_DROP = 24
# <linux/capability.h>: SYS_MODULE, SYS_RAWIO, SYS_PTRACE, SYS_ADMIN, SYS_BOOT, MKNOD
RIGHTS = (16, 17, 19, 21, 22, 27)
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
_libc = ctypes.CDLL(None, use_errno=True)


def enter(devices: Mapping[str, str], links: Mapping[str, str], dev: str = "/dev") -> None:
    """Fence this process, and those that it starts from now on, in.

    `devices`: major:minor of the block devices that are there, by path below `dev`; `links`: what
    symbolic links lead to, by path. Raises Failed where the kernel does not allow it.
    """
    _call("unshare", CLONE_NEWNS)
    _mount("none", "/", None, MS_REC | MS_PRIVATE)
    place = tempfile.mkdtemp(prefix="joulerig-dev-")
    _mount("joulerig", place, "tmpfs", MS_NOSUID, "mode=755")
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


def drop_rights() -> None:
    """Have programs that this process executes be without RIGHTS. Call it between fork and exec."""
    for right in RIGHTS:
        _libc.prctl(PR_CAPBSET_DROP, right, 0, 0, 0)


def namespace(process: int | str = "self") -> int:
    """Return the number of a process's mount namespace. Raises OSError where it has ended."""
    return os.stat(f"/proc/{process}/ns/mnt").st_ino


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
