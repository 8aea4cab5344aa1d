# SPDX-License-Identifier: GPL-3.0-or-later
"""hameg-hmo: the rig's own power tap (firmware/power_tap), which emulates an R&S RTA4004.

    tap1a:
      driver: hameg-hmo
      connection: tcp-raw/192.168.40.21/5025 # or /dev/ttyACM0 with serialcomm: 115200/8n1
      sample_rate_hz: 1000 # the tap's own rate, which it reports: another one is refused
      samples: window-mean # the tap's converter averages over each sample's window

Channels CH1..CH4, volts or amps as the tap says. All four are sampled at once, the sample clock is
the tap's.
"""

from __future__ import annotations

import re

from joulerig.rig.lab.meters.family import Family

FAMILY = Family(
    driver="hameg-hmo",
    description="the rig's own power tap, which speaks as a Rohde & Schwarz RTA4004 does",
    transports=("tcp-raw", "serial", "usbtmc"),
    timing="stream",
    samples="window-mean",
    rate=lambda channels, meter: None,
    channels=re.compile(r"CH[1-4]"),
    channels_text="CH1 to CH4",
    refuse_rail=lambda kind: "" if kind in ("volts", "amps") else "has channels of volts and amps only",
    # It ends an acquisition where a count is >= its limit, and its limits begin at 0: without both
    # it stops after one frame. limit_samples is compared with the samples of a single frame.
    limits={"limit_frames": 100_000_000, "limit_samples": 1_000_000_000},
    # The driver always has a request under way, and would take its answer for that of a setting.
    fixed_settings=True,
    power_tap=True,
    reports_serial=True,
    serial_pattern="-[AB]$",  # firmware/power_tap/PROTOCOL.md
    otherwise="an oscilloscope is no power tap: its frames have dead time between them; allowed: a power"
    " tap, or the oscilloscope's own energy by driver: command",
)
