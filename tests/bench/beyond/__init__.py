# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rig does beyond measuring, each shown once on a virtual lab, end to end.

A module here is a feature of its name. It has `show(lab)`, which uses the feature as its user does,
on the lab that is up, returns on one line what came out, and raises NotShownError where that is not
what the lab was made to give.
"""


class NotShownError(Exception):
    """What came out is not what had to; its text is one line."""
