# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel that a test host runs; booted once a block, for all its runs."""

from __future__ import annotations

from collections.abc import Mapping

from joulerig.rig.campaign.factors.factor import Factor
from joulerig.rig.lab import kernels


def kernel_level(levels: Mapping[str, str]) -> str:
    """Return the kernel that a run asks for; the host's own where none is named."""
    return levels.get("kernel", kernels.INSTALLED)


FACTOR = Factor(
    title="Kernel",
    help="The kernel that the test host runs. It is booted once per block for all runs of the level, so the"
    " plan is a split plot.",
    allowed="a kernel of rig/lab/kernels/kernels.yml, or the lab's own",
    default=kernels.INSTALLED,
    known=kernels.load,
    order=6,
)
