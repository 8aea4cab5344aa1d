# SPDX-License-Identifier: GPL-3.0-or-later
"""demo: libsigrok's own generator, to try the rig's power path with no instrument at all.

    demo1:
      driver: demo
      sample_rate_hz: 1000
      set: { A1.measured_quantity: current } # all channels are volts by default

Channels A0, A1, ...: square, sine, triangle, sawtooth (the pattern of each can be set: A0.pattern,
A0.amplitude, A0.offset). Their energy is that of nothing; no figure of a real drive can come from
it.
"""

from __future__ import annotations

import re

from joulerig.rig.lab.meters.family import Family, no_register

FAMILY = Family(
    driver="demo",
    description="libsigrok's own generator, to try the power path without an instrument",
    transports=(),
    timing="stream",
    samples="point",
    rate=lambda channels, meter: 1000.0,
    options={"analog_channels": "4", "logic_channels": "0"},
    settings=lambda meter: {"samplerate": f"{meter.sample_rate_hz:.0f}"},
    channels=re.compile(r"A\d+"),
    channels_text="A0, A1, ...",
    refuse_rail=no_register,
)
