# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of the kernel that a campaign's factors set for a run: set, read back, put back."""

from ansible.module_utils.joulerig.tools import Failed, Refused, Unable


class KernelFiles:
    """The kernel files of a run, from its request's `kernel_files`: {factor, path, value} each.

    A path is under /sys or /proc/sys; `{device}` in it stands for every drive of the run. `sys` and
    `proc` are the roots, which tests replace.
    """

    def __init__(self, asked, drives, sys="/sys", proc="/proc"):
        """Resolve the files asked for.

        `drives`: the kernel's name of each drive of the run, by its own name. Raises Refused for a
        file that is not under /sys or /proc/sys.
        """
        self._files = []  # (factor, drive or "", path on this system, path as declared, value)
        for one in asked:
            declared = one["path"]
            if not declared.startswith(("/sys/", "/proc/sys/")) or "/../" in declared:
                raise Refused(f"{one['factor']}: {declared}: allowed: a file under /sys or /proc/sys")
            per_drive = drives if "{device}" in declared else {"": ""}
            for drive, device in per_drive.items():
                shown = declared.replace("{device}", device)
                root = sys if shown.startswith("/sys/") else proc
                path = root + "/" + shown.split("/", 2)[2]
                self._files.append((one["factor"], drive, path, shown, str(one["value"])))

    def remember(self, undo, leftovers=None):
        """Have `undo` (an ExitStack) put back what the files hold now; `leftovers` notes it too.

        Call it before anything that changes them as a side effect, such as another scheduler: what
        is undone later then comes first. Raises Refused where a file is missing.
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
        more than one drive, these by drive.
        """
        found = {}
        for factor, drive, path, shown, value in self._files:
            _write(factor, path, shown, value)
            found.setdefault(factor, {})[drive] = {"before": self._before[path], "in_effect": _read(path)}
        return {
            factor: next(iter(by_drive.values())) if len(by_drive) == 1 else by_drive
            for factor, by_drive in found.items()
        }

    def check_unchanged(self):
        """Raise Failed where a file has no longer the value that was set."""
        for factor, _, path, shown, value in self._files:
            if (now := _read(path)) != value:
                raise Failed(f"{factor}: {shown}: changed during the run from {value!r} to {now!r}")


def _read(path):
    """Return what a file holds; of a list of choices, the one in brackets."""
    with open(path) as file:
        text = file.read().strip()
    if "[" in text and "]" in text:
        return text[text.index("[") + 1 : text.index("]")]
    return text


def _write(factor, path, shown, value):
    try:
        with open(path, "w") as file:
            file.write(value)
    except OSError as error:
        raise Failed(f"{factor}: {shown}: {value!r} was refused by the kernel: {error.strerror}") from None
    if (now := _read(path)) != value:
        raise Failed(f"{factor}: {shown}: set to {value!r}, reads back as {now!r}")


def _restore(factor, path, shown, before):
    if _read(path) != before:
        _write(factor, path, shown, before)
