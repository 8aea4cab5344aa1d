# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages of RPM that dnf or zypper installs for the rig, and their way back.

Written after their manuals, and tested with scripts in their place: no host of these distributions
was had.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence

from ansible.module_utils.joulerig import distribution
from ansible.module_utils.joulerig.changes import what_stays
from ansible.module_utils.joulerig.tools import run

SECONDS = 1800
DATA = ("/etc/", "/srv/", "/var/")  # folders for configuration and data
ENVIRONMENT = {"LC_ALL": "C"}
# Both remove what nothing needs any more; neither installs what is only recommended.
DNF = {
    "install": ["dnf", "--assumeyes", "--setopt=install_weak_deps=False", "install"],
    "remove": ["dnf", "--assumeyes", "remove"],
    "known": ["dnf", "--quiet", "repoquery", "--queryformat=%{name}\\n"],
}
ZYPPER = {
    "install": ["zypper", "--non-interactive", "install", "--no-recommends"],
    "remove": ["zypper", "--non-interactive", "remove", "--clean-deps"],
    "known": ["zypper", "--non-interactive", "--quiet", "--xmlout", "search", "--match-exact"],
}
NEEDED_BY = re.compile(r"is needed by \(installed\) (\S+)")
SOLVABLE = re.compile(r'<solvable\b[^>]*\bname="([^"]+)"')


def look(names: Sequence[str]) -> dict[str, dict[str, bool]]:
    """Return, of each of `names` that is missing, that it is.

    What comes with them as a dependency goes with them.
    """
    there = installed(names)
    return {name: {"installed": False} for name in names if name not in there}


def lacking(names: Sequence[str]) -> list[str]:
    """Return those of `names` that this host neither has nor can get."""
    there = installed(names)
    missing = [name for name in names if name not in there]
    if not missing:
        return []
    said = _output([*_commands()["known"], *missing])
    known = set(SOLVABLE.findall(said)) if _commands() is ZYPPER else set(said.split())
    return [name for name in missing if name not in known]


def install(names: Sequence[str]) -> None:
    """Install packages. Raises Failed."""
    run([*_commands()["install"], *names], timeout=SECONDS, env={**os.environ, **ENVIRONMENT})


def undo(before: Mapping[str, Mapping[str, bool]]) -> tuple[list[str], dict[str, str], dict[str, str]]:
    """Remove the packages that were not installed.

    Return what was done; by name why a package stays; and what of a removed one stays: rpm keeps
    configuration that was changed (.rpmsave) and files that it did not bring. Raises Failed.
    """
    surplus = installed(before)
    stay = {name: why for name in surplus if (why := what_stays.databases(name))}
    while blocked := _needed([name for name in surplus if name not in stay]):
        stay.update(blocked)  # what these need stays too
    gone = [name for name in surplus if name not in stay]
    own = {name: _own_paths(name) for name in gone}
    if gone:
        run([*_commands()["remove"], *gone], timeout=SECONDS, env={**os.environ, **ENVIRONMENT})
    left = {name: why for name, paths in own.items() if (why := what_stays.left(name, paths, ""))}
    return [f"removed package {name}" for name in gone], stay, left


def _own_paths(name: str) -> list[str]:
    """Return the folders that only this package has, and where rpm keeps changed configuration."""
    listed = _output(["rpm", "--query", "--list", name]).splitlines()
    folders = [path for path in listed if path.startswith(DATA) and os.path.isdir(path)]
    own = [path for path in folders if _output(["rpm", "--query", "--file", path]).count("\n") == 1]
    changed = _output(["rpm", "--query", "--configfiles", name]).splitlines()
    return [*own, *(f"{path}.rpmsave" for path in changed if path.startswith("/"))]


def installed(names: Iterable[str]) -> list[str]:
    """Return those of `names` that are installed."""
    if not (wanted := list(names)):
        return []
    there = _output(["rpm", "--query", "--queryformat=%{NAME}\\n", *wanted]).splitlines()
    return [name for name in wanted if name in there]


def _needed(ours: Sequence[str]) -> dict[str, str]:
    """Return those of `ours` that other packages need, each with why it stays."""
    return what_stays.needed({name: _users(name, ours) for name in ours})


def _users(name: str, ours: Sequence[str]) -> list[str]:
    """Return the packages that need `name`, or anything that it provides, without the rig's.

    dnf and zypper would remove these as well; rpm says which they are.
    """
    done = subprocess.run(
        ["rpm", "--erase", "--test", name],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, **ENVIRONMENT},
    )
    # NAME-VERSION-RELEASE.ARCHITECTURE
    users = {one.rsplit("-", 2)[0] for one in NEEDED_BY.findall(done.stderr + done.stdout)}
    return sorted(users - set(ours))


def _commands() -> dict[str, list[str]]:
    return ZYPPER if distribution.family() == distribution.SUSE else DNF


def _output(command: Sequence[str]) -> str:
    """Return what a command prints that fails where it does not know a name."""
    env = {**os.environ, **ENVIRONMENT}
    return run(command, timeout=600, env=env, is_well=lambda code, output: code == 0 or output != "")
