# SPDX-License-Identifier: GPL-3.0-or-later
"""Things by name in YAML: the shipped ones, and those that a lab declares beside its inventory."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml

from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError

Definition = TypeVar("Definition")


def read(path: Path, kind: str, of_entry: Callable[[str, Any, str], Definition]) -> dict[str, Definition]:
    """The definitions in a file, each made by `of_entry(name, entry, source)`; `kind`: what they are.

    Raises UserError.
    """
    source = paths.short(path)
    try:
        entries = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{source}: {' '.join(str(error).split())}") from None
    if not isinstance(entries, dict):
        raise UserError(f"{source}: a {type(entries).__name__}; allowed: a mapping of names to {kind}s")
    return {str(name): of_entry(str(name), entry, source) for name, entry in entries.items()}


def with_own(
    shipped: Mapping[str, Definition],
    own: Path,
    kind: str,
    of_entry: Callable[[str, Any, str], Definition],
) -> dict[str, Definition]:
    """The shipped definitions and, where that file is there, a lab's own. Raises UserError."""
    found = dict(shipped)
    if not own.is_file():
        return found
    for name, definition in read(own, kind, of_entry).items():
        if name in shipped:
            raise UserError(f"{paths.short(own)}: {name}: is a shipped {kind}; give another name")
        found[name] = definition
    return found


def allowed(value: str, names: Iterable[str]) -> str:
    """What an error says of an unknown name: "unknown[; nearest is ..]; allowed: ..."."""
    names = list(names)
    near = difflib.get_close_matches(value, names, n=1)
    nearest = f"; nearest is {near[0]!r}" if near else ""
    return f"unknown{nearest}; allowed: {', '.join(names) or 'none'}"
