# SPDX-License-Identifier: GPL-3.0-or-later
"""A power supply of three outputs as libsigrok's scpi-pps knows a Rigol DP832, over TCP."""

from tests.support.instrument import Instrument, TcpLine

OUTPUTS = {1: (3.3, 0.25), 2: (5.0, 1.5), 3: (12.0, 0.125)}


class Supply(Instrument):
    # Replies are of the shape of volts, so that only the request shows what they are.
    stale_bytes = b"9.999\n"

    def __init__(self, serial="DP8EMU0001"):
        super().__init__()
        self.identity = f"RIGOL TECHNOLOGIES,DP832,{serial},00.01.14"
        self.outputs = dict(OUTPUTS)
        self.selected = 1
        self.empty = False
        self.noise = 0.0  # a last digit that changes from reading to reading
        self.off = set()  # outputs that are switched off
        self.stuck = False  # whether its outputs stay as they are

    def reply(self, request):
        command = request.decode().strip()
        if command.startswith(":INST:NSEL"):
            self.selected = int(command.split()[1])
        if command in (":OUTP ON", ":OUTP OFF") and not self.stuck:
            (self.off.add if command.endswith("OFF") else self.off.discard)(self.selected)
        if not command.endswith("?"):
            return None
        volts, amps = (0.0, 0.0) if self.selected in self.off else self.outputs[self.selected]
        if command.startswith(":MEAS"):
            self.noise = -self.noise
            volts, amps = volts + self.noise, amps + self.noise / 10
        answers = {
            "*IDN?": self.identity,
            "*OPC?": "1",
            ":OUTP?": "OFF" if self.selected in self.off else "ON",
            ":MEAS:VOLT?": f"{volts:.4f}",
            ":MEAS:CURR?": f"{amps:.4f}",
            ":MEAS:POWE?": f"{volts * amps:.3f}",
        }
        if self.empty and command.startswith(":MEAS"):
            return b"\n"
        return answers.get(command, "0").encode() + b"\n"


def line(**more):
    return TcpLine(Supply(**more))
