# SPDX-License-Identifier: GPL-3.0-or-later
"""The I/O scheduler of the run's drives. The module `joulerig_run` sets it and reads it back."""

from typing import Annotated

from pydantic import Field

from joulerig.rig.campaign.factors.factor import Factor

FACTOR = Factor(
    title="I/O scheduler",
    help="The I/O scheduler of the run's drives, by the kernel's name. Where a host's kernel does not offer"
    " it, its runs are `not-run`, with those that it offers.",
    allowed="none, mq-deadline, bfq, kyber, or any other that a host's kernel has",
    level=Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=15)],  # as the kernel has them
    required=True,
    order=2,
)
