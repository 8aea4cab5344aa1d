# SPDX-License-Identifier: GPL-3.0-or-later
"""Other data on a file system, so that a load finds it as full, and as old, as asked for."""

import ctypes
import fcntl
import os
import random
import struct
import time

from ansible.module_utils.joulerig.tools import Failed

NAME = "filler"
CHUNK_BYTES = 4 << 20
FREEING_SECONDS = 60.0
TOLERANCE = 0.01  # fraction of the file system: what it takes in addition to the data
# Of the files of an old file system: their sizes are spread evenly over the powers of two between.
SMALLEST_BYTES, LARGEST_BYTES = 4 << 10, 4 << 20
# To this part an old file system was filled again and again before files were deleted: what is free
# now are the places of those, and none that was never written.
FULL = 0.95
FILES_ASKED = 1000  # for their extents, at most, evenly over all
_FIEMAP = 0xC020660B
_HEADER = "=QQIIII"  # start, length, flags, mapped extents, room for extents, reserved
_libc = ctypes.CDLL(None, use_errno=True)


def fill(folder, part, age=0.0, seed=0):
    """Write data to `folder` until `part` (0 to 1) of its file system is in use, and sync them.

    They are one file; or, where `age` is above 0, files of mixed sizes: more are written until the
    file system is full, and then some deleted at random, until `age` times the bytes of all have
    been written in addition. The same seed gives the same files. The data neither compress nor
    repeat within a block of any size that a drive could look at.

    Gives {"asked", "used": parts in use after it, "bytes": of the files}, and of old ones
    {"files", "written_bytes": with those that were deleted, "extents_per_file": mean, None where
    the file system does not say}. Raises Failed where the file system ends up elsewhere, or in less
    room than asked for.
    """
    room = max(0, int(part * size(folder)) - _used_bytes(folder))
    data = _Data(f"filling {part:g} of {folder}")
    path = os.path.join(folder, NAME)
    found = {"bytes": room}
    if age:
        os.mkdir(path)
        files = _Files(path, data, random.Random(seed))
        files.write(room)
        more = int(age * room)
        most = max(room, int(FULL * size(folder)) - (_used_bytes(folder) - room))
        while more and most > room:
            length = min(more, most - room)
            files.write(length)
            files.delete_down_to(room)
            more -= length
        if room:
            _await_room(folder, part)
        found.update(files.described(), written_bytes=data.written)
    else:
        data.write(path, room)
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    used = _used_bytes(folder) / size(folder)
    if used < part - TOLERANCE:
        raise Failed(f"{data.purpose}: {used:.3f} of it is in use after {room} bytes")
    return {"asked": part, "used": used, **found}


def _await_room(folder, part):
    """Wait until deleted files no longer take room: XFS gives it back in the background."""
    end = time.monotonic() + FREEING_SECONDS
    while _used_bytes(folder) / size(folder) > part + TOLERANCE and time.monotonic() < end:
        time.sleep(0.2)


class _Data:
    """Writes data of which no aligned block comes twice. `written`: bytes so far."""

    def __init__(self, purpose):
        self.purpose = purpose
        self.written = 0
        self._pool = os.urandom(CHUNK_BYTES)
        self._chunks = 0

    def write(self, path, length):
        """Write a new file. Raises Failed."""
        missing = length
        with open(path, "wb") as file:
            while missing:
                turn = (2 * self._chunks + 1) % CHUNK_BYTES  # an odd shift
                chunk = memoryview(self._pool[turn:] + self._pool[:turn])[:missing]
                try:
                    file.write(chunk)
                    file.flush()
                except OSError as error:
                    raise Failed(f"{self.purpose}: {error.strerror} after {self.written} bytes") from None
                missing -= len(chunk)
                self.written += len(chunk)
                self._chunks += 1


class _Files:
    """Files of mixed sizes in a folder."""

    def __init__(self, folder, data, chance):
        self._folder, self._data, self._chance = folder, data, chance
        self._sizes = {}  # by number, in the order in which they were written
        self._next = 0

    def write(self, missing):
        """Write files of so many bytes together, and all of them to the drive."""
        while missing:
            drawn = SMALLEST_BYTES * (LARGEST_BYTES / SMALLEST_BYTES) ** self._chance.random()
            length = min(int(drawn) // SMALLEST_BYTES * SMALLEST_BYTES, missing)  # whole blocks
            self._data.write(self._path(self._next), length)
            self._sizes[self._next] = length
            self._next += 1
            missing -= length
        self._sync()

    def delete_down_to(self, room):
        """Delete files at random until the others have `room` bytes; the last one is cut.

        What a journal keeps for files that it may have to bring back is free only after the sync.
        """
        surplus = sum(self._sizes.values()) - room
        for number in self._chance.sample(sorted(self._sizes), len(self._sizes)):
            cut = min(surplus, self._sizes[number])
            if cut < self._sizes[number]:
                os.truncate(self._path(number), self._sizes[number] - cut)
                self._sizes[number] -= cut
            else:
                os.unlink(self._path(number))
                del self._sizes[number]
            surplus -= cut
            if not surplus:
                break
        self._sync()

    def described(self):
        numbers = list(self._sizes)
        asked = numbers[:: max(1, -(-len(numbers) // FILES_ASKED))]
        found = [extents(self._path(number)) for number in asked]
        known = bool(found) and None not in found
        return {
            "files": len(numbers),
            "extents_per_file": sum(found) / len(found) if known else None,
        }

    def _path(self, number):
        return os.path.join(self._folder, str(number))

    def _sync(self):
        """Write this file system back, and no other."""
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            if _libc.syncfs(folder):
                raise Failed(f"{self._data.purpose}: syncfs: {os.strerror(ctypes.get_errno())}")
        finally:
            os.close(folder)


def extents(path):
    """Return in how many pieces a file lies on its drive; None where its file system cannot say."""
    asked = bytearray(struct.pack(_HEADER, 0, (1 << 64) - 1, 0, 0, 0, 0))
    with open(path, "rb") as file:
        try:
            fcntl.ioctl(file.fileno(), _FIEMAP, asked)
        except OSError:
            return None
    return struct.unpack(_HEADER, asked)[3]


def size(folder):
    """Return the bytes of a file system that files can have."""
    stat = os.statvfs(folder)
    return stat.f_blocks * stat.f_frsize


def _used_bytes(folder):
    stat = os.statvfs(folder)
    return (stat.f_blocks - stat.f_bfree) * stat.f_frsize
