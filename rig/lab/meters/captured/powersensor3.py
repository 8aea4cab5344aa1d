# SPDX-License-Identifier: GPL-3.0-or-later
"""powersensor3: the open-source PowerSensor3, up to four pairs of volts and amps.

    ps3:
      driver: powersensor3
      connection: /dev/serial/by-id/usb-STMicroelectronics_BLACKPILL_F411CE-if00

Channels volts0, amps0 to volts3, amps3, of the pairs that its own `psconfig` has in use, 20 000
samples a second. Its converters' 10 bits are 8 mA of a sensor of 8 A: declare `accuracy`.
"""

from __future__ import annotations

import re

from joulerig.rig.lab.meters.family import Family

FAMILY = Family(
    driver="powersensor3",
    description="PowerSensor3, the open-source sensor of nlesc-recruit",
    transports=("serial",),
    timing="stream",
    samples="point",
    rate=lambda channels, meter: 20_000.0,
    fastest=lambda channels, meter: 20_000.0,
    channels=re.compile(r"(volts|amps)[0-3]"),
    channels_text="volts0, amps0 to volts3, amps3",
    refuse_rail=lambda kind: "" if kind in ("volts", "amps") else "has channels of volts and amps only",
    capturer=True,
    reports_serial=True,
)
