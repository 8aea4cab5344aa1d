# SPDX-License-Identifier: GPL-3.0-or-later
"""Small files and folders of the rig's on this host, recorded before they are changed."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import Dict

from ansible.module_utils.joulerig.changes import record
from ansible.module_utils.joulerig.changes.contents import digest, give, replace

# `path` and `mode`, in octal digits, of a folder; of a file `dest`, `mode` and `content`.
Wanted = Dict[str, str]


def have(
    folders: Sequence[Wanted], files: Sequence[Wanted], trees: Sequence[str] = (), *, check: bool = False
) -> list[str]:
    """Have folders and then files as wanted, of this user; return the paths that were not.

    `trees`: folders that are the rig's alone, where something is to be made. All of them are
    recorded before the first is changed. `check`: nothing is changed or recorded. Raises Refused
    and OSError.
    """
    differ = [
        *(one for one in folders if not _is_folder(one)),
        *(one for one in files if not _is_file(one)),
    ]
    if not check:
        with record.locked(create=True):
            # Those that are as wanted belong to the rig all the same.
            places = [_place(one) for one in (*folders, *files)]
            changes = record.Record()
            changes.add({record.TREE: trees, record.FILE: places})
            changes.note_written({one["dest"]: digest(one["content"].encode()) for one in files})
        for one in differ:
            _write(one)
    return [_place(one) for one in differ]


def _place(wanted: Wanted) -> str:
    return wanted["dest"] if "content" in wanted else wanted["path"]


def _is_folder(wanted: Wanted) -> bool:
    found = _look(wanted)
    return found is not None and stat.S_ISDIR(found.st_mode) and _is_owned(found, wanted)


def _is_file(wanted: Wanted) -> bool:
    found = _look(wanted)
    if found is None or not stat.S_ISREG(found.st_mode) or not _is_owned(found, wanted):
        return False
    with open(wanted["dest"], "rb") as file:
        return file.read() == wanted["content"].encode()


def _look(wanted: Wanted) -> os.stat_result | None:
    try:
        return os.lstat(_place(wanted))
    except FileNotFoundError:
        return None


def _is_owned(found: os.stat_result, wanted: Wanted) -> bool:
    as_wanted = (os.geteuid(), os.getegid(), int(wanted["mode"], 8))
    return (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == as_wanted


def _write(wanted: Wanted) -> None:
    path, mode = _place(wanted), int(wanted["mode"], 8)
    if "content" in wanted:
        replace(path, wanted["content"].encode(), mode)
        return
    os.makedirs(path, exist_ok=True)
    give(path, {"uid": os.geteuid(), "gid": os.getegid(), "mode": mode})
