# SPDX-License-Identifier: GPL-3.0-or-later
"""The file systems that a campaign can name: the shipped ones, and those that a lab declares itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator

from joulerig.rig.common.errors import Strict, validate
from joulerig.rig.lab import definitions
from joulerig.rig.lab.model import Lab

SHIPPED = Path(__file__).parent / "filesystems.yml"
KIND = "file system"
JOURNAL = "{journal}"


class ExternalJournal(Strict):
    """How a file system has its journal on another drive, whose device stands where `{journal}` is written.

    `make` (empty: none is needed) prepares that drive; `mkfs` and `mount_options` come to the file system's.
    """

    make: list[str] = []
    mkfs: Annotated[list[str], Field(min_length=1)]
    mount_options: list[str] = []

    @field_validator("mkfs")
    @classmethod
    def _names_the_journal(cls, words: list[str]) -> list[str]:
        if not any(JOURNAL in word for word in words):
            raise ValueError(f"{words!r} names no device; {JOURNAL} stands for the journal's")
        return words


class FileSystem(Strict):
    """How a file system is made and mounted; mkfs gets the device as its last argument.

    An empty `mkfs`: mounting makes it, by an option such as `init`. `no_discard`: words that keep mkfs from
    discarding what the drive holds. `module`: the kernel module, where its name is not `type`.
    `dax`: it must map files straight to the memory of an NVDIMM, or the run fails.
    """

    type: str
    module: str | None = None
    mkfs: list[str]
    no_discard: list[str] = []
    mount_options: list[str] = []
    dax: bool = False
    external_journal: ExternalJournal | None = None

    @property
    def keeping(self) -> FileSystem:
        """The same, made without discarding anything."""
        return self.model_copy(update={"mkfs": [*self.mkfs, *self.no_discard] if self.mkfs else []})


def load(lab: Lab) -> dict[str, FileSystem]:
    """The shipped file systems and those of `filesystems.yml` beside the inventory. Raises UserError."""
    shipped = definitions.read(SHIPPED, KIND, _entry)
    return definitions.with_own(shipped, lab.inventory.parent / "filesystems.yml", KIND, _entry)


def _entry(name: str, entry: Any, source: str) -> FileSystem:
    return validate(FileSystem, entry, source, name)
