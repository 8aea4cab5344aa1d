# SPDX-License-Identifier: GPL-3.0-or-later
"""korad-kaxxxxp: Korad KA and KD supplies (also Velleman, Tenma, RND, Stamos) on a serial line.

    korad1:
      driver: korad-kaxxxxp
      connection: /dev/ttyACM0
      serialcomm: 9600/8n1
      sample_rate_hz: 4.1 # pairs a second: three requests of 80 ms each

Channels V and I, 10 mV and 1 mA, one after the other. libsigrok's driver goes on sending its last
values when the supply does not answer: silence_seconds is below what it waits for an answer, so
that such values are not taken. Supplies of this make have been seen to tell the voltage that was
set in place of the measured one while the two are within 0.2 V
(whiteboard.ping.se/HackValue/KoradPsu): check against a multimeter before trusting its volts.
"""

from __future__ import annotations

import re

from joulerig.rig.lab.meters.family import Family

SECONDS_PER_REQUEST = 0.080  # libsigrok gives the supply so long for each; the third request is for its state
REQUESTS_PER_PAIR = 3
# The driver waits for each byte by which an identity is shorter than the longest it knows: a scan
# takes about 5 s.
OPEN_SECONDS = 12.0

FAMILY = Family(
    driver="korad-kaxxxxp",
    description="Korad KA and KD supplies, and those sold by Velleman, Tenma, RND and Stamos",
    transports=("serial",),
    timing="poll",
    samples="point",
    rate=lambda channels, meter: 4.1,
    fastest=lambda channels, meter: 1 / (REQUESTS_PER_PAIR * SECONDS_PER_REQUEST),
    silence_seconds=0.8,
    open_seconds=OPEN_SECONDS,
    serialcomm="9600/8n1",
    channels=re.compile(r"[VI]"),
    channels_text="V, I",
    refuse_rail=lambda kind: "" if kind in ("volts", "amps") else "has channels of volts and amps only",
)
