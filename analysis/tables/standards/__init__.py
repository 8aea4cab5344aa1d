# SPDX-License-Identifier: GPL-3.0-or-later
"""What published standards ask to be reported, filled where the rig has it. No conformity."""
