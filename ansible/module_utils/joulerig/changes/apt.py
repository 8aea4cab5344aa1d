# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian packages that apt would install or remove for the rig, and their way back."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence

from ansible.module_utils.joulerig.tools import run

APT = ("apt-get", "--yes", "--no-install-recommends", "--option=Dpkg::Options::=--force-confold")
LISTS = "/var/lib/apt/lists"
ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
# apt-cache's policy of a package that can be had; of another it has no version, or no lines at all.
CANDIDATE = re.compile(r"^([^\s:]+):\n  Installed: .*\n  Candidate: (?!\(none\))", re.MULTILINE)
# apt-get's plan, a line a package: "Inst NAME (NEW ...)", "Inst NAME [OLD] (NEW ...)",
# "Purg NAME [OLD]".
PLANNED = re.compile(r"^(Inst|Remv|Purg) (\S+)( \[)?", re.MULTILINE)


def look(names: Sequence[str], refresh_seconds: int | None = None) -> dict[str, dict[str, bool]]:
    """Return, of each package that installing `names` would change, whether it is installed.

    `auto`: it is, as a dependency of others; installing it by name would end that. Raises Failed
    where apt cannot install them.
    """
    there = installed(names)
    found = {name: {"installed": True, "auto": True} for name in _automatic(there)}
    missing = [name for name in names if name not in there]
    if missing:
        _refresh(refresh_seconds)
        for action, name, upgrade in _plan("install", missing):
            if not upgrade:
                found[name] = {"installed": action != "Inst"}
    return found


def lacking(names: Sequence[str], refresh_seconds: int | None = None) -> list[str]:
    """Return those of `names` that this host neither has nor can get.

    `refresh_seconds`: how old apt's lists may be; None: they are taken as they are.
    """
    there = installed(names)
    missing = [name for name in names if name not in there]
    if not missing:
        return []
    _refresh(refresh_seconds)
    found = CANDIDATE.findall(_output(["apt-cache", "policy", *missing]))
    return [name for name in missing if name not in found]


def install(names: Sequence[str]) -> None:
    """Install packages. Raises Failed."""
    _apt("install", *names)


def undo(before: Mapping[str, Mapping[str, bool]]) -> tuple[list[str], dict[str, str]]:
    """Remove the packages that were not installed, install those that were.

    Return what was done, and by name why a package stays. Raises Failed.
    """
    there = installed(before)
    automatic = [name for name, one in before.items() if one.get("auto") and name in there]
    back = [n for n, one in before.items() if one["installed"] and not one.get("auto") and n not in there]
    surplus = [name for name, one in before.items() if not one["installed"] and name in there]
    stay = _needed(surplus)
    purged = [name for name in surplus if name not in stay]
    if back:
        _apt("--purge", "install", *back, *(f"{name}-" for name in purged))
    elif purged:
        _apt("purge", *purged)
    done = []
    if automatic and set(automatic) - set(_automatic(automatic)):
        run(["apt-mark", "auto", *automatic])
        done.append(f"marked as dependencies: {', '.join(automatic)}")
    done += [f"removed package {name}" for name in purged] + [f"installed package {name}" for name in back]
    return done, stay


def installed(names: Iterable[str]) -> list[str]:
    """Return those of `names` that are installed."""
    if not (wanted := list(names)):
        return []
    shown = _output(["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\n", *wanted])
    there = {line.split()[0] for line in shown.splitlines() if line.endswith(" installed")}
    return [name for name in wanted if name.partition(":")[0] in there]


def _automatic(names: Sequence[str]) -> list[str]:
    return _output(["apt-mark", "showauto", *names]).split() if names else []


def _needed(names: Sequence[str]) -> dict[str, str]:
    """Return those of `names` that other packages need, each with why it stays."""
    if not names or not _others(names, names):
        return {}
    found = {name: _others([name], names) for name in names}
    return {
        name: f"package {name}: {', '.join(others)} {'needs' if len(others) == 1 else 'need'} it"
        for name, others in found.items()
        if others
    }


def _others(purged: Sequence[str], ours: Sequence[str]) -> list[str]:
    return [name for _, name, _ in _plan("purge", purged) if name not in ours]


def _plan(action: str, names: Sequence[str]) -> list[tuple[str, str, bool]]:
    """Return what apt would do: (Inst, Remv or Purg; the package; whether it is an upgrade)."""
    plan = _apt("--simulate", action, *names)
    return [(what, name, what == "Inst" and bool(old)) for what, name, old in PLANNED.findall(plan)]


def _refresh(seconds: int | None) -> None:
    """Have apt's lists no older than `seconds`; one that cannot be had is apt's to complain of."""
    if seconds is None or (os.path.exists(LISTS) and time.time() - os.stat(LISTS).st_mtime < seconds):
        return
    subprocess.run(["apt-get", "update"], stdin=subprocess.DEVNULL, capture_output=True, timeout=600)


def _apt(*options: str) -> str:
    return run([*APT, *options], timeout=1800, env={**os.environ, **ENVIRONMENT})


def _output(command: Sequence[str]) -> str:
    """Return what a command prints that exits with 1 where it does not know a name."""
    env = {**os.environ, **ENVIRONMENT}
    return run(command, timeout=60, env=env, is_well=lambda code, _: code <= 1)
