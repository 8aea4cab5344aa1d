# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures of single runs: idle baseline, derived figures, losses, and changes over time."""
