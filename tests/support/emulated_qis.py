# SPDX-License-Identifier: GPL-3.0-or-later
"""Quarch's server as the rig asks it: modules, a header, stripes, a stream that stops."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time

HEADER = """<?xml version="1.0" encoding="UTF-8"?>
<header><version>V5</version><devicePeriod>{period}uS</devicePeriod><channels>
<channel><group>0</group><name>12V_V</name><units>mV</units><maxTValue>1</maxTValue><dataPosition>1</dataPosition></channel>
<channel><group>0</group><name>12V_I</name><units>uA</units><maxTValue>1</maxTValue><dataPosition>2</dataPosition></channel>
<channel><group>0</group><name>12V_P</name><units>uW</units><maxTValue>1</maxTValue><dataPosition>3</dataPosition></channel>
<channel><group>0</group><name>Trigger</name><units></units><maxTValue>1</maxTValue><dataPosition>4</dataPosition></channel>
</channels></header>"""


class Server:
    """A server with modules.

    `lose`: (stripe, how many are missing before it). `overrun`: after so many stripes its buffer is
    full, and the stream stops.
    """

    def __init__(self, modules=("TCP:QTL1999-02-001",), lose=(0, 0), overrun=None, per_mark=1) -> None:
        self.modules, self.lose, self.overrun, self.per_mark = modules, lose, overrun, per_mark
        self.asked: list[str] = []
        self.period_us, self.begin, self.given = 1000, None, 0
        self.ready = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def connection(self) -> str:
        return f"tcp-raw/127.0.0.1/{self.port}"

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            connection.sendall(b"Quarch Instrument Server\r\n>")
            rest = b""
            while data := connection.recv(4096):
                *lines, rest = (rest + data).split(b"\r\n")
                for line in lines:
                    connection.sendall(self.answer(line.decode()).encode() + b"\r\n>")

    def answer(self, line: str) -> str:
        self.asked.append(line)
        if line == "$list":
            return "\r\n".join(f"{number}) {name}" for number, name in enumerate(self.modules, start=1))
        module, _, command = line.partition(" ")
        if module not in self.modules:
            return "FAIL: no such module"
        if match := re.fullmatch(r"stream mode resample (\d+)uS", command):
            self.period_us = int(match[1])
        elif command == "rec stream":
            self.begin, self.given, self.ready = time.monotonic(), 0, 2
        elif command == "rec stop":
            self.begin = None
        elif command == "stream text header":
            self.ready -= 1
            return "Header Not Available" if self.ready >= 0 else HEADER.format(period=self.period_us)
        elif command == "stream?":
            stopped = self.overrun is not None and self.given >= self.overrun
            return "Stopped: Overrun\r\nStripes Buffered: 0" if stopped else "Running\r\nStripes Buffered: 0"
        elif match := re.fullmatch(r"stream text (\d+)", command):
            return self.stripes(int(match[1]))
        return "OK"

    def stripes(self, most: int) -> str:
        if self.begin is None:
            return "eof"
        made = int((time.monotonic() - self.begin) * 1e6 / self.period_us)
        made = made if self.overrun is None else min(made, self.overrun)
        lines = []
        while self.given < made and len(lines) < most:
            k = self.given
            mark = k + (self.lose[1] if self.lose[1] and k >= self.lose[0] else 0)
            milliamps = 400 + 200 * (k % 2)
            lines.append(f"{mark * self.per_mark} 12000 {milliamps * 1000} {milliamps * 12000} 0")
            self.given += 1
        return "\r\n".join([*lines, "eof"])

    def close(self) -> None:
        self.listener.close()
