# SPDX-License-Identifier: GPL-3.0-or-later
"""A fit as plain data for people and programs, and its profile as the text of a file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from joulerig.rig.common.errors import UserError
from joulerig.virtuallab import profile
from joulerig.virtuallab.fit import fitting
from joulerig.virtuallab.fit.rows import Row, read_table, row_of
from joulerig.virtuallab.profile import Profile

HOLD_OUT = (
    "rows by operation, size, depth and amplification; each third of them, by number modulo"
    f" {fitting.FOLDS}, predicted by a fit to the others"
)


def fit_table(path: Path, base: str, description: str) -> dict[str, Any]:
    """Fit a profile to a CSV table (`rows.read_table`). Raises UserError.

    Returns `profile` (YAML), `hold_out` (the rule), `parameters`, `rows` and `worst`: relative
    errors of rate and watts by row, and the greatest of each.
    """
    given = _base(base)
    return _as_data(fitting.fit(read_table(path, given.rails), given, description, path.name))


def fit_loads(
    loads: Iterable[tuple[Mapping[str, object], Mapping[str, float]]],
    base: str,
    description: str,
    source: str,
) -> dict[str, Any]:
    """Fit a profile to loads, each a table's cells by column and watts by rail; as `fit_table`."""
    given = _base(base)
    rows = []
    for cells, watts in loads:
        if set(watts) != set(given.rails):
            raise UserError(
                f"{source}: rails {', '.join(sorted(watts))};"
                f" the base profile {base} has {', '.join(sorted(given.rails))}"
            )
        rows.append(row_of(cells, watts, source))
    return _as_data(fitting.fit(rows, given, description, source))


def _base(name: str) -> Profile:
    """Return a shipped flash profile, or one from a file NAME.yml."""
    found = profile.read(Path(name)) if name.endswith(".yml") else profile.load(name, "--base")
    if found.flash is None:
        raise UserError(f"--base: {name}: a hard disk; allowed: a flash profile")
    return found


def to_yaml(one: Profile) -> str:
    """Return a profile as the text of its file."""
    found = one.model_dump(exclude_none=True, exclude_defaults=True)
    return yaml.safe_dump(found, sort_keys=False, width=98, allow_unicode=True)


def _as_data(fit: fitting.Fit) -> dict[str, Any]:
    rows = [
        {**_row(one.row), "rate_error": one.rate, "watts_error": one.watts}
        | {"held_out_rate_error": one.held_out_rate, "held_out_watts_error": one.held_out_watts}
        for one in fit.residuals
    ]
    errors = ("rate_error", "watts_error", "held_out_rate_error", "held_out_watts_error")
    return {
        "profile": to_yaml(fit.profile),
        "hold_out": HOLD_OUT,
        "parameters": [asdict(one) for one in fit.parameters],
        "rows": rows,
        "worst": {
            name: max((abs(row[name]) for row in rows if row[name] is not None), default=None)
            for name in errors
        },
        "rms": {name: _rms([row[name] for row in rows if row[name] is not None]) for name in errors},
    }


def _row(row: Row) -> dict[str, Any]:
    return {**asdict(row), "watts": row.total_watts}


def _rms(errors: list[float]) -> float | None:
    return math.sqrt(sum(error**2 for error in errors) / len(errors)) if errors else None
