# SPDX-License-Identifier: GPL-3.0-or-later
"""hwmon: a monitoring chip on the controller's I2C bus that the kernel reads: INA226, INA228, ...

    ina1:
      driver: hwmon
      connection: hwmon/1-0040 # bus and address; or the chip's name, where there is one of it
      sample_rate_hz: 20 # readings of each channel per second

Channels as the kernel numbers them: in1 (volts), curr1 (amps), power1 (watts), energy1 (a register,
for `watt_hours`; INA228, LTC2947). They are read one after the other.
"""

from __future__ import annotations

import re

from joulerig.rig.lab.meters.family import Family, declared_rate

FAMILY = Family(
    driver="hwmon",
    description="monitoring chips that the kernel reads: INA219, INA226, INA228, LTC2947",
    transports=("hwmon",),
    timing="poll",
    samples="point",
    rate=lambda channels, meter: 20.0,
    fastest=lambda channels, meter: 1000.0 / channels,
    settings=declared_rate,
    channels=re.compile(r"(in|curr|power|energy)\d+"),
    channels_text="in1, curr1, power1, energy1 and so on",
    capturer=True,
    reports_serial=True,
)
