# SPDX-License-Identifier: GPL-3.0-or-later
"""The power tap's Cortex-M image on an emulated board: monitor chips, a pty each, QMP.

What the emulation is not: its I2C takes no time, and its clock is not real time. By default it
counts instructions, which is exact but faster or slower than the wall clock: wait for samples,
never for seconds.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import select
import socket
import subprocess
import tempfile
import time
import tty
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.support import ROOT
from tests.support.programs import built, end, installed, wait_for

RATE_HZ = 500
RAILS = 4
# QEMU's adm1272 converts by these coefficients of the data sheet's DIRECT format, whatever it is
# set to: those of the 100 V and 30 mV ranges, and for its shunt of 300 uOhm, 663 * 0.3 rounded
# down.
VOLTS_M, AMPS_M, AMPS_B = 4062, 198, 20480
SINGLE_PRECISION = 1e-6
VOLTS_STEP, AMPS_STEP = 100 / VOLTS_M, 10 / AMPS_M


def volts_of(millivolts: int) -> float:
    """What a rail that was set to so many millivolts reads: the chip rounds down to its code."""
    return math.floor(VOLTS_M * millivolts / 1e5) * VOLTS_STEP


def amps_of(milliamps: int) -> float:
    return (math.floor((AMPS_M * milliamps + AMPS_B * 1000) / 1e4) * 10 - AMPS_B) / AMPS_M


def pty_environment(folder: Path) -> dict[str, str]:
    """The environment in which libserialport opens ptys."""
    shim = folder / "ptyshim.so"
    if not shim.exists():
        source = str(ROOT / "tests" / "support" / "ptyshim.c")
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", str(shim), source, "-ldl"], check=True)
    return {**os.environ, "LD_PRELOAD": str(shim)}


class Line:
    """A serial line of the board, as a person at a terminal has it."""

    def __init__(self, path: str) -> None:
        self.path = path
        # Held open as long as the board runs: QEMU takes a pty that no process has open for
        # unplugged.
        self.fd = os.open(path, os.O_RDWR | os.O_NOCTTY)
        tty.setraw(self.fd)

    @property
    def driver(self) -> str:
        """The connection by which libsigrok finds the instrument."""
        return f"hameg-hmo:conn={self.path}:serialcomm=921600/8n1"

    def close(self) -> None:
        os.close(self.fd)

    def send(self, command: str, end: str = "\n") -> None:
        os.write(self.fd, (command + end).encode())

    def settle(self) -> None:
        """Drops what a client that has ended had still asked for."""
        while select.select([self.fd], [], [], 0.2)[0]:
            os.read(self.fd, 4096)

    def ask(self, command: str, seconds: float = 5) -> str:
        self.send(command)
        reply = b""
        deadline = time.monotonic() + seconds
        while not reply.endswith(b"\n"):
            readable, _, _ = select.select([self.fd], [], [], max(0, deadline - time.monotonic()))
            assert readable, f"{command}: no reply, only {reply!r}"
            reply += os.read(self.fd, 4096)
        return reply.decode().strip()


class Board:
    """The board in QEMU. `lines` are its UARTs: instrument A with rails 1 and 2, B with 3 and 4.

    With `exact`, its time is the instructions that it has executed, 2 ns each. Without, it is the
    host's, and stops for the board whenever the host has no processor for it.
    """

    def __init__(self, rails: int = RAILS, exact: bool = True) -> None:
        self.image = built("power_tap_lm3s6965.elf")
        self.rails, self.exact = rails, exact
        self.ticks_address: int | None = None

    def __enter__(self) -> Board:
        self.folder = tempfile.TemporaryDirectory(prefix="cm", dir="/tmp")  # short: it holds a socket
        monitor = Path(self.folder.name) / "qmp"
        command = [
            installed("qemu-system-arm", "qemu-system-arm"),
            "-M",
            "lm3s6965evb",
            "-kernel",
            self.image,
        ]
        command += ["-display", "none", "-monitor", "none", "-nic", "none"]
        command += ["-qmp", f"unix:{monitor},server=on,wait=off"]
        if self.exact:
            command += ["-icount", "shift=1"]
        for n in range(2):
            command += ["-chardev", f"pty,id=line{n}", "-serial", f"chardev:line{n}"]
        for n in range(self.rails):
            command += ["-device", f"adm1272,id=rail{n + 1},bus=i2c,address={0x10 + n}"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.lines: list[Line] = []
        try:
            wait_for(monitor.exists, 10, "QEMU's monitor socket is there")
            self.socket = socket.socket(socket.AF_UNIX)
            wait_for(lambda: self.socket.connect_ex(str(monitor)) == 0, 5, "QEMU's monitor answers")
            self.monitor = self.socket.makefile("rw")
            self.monitor.readline()  # its greeting
            self.qmp("qmp_capabilities")
            for device in sorted(self.qmp("query-chardev"), key=lambda d: d["label"]):
                if device["label"].startswith("line"):
                    self.lines.append(Line(device["filename"].removeprefix("pty:")))
            # The buttons read as pressed until they were. "Left" stays so where time is
            # instructions: a core that sleeps executes none.
            for key in ("up", "down") if self.exact else ("up", "down", "left"):
                self.press(key, True)
                self.press(key, False)
            wait_for(lambda: self.lines[0].ask("*OPC?") == "1", 5, "the tap answers")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for line in self.lines:
            line.close()
        end(self.process, 10)
        self.folder.cleanup()

    def qmp(self, command: str, **arguments: Any) -> Any:
        self.monitor.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.monitor.flush()
        while True:
            answer = json.loads(self.monitor.readline())
            assert "error" not in answer, f"{command} {arguments}: {answer['error']}"
            if "return" in answer:
                return answer["return"]

    def set_rail(self, rail: int, millivolts: int, milliamps: int) -> None:
        for name, value in (("vout", millivolts), ("iout", milliamps)):
            self.qmp("qom-set", path=f"/machine/peripheral/rail{rail}", property=name, value=value)

    def press(self, key: str, down: bool) -> None:
        """The board's buttons "up" and "down", which are marker inputs 0 and 1."""
        event = {"type": "key", "data": {"down": down, "key": {"type": "qcode", "data": key}}}
        self.qmp("input-send-event", events=[event])

    def word(self, address: int) -> int:
        """A word of the board's memory, or a register."""
        text = self.qmp("human-monitor-command", **{"command-line": f"xp /1wx {address:#x}"})
        return int(text.split(":")[1], 16)

    def symbol(self, name: str) -> int:
        table = subprocess.run(
            [installed("arm-none-eabi-nm", "binutils-arm-none-eabi"), self.image],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        return int(re.search(rf"^([0-9a-f]+) \w {name}$", table, re.M).group(1), 16)

    def ticks(self) -> int:
        """Return the ticks of the sample clock; t ticks mean that sample t - 1 is or was made."""
        if self.ticks_address is None:
            self.ticks_address = self.symbol("ticks_low")
        return self.word(self.ticks_address)

    def run(self, seconds: float) -> None:
        """Waits until the board has made the samples of so many seconds of its time."""
        ticks = self.ticks() + round(seconds * RATE_HZ)
        wait_for(lambda: self.ticks() >= ticks, 60, f"{seconds} s of samples")

    @contextlib.contextmanager
    def stopped(self) -> Iterator[int]:
        """Time stands still for the board meanwhile. Gives the ticks of the sample clock so far.

        With t ticks, samples 0 to t - 2 are made, and sample t - 1 may be, or be under way, or come
        yet.
        """
        self.qmp("stop")
        try:
            yield self.ticks()
        finally:
            self.qmp("cont")

    def samples(self) -> int:
        """Asked on line 1, which no capture must be using."""
        return int(self.lines[1].ask("TAP:COUNT?").split(",")[0])

    def conversion_errors(self) -> list[int]:
        """Per rail: conversions that failed, and ticks that passed without one. Asked on line 1."""
        return [int(text) for text in self.lines[1].ask("TAP:ERRORS?").split(",")]


@dataclass
class Steps:
    """The rails' settings, from which tick on; entries {rail: (millivolts, milliamps)}."""

    board: Board
    ticks: list = field(default_factory=list)
    settings: list = field(default_factory=list)

    def set(self, **rails):
        """Sets rails, all of them between two samples: set(r1=(12000, 500), ...)."""
        now = {**(self.settings[-1] if self.settings else {}), **{int(r[1:]): v for r, v in rails.items()}}
        with self.board.stopped() as ticks:
            for rail, (millivolts, milliamps) in now.items():
                self.board.set_rail(rail, millivolts, milliamps)
        self.ticks.append(ticks)
        self.settings.append(now)

    def truth(self, rail, first, count):
        """Volts and amps as set, of the device's samples from number `first` on."""
        which = np.searchsorted(self.ticks, np.arange(first, first + count), side="right") - 1
        assert which.min() >= 0, "before the first setting"
        values = np.array([setting[rail] for setting in self.settings]) / 1000
        return values[which, 0], values[which, 1]

    def sure(self, first, count):
        """Return whether no sample was under way when a step changed the rails."""
        return ~np.isin(np.arange(first, first + count), np.array(self.ticks) - 1)

    def first_of(self, rows, rails):
        """Return the device's number of a capture's first sample, by which all samples fit."""
        fits = []
        for first in range(self.ticks[0], self.ticks[1]):
            sure = self.sure(first, len(rows))
            fine = True
            for n, rail in enumerate(rails):
                truth = self.truth(rail, first, len(rows))
                for k, step in enumerate((VOLTS_STEP, AMPS_STEP)):
                    column = rows[:, 2 * n + k]
                    low = truth[k][sure] - column[sure]
                    fine = fine and bool(((low > -SINGLE_PRECISION * 30) & (low < step * 1.001)).all())
            if fine:
                fits.append(first)
        # Where each step met a sample under way, and each on the same side, two numbers fit.
        assert 1 <= len(fits) <= 2, f"first samples that fit: {fits}"
        return fits
