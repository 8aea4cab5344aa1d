# SPDX-License-Identifier: GPL-3.0-or-later
"""A supply module as libsigrok's rdtech-dps knows a DPS5005: Modbus RTU, on a pseudo-terminal."""

import struct

from tests.support.instrument import Instrument, PtyLine

ADDRESS = 1
READ, WRITE = 3, 16
MODEL, VERSION = 5005, 14


def crc(data):
    """Modbus' CRC-16 (polynomial 0xA001, from 0xFFFF), low byte first."""
    value = 0xFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0xA001 if value & 1 else 0)
    return struct.pack("<H", value)


class Module(Instrument):
    stale_bytes = b"\x01\x03\x02"

    def __init__(self):
        super().__init__()
        self.volts, self.amps = 12.34, 0.567
        self.empty = False
        self.noise = 0.0  # a last digit that changes from reading to reading

    def take(self, buffer):
        while buffer and buffer[0] != ADDRESS:
            buffer = buffer[1:]
        size = 8
        if len(buffer) > 6 and buffer[1] == WRITE:
            size = 9 + buffer[6]
        if len(buffer) < size:
            return None
        return buffer[:size], buffer[size:]

    def registers(self):
        self.noise = -self.noise
        held = dict.fromkeys(range(0x60), 0)
        held[2] = round((self.volts + self.noise) * 100)
        held[3] = round(self.amps * 1000)
        held[4] = round(self.volts * self.amps * 100)
        held[9] = 1
        held[11], held[12] = MODEL, VERSION
        return held

    def reply(self, request):
        if crc(request[:-2]) != request[-2:]:
            return None
        function, first, count = struct.unpack(">BHH", request[1:6])
        if function == WRITE:
            body = request[:6]
        elif self.empty:
            body = struct.pack("BBB", ADDRESS, READ, 0)
        else:
            held = self.registers()
            values = [held[register] for register in range(first, first + count)]
            body = struct.pack(f">BBB{count}H", ADDRESS, READ, 2 * count, *values)
        return body + crc(body)


def line():
    return PtyLine(Module())
