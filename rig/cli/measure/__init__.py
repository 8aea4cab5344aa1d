# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig measure`: the energy of any command."""
