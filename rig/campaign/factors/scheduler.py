# SPDX-License-Identifier: GPL-3.0-or-later
"""The I/O scheduler of the run's drives. The module `joulerig_run` sets it and reads it back."""

from typing import Literal

from joulerig.rig.campaign.factors.factor import Factor

SCHEDULERS = ("none", "mq-deadline", "bfq", "kyber")

FACTOR = Factor(
    title="I/O scheduler",
    help="The I/O scheduler of the run's drives. A host whose kernel lacks it refuses the run.",
    allowed=", ".join(SCHEDULERS),
    level=Literal[SCHEDULERS],
    required=True,
    order=2,
)
