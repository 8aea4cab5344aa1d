# SPDX-License-Identifier: GPL-3.0-or-later
"""Statistics of replicated runs in blocks: intervals of ratios, rankings with ties, effects, fronts. Pure."""
