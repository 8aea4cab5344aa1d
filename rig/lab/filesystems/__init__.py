# SPDX-License-Identifier: GPL-3.0-or-later
"""The file systems that a campaign can name, one file each: the shipped ones and a lab's own.

A lab's own are in `filesystems/NAME.yml` next to its inventory, or by name in one file
`filesystems.yml`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator

from joulerig.rig.common.errors import Strict, validate
from joulerig.rig.common.numbers import PositiveInt
from joulerig.rig.lab import definitions
from joulerig.rig.lab.model import Lab, Package

SHIPPED = Path(__file__).parent
KIND = "file system"
JOURNAL = "{journal}"
DEVICE = "{device}"


class ExternalJournal(Strict):
    """How a file system has its journal on another drive, whose device replaces `{journal}`."""

    make: list[str] = Field(
        [],
        description="Command that prepares the journal's drive, which can have an identifier as `mkfs` has;"
        " empty: not needed.",
    )
    mkfs: Annotated[list[str], Field(min_length=1, description="Options added to the file system's mkfs.")]
    mount_options: list[str] = Field([], description="Options added to the file system's mount options.")

    @field_validator("mkfs")
    @classmethod
    def _names_the_journal(cls, options: list[str]) -> list[str]:
        if not any(JOURNAL in option for option in options):
            raise ValueError(f"{options!r} names no device; {JOURNAL} stands for the journal's")
        return options


class AfterPowerCut(Strict):
    """What a file system promises over a power cut, and the commands that are run on it after one.

    The commands get the device as their last argument; an empty one is not run.
    """

    atomic_rename: bool = Field(True, description="Whether a rename is atomic across a power cut.")
    fsync_flushes: bool = Field(
        True,
        description="Whether fsync always flushes the drive's cache. If not, fsynced data lost on a drive"
        " with a volatile cache is reported, but does not count against the file system.",
    )
    before_mount: list[str] = Field(
        [],
        description="Command to run before the first mount after a cut, if the kernel does not recover.",
    )
    repair: list[str] = Field([], description="Repair command for a file system that cannot be mounted.")
    check: list[str] = Field([], description="Read-only check for damage after the journal was replayed.")

    @property
    def commands(self) -> dict[str, list[str]]:
        """Return what a test host runs after a cut."""
        return self.model_dump(include={"before_mount", "repair", "check"})


class FileSystem(Strict):
    """One file system: how it is made, mounted and checked, and what a test host needs for it."""

    description: str = Field("", description="A one-line description.")
    type: str = Field(description="The kernel's name for it, as in /proc/filesystems.")
    packages: list[Package] = Field([], description="Debian packages with its tools.")
    module: str | None = Field(None, description="Kernel module, if its name differs from `type`.")
    mkfs: list[str] = Field(
        description="mkfs command; the device is its last argument. `{uuid}` stands for a UUID that is"
        " chosen for each run, `{label}` for a label of 16 hexadecimal digits, `{volume_id}` for 8 of them:"
        " by it the drive of a run that was killed is known as the rig's; without one, such a drive has to"
        " be adopted. Empty: mounting creates it, by an option such as `init`."
    )
    mkfs_bounded: list[str] = Field(
        [],
        description="How the mkfs command ends for `use_bytes` of a campaign: `{device}` and `{bytes}`,"
        " `{blocks}` of 4 KiB, or `{sectors}` of 512 bytes. Left out: not possible.",
    )
    least_bytes: PositiveInt = Field(
        16 << 20, description="The smallest `use_bytes` with which it can be made."
    )
    no_discard: list[str] = Field(
        [], description="Options that keep mkfs from discarding the drive's blocks."
    )
    mkfs_writes: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Fraction of the file system that mkfs writes, which the plan counts.",
    )
    mount_options: list[str] = Field([], description="Mount options.")
    dax: bool = Field(
        False,
        description="Whether files must be mapped directly to an NVDIMM's memory; the run fails otherwise.",
    )
    external_journal: ExternalJournal | None = Field(
        None, description="How to put its journal on another drive; left out: not possible."
    )
    pool: dict[str, list[str]] = Field(
        {},
        description="Options added to mkfs, by level (single, raid0, raid1 ...), where it takes several"
        " drives itself; their devices are its last arguments. Left out: not possible.",
    )
    after_power_cut: AfterPowerCut | None = Field(
        None,
        description="Its guarantees and checks in power-cut campaigns; left out: it cannot be used in them.",
    )

    @field_validator("mkfs_bounded")
    @classmethod
    def _names_the_device(cls, end: list[str]) -> list[str]:
        if end and DEVICE not in end:
            raise ValueError(f"{end!r} lacks the device; {DEVICE} stands for it")
        return end

    @property
    def without_discard(self) -> FileSystem:
        """Return the same file system, made without discarding anything."""
        return self.model_copy(update={"mkfs": [*self.mkfs, *self.no_discard] if self.mkfs else []})

    def over(self, level: str) -> FileSystem:
        """Return the same file system over several drives, at a level of `pool`; "": over one."""
        return self.model_copy(update={"mkfs": [*self.mkfs, *self.pool[level]]}) if level else self

    def for_host(self, name: str) -> dict[str, Any]:
        """Return the definition for a test host (module_utils/joulerig/drives/filesystem.py)."""
        ours = {"description", "packages", "after_power_cut", "mkfs_writes", "least_bytes", "pool"}
        return {"name": name, **self.model_dump(exclude=ours)}


def load(lab: Lab) -> dict[str, FileSystem]:
    """Return the shipped file systems and the lab's own, by name. Raises UserError."""
    folder = lab.folder
    return definitions.with_own(shipped(), [folder / "filesystems", folder / "filesystems.yml"], KIND, _parse)


