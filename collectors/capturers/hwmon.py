# SPDX-License-Identifier: GPL-3.0-or-later
"""hwmon: a monitoring chip that the kernel reads, such as INA219, INA226, INA228, INA238, LTC2947.

Channels are the attributes without "_input": in1 (volts), curr1 (amps), power1 (watts), energy1 (a
register). Units are the kernel's: mV, mA, uW, uJ (Documentation/hwmon/sysfs-interface.rst).
"""

from __future__ import annotations

import re
from pathlib import Path

from joulerig.capturers import sysfs
from joulerig.capturers.capture import AbsentError, Config, Driver, Found

KINDS = {
    "in": ("volts", 1e-3),
    "curr": ("amps", 1e-3),
    "power": ("watts", 1e-6),
    "energy": ("watt_hours", 1e-6 / 3600),
}
ATTRIBUTE = re.compile(r"(in|curr|power|energy)(\d+)_input")


def channels(device: Path) -> dict[str, str]:
    """Return what each channel of a device measures."""
    found = [match for path in device.iterdir() if (match := ATTRIBUTE.fullmatch(path.name))]
    found.sort(key=lambda match: (match[1], int(match[2])))
    return {match[1] + match[2]: KINDS[match[1]][0] for match in found}


def _devices() -> list[Path]:
    return [one for one in sysfs.devices("class/hwmon", "hwmon*") if channels(one)]


def open_chip(config: Config) -> sysfs.Polled:
    """Return the chip, open. Raises AbsentError where it does not answer."""
    device = sysfs.chosen("hwmon", _devices(), config.connection)
    chip = sysfs.Polled(
        device, channels(device), lambda name: (device / f"{name}_input", _scale(name), 0.0), config
    )
    for name in chip.wanted:  # one that is declared and not soldered shows here
        try:
            chip.attributes.read(name)
        except OSError as error:
            raise AbsentError(f"{device.name}/{name}_input: {error.strerror}") from None
    return chip


def _scale(channel: str) -> float:
    return KINDS[channel.rstrip("0123456789")][1]


def find() -> list[Found]:
    """Return the chips that the kernel has."""
    return [sysfs.described("hwmon", one, channels(one)) for one in _devices()]


DRIVER = Driver(open=open_chip, find=find, settings=("samplerate",))
