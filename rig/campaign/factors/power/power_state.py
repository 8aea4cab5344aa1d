# SPDX-License-Identifier: GPL-3.0-or-later
"""The power state in which an NVMe drive works."""

from joulerig.rig.campaign.factors.factor import Factor, whole_number

MOST = 31  # numbers that NVMe has


def _problem(level: float) -> str:
    return "" if level <= MOST else f"is no power state; allowed: 0 to {MOST}"


FACTOR = Factor(
    title="NVMe power state",
    help="The power state in which an NVMe drive works: 0 draws and does the most. The drive must serve in"
    " it; how it rests is factor `apst`.",
    allowed="the number of an operational power state",
    level=whole_number(_problem),
    drive_setting=True,
    order=20,
)
