# SPDX-License-Identifier: GPL-3.0-or-later
"""How the link of a SATA disk sleeps (aggressive link power management)."""

from joulerig.rig.campaign.factors.factor import Factor, Setting, word

POLICIES = (
    "max_performance", "medium_power", "med_power_with_dipm", "min_power_with_partial", "min_power",
)  # fmt: skip

FACTOR = Factor(
    title="SATA link power",
    help="The kernel's policy for the link of a SATA disk (ALPM).",
    allowed=", ".join(POLICIES),
    level=word(*POLICIES),
    settings=(Setting("/sys/class/scsi_host/{adapter}/link_power_management_policy"),),
    order=22,
)
