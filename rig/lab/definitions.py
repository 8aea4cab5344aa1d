# SPDX-License-Identifier: GPL-3.0-or-later
"""Definitions by name in YAML: the shipped ones, and those that a lab has next to its inventory.

They are in a folder with a file each, NAME.yml, or by name in one file.
"""

from __future__ import annotations

import copy
import difflib
import functools
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel

from joulerig.rig.common import paths, yaml_text
from joulerig.rig.common.errors import UserError

Definition = TypeVar("Definition")
Parse = Callable[[str, Any, str], Definition]  # of (name, entry, source)
NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,39}")


def read(path: Path, kind: str, parse: Parse[Definition]) -> dict[str, Definition]:
    """Return the definitions in a file of several, each made by `parse(name, entry, source)`.

    `kind` is the word for one of them. Raises UserError.
    """
    entries = read_mapping(path, f"a mapping of names to {kind}s")
    return {str(name): parse(str(name), entry, paths.short(path)) for name, entry in entries.items()}


def read_folder(folder: Path, kind: str, parse: Parse[Definition]) -> dict[str, Definition]:
    """Return the definitions in a folder of NAME.yml files, sorted by name. Raises UserError."""
    stem = operator.attrgetter("stem")
    return {path.stem: read_one(path, kind, parse) for path in sorted(folder.glob("*.yml"), key=stem)}


def read_one(path: Path, kind: str, parse: Parse[Definition]) -> Definition:
    """Return the definition in a separate file. Raises UserError."""
    source = paths.short(path)
    if not NAME.fullmatch(path.stem):
        raise UserError(
            f"{source}: {path.stem!r} is not a valid name of a {kind};"
            f" allowed: names that match {NAME.pattern}"
        )
    return parse(path.stem, read_mapping(path, f"a mapping that defines a {kind}"), source)


def read_mapping(path: Path, allowed: str) -> dict[Any, Any]:
    """Return the mapping in a YAML file; `allowed` says what it maps. Raises UserError."""
    source = paths.short(path)
    try:
        entries = copy.deepcopy(_parse_yaml(yaml_text.content(path), source))
    except FileNotFoundError as error:
        raise UserError(f"{source}: {error.strerror}") from None
    if not isinstance(entries, dict):
        raise UserError(f"{source}: a {type(entries).__name__}; allowed: {allowed}")
    return entries


@functools.lru_cache(maxsize=256)
def _parse_yaml(text: str, source: str) -> Any:
    """Parse YAML; one command reads the same few definitions up to hundreds of times."""
    return yaml_text.parse(text, source)


def with_own(
    shipped: Mapping[str, Definition], own: Iterable[Path], kind: str, parse: Parse[Definition]
) -> dict[str, Definition]:
    """Return the shipped definitions and a lab's own, from the existing ones of `own`.

    `own` are files and folders. A name may be defined once only. Raises UserError.
    """
    found = dict(shipped)
    for path in own:
        if path.is_dir():
            more = read_folder(path, kind, parse)
        elif path.is_file():
            more = read(path, kind, parse)
        else:
            continue
        for name, definition in more.items():
            where = paths.short(path / f"{name}.yml" if path.is_dir() else path)
            if name in shipped:
                raise UserError(f"{where}: {name}: is a shipped {kind}; give another name")
            if name in found:
                raise UserError(f"{where}: {name}: is defined twice; allowed: once")
            found[name] = definition
    return found


def key(name: str, source: str) -> str:
    """Return an error's prefix to a definition's key: its name, unless the file has that name."""
    return "" if Path(source).stem == name else name


def allowed(value: str, names: Iterable[str], found: str = "unknown") -> str:
    """Return what an error says about an unknown name: "unknown[; nearest is ..]; allowed: ..."."""
    names = list(names)
    near = difflib.get_close_matches(value, names, n=1)
    nearest = f"; nearest is {near[0]!r}" if near else ""
    return f"{found}{nearest}; allowed: {', '.join(names) or 'none'}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in lines)


def keys_table(model: type[BaseModel], *nested: type[BaseModel]) -> str:
    """Return a Markdown table of the keys of `model` and, dotted, of the models `nested` in it."""
    rows: list[tuple[str, str, str]] = []

    def add(keys: type[BaseModel], prefix: str) -> None:
        for name, field in keys.model_fields.items():
            default = "required" if field.is_required() else f"`{_default(field.default)}`"
            rows.append((f"`{prefix}{name}`", field.description or "", default))
            for inner in nested:
                if inner.__name__ in str(field.annotation):
                    add(inner, f"{prefix}{name}.")

    add(model, "")
    return table(("key", "what it is", "default"), rows)


def _default(value: Any) -> str:
    text: str = yaml.safe_dump(value, default_flow_style=True).splitlines()[0]
    return text
