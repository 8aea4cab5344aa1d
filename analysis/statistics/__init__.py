# SPDX-License-Identifier: GPL-3.0-or-later
"""Statistics of replicated runs in blocks and of series over time. Pure.

Of runs: intervals of ratios, rankings with ties, effects, fronts. Of series: levels, trends.
"""

from joulerig.deferred_import import defer

LOG_ROUNDING = 1e-10  # standard deviation of logarithms: less than this is rounding, not spread

# scipy.special takes all names of numpy's, and with them a compiler of Fortran and unittest: they
# take a third of the time to import it.
for _name in ("numpy.f2py", "numpy.testing"):
    defer(_name)
