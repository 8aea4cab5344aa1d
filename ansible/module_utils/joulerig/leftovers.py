# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module call has yet to put back, so that the next one can where it was killed.

The file lies in /run: what it describes is gone with a reboot, as is the file. A call that has the
host to itself has one, and each lane of a campaign (`host_lock`) another. Of processes it names the
fence that they are in: whatever the file says, no process outside of a fence is ended.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible.module_utils.joulerig import fence, paths
from ansible.module_utils.joulerig.changes.brief import alone_with
from ansible.module_utils.joulerig.changes.contents import replace
from ansible.module_utils.joulerig.drives import blockqueue, wipe_lease
from ansible.module_utils.joulerig.drives.wipe_lease import Lease
from ansible.module_utils.joulerig.host_lock import Lane, lane_kept_free
from ansible.module_utils.joulerig.tools import Failed, Refused, process_descriptor, run, send_signal

END_SECONDS = 10.0
LOCK = "leftovers"
# Commands by which drives' own settings are put back (settings/drive_settings.py).
COMMANDS = re.compile(
    r"nvme set-feature /dev/nvme\d+ --feature-id=0x[0-9a-f]{2} --value=\d+"
    r"|smartctl --set=(apm,\w+|standby,off) /dev/\w+"
)


class Leftovers:
    """The settings and drives that a call changed, and the fence in which its processes are."""

    def __init__(self, path: str | None = None, lane: Lane | None = None) -> None:
        self._path = _of_lane(lane.drive, path) if lane else path or paths.LEFTOVERS
        self._held: dict[str, Any] = {"fence": "", "settings": [], "drives": []}

    def fenced(self, leases: Sequence[Lease] = ()) -> None:
        """Note the fence of this process, whose processes are ended where it is killed.

        `leases`: of the drives that it is about to change; what it left on them is recorded then.
        """
        self._held["fence"] = fence.name()
        self._held["drives"] = [lease.noted for lease in leases]
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
        replace(self._path, json.dumps(self._held).encode(), 0o600)


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
        with open(path, errors="replace") as file:
            text = file.read()
    except FileNotFoundError:
        return []
    held = _parsed(path, text)
    words = _end_processes(held["fence"])
    for setting in reversed(held["settings"]):
        if _is_same_drive(setting) and _put_back(setting):
            words.append(f"{setting['file']} put back")
    words += [text for noted in held["drives"] if (text := wipe_lease.end_change(noted))]
    os.unlink(path)
    return words


def _parsed(path: str, text: str) -> dict[str, Any]:
    """Return the content of a file of leftovers. Raises Refused for one that no call wrote."""
    try:
        held = json.loads(text)
        problem = _problem(held)
    except (ValueError, RecursionError):
        problem = "is not JSON"
    if problem:
        raise Refused(
            f"{path}: {problem}; what the call had set is unknown: look at the drives' settings and remove"
            " the file, or reboot the host, which resets both"
        )
    return dict(held)


def _problem(held: Any) -> str:
    """Return why the content of a file of leftovers is none that a call wrote; "" where it is."""
    if not isinstance(held, dict) or set(held) - {"drives"} != {"fence", "settings"}:
        return "allowed are the keys fence, settings and drives"
    held.setdefault("drives", [])
    if not isinstance(held["fence"], str) or not (held["fence"] == "" or fence.NAME.fullmatch(held["fence"])):
        return f"fence: {str(held['fence'])[:80]!r} is not a fence's name"
    for key in ("settings", "drives"):
        if not isinstance(held[key], list):
            return f"{key}: is not a list"
    for number, noted in enumerate(held["drives"], 1):
        if not wipe_lease.is_noted(noted):
            return f"drives: number {number}: {str(noted)[:80]!r} is none that a call notes"
    for number, setting in enumerate(held["settings"], 1):
        if not _is_setting(setting):
            return f"settings: number {number}: {str(setting)[:80]!r} is none that a call notes"
    return ""


def _is_setting(setting: Any) -> bool:
    if not isinstance(setting, dict) or len(setting) != 3 or not {"file", "sequence"} <= set(setting):
        return False
    path, sequence = setting["file"], setting["sequence"]
    if not isinstance(path, str):
        return False
    if not os.path.normpath(path).startswith((f"{paths.SYS}/", f"{paths.PROC}/sys/")):
        return False
    if sequence is not None and not (isinstance(sequence, int) and not isinstance(sequence, bool)):
        return False
    if "command" in setting:
        words = setting["command"]
        return (
            isinstance(words, list)
            and all(isinstance(word, str) for word in words)
            and bool(COMMANDS.fullmatch(" ".join(words)))
            and "/block/" in path
        )
    if "cache" in setting:
        return isinstance(setting["cache"], str) and "/block/" in path
    return isinstance(setting.get("before"), str)


def _end_processes(name: str) -> list[str]:
    """End the processes of a fence; return which they were."""
    ended: dict[int, str] = {}
    end = time.monotonic() + END_SECONDS
    while name and (left := _end_each(name)):
        ended.update(left)
        if time.monotonic() >= end:
            break
        time.sleep(0.1)
    return [f"process {process} ({comm}) ended" for process, comm in ended.items()]


def _end_each(name: str) -> dict[int, str]:
    """Send SIGKILL to each process of a fence; return their names."""
    found = {}
    for process in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with contextlib.suppress(OSError, ValueError):
            descriptor = process_descriptor(process)
            try:
                # Looked at while it is held: its number cannot have gone to another process unless
                # it has ended, and then the signal is lost.
                if process != os.getpid() and fence.name(process) == name:
                    with open(f"/proc/{process}/comm") as file:
                        comm = file.read().strip()
                    send_signal(descriptor, signal.SIGKILL)
                    found[process] = comm
            finally:
                os.close(descriptor)
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
