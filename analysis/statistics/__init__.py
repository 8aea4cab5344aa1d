# SPDX-License-Identifier: GPL-3.0-or-later
"""Statistics of replicated runs in blocks and of series over time. Pure.

Of runs: intervals of ratios, rankings with ties, effects, fronts. Of series: levels, trends.
"""

LOG_ROUNDING = 1e-10  # standard deviation of logarithms: less than this is rounding, not spread
