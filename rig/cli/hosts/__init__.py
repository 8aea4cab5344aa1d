# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig hosts` and `rig doctor`: who has test hosts, what they are, and what ails them."""
