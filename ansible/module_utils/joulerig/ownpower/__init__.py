# SPDX-License-Identifier: GPL-3.0-or-later
"""What drives report of the power that they draw."""
