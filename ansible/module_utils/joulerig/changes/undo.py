# SPDX-License-Identifier: GPL-3.0-or-later
"""Undo what the record of this host says was changed, whatever an inventory says by now."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Sequence
from typing import Any

from ansible.module_utils.joulerig.changes import kernelmodules, packages, record, units
from ansible.module_utils.joulerig.changes.contents import Stays, remove_tree
from ansible.module_utils.joulerig.changes.record import COMMAND, FILE, MODULE, PACKAGE, TREE, UNIT, Record
from ansible.module_utils.joulerig.drives.commands import ata_password
from ansible.module_utils.joulerig.tools import Failed, run

CALLS = "calls"  # outcomes that no controller collected (detached/calls.py)


class Undo:
    """One undoing of a record. It goes on where one change cannot be undone.

    `undone`: what was done. `failures`: why a step failed. What failed or stays is still in the
    record, for another time.
    """

    def __init__(self, changes: Record) -> None:
        self._record = changes
        self._stays: dict[str, str] = {}
        self.undone: list[str] = []
        self.failures: list[str] = []

    @property
    def stays(self) -> list[str]:
        """What is left as it is, and why."""
        return list(dict.fromkeys(self._stays.values()))

    def execute(self, *, with_packages: bool) -> None:
        """Undo everything but packages, and these if asked to; remove what the rig keeps here."""
        changes = self._record
        stopped = self._each(UNIT, units.stop)
        before_files = len(self.undone)
        self._finish(TREE, remove_tree)
        self._restore_files()
        restart = len(self.undone) > before_files
        if restart and changes.names(UNIT):
            self._step("", units.reload)
        if not self.failures:  # else units and commands would read files of the rig's
            self._finish(UNIT, lambda name, was: units.start(name, was, again=restart), stopped)
            self._finish(COMMAND, lambda name, _: _run_command(name))
        self._finish(MODULE, kernelmodules.unload)
        if with_packages and changes.names(PACKAGE):
            self._step("", self._undo_packages)
            self._restore_files()  # a folder may be empty now
        if changes.exists and not self.failures and set(changes.kinds()) <= {PACKAGE}:
            self._step("", self._remove_own)

    def _restore_files(self) -> None:
        for path in self._each(FILE, self._record.contents.restore):
            self._record.drop(FILE, path)
            self._record.contents.forget(path)

    def _each(
        self, kind: str, step: Callable[[str, dict[str, Any]], str], names: Sequence[str] | None = None
    ) -> list[str]:
        """Take a step for each change of a kind; return those for which it went well.

        The last change comes first; of files, what is in a folder comes before the folder.
        """
        before = self._record.before(kind)
        order = sorted(before, reverse=True) if kind == FILE else list(before)
        return [
            name
            for name in order
            if (names is None or name in names)
            and self._step(f"{kind} {name}", lambda name=name: step(name, before[name]))
        ]

    def _finish(
        self, kind: str, step: Callable[[str, dict[str, Any]], str], names: Sequence[str] | None = None
    ) -> None:
        """Take the last step for each change of a kind, and drop those for which it went well."""
        for name in self._each(kind, step, names):
            self._record.drop(kind, name)

    def _step(self, what: str, step: Callable[[], str | None]) -> bool:
        self._stays.pop(what, None)
        try:
            if done := step():
                self.undone.append(done)
        except Stays as reason:
            self._stays[what] = str(reason)
        except (Failed, OSError) as error:
            self.failures.append(str(error))
        else:
            return True
        return False

    def _undo_packages(self) -> None:
        before = self._record.before(PACKAGE)
        done, stay, left = packages.undo(before)
        self.undone += done
        self._stays.update({**stay, **left})
        for name in before:
            if name not in stay:
                self._record.drop(PACKAGE, name)

    def _remove_own(self) -> None:
        """Remove what the rig keeps on this host, save results that no controller has."""
        folder = self._record.folder
        keep = {record.NAME} if self._record.kinds() else set()
        calls = os.path.join(folder, CALLS)
        if os.path.isdir(calls) and any(not name.startswith(".") for name in os.listdir(calls)):
            keep.add(CALLS)
            self._stays[calls] = f"{calls}: outcomes of runs that no controller has; resume their campaign"
        if passwords := ata_password.noted():
            keep.add(ata_password.NAME)
            way = f"'hdparm --user-master u --security-disable {ata_password.PASSWORD} DEVICE'"
            self._stays[ata_password.NAME] = (
                f"{os.path.join(folder, ata_password.NAME)}: a secure erase did not end of"
                f" {', '.join(passwords)}, which may have its password: {way}"
            )
        for name in sorted(set(os.listdir(folder)) - keep):
            path = os.path.join(folder, name)
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
        if not os.listdir(folder):
            os.rmdir(folder)


def _run_command(command: str) -> str:
    run(shlex.split(command))
    return f"ran {command}"
