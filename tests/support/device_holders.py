# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold a device in a way that no list of open descriptors shows, until this process is ended.

    python3 -m tests.support.device_holders KIND DEVICE READY

The functions below are the kinds; what they return is held. READY is made once the device is held.
The standard library alone.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

PAGE = mmap.PAGESIZE
# <asm/unistd.h>, <linux/io_uring.h>, <sched.h>
IO_URING_SETUP, IO_URING_REGISTER, REGISTER_FILES, REGISTER_RINGS = 425, 427, 2, 20
CLONE_FILES = 0x00000400
_libc = ctypes.CDLL(None, use_errno=True)


def checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def mapped(device: str) -> object:
    """Map it for writing, and close the descriptor."""
    descriptor = os.open(device, os.O_RDWR)
    # Python keeps a duplicate of the descriptor of a map: the C library does not.
    _libc.mmap.restype = ctypes.c_void_p
    place = _libc.mmap(None, PAGE, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, ctypes.c_long(0))
    assert place != ctypes.c_void_p(-1).value
    os.close(descriptor)
    return place  # read-only now; mprotect makes it writable, as the descriptor was


def mapped_by_another_node(device: str) -> object:
    """Map it through a node that is removed afterwards."""
    return _by_another_node(device, mapped)


def ring(device: str) -> int:
    """Register it with an io_uring, and close the descriptor."""
    parameters = ctypes.create_string_buffer(120)
    uring = checked(_libc.syscall(IO_URING_SETUP, 4, parameters))
    descriptor = os.open(device, os.O_RDWR)
    files = (ctypes.c_int * 1)(descriptor)
    checked(_libc.syscall(IO_URING_REGISTER, uring, REGISTER_FILES, files, 1))
    os.close(descriptor)
    return uring


def ring_by_another_node(device: str) -> object:
    """Register it with an io_uring through a node that is removed afterwards."""
    return _by_another_node(device, ring)


def closed_ring(device: str) -> object:
    """Register it with an io_uring that is registered with itself, and close both descriptors."""
    uring = ring(device)
    place = mmap.mmap(uring, PAGE)

    class Update(ctypes.Structure):
        _fields_ = (("offset", ctypes.c_uint32), ("reserved", ctypes.c_uint32), ("data", ctypes.c_uint64))

    update = Update(0xFFFFFFFF, 0, uring)
    checked(_libc.syscall(IO_URING_REGISTER, uring, REGISTER_RINGS, ctypes.byref(update), 1))
    for descriptor in Path("/proc/self/fd").iterdir():
        if os.path.lexists(descriptor) and os.readlink(descriptor) == "anon_inode:[io_uring]":
            os.close(int(descriptor.name))
    return place


def in_flight(device: str) -> object:
    """Send its descriptor to a socket that no process reads, and close it."""
    sender, receiver = socket.socketpair()
    _send(sender, os.open(device, os.O_RDWR))
    return sender, receiver


def in_flight_second(device: str) -> object:
    """Send it in the second of two messages."""
    sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    for name in ("/dev/null", device):
        _send(sender, os.open(name, os.O_RDWR))
    return sender, receiver


def in_flight_in_flight(device: str) -> object:
    """Send its descriptor to a socket that is itself in flight."""
    sender, receiver = socket.socketpair()
    _send(sender, os.open(device, os.O_RDWR))
    outer, held = socket.socketpair()
    _send(outer, receiver.detach())
    return sender, outer, held


def in_flight_to_a_listener(device: str) -> object:
    """Send its descriptor to a server that has yet to accept the connection, and hang up."""
    server, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    server.bind("")
    server.listen()
    client.connect(server.getsockname())
    _send(client, os.open(device, os.O_RDWR))
    client.close()
    return server


def harmless(device: str) -> object:
    """Read it and map it for reading; have another device in a ring and in a message."""
    reading = os.open(device, os.O_RDONLY)
    place = _libc.mmap(None, PAGE, mmap.PROT_READ, mmap.MAP_SHARED, reading, ctypes.c_long(0))
    return reading, place, ring("/dev/null"), in_flight("/dev/null")


def thread(device: str) -> object:
    """Open it in a thread that has a descriptor table to itself."""

    def hold() -> None:
        checked(_libc.unshare(CLONE_FILES))
        os.open(device, os.O_RDWR)
        done.set()
        time.sleep(600)  # holds it until it is killed

    done = threading.Event()
    threading.Thread(target=hold, daemon=True).start()
    done.wait()
    return None


def thread_without_a_leader(device: str) -> object:
    """Open it in a process whose first thread has ended; only another one lives on."""
    program = (
        "import ctypes, os, threading, time\n"
        "held = threading.Event()\n"
        f"def hold():\n os.open({device!r}, os.O_RDWR); held.set(); time.sleep(600)\n"
        "threading.Thread(target=hold, daemon=True).start(); held.wait()\n"
        "ctypes.CDLL(None).pthread_exit(None)"
    )
    holder = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL)
    state = Path(f"/proc/{holder.pid}/stat")
    while ") Z " not in state.read_text():  # until its first thread has ended
        time.sleep(0.01)  # the pace of the looks
    return holder


def reader(device: str) -> object:
    """Read it again and again, as a process that no list shows.

    A folder is mounted upon its own in /proc: it stands for a user in the kernel.
    """
    subprocess.run(["mount", "-t", "tmpfs", "none", f"/proc/{os.getpid()}"], check=True)
    descriptor = os.open(device, os.O_RDONLY | os.O_DIRECT)
    page = mmap.mmap(-1, PAGE)

    def read() -> None:
        while True:
            os.preadv(descriptor, [page], 0)
            time.sleep(0.02)  # the pace of a reader

    threading.Thread(target=read, daemon=True).start()
    return page


def _by_another_node(device: str, kind: Callable[[str], object]) -> object:
    node = f"/tmp/node-{os.getpid()}"
    os.mknod(node, os.stat(device).st_mode, os.stat(device).st_rdev)
    try:
        return kind(node)
    finally:
        os.unlink(node)


def _send(over: socket.socket, descriptor: int) -> None:
    socket.send_fds(over, [b"x"], [descriptor])
    os.close(descriptor)


def main() -> None:
    kind, device, ready = sys.argv[1:]
    held = globals()[kind](device)
    Path(ready).touch()
    time.sleep(600)  # holds it until it is killed
    del held


if __name__ == "__main__":
    main()
