# SPDX-License-Identifier: GPL-3.0-or-later
"""A Re:load Pro on a pseudo-terminal, which sends milliamps and millivolts at an interval."""

from tests.support.instrument import Instrument, PtyLine


class Load(Instrument):
    def __init__(self, interval=None):
        super().__init__()
        self.volts, self.amps = 3.305, 1.204
        self.interval = interval  # its own pace; None: as it is asked
        self.monitor = 0.0

    def reply(self, request):
        words = request.decode().split()
        if words[:1] == ["monitor"]:
            self.monitor = int(words[1]) / 1000
            return None
        if words == ["version"]:
            return b"version 1.15\r\n"
        return None

    def push(self):
        if not self.monitor:
            return None
        text = f"read {self.amps * 1000:.0f} {self.volts * 1000:.0f}\r\n"
        return text.encode(), self.interval or self.monitor


def line(**more):
    return PtyLine(Load(**more))
