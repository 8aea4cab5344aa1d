# SPDX-License-Identifier: GPL-3.0-or-later
"""What a test's process asked of its disks, in order: what is on disk if the power fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


class DiskCalls:
    """`seen`: "sync PATH" and "rename PATH" (the target), paths below `root` as below it.

    A file is called by the name that it had when it was synced.
    """

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[str] = []
        self._root = root
        sync, replace = os.fsync, os.replace

        def fsync(descriptor: int) -> None:
            sync(descriptor)
            self.seen.append(f"sync {self._short(os.readlink(f'/proc/self/fd/{descriptor}'))}")

        def replaced(source: str | Path, target: str | Path) -> None:
            replace(source, target)
            self.seen.append(f"rename {self._short(target)}")

        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(os, "replace", replaced)

    def _short(self, path: str | Path) -> str:
        return os.path.relpath(path, self._root)
