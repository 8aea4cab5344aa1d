# SPDX-License-Identifier: GPL-3.0-or-later
"""What is on a drive, or in the files of a folder, sector by sector.

`durawriter survey` reports it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from joulerig import json_text
from joulerig.errors import JoulerigError

SECTOR_BYTES = 512


class SurveyError(JoulerigError):
    """A survey that cannot be one: its text is one line."""


class Sector(NamedTuple):
    """What one sector holds.

    `state`: `record` (whole, of this campaign, in its place; the rest identifies the write),
    `misplaced` (whole, but of another place), `damaged` (begins as one of this campaign, its
    checksum is wrong), `zero`, `foreign` (anything else), `absent` (past the end). `crc32c`
    distinguishes contents that are not records.
    """

    state: str
    generation: int = 0
    sequence: int = 0
    index: int = 0
    of: int = 0
    crc32c: int = 0


ABSENT = Sector("absent")
ZERO = Sector("zero")
STATES = ("record", "misplaced", "damaged", "zero", "foreign")


@dataclass
class Surveyed:
    """A drive's region, or a file: its length and its sectors.

    `error`: why it could not be read, or empty.
    """

    bytes: int
    error: str = ""
    sectors: list[Sector] = field(default_factory=list)

    def sector_at(self, sector: int) -> Sector:
        return self.sectors[sector] if sector < len(self.sectors) else ABSENT


Survey = dict[str, Surveyed]


def parse(text: str) -> Survey:
    """Parse the lines of `durawriter survey` into a survey by target. Raises SurveyError."""
    found: Survey = {}
    try:
        for line in map(json_text.parse, text.splitlines()):
            if "state" not in line:
                found[line["target"]] = Surveyed(line["bytes"], line.get("error", ""))
            else:
                found[line["target"]].sectors += _sectors(line, found[line["target"]])
    except (ValueError, KeyError, TypeError) as error:
        raise SurveyError(f"survey: {type(error).__name__}: {error}") from None
    for target, surveyed in found.items():
        if not surveyed.error and len(surveyed.sectors) != -(-surveyed.bytes // SECTOR_BYTES):
            raise SurveyError(f"survey: {target!r}: {len(surveyed.sectors)} sectors, {surveyed.bytes} bytes")
    return found


def _sectors(line: dict, so_far: Surveyed) -> Iterable[Sector]:
    if line["offset"] != len(so_far.sectors) * SECTOR_BYTES:
        raise SurveyError(f"survey: {line['target']!r}: no sector before {line['offset']}")
    if line["state"] not in STATES:
        raise SurveyError(f"survey: {line['target']!r}: state {line['state']!r} is unknown")
    follows = 1 if line["state"] in ("record", "misplaced") else 0
    return [
        Sector(
            line["state"],
            line.get("generation", 0),
            line.get("sequence", 0),
            line["index"] + follows * number,
            line.get("of", 0),
            line.get("crc32c", 0),
        )
        for number in range(line["sectors"])
    ]
