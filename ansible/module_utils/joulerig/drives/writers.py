# SPDX-License-Identifier: GPL-3.0-or-later
"""The marks by which data that the rig's writers left on a raw drive are recognised, by sector.

They cost the measurement nothing: each writer leaves its marks anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

SECTOR_BYTES, LINE_BYTES = 512, 64
ERASED = (b"\x00", b"\xff")
# workloads/internal/sectortag: what each sector of a power cut's writer begins with, before the
# campaign's token.
DURAWRITER_MAGIC = b"JRSECT01"


class Writer(NamedTuple):
    """The writer whose data a change may leave on the raw drive.

    `tool`: "fio", "durawriter", or "" for mkfs and its like; `token`: durawriter's campaign, in
    hexadecimal digits.
    """

    tool: str = ""
    token: str = ""

    def wrote(self, block: bytes, offset: int) -> bool:
        """Check whether a block at this offset of the drive is erased, or has its marks."""
        if any(block == byte * len(block) for byte in ERASED):
            return True
        find = _MARKS.get(self.tool)
        return find is not None and all(
            find(self, block[at : at + SECTOR_BYTES], offset + at)
            for at in range(0, len(block), SECTOR_BYTES)
        )


UNMARKED = Writer()


def _is_of_fio(_writer: Writer, sector: bytes, offset: int) -> bool:
    """Look for the offset of the sector, at the start of one of its cache lines.

    fio's `scramble_buffers`, which is on by default, writes it there (backend.c,
    small_content_scramble).
    """
    mark = offset.to_bytes(8, "little")
    return any(sector.startswith(mark, at) for at in range(0, SECTOR_BYTES, LINE_BYTES))


def _is_of_durawriter(writer: Writer, sector: bytes, _offset: int) -> bool:
    """Look for the campaign's token; a region that is written to was zeroed before."""
    return sector.startswith(DURAWRITER_MAGIC + bytes.fromhex(writer.token)) or not any(sector)


_MARKS: Mapping[str, Callable[[Writer, bytes, int], bool]] = {
    "fio": _is_of_fio,
    "durawriter": _is_of_durawriter,
}
