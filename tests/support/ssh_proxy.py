# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands between a controller and a test host's SSH port, and breaks connections as networks do."""

from __future__ import annotations

import contextlib
import re
import select
import socket
import struct
import threading
from pathlib import Path

CHUNK = 65536
LOOK_SECONDS = 0.1


class Connection:
    """Two sockets, each of which gets what the other one sends, while `passes`."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self.near, self.far = near, far
        self.passes, self.over = True, False

    def carry(self) -> None:
        other = {self.near: self.far, self.far: self.near}
        with contextlib.suppress(OSError, ValueError):
            while not self.over:
                if not self.passes:
                    threading.Event().wait(LOOK_SECONDS)
                    continue
                for one in select.select(list(other), [], [], LOOK_SECONDS)[0]:
                    data = one.recv(CHUNK)
                    if not data:
                        return self.close()
                    other[one].sendall(data)

    def close(self, *, reset: bool = False) -> None:
        """End both sides by FIN, or by RST."""
        self.over = True
        for one in (self.near, self.far):
            with contextlib.suppress(OSError):
                if reset:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                else:
                    one.shutdown(socket.SHUT_RDWR)
                one.close()


class SshProxy:
    """A port of 127.0.0.1 that leads to `port`."""

    def __init__(self, port: int) -> None:
        self._target, self._connections = port, list[Connection]()
        self._away = threading.Event()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    @classmethod
    def before(cls, ssh_config: Path) -> SshProxy:
        """Stand before the one host of an SSH configuration, which is changed for that."""
        text = ssh_config.read_text()
        [port] = re.findall(r"^  Port (\d+)$", text, re.M)
        proxy = cls(int(port))
        ssh_config.write_text(text.replace(f"  Port {port}\n", f"  Port {proxy.port}\n"))
        return proxy

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                connection = Connection(near, near)
                if not self._away.is_set():
                    try:
                        connection.far = socket.create_connection(("127.0.0.1", self._target), 10)
                    except OSError:
                        connection.close()
                        continue
                else:
                    connection.passes = False  # it is accepted, and never answered
                self._connections.append(connection)
                threading.Thread(target=connection.carry, daemon=True).start()

    def break_all(self, *, reset: bool) -> None:
        """End every connection by FIN or RST; new ones are made."""
        for one in self._taken():
            one.close(reset=reset)

    def go_away(self) -> None:
        """Carry nothing any more, and end nothing: what is sent is lost without a word."""
        self._away.set()
        for one in self._connections:
            one.passes = False

    def come_back(self, *, same: bool) -> None:
        """Carry new connections again; and those from before, if they are to be the `same`."""
        self._away.clear()
        if same:
            for one in self._connections:
                one.passes = one.far is not one.near
            return
        self._taken()  # for ever silent

    def _taken(self) -> list[Connection]:
        taken, self._connections = self._connections, []
        return taken

    def close(self) -> None:
        self._server.close()
        self.break_all(reset=False)
