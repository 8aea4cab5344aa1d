# SPDX-License-Identifier: GPL-3.0-or-later
"""The level of a disk's advanced power management, as `hdparm -B` sets it."""

from joulerig.rig.campaign.factors.factor import Factor, word_or_number

MOST = 254


def _problem(level: int) -> str:
    return "" if 1 <= level <= MOST else f"is no level; allowed: 1 to {MOST}"


FACTOR = Factor(
    title="Disk power management",
    help="The level of an ATA disk's advanced power management (APM): 1 saves the most, 254 the least; below"
    " 128 the disk may stop.",
    allowed=f"off, or 1 to {MOST}",
    level=word_or_number("off", check=_problem),
    drive_setting=True,
    order=23,
)
