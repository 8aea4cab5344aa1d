# SPDX-License-Identifier: GPL-3.0-or-later
"""Find shipped files, programs, state and results, in a checkout and in an installed wheel.

| function | environment variable | in a checkout | installed |
|---|---|---|---|
| `share()` | | the checkout | `joulerig/share/` of the package |
| `programs()` | `JOULERIG_PROGRAMS` | `build/` | the folder of `powerd` on `PATH` |
| `inventory()` | `JOULERIG_INVENTORY` | `inventory.ini` | `./inventory.ini`, else the shipped one |
| `var()` | `JOULERIG_VAR` | `var/` | `./var/` |
| `results()` | `JOULERIG_RESULTS` | `results/` | `./results/` |
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import joulerig

_PACKAGE = Path(joulerig.__file__).resolve().parent
IN_CHECKOUT = (_PACKAGE.parent / "pyproject.toml").is_file() and (_PACKAGE.parent / "playbooks").is_dir()
ROOT = _PACKAGE.parent if IN_CHECKOUT else Path.cwd()
"""The folder that state, results and shown paths refer to: the checkout, else the current one."""


def share() -> Path:
    """Return the folder of the shipped files: playbooks/, ansible/, workloads/ and others."""
    return ROOT if IN_CHECKOUT else _PACKAGE / "share"


def var() -> Path:
    """Return the folder of the state: secrets, spools, sockets, the virtual lab's drives."""
    return Path(os.environ.get("JOULERIG_VAR") or ROOT / "var").absolute()


def results() -> Path:
    """Return the folder in which each campaign has its results."""
    return Path(os.environ.get("JOULERIG_RESULTS") or ROOT / "results").absolute()


def inventory() -> Path:
    """Return the path of the lab's inventory."""
    if given := os.environ.get("JOULERIG_INVENTORY"):
        return Path(given).absolute()
    own = ROOT / "inventory.ini"
    return (own if own.is_file() else share() / "inventory.ini").absolute()


def playbook(given: Path) -> Path:
    """Return `given` if it exists; else, for a bare name, the shipped playbook of that name."""
    shipped = share() / "playbooks" / given.name
    return shipped if given.parent == Path() and not given.exists() and shipped.is_file() else given


def cache() -> Path:
    """Return the folder of built guest images, shared by a user's checkouts (XDG_CACHE_HOME)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "joulerig"


def programs() -> Path:
    """Return the folder of the compiled programs (powerd, srcap, iod, flowop, ...)."""
    if given := os.environ.get("JOULERIG_PROGRAMS"):
        return Path(given).absolute()
    found = None if IN_CHECKOUT else shutil.which("powerd")
    return Path(found).parent if found else ROOT / "build"


def program(name: str) -> Path:
    """Return the path of a compiled program."""
    return programs() / name


def short(path: Path) -> str:
    """Return `path` as a person would type it from the checkout, or from the current folder."""
    try:
        return str(path.relative_to(ROOT))
    except ValueError:
        return str(path)


def run() -> Path:
    """Return the folder of the sockets.

    It is below var(), or a short folder of the user's where var()'s path is too long for a Unix
    socket (108 bytes).
    """
    folder = var() / "run"
    if len(str(folder)) > 70:
        digest = hashlib.sha256(str(var()).encode()).hexdigest()[:12]
        folder = Path(tempfile.gettempdir()) / f"joulerig-{os.getuid()}-{digest}"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder
