# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the kernel may suspend a drive's device (runtime power management)."""

from joulerig.rig.campaign.factors.factor import Factor, Setting, word

FACTOR = Factor(
    title="Runtime power management",
    help="Whether the kernel may suspend the drive's own device (a SCSI device, an NVMe drive's PCI"
    " function): `auto` lets it, `on` does not.",
    allowed="on, auto",
    level=word("on", "auto"),
    settings=(Setting("/sys/{powered}/power/control"),),
    order=26,
)
