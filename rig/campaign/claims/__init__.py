# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep a campaign's claim (rig/common/claim.py) while its executor is alive."""
