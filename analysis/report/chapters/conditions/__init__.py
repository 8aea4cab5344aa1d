# SPDX-License-Identifier: GPL-3.0-or-later
"""The chapters on what the runs were measured under: the drives' state, steadiness, warmth."""
