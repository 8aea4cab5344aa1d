# SPDX-License-Identifier: GPL-3.0-or-later
"""Energy, work per joule, and the lab report, from InfluxDB and a campaign's results folder."""

from joulerig.deferred_import import defer

# scipy.special takes all names of numpy's, and with them a compiler of Fortran and unittest: they
# take a third of the time to import it.
for _name in ("numpy.f2py", "numpy.testing"):
    defer(_name)
