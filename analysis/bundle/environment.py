# SPDX-License-Identifier: GPL-3.0-or-later
"""What made a bundle: `environment.json`.

Other versions may draw and round the same numbers differently.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weasyprint.text.ffi import pango

from joulerig import json_text
from joulerig.analysis.bundle.reports import Origin

FILE = "environment.json"
LIBRARIES = (
    "numpy",
    "scipy",
    "statsmodels",
    "polars",
    "jinja2",
    "matplotlib",
    "weasyprint",
    "pydyf",
    "fonttools",
)


def here(revision: str | None) -> dict[str, Any]:
    """Describe this program at `revision`: Python, machine and libraries."""
    return {
        "revision": revision,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "libraries": {name: importlib.metadata.version(name) for name in LIBRARIES},
        "pango": pango.pango_version(),
    }


def document(environment: Mapping[str, Any]) -> bytes:
    return (json.dumps(environment, indent=1) + "\n").encode()


def origin(folder: Path, environment: Mapping[str, Any]) -> Origin:
    """Return how the program and libraries that made a bundle differ from `environment`.

    `folder`: the bundle. Without a readable record in it, no difference is reported.
    """
    try:
        made_by = json_text.read(folder / FILE)
        before, now = dict(made_by), dict(environment)
    except (OSError, ValueError, TypeError):
        return Origin()
    revisions = before.pop("revision", None), now.pop("revision", None)
    program = ""
    if revisions[0] != revisions[1]:
        program = f"made by revision {revisions[0]} of the program, this is {revisions[1]}"
    other = sorted(_flat(before) ^ _flat(now))
    libraries = (
        f"made with other libraries ({', '.join(dict.fromkeys(name for name, _ in other))})" if other else ""
    )
    return Origin(program, libraries)


def _flat(environment: Mapping[str, Any]) -> set[tuple[str, str]]:
    libraries = environment.get("libraries")
    flat = {key: value for key, value in environment.items() if key != "libraries"}
    return {(key, str(value)) for key, value in (flat | dict(libraries or {})).items()}
