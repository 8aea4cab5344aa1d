# SPDX-License-Identifier: GPL-3.0-or-later
"""The most watts that an NVMe drive may draw."""

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from joulerig.rig.campaign.factors.factor import Factor, as_word

MOST = 655.35  # watts that a limit can have


def _level(level: str) -> str:
    if level == "off":
        return level
    try:
        watts = float(level)
    except ValueError:
        watts = 0.0
    if not 0.01 <= watts <= MOST:
        raise ValueError(f"{level!r} is no limit; allowed: off, 0.01 to {MOST} W")
    return f"{watts:g}"


LEVEL: Any = Annotated[str, BeforeValidator(as_word), AfterValidator(_level)]

FACTOR = Factor(
    title="NVMe power limit",
    help="The most watts that an NVMe drive may draw while it works, where it can be given such a limit (NVMe"
    " 2.1); `off` gives it none. It then works in a power state that draws no more.",
    allowed=f"off, or 0.01 to {MOST} W",
    level=LEVEL,
    default="as the drive has it",
    drive_setting=True,
    order=20,
)
