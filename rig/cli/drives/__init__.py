# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig drives`: health and history of drives, what is on them, what they report of their power."""
