# SPDX-License-Identifier: GPL-3.0-or-later
"""Files, links and folders as they were before a change, and put back as they were."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Sequence
from typing import Any

from ansible.module_utils.joulerig.tools import Refused

ABSENT, FILE, LINK, FOLDER = "absent", "file", "link", "folder"
LEAST_DEPTH = 3  # of a folder that is removed with all that is in it: /usr/lib/modules/RELEASE


class Stays(Exception):
    """It is left as it is; the text is the reason."""


class Contents:
    """Keeps the contents of files in `folder`."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def look(self, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the state of each path, a file's contents kept. Raises Refused."""
        return {name: self._look(name) for name in names}

    def _look(self, path: str) -> dict[str, Any]:
        if not os.path.isabs(path):
            raise Refused(f"{path}: is not an absolute path")
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            return {"is": ABSENT}
        owned = {"uid": found.st_uid, "gid": found.st_gid, "mode": stat.S_IMODE(found.st_mode)}
        if stat.S_ISLNK(found.st_mode):
            return {"is": LINK, "target": os.readlink(path)}
        if stat.S_ISDIR(found.st_mode):
            return {"is": FOLDER, **owned}
        if not stat.S_ISREG(found.st_mode):
            raise Refused(f"{path}: is neither a file nor a folder nor a link")
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        copy = self._copy_of(path)
        shutil.copy2(path, copy, follow_symlinks=False)
        os.chown(copy, 0 if os.geteuid() == 0 else -1, -1)
        os.chmod(copy, 0o600)
        _sync(copy)
        _sync(self._folder)
        return {"is": FILE, **owned}

    def restore(self, path: str, before: dict[str, Any]) -> str:
        """Make `path` what it was; return what was done, empty where it was so already.

        Raises Stays where a folder is not empty, or a file has other content than the rig wrote
        (`written` of `before`, where that is known), and OSError.
        """
        if "written" in before and _is_other(path, before["written"]):
            raise Stays(f"{path}: was changed since the rig wrote it")
        if before["is"] == ABSENT:
            return _remove(path)
        if before["is"] == LINK:
            if os.path.islink(path) and os.readlink(path) == before["target"]:
                return ""
            new = path + ".joulerig"
            _remove(new)
            os.symlink(before["target"], new)
            _rename(new, path)
            return f"restored {path}"
        if before["is"] == FILE:
            changed = self._restore_file(path)
        else:
            changed = not os.path.isdir(path)
            os.makedirs(path, exist_ok=True)
        return f"restored {path}" if give(path, before) or changed else ""

    def forget(self, path: str) -> None:
        """Drop the contents that are kept of a path."""
        _remove(self._copy_of(path))

    def _restore_file(self, path: str) -> bool:
        copy = self._copy_of(path)
        with open(copy, "rb") as file:
            kept = file.read()
        try:
            with open(path, "rb") as file:
                if not os.path.islink(path) and file.read() == kept:
                    return False
        except OSError:
            pass
        os.makedirs(os.path.dirname(path), exist_ok=True)
        replace(path, kept, 0o600)
        shutil.copystat(copy, path)
        return True

    def _copy_of(self, path: str) -> str:
        return os.path.join(self._folder, hashlib.sha256(path.encode()).hexdigest()[:32])


def digest(content: bytes) -> str:
    """Return by what the content of a file is compared with what the rig wrote."""
    return hashlib.sha256(content).hexdigest()


def _is_other(path: str, written: str) -> bool:
    if not os.path.isfile(path) or os.path.islink(path):
        return os.path.lexists(path)
    with open(path, "rb") as file:
        return digest(file.read()) != written


def look_at_trees(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return whether each folder was there: then it is not the rig's alone."""
    return {name: {"is": FOLDER if os.path.lexists(name) else ABSENT} for name in names}


def remove_tree(path: str, before: dict[str, Any]) -> str:
    """Remove a folder that is the rig's alone; return what was done. Raises Stays and OSError."""
    if before["is"] != ABSENT or not os.path.lexists(path):
        return ""
    parts = [part for part in path.split("/") if part]
    if not os.path.isabs(path) or ".." in parts or len(parts) < LEAST_DEPTH:
        raise Stays(f"{path}: too near the root to be removed")
    if os.path.islink(path) or not os.path.isdir(path):
        return _remove(path)
    device = os.lstat(path).st_dev
    for folder, _, _ in os.walk(path):
        if os.lstat(folder).st_dev != device:
            raise Stays(f"{path}: another file system is mounted at {folder}")
    shutil.rmtree(path)
    return f"removed {path}"


def replace(path: str, content: bytes, mode: int) -> None:
    """Write a file whole or not at all, also where the power fails."""
    new = path + ".joulerig"
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode), "wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    _rename(new, path)


def _rename(new: str, path: str) -> None:
    os.replace(new, path)
    _sync(os.path.dirname(path))


def _remove(path: str) -> str:
    if not os.path.lexists(path):
        return ""
    if os.path.isdir(path) and not os.path.islink(path):
        if os.listdir(path):
            raise Stays(f"{path}: is not empty")
        os.rmdir(path)
    else:
        os.unlink(path)
    return f"removed {path}"


def give(path: str, owned: dict[str, Any]) -> bool:
    """Give a path its `uid`, `gid` and `mode`; return whether they were other ones."""
    found = os.lstat(path)
    wanted = (owned["uid"], owned["gid"], owned["mode"])
    if (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == wanted:
        return False
    os.chown(path, owned["uid"], owned["gid"])
    os.chmod(path, owned["mode"])
    return True


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
