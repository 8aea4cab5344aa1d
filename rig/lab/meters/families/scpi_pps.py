# SPDX-License-Identifier: GPL-3.0-or-later
"""scpi-pps: SCPI power supplies: Rigol DP700/DP800, R&S HMC8043, Agilent, Chroma, ...

    psu1:
      driver: scpi-pps
      connection: tcp-raw/192.168.40.31/5555 # or /dev/ttyUSB0, or usbtmc/1.12
      sample_rate_hz: 20 # readings of each channel in use per second; left out: 80 shared by them
      accuracy: rigol-dp832

Channels: V, I and P with the output's name (V1, I1, P1). One channel is read at a time, so volts
and amps are of different instants, and libsigrok's timer ends at 97 readings a second in all. A
real instrument may be slower than that: `rig meters show` shows the observed rate to declare.
"""

from __future__ import annotations

import re

from joulerig.rig.lab.meters.family import Accuracy, Family, no_register, shared_polls

FAMILY = Family(
    driver="scpi-pps",
    description="programmable power supplies that speak SCPI: Rigol DP700 and DP800, R&S HMC8043, ...",
    reports_serial=True,
    # As the strings of libsigrok.so.4 (0.5.2) have them.
    knows="Agilent N5763A, N5767A, Chroma 61604, HP 6611C to 6634B, 66312A, 66332A, Philips PM28xx, Rigol"
    " DP711, DP712, DP821A, DP831A, DP832, R&S HMC8043",
    transports=("tcp-raw", "tcp-rigol", "serial", "usbtmc"),
    timing="poll",
    samples="point",
    rate=lambda channels, meter: 80.0 / channels,
    fastest=shared_polls,
    channels=re.compile(r"[VIPF]\S{1,14}"),
    channels_text="V, I or P and the output's name, such as V1 and I1",
    refuse_rail=no_register,
    outputs=re.compile(r"[VIPF](\S{1,14})"),
    channel_of=lambda output: f"V{output}",
    # Readback of volts and amps, annual, at 25 +-5 C after an hour: Rigol, DP800 Performance
    # Verification Manual, chapters 2 and 3 (CH1 and CH2; CH3's volts are better). Resolution:
    # libsigrok's channel table.
    accuracy={
        "rigol-dp832": {
            "volts": Accuracy(gain_percent=0.05, offset=0.010, resolution=0.001),
            "amps": Accuracy(gain_percent=0.15, offset=0.005, resolution=0.001),
        }
    },
)
