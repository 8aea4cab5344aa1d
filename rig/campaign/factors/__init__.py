# SPDX-License-Identifier: GPL-3.0-or-later
"""The factors that a campaign can vary, one module each: the shipped ones and a lab's own.

A module assigns a `Factor` to `FACTOR`. From it follow the keys that a campaign can name under
`factors` and `exclude`, the error messages, the plan, the arguments of a run, the kernel files that
a test host sets for it and the documentation (`reference`). A lab's own factors are in
`factors/NAME.py` next to its inventory.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pkgutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, ValidationInfo, create_model, field_validator, model_validator

from joulerig.rig.campaign.factors.factor import Estimate, Factor, Subject
from joulerig.rig.campaign.factors.factor import Name as Level
from joulerig.rig.campaign.factors.journal import INTERNAL, journal_drive
from joulerig.rig.campaign.factors.kernel import kernel_level
from joulerig.rig.campaign.factors.write_cache import NO_FLUSH, WriteCache, write_cache_level
from joulerig.rig.common import paths
from joulerig.rig.common.errors import Strict, UserError
from joulerig.rig.lab import definitions
from joulerig.rig.lab.model import Lab

__all__ = [
    "INTERNAL", "NO_FLUSH", "Exclusion", "Factor", "Factors", "Level", "Subject", "WriteCache",
    "arguments", "each_once", "estimate", "journal_drive", "kernel_level", "load", "models", "reference",
    "shipped", "stands_on", "write_cache_level",
]  # fmt: skip

KIND = "factor"


@functools.cache
def shipped() -> Mapping[str, Factor]:
    """Return the factors of this folder and of those below it by name, in their order."""
    paths_below = [one.name for one in pkgutil.walk_packages(__path__, f"{__name__}.")]
    found = {path.rpartition(".")[2]: path for path in paths_below if not path.endswith(".__main__")}
    modules = {name: importlib.import_module(path) for name, path in found.items()}
    return _in_order({name: getattr(module, "FACTOR", None) for name, module in modules.items()})


def load(lab: Lab) -> Mapping[str, Factor]:
    """Return the shipped factors and the lab's own by name, in their order. Raises UserError."""
    folder = lab.folder / "factors"
    own = {path.stem: _own(path) for path in sorted(folder.glob("[!_]*.py"))}
    for name in own:
        if name in shipped():
            where = paths.short(folder / f"{name}.py")
            raise UserError(f"{where}: {name}: is a shipped {KIND}; give another name")
    return _in_order({**shipped(), **own})


def _in_order(found: Mapping[str, Factor | None]) -> dict[str, Factor]:
    named = {name: _named(one, name) for name, one in found.items() if one is not None}
    return dict(sorted(named.items(), key=lambda item: (item[1].order, item[0])))


def _named(factor: Factor, name: str) -> Factor:
    return factor if factor.name else Factor(**{**vars(factor), "name": name})


def _own(path: Path) -> Factor:
    """Return the factor that a lab declares in a file. Raises UserError."""
    source = paths.short(path)
    if not path.stem.isidentifier():
        raise UserError(
            f"{source}: {path.stem!r} is not a valid name of a {KIND}; allowed: letters, digits and _"
        )
    try:
        return _execute(path, path.stat().st_mtime_ns)
    except Exception as error:
        described = " ".join(f"{type(error).__name__}: {error}".split())
        raise UserError(f"{source}: {described}") from error


@functools.cache
def _execute(path: Path, _changed_ns: int) -> Factor:
    spec = importlib.util.spec_from_file_location(f"joulerig_own_factor_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    factor = getattr(module, "FACTOR", None)
    if not isinstance(factor, Factor):
        raise TypeError(f"FACTOR is {factor!r}; allowed: a Factor of joulerig.rig.campaign.factors.factor")
    return _named(factor, path.stem)


def each_once(levels: list[str]) -> list[str]:
    """Return the levels. Raises ValueError where one is there twice."""
    for level in levels:
        if levels.count(level) > 1:
            raise ValueError(f"{level!r} is listed twice; allowed: once")
    return levels


class BaseFactors(Strict):
    """Levels of each factor; every combination is a cell. A factor without levels is not used."""

    _levels_once = field_validator("*")(each_once)

    def levels(self, factor: str) -> list[str]:
        """Return the levels of a factor; none where the campaign does not vary it."""
        found: list[str] = getattr(self, factor)
        return found


class BaseExclusion(Strict):
    """Cells that are not run: those with the level, or one of the levels, of every factor named."""

    reason: Annotated[str, Field(min_length=3)]

    @field_validator("*", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any, info: ValidationInfo) -> Any:
        """Return one level as a list of it."""
        several = isinstance(value, list) or value is None or info.field_name == "reason"
        return value if several else [value]

    @classmethod
    def factors(cls) -> list[str]:
        """Return the names of the factors that can be named."""
        return [name for name in cls.model_fields if name != "reason"]

    @model_validator(mode="after")
    def _names_a_factor(self) -> BaseExclusion:
        if not self.named:
            allowed = ", ".join(self.factors())
            raise ValueError(f"names no factor, which would exclude every cell; allowed: {allowed}")
        return self

    @functools.cached_property
    def named(self) -> dict[str, list[str]]:
        """The levels that are excluded together, by factor."""
        return {key: levels for key in self.factors() if (levels := getattr(self, key)) is not None}

    def matches(self, levels: Mapping[str, str]) -> bool:
        """Return whether a run with these levels is excluded."""
        return all(levels.get(key) in some for key, some in self.named.items())


def models(known: Mapping[str, Factor]) -> tuple[type[BaseFactors], type[BaseExclusion]]:
    """Return the models of a campaign's `factors` and of an `exclude` entry, for these factors."""
    several = {name: GenericAlias(list, (one.level,)) for name, one in known.items()}
    levels: dict[str, Any] = {
        name: (several[name], Field(min_length=1, description=one.help))
        if one.required
        else (several[name], Field([], description=one.help))
        for name, one in known.items()
        if name != "drive"
    }
    excluded: dict[str, Any] = {name: (several[name] | None, Field(None, min_length=1)) for name in several}
    return (
        create_model("Factors", __base__=BaseFactors, __doc__=BaseFactors.__doc__, **levels),
        create_model("Exclusion", __base__=BaseExclusion, __doc__=BaseExclusion.__doc__, **excluded),
    )


if TYPE_CHECKING:
    Factors, Exclusion = BaseFactors, BaseExclusion
else:
    Factors, Exclusion = models(shipped())


def stands_on(drive: str, levels: Mapping[str, str]) -> list[str]:
    """Return the drives (or arrays) that a run writes to: its own, and its journal's."""
    journal = journal_drive(levels)
    return [drive, journal] if journal else [drive]


def arguments(subject: Subject) -> dict[str, Any]:
    """Return the arguments of the module `joulerig_run` that a run's levels set.

    Those of a mapping (`phases`) are the entries that a level changes. `kernel_files` lists the
    kernel files that the host sets for the run, `drive_settings` what it sets on the drives. Raises
    UserError where the lab has no longer a factor of the run.
    """
    known = load(subject.lab)
    found: dict[str, Any] = {"kernel_files": [], "drive_settings": []}
    for name, level in subject.levels.items():
        if name not in known:
            raise UserError(f"factors: {name}: is {definitions.allowed(name, known)}")
        found.update(known[name].arguments(level, subject))
        found["kernel_files"] += known[name].kernel_files(level)
        if known[name].drive_setting:
            found["drive_settings"].append({"factor": name, "level": level})
    return found


def estimate(known: Mapping[str, Factor], levels: Mapping[str, str], campaign_seconds: int) -> Estimate:
    """Return a plan's assumptions for a run, given the campaign's seconds of workload phase."""
    found = Estimate(campaign_seconds)
    for name, level in levels.items():
        if name in known:
            found = known[name].estimate(level, found)
    return found


def reference(known: Mapping[str, Factor] | None = None) -> str:
    """Return the Markdown table of the factors (default: the shipped ones) for the docs."""
    found: Iterable[Factor] = (known or shipped()).values()
    rows = [
        (f"`{one.name}`", f"{one.title}. {one.help}", one.allowed, _default(one), _sets(one)) for one in found
    ]
    return definitions.table(("factor", "what it is", "levels", "without it", "sets on the host"), rows)


def _default(factor: Factor) -> str:
    return "required" if factor.required else factor.default or "unchanged"


def _sets(factor: Factor) -> str:
    return ", ".join(f"`{one.path}`" for one in factor.settings) or "the drive" * factor.drive_setting
