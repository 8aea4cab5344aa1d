# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig plan`: show what a campaign would do."""
