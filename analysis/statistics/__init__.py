# SPDX-License-Identifier: GPL-3.0-or-later
"""Statistics of replicated runs in blocks (intervals of ratios, rankings with ties, effects, fronts) and of
series over time (levels, trends). Pure.
"""

LOG_ROUNDING = 1e-10  # standard deviation of logarithms: less than this is rounding, not spread
