# SPDX-License-Identifier: GPL-3.0-or-later
"""The file system that is made on the drive for a run."""

from joulerig.rig.campaign.factors.factor import Factor, Subject
from joulerig.rig.lab import filesystems


def _refusal(name: str, subject: Subject) -> str:
    """Return why a file system cannot take the drives of a pool."""
    array = subject.lab.hosts[subject.host].arrays.get(subject.drive)
    known = subject.lab.once(filesystems.load)
    if array is None or not array.pool or array.pool in known[name].pool:
        return ""
    able = ", ".join(one for one, definition in known.items() if array.pool in definition.pool) or "none"
    return f"{name!r} does not take the drives of {subject.drive} at level {array.level}; allowed: {able}"


FACTOR = Factor(
    title="File system",
    help="The file system created on the drive for the run.",
    allowed="a file system of rig/lab/filesystems/, or the lab's own",
    known=filesystems.load,
    refusal=_refusal,
    required=True,
    order=1,
)
