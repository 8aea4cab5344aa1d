# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module call has yet to put back, so that the next one can where it was killed.

The file lies in /run: what it describes is gone with a reboot, as is the file. A call that has the
host to itself has one, and each lane of a campaign (`host_lock`) another.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible.module_utils.joulerig import fence, paths
from ansible.module_utils.joulerig.changes.brief import alone_with
from ansible.module_utils.joulerig.changes.contents import replace
from ansible.module_utils.joulerig.drives import blockqueue
from ansible.module_utils.joulerig.host_lock import Lane, lane_kept_free
from ansible.module_utils.joulerig.tools import Failed, Refused, run

END_SECONDS = 10.0
LOCK = "leftovers"


class Leftovers:
    """The settings that a call changed, and the namespace in which its processes are."""

    def __init__(self, path: str | None = None, lane: Lane | None = None) -> None:
        self._path = _of_lane(lane.drive, path) if lane else path or paths.LEFTOVERS
        self._held: dict[str, Any] = {"namespace": None, "settings": []}

    def fenced(self) -> None:
        """Note the namespace of this process, whose processes are ended where it is killed."""
        self._held["namespace"] = fence.namespace()
        self._write()

    def note_file(self, path: str, before: str, sequence: int | None = None) -> None:
        """Note what a file of the kernel holds, before it is changed.

        `sequence`: the disk sequence of the drive whose file it is, which must have it still.
        """
        self._note({"file": path, "before": before, "sequence": sequence})

    def note_command(self, path: str, command: Sequence[str], sequence: int | None) -> None:
        """Note the command that puts a drive's setting back; `path` is the drive's in /sys."""
        self._note({"command": list(command), "file": path, "sequence": sequence})

    def note_cache(self, path: str, before: str, sequence: int | None) -> None:
        """Note how a drive's write cache is, before it is set; `path` is the drive's in /sys."""
        self._note({"cache": before, "file": path, "sequence": sequence})

    def _note(self, setting: dict[str, Any]) -> None:
        self._held["settings"].append(setting)
        self._write()

    def clear(self) -> None:
        """Forget it all: everything is put back."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)

    def _write(self) -> None:
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        replace(self._path, json.dumps(self._held).encode(), 0o644)


def take_down(path: str | None = None, lane: Lane | None = None) -> list[str]:
    """End what killed calls left running and put back what they had set; return it in words.

    Call it under the host's lock, of `lane` where it is that of one. Lanes whose call is in
    progress keep what is theirs. A file system that a call had mounted goes with its last process.
    """
    with alone_with(LOCK):
        # While lanes share the host's lock, no other call is in progress: its file is left over.
        words = _take_down(path or paths.LEFTOVERS)
        for drive in _lanes(path):
            with _kept_free(drive, lane) as free:
                words += _take_down(_of_lane(drive, path)) if free else []
        return words


def _kept_free(drive: str, lane: Lane | None) -> contextlib.AbstractContextManager[bool]:
    own = lane is not None and lane.drive == drive
    return contextlib.nullcontext(True) if own else lane_kept_free(drive)


def _of_lane(drive: str, path: str | None) -> str:
    return f"{_folder(path)}/{drive}.json"


def _lanes(path: str | None) -> Iterator[str]:
    """Yield the drives of lanes that have left something, or are in progress."""
    for found in sorted(glob.glob(f"{glob.escape(_folder(path))}/*.json")):
        yield os.path.basename(found)[: -len(".json")]


def _folder(path: str | None) -> str:
    return os.path.splitext(path or paths.LEFTOVERS)[0]


def _take_down(path: str) -> list[str]:
    try:
        with open(path) as file:
            held = json.load(file)
    except FileNotFoundError:
        return []
    except ValueError:  # cut short while it was written: nothing had been changed yet
        held = {"namespace": None, "settings": []}
    words = _end_processes(held["namespace"])
    for setting in reversed(held["settings"]):
        if _is_same_drive(setting) and _put_back(setting):
            words.append(f"{setting['file']} put back")
    os.unlink(path)
    return words


def _end_processes(namespace: int | None) -> list[str]:
    if namespace is None or namespace == fence.namespace():
        return []
    words = []
    end = time.monotonic() + END_SECONDS
    while left := _processes(namespace):
        for process, name in left.items():
            if (text := f"process {process} ({name}) ended") not in words:
                words.append(text)
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        if time.monotonic() >= end:
            break
        time.sleep(0.1)
    return words


def _processes(namespace: int) -> dict[int, str]:
    found = {}
    for process in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if fence.namespace(process) == namespace:
                with open(f"/proc/{process}/comm") as file:
                    found[int(process)] = file.read().strip()
    return found


def _is_same_drive(setting: Mapping[str, Any]) -> bool:
    """Check that the drive of a setting is the one that it was: its name may be another's now."""
    sequence = setting["sequence"]
    if sequence is None:
        return True
    try:
        with open(f"{_block(setting)}/diskseq") as file:
            return int(file.read()) == sequence
    except OSError:
        return False


def _block(setting: Mapping[str, Any]) -> str:
    """Return the folder in /sys of the drive whose setting it is."""
    words = setting["file"].split("/")
    return "/".join(words[: words.index("block") + 2])


def _put_back(setting: Mapping[str, Any]) -> bool:
    """Put a setting back; return whether there was something to put back."""
    if "command" in setting:
        with contextlib.suppress(Failed):
            run(setting["command"])
            return True
        return False
    if "cache" in setting:
        with contextlib.suppress(Failed, Refused):
            blockqueue.put_write_cache(os.path.basename(_block(setting)), setting["cache"])
            return True
        return False
    path, before = setting["file"], setting["before"]
    try:
        with open(path) as file:
            now = file.read().strip()
        if now == before or f"[{before}]" in now:
            return False
        with open(path, "w") as file:
            file.write(before)
    except OSError:  # the device has gone
        return False
    return True
