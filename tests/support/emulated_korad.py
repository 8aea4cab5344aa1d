# SPDX-License-Identifier: GPL-3.0-or-later
"""A supply as libsigrok's korad-kaxxxxp knows a KD3005P: requests and replies without any end, on a
pseudo-terminal."""

from tests.support.instrument import Instrument, PtyLine

REQUESTS = (b"*IDN?", b"STATUS?", b"VOUT1?", b"IOUT1?", b"VSET1?", b"ISET1?")


class Supply(Instrument):
    stale_bytes = b"9"

    def __init__(self):
        super().__init__()
        self.volts, self.amps = 5.02, 0.731

    def take(self, buffer):
        for request in REQUESTS:
            if buffer.startswith(request):
                return request, buffer[len(request) :]
        return None

    def reply(self, request):
        return {
            b"*IDN?": b"KORAD KD3005P V2.0",
            b"STATUS?": b"\x41",
            b"VOUT1?": b"%05.2f" % self.volts,
            b"IOUT1?": b"%05.3f" % self.amps,
            b"VSET1?": b"05.00",
            b"ISET1?": b"1.000",
        }[request]


def line():
    return PtyLine(Supply())
