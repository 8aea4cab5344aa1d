# SPDX-License-Identifier: GPL-3.0-or-later
"""quarch: Quarch PPM and PAM power modules, by their maker's server (QIS), which runs already.

    pam1:
      driver: quarch
      connection: tcp-raw/127.0.0.1/9722 # of the server
      options: { module: QTL1999-02-001 } # left out: the only one that it has
      sample_rate_hz: 1000 # it resamples to that; left out: 1000

Channels are named by rail and quantity: 12V_volts, 12V_amps, 12V_watts; `rig meters scan` lists a
module's.
"""

from __future__ import annotations

import re

from joulerig.rig.lab.meters.family import Family, declared_rate, no_register

FAMILY = Family(
    driver="quarch",
    description="Quarch PPM and PAM power modules, by their server QIS",
    transports=("tcp-raw",),
    timing="stream",
    samples="window-mean",
    rate=lambda channels, meter: 1000.0,
    fastest=lambda channels, meter: 250_000.0,
    open_seconds=15.0,
    settings=declared_rate,
    channels=re.compile(r"\S+_(volts|amps|watts)"),
    channels_text="12V_volts, 12V_amps, 12V_watts and so on",
    refuse_rail=no_register,
    capturer=True,
    reports_serial=True,
)
