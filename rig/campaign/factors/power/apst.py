# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether an NVMe drive may rest by itself, and how deeply (autonomous power state transitions)."""

from joulerig.rig.campaign.factors.factor import Factor, word_or_number


def _problem(level: int) -> str:
    return "" if level else "µs allow no state; allowed: off"


FACTOR = Factor(
    title="NVMe autonomous power states",
    help="The longest time in µs that entering and leaving a power state may take together which an idle NVMe"
    " drive enters by itself; `any` allows all states, `off` none.",
    allowed="off, any, or whole µs",
    level=word_or_number("off", "any", check=_problem),
    default="as the kernel has it, which is 100000 by default",
    drive_setting=True,
    order=21,
)
