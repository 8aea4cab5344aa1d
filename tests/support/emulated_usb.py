# SPDX-License-Identifier: GPL-3.0-or-later
"""Instruments on a pseudo-terminal that stream at their own pace, and /sys of their ports."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import struct
import threading
import time
import tty
from pathlib import Path

CHUNK_SECONDS = 0.01


class Device:
    """A device that takes commands, and streams a chunk each CHUNK_SECONDS while it is asked to."""

    def __init__(self) -> None:
        self._master, self._slave = pty.openpty()
        tty.setraw(self._slave)
        os.set_blocking(self._master, False)
        self.path = os.ttyname(self._slave)
        self.streaming = False
        self.asked = b""
        self._chunks = 0
        self._gone = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def handle(self, data: bytes) -> bytes:
        """Take what came; return the reply."""
        raise NotImplementedError

    def chunk(self, number: int) -> bytes:
        """Return the stream's part of that number."""
        raise NotImplementedError

    def start(self) -> None:
        """Begin to stream, from the first chunk on."""
        self.streaming, self._chunks, self._due = True, 0, time.monotonic() + CHUNK_SECONDS

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while not self._gone.is_set():
                wait = max(0.0, self._due - time.monotonic()) if self.streaming else 0.05
                if select.select([self._master], [], [], wait)[0]:
                    data = os.read(self._master, 4096)
                    self.asked += data
                    self._write(self.handle(data))
                if self.streaming and time.monotonic() >= self._due:
                    self._write(self.chunk(self._chunks))
                    self._chunks += 1
                    self._due += CHUNK_SECONDS

    def _write(self, data: bytes) -> None:
        """Write all of it, or what a client takes that speaks and reads no more."""
        while data and not self._gone.is_set():
            asked, room, _ = select.select([self._master], [self._master], [], 0.1)
            if room:
                with contextlib.suppress(BlockingIOError):
                    data = data[os.write(self._master, data[:2048]) :]
            elif asked:
                return

    def unplug(self) -> None:
        """Be gone, as a device whose cable is pulled."""
        self._gone.set()
        self._thread.join(2)
        with contextlib.suppress(OSError):
            os.close(self._slave)
            os.close(self._master)

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._gone.is_set():
            self.unplug()


class Kit(Device):
    """A PPK2. `lose`: (number of the sample, how many are lost before it), once."""

    RATE = 100_000
    OHMS = (1000.0, 100.0, 10.0, 0.94, 0.05)

    def __init__(self, amps=lambda k: 0.5, lose: tuple[int, int] = (0, 0)) -> None:
        self.amps, self.lose, self.skipped = amps, lose, 0
        super().__init__()

    def handle(self, data: bytes) -> bytes:
        if 0x06 in data:
            self.skipped = 0
            self.start()
        if 0x07 in data:
            self.streaming = False
        if data.endswith(b"\x19"):
            lines = ["Calibrated: 1", "HW: 12"]
            for number, ohms in enumerate(self.OHMS):
                lines += [f"R{number}: {ohms}", f"GS{number}: 0", f"GI{number}: 1", f"O{number}: 0"]
                lines += [f"S{number}: 0", f"I{number}: 0", f"UG{number}: 1"]
            return "\n".join([*lines, "END", ""]).encode()
        return b""

    def chunk(self, number: int) -> bytes:
        words = []
        for k in range(number * 1000, number * 1000 + 1000):
            if self.lose[1] and self.lose[0] == k:
                self.skipped = self.lose[1]
            amps = self.amps(k)
            scale = 4 if amps > 0.05 else 3
            count = 16383 if amps == float("inf") else round(amps * self.OHMS[scale] * 163840 / 1.8 / 4)
            words.append((k + self.skipped) % 64 << 18 | scale << 14 | count)
        return struct.pack(f"<{len(words)}I", *words)


class Sensor(Device):
    """A PowerSensor3 with a sensor of 5 V and 20 A in its first pair, and of 12 V in its second."""

    RATE = 20_000
    AMPS = (1.65, 0.06)  # V at 0 A, V/A
    VOLTS = (0.0, 0.2)

    def __init__(self, volts=lambda k: 5.0, amps=lambda k: 1.5, lose: tuple[int, int] = (0, 0)) -> None:
        self.volts, self.amps, self.lose, self.skipped = volts, amps, lose, 0
        self._sensor: int | None = None
        super().__init__()

    def record(self, number: int) -> bytes:
        in_use = number < 4
        reference, sensitivity = (self.VOLTS if number % 2 else self.AMPS) if in_use else (0.0, 0.0)
        kind = b"MLX10" if number % 2 == 0 else b"VOLT"
        return struct.pack("<16s16sff?", kind, b"slot", reference, sensitivity, in_use)

    def handle(self, data: bytes) -> bytes:
        if data.startswith(b"T"):
            self.streaming, data = False, data[1:]
        if data.endswith(b"R"):
            self._sensor = 0
            return self.record(0)
        if data == b"s" and self._sensor is not None:
            self._sensor += 1
            if self._sensor < 8:
                return self.record(self._sensor)
            self._sensor = None
            return b"D"
        if data == b"S":
            self.skipped = 0
            self.start()
        return b""

    def level(self, number: int, k: int) -> int:
        if number >= 4:
            return 0
        value = (self.volts(k) * (2.4 if number == 3 else 1)) if number % 2 else self.amps(k)
        reference, sensitivity = self.VOLTS if number % 2 else self.AMPS
        return max(0, min(1023, round((value * sensitivity + reference) * 1023 / 3.3)))

    def chunk(self, number: int) -> bytes:
        found = bytearray()
        for k in range(number * 200, number * 200 + 200):
            if self.lose[1] and self.lose[0] == k:
                self.skipped = self.lose[1]
            clock = (k + self.skipped) * 50 % 1024
            found += bytes([0xF0 | clock >> 6, 0x40 | clock & 63])
            for sensor in range(8):
                level = self.level(sensor, k)
                found += bytes([0x80 | sensor << 4 | level >> 6, level & 63])
        return bytes(found)


def port(root: Path, name: str, **facts: str) -> None:
    """Make a USB serial port in a tree as /sys."""
    device = root / "devices" / "usb1" / f"1-{len(name)}{name[-1]}"
    interface = device / f"{device.name}:1.0"
    (interface / "tty" / name).mkdir(parents=True)
    (interface / "bInterfaceNumber").write_text("01\n")
    for key, value in facts.items():
        (device / key).write_text(value + "\n")
    tty_class = root / "class" / "tty" / name
    tty_class.mkdir(parents=True)
    (tty_class / "device").symlink_to(interface)
