# SPDX-License-Identifier: GPL-3.0-or-later
"""Reach a twin as an NBD client, by libnbd: see what a guest's block layer hides.

Each reply's error and the order of replies are seen, several commands may be in flight, and several
connections may be open.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.machinery
import importlib.util
import os
import sys
import threading
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

DIST_PACKAGES = "/usr/lib/python3/dist-packages"
SECONDS = 20  # the longest wait for a reply


_LOADS = threading.Lock()


def _load(name: str) -> ModuleType:
    """Load a module of Debian's python3-libnbd, which virtual environments do not see.

    libnbd looks nbd up among the loaded modules when it is first given a buffer. It has to be there
    then, also where a test has put the modules back as they were, and be the one of the client.
    """
    with _LOADS:
        module = sys.modules[name] = _loaded(name)
        return module


@functools.cache
def _loaded(name: str) -> ModuleType:
    spec = importlib.machinery.PathFinder.find_spec(name, [DIST_PACKAGES])
    if spec is None or spec.loader is None:
        pytest.fail(f"{name}: not in {DIST_PACKAGES}: apt-get install -y python3-libnbd", pytrace=False)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class NbdClient:
    """Hold one connection to an export; a context manager.

    `submit_write` and `submit_flush` send a command without waiting and return its cookie;
    `result` and `error` wait for its reply. A reply's error is raised as OSError with its errno.
    """

    def __init__(self, path: Path | str) -> None:
        _load("libnbdmod")
        self.nbd: Any = _load("nbd")
        self.handle = self.nbd.NBD()
        self.handle.connect_unix(str(path))
        self.size: int = self.handle.get_size()

    def __enter__(self) -> NbdClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with contextlib.suppress(self.nbd.Error):
            self.handle.shutdown(self.nbd.SHUTDOWN_ABANDON_PENDING)

    def submit_write(self, offset: int, data: bytes, *, fua: bool = False) -> int:
        cookie: int = self.handle.aio_pwrite(data, offset, flags=self._flags(fua))
        return cookie

    def submit_flush(self) -> int:
        cookie: int = self.handle.aio_flush()
        return cookie

    def error(self, cookie: int) -> int:
        """Wait for a command's reply; return its errno, 0 for success."""
        while True:
            try:
                if self.handle.aio_command_completed(cookie):
                    return 0
            except self.nbd.Error as error:
                return int(error.errnum)
            if self.handle.poll(SECONDS * 1000) == 0:
                raise TimeoutError(f"no reply within {SECONDS} s")

    def result(self, cookie: int) -> None:
        """Wait for a command's reply. Raises OSError."""
        error = self.error(cookie)
        if error:
            raise OSError(error, os.strerror(error))

    def read(self, offset: int, length: int) -> bytes:
        data = self.nbd.Buffer(length)
        self.result(self.handle.aio_pread(data, offset))
        return bytes(data.to_bytearray())

    def write(self, offset: int, data: bytes, *, fua: bool = False) -> None:
        self.result(self.submit_write(offset, data, fua=fua))

    def flush(self) -> None:
        self.result(self.submit_flush())

    def trim(self, offset: int, length: int) -> None:
        self.result(self.handle.aio_trim(length, offset))

    def write_zeroes(self, offset: int, length: int, *, fua: bool = False) -> None:
        self.result(self.handle.aio_zero(length, offset, flags=self._flags(fua)))

    def fill_with_zeroes(self, offset: int, length: int) -> None:
        """Write zeroes that stay written: no data are sent, and nothing is unmapped."""
        self.result(self.handle.aio_zero(length, offset, flags=self.nbd.CMD_FLAG_NO_HOLE))

    def fill_at(self, offsets: Iterable[int], length: int, depth: int) -> None:
        """Write such zeroes at each of `offsets`, `depth` of them under way. Raises OSError."""
        cookies: deque[int] = deque()
        for offset in offsets:
            if len(cookies) == depth:
                self.result(cookies.popleft())
            cookies.append(self.handle.aio_zero(length, offset, flags=self.nbd.CMD_FLAG_NO_HOLE))
        for cookie in cookies:
            self.result(cookie)

    def _flags(self, fua: bool) -> int:
        return int(self.nbd.CMD_FLAG_FUA) if fua else 0
