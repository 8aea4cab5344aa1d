# SPDX-License-Identifier: GPL-3.0-or-later
"""Any other libsigrok driver with channels of volts, amps, watts or watt hours.

    meter9:
      driver: gwinstek-gpd
      connection: /dev/ttyUSB0
      serialcomm: 115200/8n1
      timing: poll # "stream" only where the driver reports the instrument's own sample rate
      sample_rate_hz: 2 # the rig cannot find it out
      samples: point # of a stream: also bandwidth_hz, or the rail's supply alone bounds its joules

List a driver's channels, as libsigrok names them, with `rig meters scan --driver gwinstek-gpd
--connection /dev/ttyUSB0`.
"""

from __future__ import annotations

import functools
import shutil
import subprocess

from joulerig.rig.lab.meters.family import Family


def family(driver: str) -> Family:
    """Return the family of a driver that has no own file: nothing is refused or defaulted."""
    return Family(
        driver=driver,
        description="",
        transports=("any",),
        finds_it=True,  # not all of libsigrok's drivers have a conn
        timing=None,
        samples="point",
        rate=lambda channels, meter: None,
    )


@functools.cache
def drivers() -> frozenset[str]:
    """Return the names of this machine's libsigrok drivers; empty where they cannot be listed."""
    program = shutil.which("sigrok-cli")
    if not program:
        return frozenset()
    listing = subprocess.run([program, "-L"], capture_output=True, text=True, timeout=20).stdout
    section = listing.partition("Supported hardware drivers:\n")[2].partition("\n\n")[0]
    names = (line.split() for line in section.splitlines() if line.startswith("  "))
    return frozenset(words[0] for words in names if words)
