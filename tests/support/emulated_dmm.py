# SPDX-License-Identifier: GPL-3.0-or-later
"""A multimeter as libsigrok's scpi-dmm knows a Keysight 34465A, over TCP."""

from tests.support.instrument import Instrument, TcpLine


class Multimeter(Instrument):
    stale_bytes = b"+9.99900000E+00\n"

    def __init__(self, serial="MYEMU00001"):
        super().__init__()
        self.identity = f"Keysight Technologies,34465A,{serial},A.03.02"
        self.function = "VOLT"
        self.volts, self.amps = 3.3001234, 0.2500123

    def reply(self, request):
        command = request.decode().strip()
        if command.startswith("CONF:"):
            self.function = command.removeprefix("CONF:").split(":")[0]
        value = self.volts if self.function == "VOLT" else self.amps
        answers = {
            "*IDN?": self.identity,
            "*OPC?": "1",
            "CONF?": f'"{self.function} +1.00000000E+01,+1.00000000E-06"',
            "READ?": f"{value:+.8E}",
        }
        return answers[command].encode() + b"\n" if command in answers else None


def line(**more):
    return TcpLine(Multimeter(**more))
