# SPDX-License-Identifier: GPL-3.0-or-later
"""The tap as emulated_hmo plays it, over TCP, with the faults of instrument.py."""

import re
import time

from tests.support import emulated_hmo
from tests.support.instrument import Instrument, TcpLine

RATE = 1000


class Tap(Instrument):
    stale_bytes = b"1.00E+00\n"

    def __init__(self):
        super().__init__()
        self.scope = emulated_hmo.Instrument(RATE, 0)
        self.lead, self.begin, self.end_of_window = None, 0, None
        self.empty = False
        self.identity = None  # another instrument's

    def reply(self, request):
        command = request.decode().strip()
        if command == "*IDN?":
            # A client's samples begin at its first request, as the tap's do.
            self.lead = self.end_of_window = None
            if self.identity:
                return self.identity.encode() + b"\n"
        asked = re.search(r":CHAN(\d):DATA\?", command)
        if not asked:
            answer = self.scope.answer(command)
            return None if answer is None else answer.encode() + b"\n"
        channel = int(asked.group(1))
        if self.lead in (None, channel):
            self.lead = channel
            self.begin = self.scope.produced() if self.end_of_window is None else self.end_of_window
            while self.scope.produced() - self.begin < RATE * emulated_hmo.FRAME_SECONDS:
                time.sleep(0.001)  # the samples are made by this machine's clock
            self.end_of_window = self.scope.produced()
        payload = b"" if self.empty else emulated_hmo.window(channel, self.begin, self.end_of_window)
        return b"#%d%d" % (len(str(len(payload))), len(payload)) + payload


def line():
    return TcpLine(Tap())
