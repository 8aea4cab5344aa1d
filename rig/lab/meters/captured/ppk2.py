# SPDX-License-Identifier: GPL-3.0-or-later
"""ppk2: Nordic's Power Profiler Kit II, an ammeter up to 1 A at 0.8 to 5 V.

    ppk1:
      driver: ppk2
      connection: /dev/serial/by-id/usb-Nordic_Semiconductor_PPK2_C9F2D3A1B0E4-if01
      set: { millivolts: "5000" } # of the rail; `mode: source` and the kit itself feeds it

One channel, amps, 100 000 samples a second. A rail's volts are stated:
`5v: { meter: ppk1, volts: 5.00 ± 0.05, amps: amps }`.
"""

from __future__ import annotations

import re

from joulerig.rig.lab.meters.family import Family

FAMILY = Family(
    driver="ppk2",
    description="Nordic's Power Profiler Kit II",
    transports=("serial",),
    timing="stream",
    samples="point",
    rate=lambda channels, meter: 100_000.0,
    fastest=lambda channels, meter: 100_000.0,
    settings=lambda meter: {},
    channels=re.compile(r"amps"),
    channels_text="amps",
    refuse_rail=lambda kind: (
        ""
        if kind == "amps"
        else "has a channel of amps alone; allowed: volts that are stated, such as 5.00 ± 0.05"
    ),
    capturer=True,
    reports_serial=True,
)
