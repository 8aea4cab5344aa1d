# SPDX-License-Identifier: GPL-3.0-or-later
"""A tree as /sys with monitoring chips and converters, as the kernel documents it."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import numpy as np


def hwmon(root: Path, number: int, name: str, address: str = "", **attributes: object) -> Path:
    """Make /sys/class/hwmon/hwmonN with a chip's attributes."""
    folder = root / "class" / "hwmon" / f"hwmon{number}"
    folder.mkdir(parents=True)
    _fill(folder, name, attributes)
    if address:
        chip = root / "devices" / "i2c-1" / address
        chip.mkdir(parents=True, exist_ok=True)
        (folder / "device").symlink_to(chip)
    return folder


def iio(root: Path, number: int, name: str, address: str = "", **attributes: object) -> Path:
    """Make /sys/bus/iio/devices/iio:deviceN with a converter's attributes."""
    folder = root / "devices" / ("i2c-1" if address else "platform") / (address or name)
    folder /= f"iio:device{number}"
    folder.mkdir(parents=True)
    _fill(folder, name, attributes)
    link = root / "bus" / "iio" / "devices" / folder.name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(folder)
    return link


def _fill(folder: Path, name: str, attributes: dict[str, object]) -> None:
    (folder / "name").write_text(name + "\n")
    for key, value in attributes.items():
        (folder / key).write_text(f"{value}\n")


INA226_HWMON = {"in0_input": 5, "in1_input": 11985, "curr1_input": 1250, "power1_input": 14981250}
# ina2xx-adc: bus volts of 1.25 mV, a current of 1 mA, power of 25 mW a step.
INA226_IIO = {
    "in_voltage0_raw": 500,
    "in_voltage0_scale": 0.0025,
    "in_voltage1_raw": 9588,
    "in_voltage1_scale": 1.25,
    "in_power2_raw": 599,
    "in_power2_scale": 25,
    "in_current3_raw": 1250,
    "in_current3_scale": 1,
    "in_sampling_frequency": 200,
}


class Buffer:
    """An INA226's buffer: a FIFO in place of /dev/iio:deviceN, which scans come out of."""

    def __init__(self, folder: Path, device: Path) -> None:
        self.scans = device / "scan_elements"
        self.scans.mkdir()
        for index, (name, encoding) in enumerate(
            {"voltage1": "be:u16/16>>0", "power2": "le:u16/16>>0", "current3": "le:s16/16>>0"}.items()
        ):
            (self.scans / f"in_{name}_en").write_text("0\n")
            (self.scans / f"in_{name}_index").write_text(f"{index + 1}\n")
            (self.scans / f"in_{name}_type").write_text(encoding + "\n")
        (device / "buffer").mkdir()
        (device / "buffer" / "enable").write_text("0\n")
        (device / "buffer" / "length").write_text("0\n")
        self.enabled = device / "buffer" / "enable"
        self.path = folder / device.name
        os.mkfifo(self.path)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        file = os.open(self.path, os.O_RDWR)  # so that it never waits for a reader
        due = time.monotonic()
        while not self._end.wait(max(0.0, due - time.monotonic())):
            due += 0.05
            if self.enabled.read_text().strip() != "1":
                continue
            scan = np.zeros(10, [("volts", ">u2"), ("amps", "<i2")])
            scan["volts"], scan["amps"] = 9600, [-1250, 1250] * 5
            os.write(file, scan.tobytes())
        os.close(file)

    def close(self) -> None:
        """End its writer."""
        self._end.set()
        self._thread.join(5)
