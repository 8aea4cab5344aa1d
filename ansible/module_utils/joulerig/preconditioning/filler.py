# SPDX-License-Identifier: GPL-3.0-or-later
"""Other data on a file system, so that a load finds it as full as asked for."""

import os

from ansible.module_utils.joulerig.tools import Failed

NAME = "filler"
CHUNK_BYTES = 4 << 20
TOLERANCE = 0.01  # fraction of the file system: what it takes in addition to the data


def fill(folder, part):
    """Write one file to `folder` until `part` (0 to 1) of its file system is in use, and sync it.

    Its data neither compress nor repeat within a block of any size that a drive could look at.
    Gives {"asked", "used": parts in use after it, "bytes": of the file}. Raises Failed where the
    file system ends up elsewhere, or in less room than asked for.
    """
    pool = os.urandom(CHUNK_BYTES)
    missing = int(part * size(folder)) - _used_bytes(folder)
    written = turns = 0
    with open(os.path.join(folder, NAME), "wb") as file:
        while written < missing:
            turn = (2 * turns + 1) % CHUNK_BYTES  # an odd shift: no aligned block comes twice
            chunk = memoryview(pool[turn:] + pool[:turn])[: missing - written]
            try:
                file.write(chunk)
            except OSError as error:
                raise Failed(
                    f"filling {part:g} of {folder}: {error.strerror} after {written} bytes"
                ) from None
            written += len(chunk)
            turns += 1
        file.flush()
        os.fsync(file.fileno())
    used = _used_bytes(folder) / size(folder)
    if used < part - TOLERANCE:
        raise Failed(f"filling {part:g} of {folder}: {used:.3f} of it is in use after {written} bytes")
    return {"asked": part, "used": used, "bytes": written}


def size(folder):
    """Return the bytes of a file system that files can have."""
    stat = os.statvfs(folder)
    return stat.f_blocks * stat.f_frsize


def _used_bytes(folder):
    stat = os.statvfs(folder)
    return (stat.f_blocks - stat.f_bfree) * stat.f_frsize
