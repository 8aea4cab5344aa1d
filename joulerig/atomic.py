# SPDX-License-Identifier: GPL-3.0-or-later
"""Replace files atomically: a reader sees the old file or the new one, never a part.

What a function here has done stays done, also where the power fails right after it: a file's
content is on disk before its name is, and the name before the function returns.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


def write(path: Path, content: bytes, mode: int | None = None) -> Path:
    """Replace `path` by `content`, creating its folder; return `path`. Raises OSError.

    `mode`: the file's permissions; those of any new file by default.
    """
    with opened(path, mode) as file:
        file.write(content)
    return path


@contextlib.contextmanager
def opened(path: Path, mode: int | None = None) -> Iterator[BinaryIO]:
    """Yield a new file that replaces `path` if the body succeeds, and is removed otherwise.

    `mode` as in `write`. Raises OSError.
    """
    make_folder(path.parent)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            file.flush()
            if mode is None:  # mkstemp gives 0600; a report is to be read as any other file
                umask = os.umask(0)
                os.umask(umask)
                mode = 0o666 & ~umask
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        _rename(Path(name), path)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        if isinstance(error, OSError) and not error.filename:
            error.filename = str(path)  # a write to a full disk does not name it
        raise


def move(source: Path, target: Path) -> Path:
    """Rename a file, or a folder with all that is in it; return `target`. Raises OSError.

    `target` is replaced if it is a file; its folder is there, on the same file system.
    """
    for folder, _, names in os.walk(source):
        for path in (Path(folder, name) for name in names):
            if path.is_file() and not path.is_symlink():
                sync(path)
        sync(Path(folder))
    if source.is_file():
        sync(source)
    _rename(source, target)
    return target


def make_folder(path: Path) -> Path:
    """Make a folder, and those that it lies in, where missing; return it. Raises OSError."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for one in missing:
        sync(one.parent)
    return path


def sync(path: Path) -> None:
    """Have a file's content, or a folder's names, on disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _rename(source: Path, target: Path) -> None:
    os.replace(source, target)
    sync(target.parent)
