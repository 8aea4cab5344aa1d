# SPDX-License-Identifier: GPL-3.0-or-later
"""A UNI-T UT61E as libsigrok's uni-t-ut61e-ser knows it: 14 bytes of an ES51922, pushed.

`function`: "volts" or "amps" (its range of 10 A). `shows`: a set of "AC", "HOLD", "MAX", "MIN",
"REL". Bits by libsigrok's src/dmm/es51922.c.
"""

from tests.support.instrument import Instrument, PtyLine

INTERVAL = 0.1  # the instrument's is 0.5 s


class Multimeter(Instrument):
    def __init__(self, function="volts", value=5.0):
        super().__init__()
        self.function, self.value, self.shows = function, value, set()

    def take(self, buffer):
        return None

    def reply(self, request):
        return None

    def push(self):
        # Volts in the range of 22 V, amps in that of 22 A: three digits after the point.
        digits = f"{round(abs(self.value) * 1000):05d}"
        function, point = (0x3B, "1") if self.function == "volts" else (0x30, "0")
        status = 0x30 | (0x04 if self.value < 0 else 0)
        option1 = 0x30 | sum(bit for name, bit in (("MAX", 8), ("MIN", 4), ("REL", 2)) if name in self.shows)
        option3 = 0x30 | (0x04 if "AC" in self.shows else 0x08) | 0x02
        option4 = 0x30 | (0x02 if "HOLD" in self.shows else 0)
        packet = point.encode() + digits.encode() + bytes([function, status, option1, 0x30, option3, option4])
        return packet + b"\r\n", INTERVAL


def line(**more):
    return PtyLine(Multimeter(**more))
