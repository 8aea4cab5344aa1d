# SPDX-License-Identifier: GPL-3.0-or-later
"""Describe what stays of packages that were installed for the rig.

A package with a database of the owner's, or that one of the owner's needs, stays installed. Of
others, configuration and data stay when the package goes, unless they are as it came.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Mapping, Sequence

# Clusters of PostgreSQL by package: Debian's by version, those of RPM hosts as initdb makes them.
CLUSTERS = (
    (r"postgresql-(\d+(?:\.\d+)?)", "/etc/postgresql/{0}/*", "/var/lib/postgresql/{0}/*"),
    (r"postgresql(?:\d*)-server", "/var/lib/pgsql/data/PG_VERSION", "/var/lib/pgsql/*/data/PG_VERSION"),
)
MOST_NAMED = 5  # paths in a line


def databases(package: str) -> str:
    """Return why a package with databases has to stay; "" where it has none."""
    for pattern, *places in CLUSTERS:
        if found := re.fullmatch(pattern, package):
            there = sorted(path for place in places for path in glob.glob(place.format(*found.groups())))
            if there:
                return f"package {package}: it has databases, at {listed(there)}; they are not the rig's"
    return ""


def needed(users: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the packages that others need (`users`, by name), each with why it stays.

    Those that the same ones need have one line.
    """
    together: dict[tuple[str, ...], list[str]] = {}
    for name, others in users.items():
        if others:
            together.setdefault(tuple(others), []).append(name)
    found = {}
    for others, names in together.items():
        what = f"package {names[0]}" if len(names) == 1 else f"packages {listed(names)}"
        verb = "needs" if len(others) == 1 else "need"
        line = f"{what}: {', '.join(others)} {verb} {'it' if len(names) == 1 else 'them'}"
        found.update(dict.fromkeys(names, line))
    return found


def left(package: str, paths: Iterable[str], purge: str) -> str:
    """Return what a removed package leaves, of the `paths` that were its own; "" where nothing.

    `purge`: the command that deletes it; "" where there is none.
    """
    there = sorted(path for path in set(paths) if _has_content(path))
    there = [path for path in there if not any(path.startswith(f"{other}/") for other in there)]
    if not there:
        return ""
    way = f"; {purge} deletes it" if purge else ""
    return f"package {package}: removed; of its configuration and data stays {listed(there)}{way}"


def listed(paths: list[str]) -> str:
    """Return paths in words, the first ones of many."""
    more = len(paths) - MOST_NAMED
    return ", ".join(paths[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _has_content(path: str) -> bool:
    if os.path.isdir(path) and not os.path.islink(path):
        return bool(os.listdir(path))
    return os.path.lexists(path)
