# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages of RPM that dnf or zypper installs for the rig, and their way back.

Written after their manuals, and tested with scripts in their place: no host of these distributions
was had.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence

from ansible.module_utils.joulerig import distribution
from ansible.module_utils.joulerig.tools import run

SECONDS = 1800
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


def undo(before: Mapping[str, Mapping[str, bool]]) -> tuple[list[str], dict[str, str]]:
    """Remove the packages that were not installed.

    Return what was done, and by name why a package stays: what else needs it. Raises Failed.
    """
    surplus = installed(before)
    users = {name: _users(name, surplus) for name in surplus}
    stay = {
        name: f"package {name}: {', '.join(others)} {'needs' if len(others) == 1 else 'need'} it"
        for name, others in users.items()
        if others
    }
    gone = [name for name in surplus if name not in stay]
    if gone:
        run([*_commands()["remove"], *gone], timeout=SECONDS, env={**os.environ, **ENVIRONMENT})
    return [f"removed package {name}" for name in gone], stay


def installed(names: Iterable[str]) -> list[str]:
    """Return those of `names` that are installed."""
    if not (wanted := list(names)):
        return []
    there = _output(["rpm", "--query", "--queryformat=%{NAME}\\n", *wanted]).splitlines()
    return [name for name in wanted if name in there]


def _users(name: str, ours: Sequence[str]) -> list[str]:
    """Return the packages that need `name`, without the rig's."""
    said = _output(["rpm", "--query", "--whatrequires", "--queryformat=%{NAME}\\n", name]).splitlines()
    return sorted({one for one in said if " " not in one} - set(ours))


def _commands() -> dict[str, list[str]]:
    return ZYPPER if distribution.family() == distribution.SUSE else DNF


def _output(command: Sequence[str]) -> str:
    """Return what a command prints that fails where it does not know a name."""
    env = {**os.environ, **ENVIRONMENT}
    return run(command, timeout=600, env=env, is_well=lambda code, output: code == 0 or output != "")
