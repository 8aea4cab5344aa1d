# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig watch`: what the dashboard shows, in a terminal."""
