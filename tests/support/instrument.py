# SPDX-License-Identifier: GPL-3.0-or-later
"""The emulated instruments' base: a line to the rig that fails in named ways.

An instrument gives `reply(request)`, bytes or None, and says where a request ends. Faults are set
while it runs:

- mute: accepts requests and never replies
- fragment: its replies come in two pieces, a moment apart
- stale: bytes of an older reply lie in front of each reply
- reset(): the connection is reset (TCP: RST; a terminal: hung up), and can be made again at once
- unplug(), plug(): nothing is there any more, and back under the same name
"""

import contextlib
import os
import pty
import select
import socket
import struct
import threading
import time
import tty

from tests.support.programs import wait_for

PIECES_APART = 0.01


class Instrument:
    """One emulated instrument. `end`: what ends a request, or None where each write is one."""

    end = b"\n"
    stale_bytes = b"0\n"

    def __init__(self):
        self.mute = self.fragment = self.stale = False
        self.asked = []

    def reply(self, request):
        raise NotImplementedError

    def take(self, buffer):
        """(request, rest) of what came, or None where no request is whole yet."""
        if self.end not in buffer:
            return None
        request, rest = buffer.split(self.end, 1)
        return request, rest

    def answer(self, buffer, send):
        """Answers the whole requests of `buffer`; gives back what is left of it."""
        while (taken := self.take(buffer)) is not None:
            request, buffer = taken
            self.asked.append(request)
            if self.mute:
                continue
            reply = self.reply(request)
            if not reply:
                continue
            if self.stale:
                reply = self.stale_bytes + reply
            if self.fragment and len(reply) > 1:
                send(reply[: len(reply) // 2])
                time.sleep(PIECES_APART)
                reply = reply[len(reply) // 2 :]
            send(reply)
        return buffer

    def push(self):
        """(bytes, seconds to the next) that it sends unasked; None where it does not."""
        return None


class TcpLine:
    """An instrument that listens on a port of 127.0.0.1."""

    def __init__(self, instrument):
        self.instrument = instrument
        self.connections = set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self._start()

    @property
    def connection(self):
        return f"tcp-raw/127.0.0.1/{self.port}"

    def _start(self):
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def _accept(self, listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        buffer = b""
        with contextlib.suppress(OSError):
            while data := connection.recv(4096):
                buffer = self.instrument.answer(buffer + data, connection.sendall)
        self.connections.discard(connection)
        connection.close()

    def reset(self):
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                # shutdown() wakes the thread that waits in recv(), close() alone would not send.
                connection.shutdown(socket.SHUT_RD)
                connection.close()

    def unplug(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.reset()

    def plug(self):
        self.listener = socket.create_server(("127.0.0.1", self.port))
        self._start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.unplug()


class PtyLine:
    """An instrument on a pseudo-terminal, opened with tests/support/ptyshim.c's help."""

    def __init__(self, instrument):
        self.instrument = instrument
        self.lock = threading.Lock()
        self.master = None
        master, slave = pty.openpty()
        self.name = os.ttyname(slave)
        self._attach(master, slave)

    @property
    def connection(self):
        return self.name

    def _attach(self, master, slave):
        # Its own end stays open: else the terminal would hang up whenever libsigrok closes the
        # other.
        tty.setraw(slave)
        os.set_blocking(master, False)  # what is not read is lost, as on a line
        self.master, self.slave = master, slave
        threading.Thread(target=self._serve, args=(master,), daemon=True).start()

    def _serve(self, master):
        buffer, due = b"", time.monotonic()
        with contextlib.suppress(OSError, ValueError):
            while True:
                pushed = None if self.instrument.mute else self.instrument.push()
                wait = 0.02 if pushed is None else max(0.0, due - time.monotonic())
                ready, _, _ = select.select([master], [], [], wait)
                with self.lock:
                    if self.master != master:
                        return
                    if ready:
                        buffer = self.instrument.answer(buffer + os.read(master, 4096), self._write)
                    elif pushed is not None and time.monotonic() >= due:
                        self._write(pushed[0])
                        due = max(due + pushed[1], time.monotonic())

    def _write(self, data):
        with contextlib.suppress(BlockingIOError):
            os.write(self.master, data)

    def unplug(self):
        with self.lock:
            master, self.master = self.master, None
            os.close(self.slave)
            os.close(master)

    def plug(self):
        """Back under the same name: terminals are numbered from the lowest free number on."""
        master, slave = wait_for(self._open, 10, f"{self.name} is free again")
        with self.lock:
            self._attach(master, slave)

    def _open(self):
        """Both ends of a new terminal of the same name, or None where another process has it."""
        spare = []
        try:
            for _ in range(50):
                master, slave = pty.openpty()
                if os.ttyname(slave) == self.name:
                    return master, slave
                spare += [master, slave]
        finally:
            for end in spare:
                os.close(end)
        return None

    def reset(self):
        self.unplug()
        self.plug()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.master is not None:
            self.unplug()
