# SPDX-License-Identifier: GPL-3.0-or-later
"""scpi-dmm: SCPI bench multimeters (Keysight 34465A, Agilent 34405A, HP 34401A), as references.

    dmm1:
      driver: scpi-dmm
      connection: tcp-raw/192.168.40.41/5025 # or /dev/ttyUSB0, or usbtmc/1.13
      set: { measured_quantity: voltage } # or current

One channel, P1, one quantity at a time: it measures a rail together with another meter, or with
volts that are stated. Other meters are calibrated against it, for example with `rig meters
calibrate METER --channel V1 --reference dmm1:P1`. Instruments that libsigrok has no profile for
(Siglent SDM3065X) are not found: `driver: command` reads them.
"""

from __future__ import annotations

import re

from joulerig.rig.lab.meters.family import Family, shared_polls

FAMILY = Family(
    driver="scpi-dmm",
    description="bench multimeters that speak SCPI: references for calibration",
    reports_serial=True,
    # As the strings of libsigrok.so.4 (0.5.2) have them.
    knows="HP 34401A, Agilent 34405A, Keysight 34465A",
    transports=("tcp-raw", "serial", "usbtmc"),
    timing="poll",
    samples="point",
    # At 10 power line cycles, which these set themselves to, a reading takes 0.2 s.
    rate=lambda channels, meter: 5.0,
    fastest=shared_polls,
    channels=re.compile(r"P1"),
    channels_text="P1",
    refuse_rail=lambda kind: (
        ""
        if kind == "amps"
        else "reads one quantity at a time, so it measures no rail alone; allowed: its amps, with volts that"
        " are stated (5.00 ± 0.05) or another meter's, or its volts for another meter's amps; it can be a"
        " reference of 'rig meters calibrate'"
    ),
)
