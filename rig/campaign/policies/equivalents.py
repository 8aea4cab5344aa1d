# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts may execute each other's runs: those that have a campaign's drive alike.

The drive's name is the level of a factor, so an equivalent drive has the same name on another host.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from joulerig.rig.campaign import factors
from joulerig.rig.lab.kernels import INSTALLED
from joulerig.rig.lab.model import Drive, Lab


def difference(lab: Lab, first: str, second: str, name: str) -> str:
    """Say in what a drive or array of two hosts differs; nothing where it is equivalent."""
    if (one := lab.hosts[first].virtual) != (other := lab.hosts[second].virtual):
        return f"virtual: {one} and {other}"
    specs = lab.hosts[first], lab.hosts[second]
    if all(name in spec.arrays for spec in specs):
        arrays = [spec.arrays[name] for spec in specs]
        if arrays[0] != arrays[1]:
            return "level, members or chunk_kib"
        found = (difference(lab, first, second, member) for member in arrays[0].members)
        return next(filter(None, found), "")
    if not all(name in spec.drives for spec in specs):
        return f"only one of them has {name!r}"
    drives = [spec.drives[name] for spec in specs]
    for key in ("interface", "size_bytes", "plp"):
        if getattr(drives[0], key) != getattr(drives[1], key):
            return key
    if _model(drives[0]) is None or _model(drives[0]) != _model(drives[1]):
        return "model, which must be declared of both"
    return "" if drives[0].rails.keys() == drives[1].rails.keys() else "rails"


def _model(drive: Drive) -> str | None:
    """Return the drive's model; of a virtual drive, what plays it."""
    return drive.model or drive.profile


def sharing(lab: Lab, drives: Sequence[str]) -> dict[str, list[str]]:
    """Return, by drive, the hosts that have it alike and so may execute each other's runs."""
    found = {}
    for name in drives:
        there = [host for host, spec in lab.hosts.items() if name in spec.drives or name in spec.arrays]
        alike = [
            host
            for host in there
            if any(not difference(lab, host, other, name) for other in there if other != host)
        ]
        if alike:
            found[name] = alike
    return found


class Equivalents:
    """What a host may take of other hosts' runs. `kernels`: the levels that it can boot."""

    def __init__(self, lab: Lab, host: str, drives: Sequence[str], kernels: Collection[str]) -> None:
        self._lab, self._host, self._kernels = lab, host, {INSTALLED, *kernels}
        self.hosts = [
            other
            for other in lab.hosts
            if other != host and any(not difference(lab, host, other, name) for name in drives)
        ]

    def may_take(self, run: Mapping[str, Any]) -> bool:
        """Return whether the host can execute a run of another one in its place."""
        names = factors.stands_on(run["drive"], run["factors"])
        return factors.kernel_level(run["factors"]) in self._kernels and not any(
            difference(self._lab, self._host, run["host"], name) for name in names
        )
