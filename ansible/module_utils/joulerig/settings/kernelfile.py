# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of the kernel that a campaign's factors set for a run: set, read back, put back."""

import errno
import glob
import itertools
import os
import re

from ansible.module_utils.joulerig.drives.host import Host
from ansible.module_utils.joulerig.settings import places
from ansible.module_utils.joulerig.tools import Failed, Refused, Unable


class KernelFiles:
    """The kernel files of a run, from its request's `kernel_files`.

    Each is {factor, path, value, needs}. A path is under /sys or /proc/sys. `{device}`,
    `{controller}`, `{adapter}` and `{powered}` in it stand for what every drive of the run is
    called, or hangs on (`places.named`); `*` for any part of a name: all files that there are.
    `needs`: another path, of a file without which this one has no effect; "": none.
    """

    def __init__(self, asked, drives, host=None):
        """Resolve the files asked for.

        `drives`: the kernel's name of each drive of the run, by its own name. Raises Refused for a
        file that is not under /sys or /proc/sys, Unable for one that this host or drive lacks.
        """
        self._host = host or Host()
        self._files = []  # (factor, drive or "", path on this system, path as the kernel has it, value)
        for one in asked:
            factor, declared = one["factor"], one["path"]
            if not declared.startswith(("/sys/", "/proc/sys/")) or "/../" in declared:
                raise Refused(f"{factor}: {declared}: allowed: a file under /sys or /proc/sys")
            per_drive = drives if "{" in declared else {"": ""}
            for drive, device in per_drive.items():
                if one.get("needs"):
                    self._resolve(factor, one["needs"], device)
                for path, shown in self._resolve(factor, declared, device):
                    self._files.append((factor, drive, path, shown, str(one["value"])))

    def _resolve(self, factor, declared, device):
        """Return the files that a path stands for: each here, and as the kernel has it."""
        keys = re.findall(r"\{(\w+)\}", declared)
        names = places.named(self._host, device) if keys else {}
        for key in keys:
            if not names[key]:
                raise Unable(f"{factor}: {declared}: /dev/{device} has no {key} in /sys")
        top, root = ("/sys", self._host.sys) if declared.startswith("/sys/") else ("/proc", self._host.proc)
        found = []
        for chosen in itertools.product(*(names[key] for key in keys)):
            shown = declared
            for key, name in zip(keys, chosen):
                shown = shown.replace(f"{{{key}}}", name, 1)
            there = sorted(glob.glob(glob.escape(root) + shown[len(top) :]))
            if not there:
                raise Unable(f"{factor}: {shown}: {os.strerror(errno.ENOENT)}")
            found += [(one, top + one[len(root) :]) for one in there]
        return found

    def remember(self, undo, leftovers=None):
        """Have `undo` (an ExitStack) put back what the files hold now; `leftovers` notes it too.

        Call it before anything that changes them as a side effect, such as another scheduler: what
        is undone later then comes first. Raises Unable where a file is missing, or cannot be read.
        """
        self._before = {}
        for factor, _, path, shown, _ in self._files:
            try:
                before = _read(path)
            except OSError as error:
                raise Unable(f"{factor}: {shown}: {error.strerror}") from None
            self._before[path] = before
            if leftovers:
                leftovers.note_file(path, before)
            undo.callback(_restore, factor, path, shown, before)

    def apply(self):
        """Set the files and read them back. Raises Failed where one did not take its value.

        Returns {factor: {"before", "in_effect"}}; of a factor with a file for each drive, and of
        more than one drive, these by drive; of several files that differed before, these by file.
        Raises Unable where the kernel does not allow a value: it is none of this host's.
        """
        found = {}
        for factor, drive, path, shown, value in self._files:
            if _read(path) != value:
                _write(factor, path, shown, value, Unable)
            entry = {"before": self._before[path], "in_effect": _read(path)}
            found.setdefault(factor, {}).setdefault(drive, {})[shown] = entry
        settings = {}
        for factor, by_drive in found.items():
            entries = {drive: _one_if_alike(files) for drive, files in by_drive.items()}
            settings[factor] = entries if len(entries) > 1 else next(iter(entries.values()))
        return settings

    def check_unchanged(self):
        """Raise Failed where a file has no longer the value that was set."""
        for factor, _, path, shown, value in self._files:
            if (now := _read(path)) != value:
                raise Failed(f"{factor}: {shown}: changed during the run from {value!r} to {now!r}")


def _one_if_alike(entries):
    """Return the entry that all of `entries` are, or these."""
    first, *others = entries.values()
    return first if all(one == first for one in others) else entries


def _read(path):
    """Return what a file holds; of a list of choices, the one in brackets."""
    with open(path) as file:
        text = file.read().strip()
    if "[" in text and "]" in text:
        return text[text.index("[") + 1 : text.index("]")]
    return text


def _write(factor, path, shown, value, refusal=Failed):
    try:
        with open(path, "w") as file:
            file.write(value)
    except OSError as error:
        raise refusal(f"{factor}: {shown}: {value!r} was refused by the kernel: {error.strerror}") from None
    if (now := _read(path)) != value:
        raise Failed(f"{factor}: {shown}: set to {value!r}, reads back as {now!r}")


def _restore(factor, path, shown, before):
    if _read(path) != before:
        _write(factor, path, shown, before)
