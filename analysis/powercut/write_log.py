# SPDX-License-Identifier: GPL-3.0-or-later
"""A log of a drive's writes with their data, as Linux's dm-log-writes and the twin (`writes`) keep.

Format, version 1, numbers little-endian: a sector of the log's head (magic, version, entries, bytes
of a sector), then for each entry a sector (first sector, sectors, flags, bytes of a mark), in which
a mark's text follows, and the data. A discard has no data.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from joulerig.errors import JoulerigError

MAGIC, VERSION = 0x6A736677736872, 1
HEAD, ENTRY = struct.Struct("<QQQI"), struct.Struct("<QQQQ")
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8


class WriteLogError(JoulerigError):
    """A file that is no log of writes: its text is one line."""


@dataclass(frozen=True)
class Write:
    """Data at an offset, in bytes."""

    offset: int
    data: bytes

    @property
    def end(self) -> int:
        return self.offset + len(self.data)


@dataclass(frozen=True)
class Entry:
    """One entry: a flush that was asked for before it, a write, a mark; any may be missing.

    `durable`: whether the write had FUA.
    """

    flush: bool
    write: Write | None
    durable: bool
    mark: str


def read(path: Path) -> Iterator[Entry]:
    """Yield the entries of a log. Raises WriteLogError, OSError."""
    with path.open("rb") as file:
        head = file.read(HEAD.size)
        if len(head) < HEAD.size or HEAD.unpack(head)[:2] != (MAGIC, VERSION):
            raise WriteLogError(f"{path}: not a log of dm-log-writes, version {VERSION}")
        _, _, entries, sector_bytes = HEAD.unpack(head)
        file.seek(sector_bytes)
        for number in range(entries):
            yield _entry(file, sector_bytes, f"{path}: entry {number + 1}")


def _entry(file: BinaryIO, sector_bytes: int, where: str) -> Entry:
    sector = _exactly(file, sector_bytes, where)
    first, sectors, flags, mark_bytes = ENTRY.unpack_from(sector)
    if flags & MARK:
        return Entry(
            False, None, False, sector[ENTRY.size : ENTRY.size + mark_bytes].decode(errors="replace")
        )
    length = sectors * sector_bytes
    data = bytes(length) if flags & DISCARD else _exactly(file, length, where)
    write = Write(first * sector_bytes, data) if length else None
    return Entry(bool(flags & FLUSH), write, bool(flags & FUA), "")


def _exactly(file: BinaryIO, length: int, where: str) -> bytes:
    data = file.read(length)
    if len(data) < length:
        raise WriteLogError(f"{where}: the file ends in it")
    return data
