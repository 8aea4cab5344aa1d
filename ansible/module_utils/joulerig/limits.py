# SPDX-License-Identifier: GPL-3.0-or-later
"""How long work on drives may take until it counts as hung: by their sizes, by one rule.

What the work takes on any drive, plus the time in which the slowest credible drive of its interface
reads or writes the fraction of it that the work is about. Drives of an array work side by side: the
slowest of them counts.

A limit ends what hangs; it is no estimate. The rates are therefore less than half of what the worst
drives on sale sustain over their whole size: SATA and NVMe drives of QLC flash past their SLC cache
(80 and 100 MB/s), shingled hard disks (40 MB/s).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

SLOWEST_BYTES_PER_SECOND = {"nvme": 40e6, "sata-ssd": 30e6, "hdd": 15e6, "nvdimm": 100e6, "ram": 100e6}
MOST_SECONDS = 24 * 86400.0  # poll(2), by which Python waits for a tool, takes 2^31 milliseconds


class Work(NamedTuple):
    """Work on a drive: its limit on a tiny one, and the fraction of the drive that it is about."""

    least_seconds: float
    fraction: float


# mkfs, mount, unmount, check. They discard all blocks, and read or write the metadata: the inode
# tables of ext2 are 1/64 of a drive.
METADATA = Work(600.0, 1 / 8)
PURGE = Work(3600.0, 1 / 8)  # discard, or format: no data moves
WHOLE = Work(3600.0, 1.0)  # a pass, a layout that fills the drive, a resync


def seconds(drives: Sequence[Mapping[str, Any]], work: Work, use_bytes: int = 0) -> float:
    """Return how long `work` on declared drives ({interface, size_bytes}) may take.

    `use_bytes`: it is about as many bytes of each only; 0: about the whole drives.
    """
    slowest = max(
        (use_bytes or one["size_bytes"]) / SLOWEST_BYTES_PER_SECOND[one["interface"]] for one in drives
    )
    return min(work.least_seconds + work.fraction * slowest, MOST_SECONDS)
