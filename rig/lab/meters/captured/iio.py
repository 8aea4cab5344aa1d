# SPDX-License-Identifier: GPL-3.0-or-later
"""iio: a converter of the kernel's Industrial I/O on the controller: INA219, INA226, or any other.

    ina1:
      driver: iio
      connection: iio/1-0040 # bus and address; or its name, where there is one of it
      timing: stream # its buffer; left out: poll, attribute by attribute
      sample_rate_hz: 455 # stream: its sampling_frequency, which it reports

Channels as the kernel names them: voltage1 (volts), current3 (amps), power2 (watts). In a stream
those of one scan are of one instant, as far as the chip's are.
"""

from __future__ import annotations

import re

from joulerig.rig.lab.meters.family import Family, declared_rate, no_register

FAMILY = Family(
    driver="iio",
    description="converters of the kernel's Industrial I/O: INA219, INA226, and others",
    transports=("iio",),
    timing="poll",
    samples="point",
    may_stream=True,
    rate=lambda channels, meter: None if meter.timing == "stream" else 20.0,
    fastest=lambda channels, meter: None if meter.timing == "stream" else 1000.0 / channels,
    settings=lambda meter: {**declared_rate(meter), "timing": meter.timing},
    channels=re.compile(r"(voltage|current|power)\d*"),
    channels_text="voltage1, current3, power2 and so on",
    refuse_rail=no_register,
    capturer=True,
    reports_serial=True,
)
