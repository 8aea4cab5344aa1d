# SPDX-License-Identifier: GPL-3.0-or-later
"""The drive or array that a run loads. Its levels are the campaign's `drives`."""

from joulerig.rig.campaign.factors.factor import Factor

FACTOR = Factor(
    title="Drive",
    help="The drive or array that carries the file system. Its levels are the campaign's `drives`.",
    allowed="a drive or array of the inventory",
    required=True,
    order=0,
)
