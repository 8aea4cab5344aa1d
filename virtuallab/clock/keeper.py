# SPDX-License-Identifier: GPL-3.0-or-later
"""The process that slows the lab's clock down while a test host asks for it.

    python -m joulerig.virtuallab.clock.keeper --page PAGE --listen HOST=SOCKET ...

A virtual host has a serial port whose other end is a socket of this process. It asks by a line

    slow K SECONDS

that a second of the lab last K seconds of the machine's for at most so many seconds of the lab, and
gets K as a line once that is so; `slow 1 0` ends it. Hosts share one clock: the slowest that one
asks for holds for all. What a host asked for ends by itself, so that one that was cut off, or whose
run was killed, does not leave the lab slow.
"""

from __future__ import annotations

import argparse
import contextlib
import selectors
import signal
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from joulerig.virtuallab.clock import shared
from joulerig.virtuallab.clock.page import AHEAD_NS, LEAST, MOST, LabClock

LOOK_SECONDS = 0.2  # how often what was asked for is looked at, whether it has ended
LONGEST_LINE = 100  # characters


@dataclass
class Keeper:
    """Sets the slowness of a lab's clock to what its hosts ask for.

    `note`: takes each change: lab time (ns since 1970 UTC) from which it holds, and the slowness.
    """

    clock: LabClock
    note: Callable[[int, float], None] = lambda real_ns, slowness: None
    _asked: dict[str, tuple[float, int]] = field(default_factory=dict)  # slowness, until when (lab)

    def ask(self, host: str, line: str) -> str:
        """Do what a host asks for; return the reply once it is so."""
        words = line.split()
        try:
            if len(words) != 3 or words[0] != "slow":
                raise ValueError
            slowness, seconds = float(words[1]), float(words[2])
            if not (LEAST <= slowness <= MOST and seconds >= 0):
                raise ValueError
        except ValueError:
            return f"error {line[:LONGEST_LINE]!r}: allowed: slow {LEAST:g}..{MOST:g} SECONDS"
        self._asked[host] = (slowness, self.clock.monotonic_ns() + round(seconds * 1e9))
        self.settle()
        return f"{self.clock.slowness:g}"

    def forget(self, host: str) -> None:
        """Take back what a host asked for, which is gone."""
        self._asked.pop(host, None)
        self.settle()

    def settle(self) -> None:
        """Set the slowness that is asked for now, and wait until it holds."""
        now_ns = self.clock.monotonic_ns()
        self._asked = {host: asked for host, asked in self._asked.items() if asked[1] > now_ns}
        wanted = max((slowness for slowness, _ in self._asked.values()), default=1.0)
        if wanted == self.clock.slowness:
            return
        line = self.clock.set_slowness(wanted)
        self.note(self.clock.real_at(line.lab_ns), wanted)
        while (left_ns := line.wall_ns - time.monotonic_ns()) > 0:
            time.sleep(min(left_ns, AHEAD_NS) / 1e9)


def serve(keeper: Keeper, sockets: Mapping[str, Path], ends: Callable[[], bool]) -> None:
    """Answer on the hosts' sockets until it `ends`."""
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as opened:
        for host, path in sockets.items():
            path.unlink(missing_ok=True)
            listener = opened.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(path))
            listener.listen()
            selector.register(listener, selectors.EVENT_READ, (host, None))
        while not ends():
            for key, _ in selector.select(LOOK_SECONDS):
                host, text = key.data
                if text is None:
                    connection, _ = key.fileobj.accept()  # type: ignore[union-attr]
                    opened.enter_context(connection)
                    selector.register(connection, selectors.EVENT_READ, (host, bytearray()))
                elif not _answer(keeper, host, key.fileobj, text):  # type: ignore[arg-type]
                    selector.unregister(key.fileobj)
                    keeper.forget(host)
            keeper.settle()


def _answer(keeper: Keeper, host: str, connection: socket.socket, text: bytearray) -> bool:
    """Answer what has come on a connection; return whether it is still open."""
    try:
        received = connection.recv(4096)
        text += received
        while b"\n" in text:
            line, _, rest = bytes(text).partition(b"\n")
            text[:] = rest
            connection.sendall(f"{keeper.ask(host, line.decode(errors='replace').strip())}\n".encode())
    except OSError:
        received = b""
    if not received:
        connection.close()
    return bool(received)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Slow a virtual lab's clock down while its hosts ask for it."
    )
    parser.add_argument("--page", type=Path, required=True)
    parser.add_argument("--listen", action="append", default=[], metavar="HOST=SOCKET")
    arguments = parser.parse_args()
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    keeper = Keeper(LabClock(arguments.page, write=True), shared.note)
    sockets = dict(one.split("=", 1) for one in arguments.listen)
    try:
        serve(keeper, {host: Path(path) for host, path in sockets.items()}, lambda: bool(ended))
    finally:
        for host in sockets:
            keeper.forget(host)


if __name__ == "__main__":
    main()
