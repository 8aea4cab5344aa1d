# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that the rig keeps of a meter next to the inventory: its calibration, its checks."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeVar

import yaml

from joulerig.rig.common import files, paths, yaml_text
from joulerig.rig.common.bounded import one_line
from joulerig.rig.common.errors import Strict, UserError, validate


class Kept(Strict):
    """Such a file: of which meter it is, under whose name it lies."""

    version: Literal[1] = 1
    meter: str


File = TypeVar("File", bound=Kept)


def load(file: Path, kind: type[File]) -> File | None:
    """Return a meter's file, or None. Raises UserError naming file, key and value."""
    try:
        data = yaml_text.read(file)
    except FileNotFoundError:
        return None
    found = validate(kind, data, paths.short(file))
    if found.meter != file.stem:
        raise UserError(
            f"{paths.short(file)}: meter: {found.meter!r}; allowed: {file.stem!r}, as the file's name"
        )
    return found


def store(file: Path, whole: Kept, head: str) -> Path:
    """Put a meter's file in place, atomically, with a comment on top. Returns its path."""
    file.parent.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(whole.model_dump(mode="json"), sort_keys=False)
    files.replace(file, f"# {one_line(head)} (docs/how-to/calibration.md).\n{text}")
    return file
