# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare a factor: what a module of this folder, or a lab's own, assigns to `FACTOR`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from joulerig.rig.lab.model import Lab

Name = Annotated[str, Field(min_length=1)]  # a level that names something
PLACEHOLDERS = ("device", "controller", "adapter", "powered")  # as the host's library resolves them


def _as_text(level: Any) -> Any:
    """Return a number, as YAML reads it, as the name of a level."""
    return f"{level:g}" if isinstance(level, int | float) and not isinstance(level, bool) else level


def number(check: Callable[[float], str]) -> Any:
    """Return the type of a numeric level. `check` returns what is allowed instead, or ""."""
    return _numeric(r"^[0-9]{1,9}([.][0-9]{1,9})?$", check)


def whole_number(check: Callable[[float], str]) -> Any:
    """Return the type of a whole-numbered level. `check` returns what is allowed instead, or ""."""
    return _numeric(r"^[0-9]{1,9}$", check)


def word(*words: str) -> Any:
    """Return the type of a level that is one of `words`. YAML reads `on` and `off` as booleans."""
    return Annotated[Literal[words], BeforeValidator(as_word)]


def word_or_number(*words: str, check: Callable[[int], str]) -> Any:
    """Return the type of a level that is one of `words` or a whole number, which `check` judges.

    `check` returns what is allowed instead, or "".
    """

    def checked(level: str) -> str:
        if level in words:
            return level
        problem = check(int(level)) if re.fullmatch(r"[0-9]{1,9}", level) else "is neither word nor number"
        if problem:
            raise ValueError(f"{level!r} {problem}; words: {', '.join(words)}")
        return level

    return Annotated[str, BeforeValidator(as_word), AfterValidator(checked)]


def as_word(level: Any) -> Any:
    """Return a boolean or a number, as YAML reads them, as what was written."""
    return {True: "on", False: "off"}[level] if isinstance(level, bool) else _as_text(level)


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
        File under /sys or /proc/sys. A placeholder stands for what each drive of the run has there:
        `{device}` its own name (sda), `{controller}` that of an NVMe drive's controller (nvme0),
        `{adapter}` that of a SCSI or SATA disk's adapter (host0), `{powered}` the device whose
        power the kernel manages for it, by its path below /sys. `*` stands for any part of a name:
        all such files are set.
    values : mapping of str to str
        What is written, by level. A level that is not in it is written as it is.
    needs : str
        A path like `path`, of a file without which it has no effect.
    """

    path: str
    values: Mapping[str, str] = field(default_factory=dict)
    needs: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"(/sys|/proc/sys)/.+", self.path) or "/../" in self.path:
            raise ValueError(f"{self.path!r}: allowed: a file under /sys or /proc/sys")
        if set(re.findall(r"\{(.*?)\}", self.path + self.needs)) - set(PLACEHOLDERS):
            allowed = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
            raise ValueError(f"{self.path!r}: allowed placeholders: {allowed}")

    @property
    def of_drives(self) -> bool:
        """Return whether its file is that of a drive, and not the whole host's."""
        return "{" in self.path


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

    Seconds of its workload phase, the fraction of its drives that other data fill before that, and
    how often those are deleted and written again.
    """

    workload_seconds: float
    filled_fraction: float = 0.0
    filled_again: float = 0.0

    @property
    def written_fraction(self) -> float:
        """Return what is written before the workload phase, as a fraction of its drives."""
        return self.filled_fraction * (1 + self.filled_again)


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
        Pydantic type of a level, which is text: `Name`, `Literal[...]`, `word(...)`, `number(...)`,
        `whole_number(...)`, `word_or_number(...)`.
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
    drive_setting : bool
        Whether the test host sets the level on the run's drives themselves: the host library has
        the setting by the factor's name (`settings/drive_settings.py`).
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
    drive_setting: bool = False
    estimate: Callable[[str, Estimate], Estimate] = _same
    replaces: str = ""
    required: bool = False
    order: int = 100
    name: str = ""

    def kernel_files(self, level: str) -> list[dict[str, str]]:
        """Return the files that a run with this level sets, as a host is asked for them."""
        return [
            {
                "factor": self.name,
                "path": one.path,
                "value": one.values.get(level, level),
                "needs": one.needs,
            }
            for one in self.settings
        ]
