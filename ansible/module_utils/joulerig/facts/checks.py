# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the checks of a drive's use that this host's kernel cannot make, by trying them."""

from __future__ import annotations

import contextlib
import ctypes
import glob
import os
import re
import socket
import subprocess

from ansible.module_utils.joulerig.drives.host import Host
from ansible.module_utils.joulerig.loads import contained
from ansible.module_utils.joulerig.tools import Failed

# <asm/unistd.h>, <linux/io_uring.h>, <linux/proc_fs.h>
IO_URING_SETUP, IO_URING_REGISTER, REGISTER_FILES, PARAMETERS_BYTES = 425, 427, 2, 120
FENCE_SECONDS = 20
FIRST_PROCESS_NAMESPACE = "pid:[4026531836]"
_libc = ctypes.CDLL(None, use_errno=True)


def lacking(host: Host) -> list[str]:
    """Return the names of the checks that cannot be made here; the doctor has a text of each."""
    checks = {
        "processes": sees_all_processes(host),
        "mappings": sees_mappings(host),
        "messages": sees_messages(host),
        "rings": sees_rings(host),
        "disk-sequence": bool(glob.glob(f"{host.sys}/block/*/diskseq")),
        "commands": bool(glob.glob(f"{host.sys}/block/*/queue/iostats_passthrough")),
    }
    return [name for name, is_made in checks.items() if not is_made]


def fence_problem() -> str:
    """Return why a load cannot be executed in a fence on this host; "" where it can."""
    try:
        code = contained.Contained(["true"]).wait(FENCE_SECONDS)
    except (Failed, OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return f"true: exit {code}" if code else ""


def sees_all_processes(host: Host) -> bool:
    """Return whether /proc shows the processes of the whole host, not those of a container."""
    with contextlib.suppress(OSError):
        return os.readlink(f"{host.proc}/self/ns/pid") == FIRST_PROCESS_NAMESPACE
    return False


def sees_mappings(host: Host) -> bool:
    """Return whether the files that a process has mapped can be looked at (Linux 4.3)."""
    place = f"{host.proc}/self/map_files"
    try:
        names = os.listdir(place)
    except OSError:
        return False
    for name in names:
        with contextlib.suppress(OSError):
            os.stat(f"{place}/{name}")
            return True
    return False


def sees_messages(host: Host) -> bool:
    """Return whether descriptors in flight can be looked at (Linux 5.6).

    A host may forbid to look into other processes at all (Yama).
    """
    if host.read(f"{host.proc}/sys/kernel/yama/ptrace_scope") == "3":
        return False
    sender, receiver = socket.socketpair()
    with sender, receiver:
        data = ctypes.c_int(sender.fileno())
        sender.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, bytes(data))])
        shown = host.read(f"{host.proc}/self/fdinfo/{receiver.fileno()}") or ""
        try:
            found = host.calls.waiting(os.getpid(), receiver.fileno())
        except OSError:
            return False
        for one in found:
            os.close(one)
        return len(found) == 1 and re.search(r"^scm_fds:\s*1$", shown, re.MULTILINE) is not None


def sees_rings(host: Host) -> bool:
    """Return whether the files of an io_uring are shown with their paths; True without io_uring."""
    ring = _libc.syscall(IO_URING_SETUP, 1, ctypes.create_string_buffer(PARAMETERS_BYTES))
    if ring < 0:
        return True
    null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _libc.syscall(IO_URING_REGISTER, ring, REGISTER_FILES, ctypes.byref(ctypes.c_int(null)), 1)
        shown = host.read(f"{host.proc}/self/fdinfo/{ring}") or ""
    finally:
        os.close(null)
        os.close(ring)
    return re.search(r"^ *0: /", shown, re.MULTILINE) is not None
