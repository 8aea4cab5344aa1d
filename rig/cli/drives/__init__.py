# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig drives`: health and history of drives, what is on them, whether what they say is so."""
