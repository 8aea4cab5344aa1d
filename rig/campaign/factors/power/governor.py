# SPDX-License-Identifier: GPL-3.0-or-later
"""By which rule the kernel sets the clock of the host's processors."""

from typing import Annotated

from pydantic import Field

from joulerig.rig.campaign.factors.factor import Factor, Setting

FACTOR = Factor(
    title="Frequency governor",
    help="The kernel's rule for the clock of all of the host's processors.",
    allowed="a governor that the host has: performance, powersave, schedutil ...",
    level=Annotated[str, Field(pattern=r"^[a-z_]+$")],
    settings=(Setting("/sys/devices/system/cpu/cpufreq/policy*/scaling_governor"),),
    order=27,
)
