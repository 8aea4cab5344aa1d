# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the registry's site: a page without outside resources, an index, and the bundles."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from joulerig import atomic
from joulerig.analysis.registry.entries import Cell, Entry, Refused
from joulerig.errors import JoulerigError
from joulerig.plural import counted

INDEX, PAGE, BUNDLES = "registry.json", "index.html", "bundles"
NO_JEKYLL = ".nojekyll"  # GitHub Pages then serves the files as they are
FORMAT = 1
KEYS = {"drive": "Drive", "filesystem": "File system", "scheduler": "Scheduler", "workload": "Workload"}
_HERE = Path(__file__).parent


class RegistryError(JoulerigError):
    """A site that cannot be written; the message is one line."""


def write(site: Path, entries: Sequence[Entry], refused: Sequence[Refused]) -> None:
    """Write a site, or bring one that is there up to date. Raises RegistryError.

    A folder that has something else in it is left alone.
    """
    raise_if_foreign(site)
    bundles = atomic.make_folder(site / BUNDLES)
    wanted = {entry.file.name for entry in entries}
    for entry in entries:
        _copy(entry, bundles / entry.file.name)
    atomic.write(site / PAGE, page(entries, refused).encode())
    atomic.write(site / NO_JEKYLL, b"")
    atomic.write(site / INDEX, (json.dumps(index(entries, refused), indent=1) + "\n").encode())
    for path in bundles.glob("*.zip"):
        if path.name not in wanted:
            path.unlink()


def raise_if_foreign(site: Path) -> None:
    """Raise RegistryError where a site's folder has something that is no registry."""
    if site.exists() and not site.is_dir():
        raise RegistryError(f"{site}: is no folder")
    if site.exists() and any(site.iterdir()) and not (site / INDEX).is_file():
        raise RegistryError(f"{site}: has files of something else; allowed: an empty folder, or a registry")


def page(entries: Sequence[Entry], refused: Sequence[Refused]) -> str:
    """Return the page."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE), autoescape=True, undefined=jinja2.StrictUndefined
    )
    style, script = (_HERE.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    rows = [(entry, cell) for entry in entries for cell in entry.cells]
    return environment.get_template("page.html.j2").render(
        entries=entries,
        refused=refused,
        rows=rows,
        keys=KEYS,
        levels={key: sorted({getattr(cell, key) for _, cell in rows}) for key in KEYS},
        anchors={entry.campaign: _anchor(entry.campaign) for entry in entries},
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
        counted=counted,
        number=number,
        interval=interval,
        utc=utc,
        drive=describe,
    )


def index(entries: Sequence[Entry], refused: Sequence[Refused]) -> dict[str, Any]:
    """Return what the page has, for programs."""
    return {
        "format": FORMAT,
        "bundles": [
            {
                "file": f"{BUNDLES}/{entry.file.name}",
                "sha256": entry.sha256,
                "bytes": entry.size_bytes,
                "campaign": entry.campaign,
                "question": entry.question,
                "created_ns": entry.created_ns,
                "virtual_lab": entry.virtual,
                "revision": entry.revision,
                "drives": {name: dict(spec) for name, spec in entry.drives.items()},
                "checks_passed": entry.checks,
                "not_checkable": list(entry.not_checkable),
                "cells": [_cell(cell) for cell in entry.cells],
            }
            for entry in entries
        ],
        "not_listed": [{"file": one.file.name, "reasons": list(one.reasons)} for one in refused],
    }


def number(value: float | None) -> str:
    """Return a figure with four digits; empty where it is not known."""
    return "" if value is None else f"{value:.4g}" if value < 999.95 else f"{value:.0f}"


def interval(numbers: Mapping[str, float | None]) -> str:
    """Return an AI's interval; empty where it has none."""
    ends = [numbers[f"ai_ops_per_joule_interval_{end}"] for end in ("low", "high")]
    return "" if None in ends else " to ".join(number(end) for end in ends)


def utc(at_ns: int) -> str:
    return f"{datetime.fromtimestamp(at_ns // 1_000_000_000, UTC):%Y-%m-%d %H:%M}"


def describe(spec: Mapping[str, Any]) -> str:
    """Return a drive in words: interface, model, description, size, protection."""
    words = [str(spec[key]) for key in ("interface", "model", "description") if spec.get(key)]
    if spec.get("size_bytes"):
        words.append(f"{spec['size_bytes'] / 1e9:.4g} GB")
    if spec.get("plp"):
        words.append("power-loss protection")
    return ", ".join(words) or "not described"


def _cell(cell: Cell) -> dict[str, Any]:
    keys = {key: getattr(cell, key) for key in KEYS}
    return {**keys, "further": cell.further, "runs": cell.runs, **cell.numbers}


def _copy(entry: Entry, target: Path) -> None:
    """Copy a bundle; what was verified is what is copied. Raises RegistryError."""
    with entry.file.open("rb") as source, atomic.opened(target) as copied:
        shutil.copyfileobj(source, copied)
    with target.open("rb") as content:
        if hashlib.file_digest(content, "sha256").hexdigest() != entry.sha256:
            target.unlink()
            raise RegistryError(f"{entry.file}: changed after it was verified")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _anchor(campaign: str) -> str:
    return "c-" + re.sub(r"[^A-Za-z0-9_-]", lambda found: f"_{ord(found[0]):x}", campaign)
