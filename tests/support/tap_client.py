# SPDX-License-Identifier: GPL-3.0-or-later
"""A client of a power tap's instrument, which asks as libsigrok's driver does."""

import socket
import time

import numpy as np

LONGEST_SEGMENT = 60_000  # what a loopback's TCP sends at once is 64 KB


class Client:
    """Speaks to an instrument of the tap as the driver does."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def ask(self, line):
        self.socket.sendall(line.encode() + b"\r\n")
        return self.socket.recv(65536)

    def text(self, line):
        return self.ask(line).decode().rstrip("\n")

    def block(self, line):
        reply = self.ask(line)
        digits = int(reply[1:2])
        length = int(reply[2 : 2 + digits])
        while length > LONGEST_SEGMENT and len(reply) < 2 + digits + length:
            reply += self.socket.recv(65536)
        assert len(reply) == 2 + digits + length, "a reply has to come in one segment"
        return reply[2 + digits :]

    def channel(self, number):
        return np.frombuffer(self.block(f":FORM:BORD LSBF;:FORM REAL,32;:CHAN{number}:DATA?"), "<f4")

    def pod(self, number):
        return np.frombuffer(self.block(f":FORM UINT,8;:LOG{number}:DATA?"), "u1")

    def seconds(self, seconds, channels=(1, 2, 3, 4)):
        """Rounds of all channels for a time, as an array (samples, channels)."""
        end = time.monotonic() + seconds
        rounds = []
        while time.monotonic() < end:
            rounds.append(np.stack([self.channel(number) for number in channels], axis=1))
        return np.concatenate(rounds)
