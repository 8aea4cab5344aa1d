# SPDX-License-Identifier: GPL-3.0-or-later
"""A serial line, raw and this process's own, and the USB devices behind such lines."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import termios
import time
import tty
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from joulerig.capturers import sysfs
from joulerig.capturers.capture import AbsentError, InstrumentError


@dataclass(frozen=True)
class Port:
    """A serial port of a USB device: its file, and what the device says that it is."""

    path: str
    vendor_id: str
    product_id: str
    product: str
    serial: str
    interface: int


def ports() -> Iterator[Port]:
    """Yield the USB serial ports that the kernel has."""
    root = Path(os.environ.get(sysfs.ROOT, "/sys")) / "class/tty"
    for entry in sorted(root.glob("tty[AU]*"), key=lambda path: (len(path.name), path.name)):
        interface = (entry / "device").resolve()
        device = next((one for one in (interface, *interface.parents) if (one / "idVendor").is_file()), None)
        if device is None:
            continue
        number = next(
            (text for one in (interface, interface.parent) if (text := sysfs.text(one / "bInterfaceNumber"))),
            "0",
        )
        yield Port(
            path=f"/dev/{entry.name}",
            vendor_id=sysfs.text(device / "idVendor"),
            product_id=sysfs.text(device / "idProduct"),
            product=sysfs.text(device / "product"),
            serial=sysfs.text(device / "serial"),
            interface=int(number, 16),
        )


def lasting(path: str) -> str:
    """Return the link by which a port keeps its name; the port itself where there is none."""
    root = Path(os.environ.get(sysfs.DEVICES, "/dev"))
    for folder in ("by-id", "by-path"):
        for link in sorted((root / "serial" / folder).glob("*")):
            if os.path.realpath(link) == path:
                return str(link)
    return path


def port(path: str) -> Port | None:
    """Return the USB serial port of a file, links resolved."""
    real = os.path.realpath(path)
    return next((one for one in ports() if one.path == real), None)


class Line:
    """An open line. Another capturer that has it is an error; so is one that hangs up."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._file = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError as error:
            raise AbsentError(f"{path}: {error.strerror}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            tty.setraw(self._file, termios.TCSANOW)
            termios.tcflush(self._file, termios.TCIFLUSH)
        except BlockingIOError:
            os.close(self._file)
            raise AbsentError(f"{path}: another process has it") from None
        except termios.error as error:
            os.close(self._file)
            raise AbsentError(f"{path}: is no serial line: {error}") from None

    def write(self, data: bytes) -> None:
        """Write all of it. Raises InstrumentError where the line does not take it in a second."""
        deadline = time.monotonic() + 1.0
        while data:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([], [self._file], [], left)[1]:
                raise InstrumentError(f"{self.path}: does not take what is sent")
            data = data[os.write(self._file, data) :]

    def read(self, seconds: float, most: int = 1 << 16) -> bytes:
        """Return what is there, after at most so long; empty where nothing comes.

        Raises InstrumentError where the line has hung up.
        """
        if not select.select([self._file], [], [], seconds)[0]:
            return b""
        try:
            data = os.read(self._file, most)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise InstrumentError(f"{self.path}: {error.strerror}; unplugged?") from None
        if not data:
            raise InstrumentError(f"{self.path}: has hung up; unplugged?")
        return data

    def until(self, length: int, seconds: float, what: str) -> bytes:
        """Return so many bytes. Raises AbsentError where they do not come in time."""
        deadline, found = time.monotonic() + seconds, b""
        while len(found) < length:
            left = deadline - time.monotonic()
            if left <= 0:
                raise AbsentError(f"{self.path}: no {what} within {seconds:g} s")
            found += self.read(min(left, 0.1), length - len(found))
        return found

    def drain(self) -> None:
        """Drop what has come."""
        termios.tcflush(self._file, termios.TCIFLUSH)

    def close(self) -> None:
        """Close the line."""
        with contextlib.suppress(OSError):
            os.close(self._file)
