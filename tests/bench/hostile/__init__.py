# SPDX-License-Identifier: GPL-3.0-or-later
"""Signals that are hostile to a meter, through powerd, and whether bounds hold their energy."""
