# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian packages that apt would install or remove for the rig, and their way back."""

from __future__ import annotations

import glob
import hashlib
import os
import re
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence

from ansible.module_utils.joulerig.changes import what_stays
from ansible.module_utils.joulerig.tools import run

APT = ("apt-get", "--yes", "--no-install-recommends", "--option=Dpkg::Options::=--force-confold")
LISTS = "/var/lib/apt/lists"
DATA = ("/etc/", "/srv/", "/var/lib/", "/var/spool/", "/var/log/", "/var/cache/")  # folders for it
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


def undo(before: Mapping[str, Mapping[str, bool]]) -> tuple[list[str], dict[str, str], dict[str, str]]:
    """Remove the packages that were not installed, install those that were.

    Return what was done; by name why a package stays; and what of a removed one stays. Nothing that
    a package did not bring is deleted. Raises Failed.
    """
    there = installed(before)
    automatic = [name for name, one in before.items() if one.get("auto") and name in there]
    back = [n for n, one in before.items() if one["installed"] and not one.get("auto") and n not in there]
    surplus = [name for name, one in before.items() if not one["installed"] and name in there]
    stay = {name: why for name in surplus if (why := what_stays.databases(name))}
    served = list(stay)
    stay.update(_needed([name for name in surplus if name not in stay]))
    gone = [name for name in surplus if name not in stay]
    folders = {name: _folders(name, gone) for name in gone}
    if back:
        _apt("install", *back, *(f"{name}-" for name in gone))
    elif gone:
        _apt("remove", *gone)
    if served:  # else it would count as no longer needed
        run(["apt-mark", "manual", *served])
    left = {name: why for name in gone if (why := _left(name, folders[name]))}
    done = []
    if automatic and set(automatic) - set(_automatic(automatic)):
        run(["apt-mark", "auto", *automatic])
        done.append(f"marked as dependencies: {', '.join(automatic)}")
    done += [f"removed package {name}" for name in gone] + [f"installed package {name}" for name in back]
    return done, stay, left


def _folders(name: str, gone: Sequence[str]) -> list[str]:
    """Return the folders for configuration and data that only the packages `gone` have."""
    listed = _output(["dpkg-query", "--listfiles", name]).splitlines()
    own = [path for path in listed if path.startswith(DATA) and os.path.isdir(path)]
    if not own:
        return []
    # "NAME, NAME: PATH"; where several architectures are in use, NAME:ARCHITECTURE.
    owners = {}
    for line in _output(["dpkg-query", "--search", *own]).splitlines():
        names, _, path = line.rpartition(": ")
        owners[path] = {one.partition(":")[0] for one in names.split(", ")}
    return [path for path in own if owners.get(path, {""}) <= {one.partition(":")[0] for one in gone}]


def _left(name: str, folders: Sequence[str]) -> str:
    """Delete what a removed package brought and left; return what else stays.

    A script of the package may delete anything: one that has a script is not purged.
    """
    if _status(name) == "config-files":
        shown = _output(["dpkg-query", "--show", "--showformat=${Conffiles}", name]).splitlines()
        files = dict(line.split()[:2] for line in shown if len(line.split()) >= 2)
        script = _output(["dpkg-query", "--control-path", name, "postrm"]).strip()
        if not script and all(_is_as_it_came(path, digest) for path, digest in files.items()):
            run(["dpkg", "--purge", name])
        else:
            return what_stays.left(name, [*files, *folders], f"'apt-get purge {name}'")
    return what_stays.left(name, folders, "")


def _is_as_it_came(path: str, digest: str) -> bool:
    try:
        with open(path, "rb") as file:
            return hashlib.md5(file.read()).hexdigest() == digest
    except FileNotFoundError:
        return True


def _status(name: str) -> str:
    return _output(["dpkg-query", "--show", "--showformat=${db:Status-Status}", name]).strip()


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
    return what_stays.needed({name: _others([name], names) for name in names})


def _others(removed: Sequence[str], ours: Sequence[str]) -> list[str]:
    return [name for _, name, _ in _plan("remove", removed) if name not in ours]


def _plan(action: str, names: Sequence[str]) -> list[tuple[str, str, bool]]:
    """Return what apt would do: (Inst, Remv or Purg; the package; whether it is an upgrade)."""
    plan = _apt("--simulate", action, *names)
    return [(what, name, what == "Inst" and bool(old)) for what, name, old in PLANNED.findall(plan)]


def _refresh(seconds: int | None) -> None:
    """Update apt's lists if they are older than `seconds`; apt reports one that it cannot get.

    A folder without a list of packages, as images have it, is old whatever its time.
    """
    if seconds is None:
        return
    if glob.glob(f"{LISTS}/*_Packages*") and time.time() - os.stat(LISTS).st_mtime < seconds:
        return
    subprocess.run(["apt-get", "update"], stdin=subprocess.DEVNULL, capture_output=True, timeout=600)


def _apt(*options: str) -> str:
    return run([*APT, *options], timeout=1800, env={**os.environ, **ENVIRONMENT})


def _output(command: Sequence[str]) -> str:
    """Return what a command prints that exits with 1 where it does not know a name."""
    env = {**os.environ, **ENVIRONMENT}
    return run(command, timeout=60, env=env, is_well=lambda code, _: code <= 1)
