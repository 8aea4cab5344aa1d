# SPDX-License-Identifier: GPL-3.0-or-later
"""After how much time without work a disk stops, as `hdparm -S` sets it."""

from joulerig.rig.campaign.factors.factor import Factor, word_or_number
from joulerig.rig.common import host_library

host_library.find()
from ansible.module_utils.joulerig.settings import standby  # noqa: E402

ALLOWED = "5 to 1200 in steps of 5, or 1800 to 19800 in steps of 1800"


def _problem(level: int) -> str:
    return "" if standby.code(str(level)) > 0 else f"s cannot be set; allowed: {ALLOWED}"


FACTOR = Factor(
    title="Standby timer",
    help="Seconds without work after which an ATA disk stops. A disk cannot say what its timer is: it is not"
    " read back, and is put back to `off`.",
    allowed=f"off, or {ALLOWED}",
    level=word_or_number("off", check=_problem),
    drive_setting=True,
    order=24,
)
