# SPDX-License-Identifier: GPL-3.0-or-later
"""How deeply the host's processors may sleep."""

from joulerig.rig.campaign.factors.factor import Factor, Setting, word_or_number


def _problem(level: int) -> str:
    return "" if level else "µs allow no sleep; allowed: none"


FACTOR = Factor(
    title="Processor sleep",
    help="The longest time in µs that leaving a sleep of the host's processors may take (C-states): `any`"
    " allows all states, `none` has them poll.",
    allowed="none, any, or whole µs",
    level=word_or_number("none", "any", check=_problem),
    settings=(
        Setting(
            "/sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us",
            values={"any": "0", "none": "n/a"},  # the kernel's words
            needs="/sys/devices/system/cpu/cpu0/cpuidle/state0/name",
        ),
    ),
    order=28,
)
