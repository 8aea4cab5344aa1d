# SPDX-License-Identifier: GPL-3.0-or-later
"""The load that a run puts on the file system."""

from joulerig.rig import workloads
from joulerig.rig.campaign.factors.factor import Factor

FACTOR = Factor(
    title="Workload",
    help="The load on the file system.",
    allowed="a workload listed by `rig workloads list`",
    known=workloads.load,
    required=True,
    order=3,
)
