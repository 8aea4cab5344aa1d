# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare a factor: what a module of this folder, or a lab's own, assigns to `FACTOR`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from joulerig.rig.lab.model import Lab

Name = Annotated[str, Field(min_length=1)]  # a level that names something


def _as_text(level: Any) -> Any:
    """Return a number, as YAML reads it, as the name of a level."""
    return f"{level:g}" if isinstance(level, int | float) and not isinstance(level, bool) else level


def number(check: Callable[[float], str]) -> Any:
    """Return the type of a numeric level. `check` returns what is allowed instead, or ""."""
    return _numeric(r"^[0-9]+([.][0-9]+)?$", check)


def whole_number(check: Callable[[float], str]) -> Any:
    """Return the type of a whole-numbered level. `check` returns what is allowed instead, or ""."""
    return _numeric(r"^[0-9]+$", check)


def _numeric(pattern: str, check: Callable[[float], str]) -> Any:
    def checked(level: str) -> str:
        if problem := check(float(level)):
            raise ValueError(f"{level} {problem}")
        return level

    return Annotated[str, BeforeValidator(_as_text), Field(pattern=pattern), AfterValidator(checked)]


@dataclass(frozen=True)
class Setting:
    """A file of the test host's kernel that a factor sets for a run.

    It is written before mkfs, read back, recorded in the run's settings (`settings.json`,
    `kernel_files`), checked again after the load, and put back at the end of the run, also after an
    error.

    Attributes
    ----------
    path : str
        File under /sys or /proc/sys. `{device}` stands for the kernel's name of a drive: the file
        of every drive of the run is set.
    values : mapping of str to str
        What is written, by level. A level that is not in it is written as it is.
    """

    path: str
    values: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"(/sys|/proc/sys)/.+", self.path) or "/../" in self.path:
            raise ValueError(f"{self.path!r}: allowed: a file under /sys or /proc/sys")
        if set(re.findall(r"\{(.*?)\}", self.path)) - {"device"}:
            raise ValueError(f"{self.path!r}: allowed: {{device}} as the only placeholder")


@dataclass(frozen=True)
class Subject:
    """A planned run, as a factor's functions see it: its lab, host, drive, and levels."""

    lab: Lab
    host: str
    drive: str
    levels: Mapping[str, str]


@dataclass(frozen=True)
class Estimate:
    """What a plan assumes of a run.

    Seconds of its workload phase, and the fraction of its drives that other data fill before that.
    """

    workload_seconds: float
    filled_fraction: float = 0.0


def _no_arguments(_level: str, _subject: Subject) -> dict[str, Any]:
    return {}


def _possible(_level: str, _subject: Subject) -> str:
    return ""


def _same(_level: str, estimate: Estimate) -> Estimate:
    return estimate


@dataclass(frozen=True)
class Factor:
    """A factor that a campaign can vary.

    Attributes
    ----------
    title : str
        A few words: the heading of its paragraph in the documentation.
    help : str
        What a level means, in sentences, for the documentation.
    allowed : str
        What a level can be, in words, for the documentation.
    level : type
        Pydantic type of a level, which is text: `Name`, `Literal[...]`, `number(...)`,
        `whole_number(...)`.
    default : str
        What holds for a campaign without this factor, in words.
    known : callable, optional
        Names that a level can have in this lab, for a factor whose levels name something.
    refusal : callable
        Why a level is not possible in a planned run, and what is allowed; "" where it is possible.
    arguments : callable
        Arguments of the module `joulerig_run` that the level sets, in place of the campaign's.
    settings : tuple of Setting
        Kernel files of the test host that are set to the level for the run.
    estimate : callable
        Change what a plan assumes of a run with this level.
    replaces : str
        Key of the campaign that says the same for every run, and is not allowed together with the
        factor.
    required : bool
        Whether every campaign names levels of it.
    order : int
        Place among the factors: in cells' names and in the plan. Those of equal order are sorted by
        name.
    name : str
        Name of its module. Filled in when the module is found.
    """

    title: str
    help: str
    allowed: str
    level: Any = Name
    default: str = ""
    known: Callable[[Lab], Mapping[str, Any]] | None = None
    refusal: Callable[[str, Subject], str] = _possible
    arguments: Callable[[str, Subject], dict[str, Any]] = _no_arguments
    settings: tuple[Setting, ...] = ()
    estimate: Callable[[str, Estimate], Estimate] = _same
    replaces: str = ""
    required: bool = False
    order: int = 100
    name: str = ""

    def kernel_files(self, level: str) -> list[dict[str, str]]:
        """Return the files that a run with this level sets: each `factor`, `path` and `value`."""
        return [
            {"factor": self.name, "path": one.path, "value": one.values.get(level, level)}
            for one in self.settings
        ]
