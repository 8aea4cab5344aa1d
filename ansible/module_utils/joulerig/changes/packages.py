# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages that are installed or removed for the rig, by what this host's distribution has for it.

Callers name them as Debian does; the record of changes has this distribution's own names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ansible.module_utils.joulerig import distribution
from ansible.module_utils.joulerig.changes import apt, rpm

RPM = (distribution.FEDORA, distribution.RHEL, distribution.SUSE)


def translated(names: Iterable[str]) -> dict[str, str]:
    """Return what this host's distribution calls packages, by Debian's names."""
    kind = distribution.family()
    return {name: distribution.package(name, kind) for name in names}


def installed(names: Iterable[str]) -> list[str]:
    """Return those of `names` (Debian's) that are installed."""
    own = translated(names)
    there = (rpm if _is_rpm() else apt).installed(list(own.values()))
    return [name for name, here in own.items() if here in there]


def lacking(names: Iterable[str], refresh_seconds: int | None = None) -> list[str]:
    """Return those of `names` (Debian's) that this host neither has nor can get.

    `refresh_seconds`: how old apt's lists may be; None: any age. dnf and zypper refresh theirs
    themselves.
    """
    own = translated(names)
    wanted = list(own.values())
    missing = rpm.lacking(wanted) if _is_rpm() else apt.lacking(wanted, refresh_seconds)
    return [name for name, here in own.items() if here in missing]


def look(names: Sequence[str], refresh_seconds: int | None = None) -> dict[str, dict[str, bool]]:
    """Return, of each package that installing `names` (its own) would change, what is there now."""
    return rpm.look(names) if _is_rpm() else apt.look(names, refresh_seconds)


def install(names: Sequence[str]) -> None:
    """Install packages by their own names. Raises Failed."""
    (rpm if _is_rpm() else apt).install(names)


def undo(before: Mapping[str, Mapping[str, bool]]) -> tuple[list[str], dict[str, str], dict[str, str]]:
    """Have the packages as they were before.

    Return what was done; by name why a package stays; and what of a removed one stays. Nothing that
    a package did not bring is deleted. Raises Failed.
    """
    return rpm.undo(before) if _is_rpm() else apt.undo(before)


def _is_rpm() -> bool:
    return distribution.family() in RPM
