# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig compare`, `rig merge`: campaigns next to each other."""
