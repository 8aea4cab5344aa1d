# SPDX-License-Identifier: GPL-3.0-or-later
"""Replace files atomically: a reader sees the old file or the new one, never a part."""

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
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if mode is None:  # mkstemp gives 0600; a report is to be read as any other file
            umask = os.umask(0)
            os.umask(umask)
            mode = 0o666 & ~umask
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise
