# SPDX-License-Identifier: GPL-3.0-or-later
"""The families of instruments that the rig knows, and a person's work with them at the bench.

A family is one module of `families/` (libsigrok's drivers), of `captured/` (joulerig.capturers), or
`meters/NAME.py` next to a lab's inventory, with a `FAMILY` and its inventory configuration in the
docstring. `other` is for any other libsigrok driver.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pkgutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError, near_miss
from joulerig.rig.lab import definitions
from joulerig.rig.lab.meters import captured, families, other
from joulerig.rig.lab.meters.family import Accuracy, Family


@dataclass(frozen=True)
class Families:
    """The families that a lab's meters can be of, by libsigrok's driver."""

    by_driver: Mapping[str, Family]

    def hint(self, driver: str) -> str:
        """Return "; did you mean ...?" for a driver that is none; ";" where no name is near."""
        near = near_miss(driver, [*self.by_driver, *other.drivers()])
        return f"; did you mean {near!r}?" if near else ";"

    def family(self, driver: str) -> Family:
        """Return the family of a driver; without a file, `other`'s with the driver's name."""
        return self.by_driver.get(driver) or other.family(driver)

    @property
    def accuracy(self) -> dict[str, dict[str, Accuracy]]:
        """Return the published accuracy classes of all families, by name."""
        return {name: one for family in self.by_driver.values() for name, one in family.accuracy.items()}


def shipped() -> Families:
    """Return the families of `families/` and `captured/`, in order of their modules' names."""
    return Families(FAMILIES)


def available(folder: Path) -> Families:
    """Return the shipped families and those in `meters/` of an inventory's `folder`.

    Raises UserError.
    """
    found = dict(FAMILIES)
    for path in sorted((folder / "meters").glob("*.py")):
        if path.name.startswith("_"):
            continue
        family = _own(path, path.stat().st_mtime_ns)
        if family.driver in found:
            whose = "a shipped family's" if family.driver in FAMILIES else "that of another file there"
            raise UserError(
                f"{paths.short(path)}: FAMILY.driver: {family.driver!r} is {whose}; allowed: others"
            )
        found[family.driver] = family
    return Families(found)


def reference(known: Iterable[Family] | None = None) -> str:
    """Return a Markdown table of families of meters (default: the shipped ones)."""
    rows = [
        (
            f"`{one.driver}`",
            one.description,
            ", ".join(one.transports) + (", or none" if one.finds_it else "") or "none",
            one.timing or "declared",
            one.samples,
            one.channels_text,
            ", ".join(f"`{name}`" for name in one.accuracy),
        )
        for one in (FAMILIES.values() if known is None else known)
    ]
    head = ("driver", "instruments", "connection", "timing", "samples", "channels", "accuracy classes")
    return definitions.table(head, rows)


def _discover() -> dict[str, Family]:
    modules = (
        f"{package.__name__}.{module.name}"
        for package in (families, captured)
        for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda one: one.name)
    )
    found = (_family(importlib.import_module(name)) for name in modules)
    return {family.driver: family for family in found}


@functools.lru_cache(maxsize=64)
def _own(path: Path, changed_ns: int) -> Family:
    """Return the family in a lab's own module, loaded by its path. Raises UserError."""
    source = paths.short(path)
    spec = importlib.util.spec_from_file_location(f"joulerig_lab_meter_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UserError(f"{source}: {type(error).__name__}: {' '.join(str(error).split())}") from None
    if not isinstance(getattr(module, "FAMILY", None), Family):
        raise UserError(f"{source}: FAMILY: missing; allowed: a joulerig.rig.lab.meters.family.Family")
    return _family(module)


def _family(module: ModuleType) -> Family:
    family: Family = module.FAMILY
    return family


FAMILIES: Mapping[str, Family] = _discover()
