# SPDX-License-Identifier: GPL-3.0-or-later
"""Where things lie: the checkout, its compiled programs, its state, its results."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"


def var() -> Path:
    """State of this checkout (secrets, spools, sockets, the virtual lab's drives); JOULERIG_VAR moves it."""
    return Path(os.environ.get("JOULERIG_VAR") or ROOT / "var").absolute()


def results() -> Path:
    """Where campaigns leave their results; JOULERIG_RESULTS moves it."""
    return Path(os.environ.get("JOULERIG_RESULTS") or ROOT / "results").absolute()


def inventory() -> Path:
    """The lab's inventory; JOULERIG_INVENTORY names another."""
    return Path(os.environ.get("JOULERIG_INVENTORY") or ROOT / "inventory.ini").absolute()


def cache() -> Path:
    """Built guest images, shared by all checkouts of a user; XDG_CACHE_HOME moves it."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "joulerig"


def program(name: str) -> Path:
    """A compiled program of this checkout."""
    return BUILD / name


def short(path: Path) -> str:
    """`path` as a person would type it from the checkout."""
    try:
        return str(path.relative_to(ROOT))
    except ValueError:
        return str(path)


def run() -> Path:
    """Sockets of this checkout: below var(), or in a short place of the user's own where var()'s path is
    too long for a unix socket (108 bytes)."""
    place = var() / "run"
    if len(str(place)) > 70:
        digest = hashlib.sha256(str(var()).encode()).hexdigest()[:12]
        place = Path(tempfile.gettempdir()) / f"joulerig-{os.getuid()}-{digest}"
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    return place
