# SPDX-License-Identifier: GPL-3.0-or-later
"""arachnid-labs-re-load-pro: the Re:load Pro electronic load, or a tap that sends its stream.

    load1:
      driver: arachnid-labs-re-load-pro
      connection: /dev/ttyUSB0
      serialcomm: 115200/8n1
      sample_rate_hz: 5 # pairs a second: libsigrok asks every 200 ms; your own tap may send more

Channels V and I, sent together as one line of text, so they are of the same instant. The
instrument's firmware sets the interval, so there is no sample clock to rely on.
"""

from __future__ import annotations

import re

from joulerig.rig.lab.meters.family import Family, bits_per_byte_and_baud

SHORTEST_LINE = len("read 0 0\r\n")


def fastest(channels: int, meter: object) -> float:
    """Return the rate that the line's speed allows for the shortest line of a pair."""
    bits, baud = bits_per_byte_and_baud(meter.serialcomm or FAMILY.serialcomm)
    return baud / (bits * SHORTEST_LINE)


FAMILY = Family(
    driver="arachnid-labs-re-load-pro",
    description="Re:load Pro electronic load, or a tap that speaks its stream",
    transports=("serial",),
    timing="poll",
    samples="point",
    rate=lambda channels, meter: 5.0,
    fastest=fastest,
    serialcomm="115200/8n1",
    channels=re.compile(r"[VI]"),
    channels_text="V, I",
    refuse_rail=lambda kind: "" if kind in ("volts", "amps") else "has channels of volts and amps only",
)
