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
import stat
import tempfile
from pathlib import Path

import joulerig
from joulerig.rig.common.errors import UserError

_PACKAGE = Path(joulerig.__file__).resolve().parent
IN_CHECKOUT = (_PACKAGE.parent / "pyproject.toml").is_file() and (_PACKAGE.parent / "playbooks").is_dir()
ROOT = _PACKAGE.parent if IN_CHECKOUT else Path.cwd()
"""The folder that state, results and shown paths refer to: the checkout, else the current one."""


def share() -> Path:
    """Return the folder of the shipped files: playbooks/, ansible/, workloads/ and others."""
    return ROOT if IN_CHECKOUT else _PACKAGE / "share"


def var() -> Path:
    """Return the folder of the state: secrets, spools, sockets, the virtual lab's drives.

    It is made, and kept, for this user alone. Raises UserError.
    """
    return private(_var())


def has_state() -> bool:
    """Return whether there is a folder of the state: without one nothing was ever started."""
    return _var().is_dir()


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
    """Return `given` if it exists; else, for a bare name, the shipped playbook of that name.

    Its ending may be left out: `demo` is `demo.yml`.
    """
    if given.parent != Path() or given.exists():
        return given
    folder = share() / "playbooks"
    return next(filter(Path.is_file, (folder / given.name, folder / f"{given.name}.yml")), given)


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
    """Return the folder of the sockets, which is this user's alone: they start programs.

    It is below var() or, where that path is too long for a Unix socket (108 bytes), in the user's
    runtime folder (XDG_RUNTIME_DIR), else in the folder of temporary files. Raises UserError where
    another user made it, or has rights to it.
    """
    folder = var() / "run"
    if len(str(folder)) > 70:
        digest = hashlib.sha256(str(var()).encode()).hexdigest()[:12]
        folder = _short_folder() / f"joulerig-{os.geteuid()}-{digest}"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        problem = _not_private(folder)
    except OSError as error:
        problem = error.strerror or str(error)
    if problem:
        raise UserError(f"{folder}: {problem}; allowed: a folder of your own, with mode 0700, or none")
    return folder


def private(folder: Path) -> Path:
    """Make the folder where it is missing, and take away other users' rights; return it.

    Raises UserError.
    """
    problem = ""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = folder.stat()
        if status.st_uid != os.geteuid():
            problem = f"belongs to user {status.st_uid}"
        elif stat.S_IMODE(status.st_mode) & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        problem = error.strerror or str(error)
    if problem:
        raise UserError(f"{short(folder)}: {problem}; allowed: a folder of your own")
    return folder


def _var() -> Path:
    return Path(os.environ.get("JOULERIG_VAR") or ROOT / "var").absolute()


def _short_folder() -> Path:
    """Return the user's runtime folder where the system made one, else that of temporary files."""
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}")
    try:
        usable = not _not_private(runtime) and len(str(runtime)) < 40
    except OSError:
        usable = False
    return runtime if usable else Path(tempfile.gettempdir())


def _not_private(folder: Path) -> str:
    """Return why a folder is not this user's alone, or an empty text. Raises OSError."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return "is a link, or no folder"
    if status.st_uid != os.geteuid():
        return f"belongs to user {status.st_uid}"
    mode = stat.S_IMODE(status.st_mode)
    return f"has mode {mode:04o}" if mode & 0o077 else ""
