# SPDX-License-Identifier: GPL-3.0-or-later
"""Print the documentation's table of factors: `python -m joulerig.rig.campaign.factors`."""

from joulerig.rig.campaign import factors

print(factors.reference(), end="")
