# SPDX-License-Identifier: GPL-3.0-or-later
"""An NBD client that sees what a guest's block layer hides: each reply's error, each operation's order.

Fixed newstyle handshake with NBD_OPT_GO and simple replies, as the NBD protocol document has them.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from pathlib import Path

HANDSHAKE_MAGIC = 0x49484156454F5054  # "IHAVEOPT"
OPTION_REPLY_MAGIC = 0x3E889045565A9
REQUEST_MAGIC = 0x25609513
REPLY_MAGIC = 0x67446698
FIXED_NEWSTYLE, NO_ZEROES = 1, 2
OPTION_GO, REPLY_ACK, REPLY_INFO = 7, 1, 3
READ, WRITE, DISCONNECT, FLUSH, TRIM, WRITE_ZEROES = 0, 1, 2, 3, 4, 6
FUA, NO_HOLE = 1, 2


class NbdClient:
    """One connection; a context manager. Errors of the server are OSError with its errno.

    `submit` sends a request without waiting and gives its handle, `result` waits for one reply: so
    several may be in flight.
    """

    def __init__(self, path: Path | str, seconds: float = 20) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(seconds)
        self.socket.connect(str(path))
        self.handles = 0
        self.reads: dict[int, int] = {}
        self.replies: dict[int, tuple[int, bytes]] = {}
        self.size = self._handshake()

    def __enter__(self) -> NbdClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._send(DISCONNECT, 0, 0)
        self.socket.close()

    def _receive(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            part = self.socket.recv(length - len(data))
            if not part:
                raise ConnectionError("the server closed the connection")
            data += part
        return data

    def _handshake(self) -> int:
        _, magic, _ = struct.unpack(">QQH", self._receive(18))
        assert magic == HANDSHAKE_MAGIC
        self.socket.sendall(struct.pack(">I", FIXED_NEWSTYLE | NO_ZEROES))
        self.socket.sendall(struct.pack(">QIIIH", HANDSHAKE_MAGIC, OPTION_GO, 6, 0, 0))
        size = None
        while True:
            magic, _, kind, length = struct.unpack(">QIII", self._receive(20))
            payload = self._receive(length)
            assert magic == OPTION_REPLY_MAGIC
            if kind == REPLY_INFO and payload[:2] == b"\0\0":
                size = struct.unpack(">Q", payload[2:10])[0]
            elif kind == REPLY_ACK:
                assert size is not None
                return size
            elif kind != REPLY_INFO:
                raise ConnectionError(f"NBD option refused: {kind:#x} {payload!r}")

    def _send(self, kind: int, offset: int, length: int, flags: int = 0, data: bytes = b"") -> int:
        self.handles += 1
        request = struct.pack(">IHHQQI", REQUEST_MAGIC, flags, kind, self.handles, offset, length)
        self.socket.sendall(request + data)
        return self.handles

    def submit(self, kind: int, offset: int = 0, length: int = 0, flags: int = 0, data: bytes = b"") -> int:
        """Sends a request; the handle of its reply."""
        handle = self._send(kind, offset, length or len(data), flags, data)
        if kind == READ:
            self.reads[handle] = length
        return handle

    def error(self, handle: int) -> int:
        """The errno that a request was answered with; 0: it was done."""
        self._await(handle)
        return self.replies.pop(handle)[0]

    def result(self, handle: int) -> bytes:
        """What a request was answered: the data of a read. Raises OSError."""
        self._await(handle)
        error, data = self.replies.pop(handle)
        if error:
            raise OSError(error, os.strerror(error))
        return data

    def _await(self, handle: int) -> None:
        while handle not in self.replies:
            magic, error, answered = struct.unpack(">IIQ", self._receive(16))
            assert magic == REPLY_MAGIC
            length = self.reads.pop(answered, 0)
            self.replies[answered] = (error, b"" if error else self._receive(length))

    def read(self, offset: int, length: int) -> bytes:
        return self.result(self.submit(READ, offset, length))

    def write(self, offset: int, data: bytes, *, fua: bool = False) -> None:
        self.result(self.submit(WRITE, offset, flags=FUA if fua else 0, data=data))

    def flush(self) -> None:
        self.result(self.submit(FLUSH))

    def trim(self, offset: int, length: int) -> None:
        self.result(self.submit(TRIM, offset, length))

    def write_zeroes(self, offset: int, length: int, *, fua: bool = False) -> None:
        self.result(self.submit(WRITE_ZEROES, offset, length, flags=FUA if fua else 0))
