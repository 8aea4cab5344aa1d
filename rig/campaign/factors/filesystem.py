# SPDX-License-Identifier: GPL-3.0-or-later
"""The file system that is made on the drive for a run."""

from joulerig.rig.campaign.factors.factor import Factor
from joulerig.rig.lab import filesystems

FACTOR = Factor(
    title="File system",
    help="The file system created on the drive for the run.",
    allowed="a file system of rig/lab/filesystems/, or the lab's own",
    known=filesystems.load,
    required=True,
    order=1,
)
