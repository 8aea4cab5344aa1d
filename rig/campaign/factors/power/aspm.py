# SPDX-License-Identifier: GPL-3.0-or-later
"""How PCIe links sleep (active state power management)."""

from joulerig.rig.campaign.factors.factor import Factor, Setting, word

POLICIES = ("default", "performance", "powersave", "powersupersave")

FACTOR = Factor(
    title="PCIe link power",
    help="The kernel's policy for all PCIe links of the host (ASPM); `default` leaves them as the"
    " firmware has set them.",
    allowed=", ".join(POLICIES),
    level=word(*POLICIES),
    settings=(Setting("/sys/module/pcie_aspm/parameters/policy"),),
    order=25,
)
