# SPDX-License-Identifier: GPL-3.0-or-later
"""command: any program that prints samples, for an instrument that nothing else reads.

    psu9:
      driver: command
      command: [/usr/local/bin/read-my-meter, --port, /dev/ttyACM3]
      timing: poll # stream: its samples have a steady rate
      sample_rate_hz: 10
      options: { clock: unix } # its times are the controller's; left out: the instrument's

Channels are the columns that it prints: volts, amps, watts, joules (cumulative: a register, for
`watt_hours`), or NAME.volts and so on. docs/reference/protocols/command.md has the contract.
"""

from __future__ import annotations

import re

from joulerig.rig.lab.meters.family import Family, declared_rate

FAMILY = Family(
    driver="command",
    description="any program that prints samples",
    transports=(),
    timing=None,
    samples="point",
    rate=lambda channels, meter: None,
    settings=lambda meter: {
        **declared_rate(meter),
        "timing": meter.timing,
        **meter.options,
    },
    channels=re.compile(r"([^\s,]+\.)?(volts|amps|watts|joules)"),
    channels_text="volts, amps, watts, joules, or NAME.volts and so on, as the program names them",
    capturer=True,
    program=True,
)
