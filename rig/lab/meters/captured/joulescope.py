# SPDX-License-Identifier: GPL-3.0-or-later
"""joulescope: Joulescope JS110, JS220, JS320, by their maker's driver.

    js1:
      driver: joulescope
      connection: joulescope/002557 # its serial; left out: the only one there is
      sample_rate_hz: 10000 # left out: 10 000

Channels volts, amps, watts, filtered down to the rate by the driver. Needs an extra:
`pip install '.[joulescope]'`.
"""

from __future__ import annotations

import re

from joulerig.rig.lab.meters.family import Family, declared_rate, no_register

FAMILY = Family(
    driver="joulescope",
    description="Joulescope JS110, JS220, JS320",
    transports=("joulescope",),
    finds_it=True,
    timing="stream",
    samples="window-mean",
    rate=lambda channels, meter: 10_000.0,
    fastest=lambda channels, meter: 1_000_000.0,
    open_seconds=15.0,
    settings=declared_rate,
    channels=re.compile(r"volts|amps|watts"),
    channels_text="volts, amps, watts",
    refuse_rail=no_register,
    capturer=True,
    reports_serial=True,
)
