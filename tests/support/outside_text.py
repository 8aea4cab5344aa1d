# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the modules that read text which they did not write, and by which calls."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator

from tests.support import ROOT

TOPS = ("rig/", "analysis/", "joulerig/", "virtuallab/", "collectors/capturers/", "ansible/action_plugins/")
# The last two parts of a call's name.
READERS = re.compile(
    r"""
    json\.loads? | (\w+\.)?json | json_text\.\w+ | yaml_text\.\w+ | yaml\.(safe_)?load(_all)?
    | sqlite\.\w+ | sqlite3\.connect | journals?\.(connect|copy)
    | ElementTree\.\w+ | csv\.(reader|DictReader) | pl\.(read|scan)_\w+ | spreadsheet\.read
    | zipfile\.ZipFile | tarfile\.open | pickle\.loads? | marshal\.loads? | tomllib\.loads?
    | subprocess\.(run|Popen|check_output|getoutput) | os\.popen
    | httpx\.\w+ | (\w+\.)?urlopen | socket\.(socket|create_connection) | client\.connect
    | \w+\.(recv|recvfrom|getresponse) | environ\.get | os\.getenv
    """,
    re.VERBOSE,
)


def calls(text: str) -> Iterator[str]:
    """Yield the calls of a module that read; a program whose output is not kept is none."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            name = ".".join(ast.unparse(node.func).rsplit(".", 2)[-2:])
            kept = {one.arg for one in node.keywords} & {"capture_output", "stdout"}
            if READERS.fullmatch(name) and (not name.startswith("subprocess.run") or kept):
                yield name


def python_files() -> list[str]:
    """Return the paths of the controller's modules."""
    listed = subprocess.run(
        ["git", "ls-files", *TOPS], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [name for name in listed if name.endswith(".py") and not (ROOT / name).is_symlink()]


def modules() -> dict[str, list[str]]:
    """Return the calls of each module that reads, by path."""
    found = {name: sorted(set(calls((ROOT / name).read_text()))) for name in python_files()}
    return {name: names for name, names in found.items() if names}
