# SPDX-License-Identifier: GPL-3.0-or-later
"""What was on this host before the rig changed it, kept on the host itself.

`changes.json` lists what was changed, in the order of the changes, each with what was there before
the first one: `{"kind": "file", "name": "/etc/chrony/chrony.conf", "before": {...}}`. The contents
of files that were there are in `before/`. An entry is on the disk before its change is made.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible.module_utils.joulerig import paths
from ansible.module_utils.joulerig.changes import packages, units
from ansible.module_utils.joulerig.changes.contents import Contents, look_at_trees, replace
from ansible.module_utils.joulerig.changes.kernelmodules import look_at_modules
from ansible.module_utils.joulerig.tools import Refused

VERSION = 1
NAME = "changes.json"
# The kinds of changes. A tree is a folder that is the rig's alone; a command runs after the undo.
FILE, TREE, UNIT, MODULE, COMMAND, PACKAGE = "file", "tree", "unit", "module", "command", "package"
KINDS = (FILE, TREE, UNIT, MODULE, COMMAND, PACKAGE)


@contextlib.contextmanager
def locked(*, create: bool) -> Iterator[None]:
    """Keep others from the record, which the body reads and writes. `create`: also its folder."""
    if create:
        os.makedirs(paths.STATE, mode=0o755, exist_ok=True)
    if not os.path.isdir(paths.STATE):
        yield
        return
    descriptor = os.open(paths.STATE, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class Record:
    """The record of this host; `folder` has its files."""

    def __init__(self, folder: str | None = None) -> None:
        self.folder = folder or paths.STATE
        self._path = os.path.join(self.folder, NAME)
        self.contents = Contents(os.path.join(self.folder, "before"))
        self.exists = os.path.exists(self._path)
        self._entries: list[dict[str, Any]] = self._read() if self.exists else []

    def kinds(self) -> list[str]:
        """Return the kinds of what was changed."""
        return [kind for kind in KINDS if self.names(kind)]

    def names(self, kind: str) -> list[str]:
        """Return the names of what was changed of a kind, in the order of the changes."""
        return [entry["name"] for entry in self._entries if entry["kind"] == kind]

    def before(self, kind: str) -> dict[str, dict[str, Any]]:
        """Return what was there before, by name, the last change first."""
        return {entry["name"]: entry["before"] for entry in reversed(self._entries) if entry["kind"] == kind}

    def add(self, changes: Mapping[str, Sequence[str]], refresh_seconds: int | None = None) -> bool:
        """Record what is about to change, by kind; return whether any of it is new.

        What is in the record stays as it is. `refresh_seconds`: how old the lists of packages may
        be. Raises Refused and Failed: then nothing may be changed.
        """
        looks = {
            FILE: self.contents.look,
            TREE: look_at_trees,
            UNIT: units.look,
            MODULE: look_at_modules,
            COMMAND: lambda names: {name: {} for name in names},
            PACKAGE: lambda names: packages.look(names, refresh_seconds),
        }
        added = False
        for kind, names in changes.items():
            known = set(self.names(kind))
            unknown = [name for name in dict.fromkeys(names) if name not in known]
            for name, before in looks[kind](unknown).items() if unknown else ():
                if name not in known:
                    self._entries.append({"kind": kind, "name": name, "before": before})
                    added = True
        if added:
            self._write()
        return added

    def note_written(self, digests: Mapping[str, str]) -> None:
        """Record what the rig is about to write to recorded files, by path (`contents.digest`)."""
        noted = False
        for entry in self._entries:
            digest = digests.get(entry["name"]) if entry["kind"] == FILE else None
            if digest and entry["before"].get("written") != digest:
                entry["before"]["written"] = digest
                noted = True
        if noted:
            self._write()

    def drop(self, kind: str, name: str) -> None:
        """Forget a change, which was undone."""
        self._entries = [e for e in self._entries if (e["kind"], e["name"]) != (kind, name)]
        self._write()

    def _read(self) -> list[dict[str, Any]]:
        try:
            with open(self._path) as file:
                found = json.load(file)
            if found["version"] == VERSION:
                entries: list[dict[str, Any]] = found["entries"]
                return entries
            reason = f"is of version {found['version']}; this module reads version {VERSION}"
        except (ValueError, KeyError, TypeError) as error:
            reason = f"cannot be read: {error!r}"
        raise Refused(f"{self._path}: {reason}")

    def _write(self) -> None:
        os.makedirs(self.folder, mode=0o755, exist_ok=True)
        text = json.dumps({"version": VERSION, "entries": self._entries}, indent=1)
        replace(self._path, (text + "\n").encode(), 0o600)
        self.exists = True
