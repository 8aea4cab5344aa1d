# SPDX-License-Identifier: GPL-3.0-or-later
"""Times after which ATA disks can be set to stop. Source: ATA8-ACS, "STANDBY timer"."""

from __future__ import annotations

OFF = "off"


def code(level: str) -> int:
    """Return the number that stands for seconds, or for "off", in ATA's IDLE; -1 where none does.

    1 to 240 are 5 s each, 241 to 251 half an hour each from there.
    """
    if level == OFF:
        return 0
    seconds = int(level)
    if 5 <= seconds <= 1200 and seconds % 5 == 0:
        return seconds // 5
    if 1800 <= seconds <= 19800 and seconds % 1800 == 0:
        return 240 + seconds // 1800
    return -1
