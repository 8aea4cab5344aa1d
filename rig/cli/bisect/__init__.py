# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig bisect`: the level of a factor at which a figure changes."""
