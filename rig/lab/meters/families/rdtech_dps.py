# SPDX-License-Identifier: GPL-3.0-or-later
"""rdtech-dps: RDTech/Ruideng DPS and DPH supply modules, Modbus RTU over a serial line.

    dps1:
      driver: rdtech-dps
      connection: /dev/ttyUSB0
      serialcomm: 9600/8n1 # the module's own setting
      options: { modbusaddr: "1" }
      sample_rate_hz: 25 # readings a second; left out: what 80 % of the line's speed allows

Channels V, I (of the same request) and P. A DPS5005 resolves 10 mV and 1 mA: at 3.3 V and 0.1 A the
last digits alone are 0.3 % and 1 %.
"""

from __future__ import annotations

import re

from joulerig.rig.lab.meters.family import (
    POLL_READINGS_PER_SECOND,
    Family,
    bits_per_byte_and_baud,
    no_register,
)

# A request of 8 bytes, and a reply of 5 bytes and 8 registers of 2.
BYTES_PER_READING = 8 + 5 + 16


def fastest(channels: int, meter: object) -> float:
    """Return the rate that the line's speed and libsigrok's timer allow for one exchange."""
    bits, baud = bits_per_byte_and_baud(meter.serialcomm or FAMILY.serialcomm)
    return min(POLL_READINGS_PER_SECOND, baud / (bits * BYTES_PER_READING))


FAMILY = Family(
    driver="rdtech-dps",
    description="RDTech and Ruideng DPS and DPH supply modules",
    transports=("serial",),
    timing="poll",
    samples="point",
    rate=lambda channels, meter: 0.8 * fastest(channels, meter),
    fastest=fastest,
    serialcomm="9600/8n1",
    channels=re.compile(r"[VIP]"),
    channels_text="V, I, P",
    refuse_rail=no_register,
)
