# SPDX-License-Identifier: GPL-3.0-or-later
"""INA226 chips as the kernel's ina2xx-adc has them: a tree as /sys, and FIFOs as their buffers.

Each FIFO has scans of volts, amps and time, at the pace of a chip. What they show follows from the
window of a millisecond that a reading's time is in, so that a test knows each sample.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.support import fake_sysfs

READINGS_HZ = 1506.0  # of 332 us for volts and 332 us for amps
WINDOW_NS = 1_000_000
PACE_SECONDS = 0.01
VOLTS_STEP, AMPS_STEP = 1.25e-3, 0.5e-3
ELEMENTS = {
    "voltage0": (0, "le:s16/16>>0"), "voltage1": (1, "le:u16/16>>0"), "power2": (2, "le:u16/16>>0"),
    "current3": (3, "le:s16/16>>0"), "timestamp": (4, "le:s64/64>>0"),
}  # fmt: skip
SCAN = np.dtype([("volts", "<u2"), ("amps", "<i2"), ("none", "V4"), ("ns", "<i8")])
Shown = Callable[[np.ndarray], np.ndarray]  # of windows' numbers


def place(number: int) -> str:
    """Return a chip's place on its bus."""
    return f"1-{0x40 + number:04x}"


class Converters:
    """A context manager. `volts` of each chip; `amps` of each by window."""

    def __init__(self, folder: Path, volts: list[float], amps: list[Shown]) -> None:
        self.folder, self._volts, self._amps = folder, volts, amps
        self.environment = {"JOULERIG_SYSFS": str(folder / "sys"), "JOULERIG_DEV": str(folder)}
        self.missing: list[Callable[[np.ndarray], np.ndarray]] = [
            lambda windows: np.zeros(len(windows), bool)
        ] * len(volts)
        self.devices = [self._device(number) for number in range(len(volts))]
        self._files = [os.open(folder / device.name, os.O_RDWR | os.O_NONBLOCK) for device in self.devices]
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _device(self, number: int) -> Path:
        device = fake_sysfs.iio(
            self.folder / "sys", number, "ina226", place(number),
            in_voltage1_scale=VOLTS_STEP * 1e3, in_current3_scale=AMPS_STEP * 1e3,
            in_sampling_frequency=READINGS_HZ, current_timestamp_clock="realtime",
        )  # fmt: skip
        for below in ("scan_elements", "buffer"):
            (device / below).mkdir()
        for name, (index, encoding) in ELEMENTS.items():
            for what, text in (("en", "0"), ("index", index), ("type", encoding)):
                (device / "scan_elements" / f"in_{name}_{what}").write_text(f"{text}\n")
        for name in ("enable", "length"):
            (device / "buffer" / name).write_text("0\n")
        os.mkfifo(self.folder / device.name)
        return device

    def __enter__(self) -> Converters:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(5)
        for number in range(len(self._files)):
            self.unplug(number)

    def unplug(self, number: int) -> None:
        """End a chip's buffer."""
        if self._files[number] >= 0:
            os.close(self._files[number])
            self._files[number] = -1

    def _run(self) -> None:
        period = 1e9 / READINGS_HZ
        began, done = time.monotonic_ns(), 0
        while not self._end.wait(PACE_SECONDS):
            due = int((time.monotonic_ns() - began) / period)
            ns = began + (np.arange(done, due) * period).astype(np.int64)
            done = due
            for number, device in enumerate(self.devices):
                if (device / "buffer" / "enable").read_text().strip() == "1":
                    self._write(number, ns)

    def _write(self, number: int, ns: np.ndarray) -> None:
        windows = ns // WINDOW_NS
        kept = ~self.missing[number](windows)
        scan = np.zeros(int(kept.sum()), SCAN)
        scan["volts"] = round(self._volts[number] / VOLTS_STEP)
        scan["amps"] = np.rint(self._amps[number](windows[kept]) / AMPS_STEP)
        scan["ns"] = ns[kept]
        with contextlib.suppress(OSError):  # unplugged, or full because the tap does not read
            os.write(self._files[number], scan.tobytes())
