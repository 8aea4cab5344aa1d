# SPDX-License-Identifier: GPL-3.0-or-later
"""The factors of a campaign and their levels, and what a run's levels ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from joulerig.rig.common.errors import Strict
from joulerig.rig.lab import kernels

SCHEDULERS = ("none", "mq-deadline", "bfq", "kyber")
FACTORS = (
    "drive", "filesystem", "scheduler", "workload", "journal", "write_cache", "kernel", "sync", "fill",
    "run_seconds",
)  # fmt: skip
INTERNAL = "internal"
Level = Annotated[str, Field(min_length=1)]
NO_FLUSH = "no flush"
WriteCache = Literal["write back", "write through", NO_FLUSH]
SyncCall = Literal["fsync", "fdatasync", "none"]
MOST_FILLED = 0.95  # of a file system: some refuse work, or never come to an end, when they are full


def _as_text(level: Any) -> Any:
    """A number as YAML has it, as a level's name."""
    return f"{level:g}" if isinstance(level, int | float) and not isinstance(level, bool) else level


def _part(level: str) -> str:
    if not 0 <= float(level) <= MOST_FILLED:
        raise ValueError(f"{level} is no part of a file system; allowed: 0 to {MOST_FILLED:g}")
    return level


def _seconds(level: str) -> str:
    if not int(level) > 0:
        raise ValueError(f"{level} is no length; allowed: whole seconds from 1 on")
    return level


_NUMBER, _WHOLE = Field(pattern=r"^[0-9]+([.][0-9]+)?$"), Field(pattern=r"^[0-9]+$")
Fill = Annotated[str, BeforeValidator(_as_text), _NUMBER, AfterValidator(_part)]
RunSeconds = Annotated[str, BeforeValidator(_as_text), _WHOLE, AfterValidator(_seconds)]


def each_once(levels: list[str]) -> list[str]:
    for level in levels:
        if levels.count(level) > 1:
            raise ValueError(f"{level!r} is there twice; each level is allowed once")
    return levels


class Factors(Strict):
    """Levels of each factor; every combination is a cell. An optional factor without levels is none.

    `journal`: where a file system has its journal: "internal", or on another drive of the host.
    `write_cache`: the drive's on (write back) or off (write through), or on and never flushed.
    `kernel`: what the host runs; booted once a block, for all its runs.
    `sync`: what a workload of engine `sync` calls after each write, in place of its own.
    `fill`: the part of the file system that other data fill before the workload lays out its files.
    `run_seconds`: the workload phase's length, in place of the campaign's.
    """

    filesystem: Annotated[list[Level], Field(min_length=1)]
    scheduler: Annotated[list[Literal[SCHEDULERS]], Field(min_length=1)]
    workload: Annotated[list[Level], Field(min_length=1)]
    journal: list[Level] = []
    write_cache: list[WriteCache] = []
    kernel: list[Level] = []
    sync: list[SyncCall] = []
    fill: list[Fill] = []
    run_seconds: list[RunSeconds] = []

    _levels_once = field_validator("*")(each_once)


def _listed(levels: Any) -> Any:
    """One level as a list of it."""
    return levels if isinstance(levels, list) or levels is None else [levels]


_Of = TypeVar("_Of")
Levels = Annotated[list[_Of] | None, BeforeValidator(_listed), Field(min_length=1)]


class Exclusion(Strict):
    """Cells that are not run: those that have, of every factor named here, the level or one of the levels."""

    drive: Levels[Level] = None
    filesystem: Levels[Level] = None
    scheduler: Levels[Level] = None
    workload: Levels[Level] = None
    journal: Levels[Level] = None
    write_cache: Levels[WriteCache] = None
    kernel: Levels[Level] = None
    sync: Levels[SyncCall] = None
    fill: Levels[Fill] = None
    run_seconds: Levels[RunSeconds] = None
    reason: Annotated[str, Field(min_length=3)]

    @model_validator(mode="after")
    def _names_a_factor(self) -> Exclusion:
        if not self.named:
            raise ValueError(
                "names no factor, which would exclude every cell; allowed: " + ", ".join(FACTORS)
            )
        return self

    @property
    def named(self) -> dict[str, list[str]]:
        """By factor, the levels that are excluded together."""
        return {key: levels for key in FACTORS if (levels := getattr(self, key)) is not None}

    def matches(self, levels: Mapping[str, str]) -> bool:
        return all(levels[key] in some for key, some in self.named.items())


def write_cache(every: str | None, levels: Mapping[str, str]) -> str:
    """The write cache that a run asks for, where its campaign asks for `every`; empty: as the drive is."""
    return levels.get("write_cache") or every or ""


def journal_drive(levels: Mapping[str, str]) -> str | None:
    """The drive that a run's journal is on; None where the file system has it inside."""
    level = levels.get("journal", INTERNAL)
    return None if level == INTERNAL else level


def stands_on(drive: str, levels: Mapping[str, str]) -> list[str]:
    """The drives (or arrays) that a run writes to: its drive, and its journal's where that is another."""
    journal = journal_drive(levels)
    return [drive, journal] if journal else [drive]


def kernel(levels: Mapping[str, str]) -> str:
    """The kernel that a run asks for; the host's own where none is named."""
    return levels.get("kernel", kernels.INSTALLED)


def workload_seconds(every: int, levels: Mapping[str, str]) -> int:
    """The length of a run's workload phase, where its campaign's is `every`."""
    return int(levels.get("run_seconds", every))


def fill(levels: Mapping[str, str]) -> float:
    """The part of the file system that is filled before the workload lays out its files."""
    return float(levels.get("fill", 0))