@functools.cache
def shipped() -> Mapping[str, FileSystem]:
    """Return the file systems of this folder, by name. Raises UserError."""
    return definitions.read_folder(SHIPPED, KIND, _parse)


def with_power_cuts(lab: Lab) -> dict[str, AfterPowerCut]:
    """Return what the file systems that can be power-cut promise, by name. Raises UserError."""
    known = load(lab)
    return {name: one.after_power_cut for name, one in known.items() if one.after_power_cut is not None}


def modules(known: Mapping[str, FileSystem]) -> list[str]:
    """Return the kernel modules that these file systems need."""
    return sorted({one.module or one.type for one in known.values()})


def packages(known: Mapping[str, FileSystem]) -> list[str]:
    """Return the Debian packages that these file systems need."""
    return sorted({name for one in known.values() for name in one.packages})


def reference(known: Mapping[str, FileSystem] | None = None) -> str:
    """Return Markdown tables of file systems (default: the shipped ones) and of a file's keys."""
    known = shipped() if known is None else known
    rows = [
        (
            f"`{name}`",
            one.description,
            ", ".join(one.packages),
            _code(one.mkfs),
            _code(one.mount_options),
            "yes" if one.external_journal else "no",
            _promises(one.after_power_cut),
        )
        for name, one in known.items()
    ]
    head = (
        "name",
        "what it is",
        "packages",
        "mkfs",
        "mount options",
        "external journal",
        "after a power cut",
    )
    keys = definitions.keys_table(FileSystem, ExternalJournal, AfterPowerCut)
    return f"{definitions.table(head, rows)}\n{keys}"


def _code(command: Iterable[str]) -> str:
    text = " ".join(command)
    return f"`{text}`" if text else ""


def _promises(after: AfterPowerCut | None) -> str:
    if after is None:
        return "not cut"
    lacks = [] if after.atomic_rename else ["renames are not atomic"]
    lacks += [] if after.fsync_flushes else ["fsync may not flush"]
    commands = [f"{key}: {_code(command)}" for key, command in after.commands.items() if command]
    return "; ".join([*lacks, *commands]) or "no checker"


def _parse(name: str, entry: Any, source: str) -> FileSystem:
    return validate(FileSystem, entry, source, definitions.key(name, source))
