# SPDX-License-Identifier: GPL-3.0-or-later
"""An instrument with a known waveform that libsigrok's hameg-hmo driver takes for a scope.

CH1 and CH3 are volts, CH2 and CH4 amps, of two rails. Sample k of each is a function of k alone,
and stands for the window [start + k/rate, start + (k+1)/rate) of CLOCK_MONOTONIC (stretched by
--ppm), so that a test knows the true joules at any time.

Run as a program it prints one line of JSON when it is ready: port, start_monotonic_ns,
start_realtime_ns. With --log it notes each block of samples just before it sends it: channel,
number of the sample after its last, CLOCK_MONOTONIC ns. No reader can have had the block earlier.
"""

import argparse
import array
import json
import os
import re
import socket
import sys
import threading
import time

PERIOD = 1000  # samples after which the waveform repeats
FRAME_SECONDS = 0.02
RING_SECONDS = 2.0


def _waveform():
    """Return one period of two rails: bursts, a drooping supply, and a rail that feeds back."""
    state = 12345
    v1, i1, v2, i2 = (array.array("f") for _ in range(4))
    for k in range(PERIOD):
        state = (state * 1103515245 + 12345) % 2**31
        noise = state / 2**31
        a = 0.4 + (2.5 if k % 100 < 30 else 0.0) + 0.3 * noise
        b = 0.2 * noise - (0.5 if k % 500 < 20 else 0.0)
        v1.append(12.0 - 0.08 * a)
        i1.append(a)
        v2.append(5.0 - 0.05 * b)
        i2.append(b)
    return {1: v1, 2: i1, 3: v2, 4: i2}


WAVEFORM = _waveform()


def true_joules(rail, samples, rate):
    """Return the joules of rail 1 or 2 over the first `samples` samples, which may be a float."""
    volts, amps = WAVEFORM[2 * rail - 1], WAVEFORM[2 * rail]
    watts = [v * i for v, i in zip(volts, amps, strict=True)]
    whole = int(samples)
    total = (
        sum(watts) * (whole // PERIOD)
        + sum(watts[: whole % PERIOD])
        + watts[whole % PERIOD] * (samples - whole)
    )
    return total / rate


def window(channel, first, end):
    """Samples [first, end) of a channel, as they go over the wire."""
    data = WAVEFORM[channel]
    start = first % PERIOD
    out = data[start:]
    while len(out) < end - first:
        out = out + data
    return out[: end - first].tobytes()


ANSWERS = [
    (re.compile(r"\*IDN\?"), "Rohde&Schwarz,RTA4004,EMU0001-A,01.600"),
    (re.compile(r"\*OPC\?"), "1"),
    (re.compile(r":CHAN\d:STAT\?"), "1"),
    (re.compile(r":CHAN\d:SCAL\?"), "1.00E-01"),
    (re.compile(r":CHAN\d:COUP\?"), "DCL"),
    (re.compile(r":PROB[13]:SET:ATT:UNIT\?"), "V"),
    (re.compile(r":PROB[24]:SET:ATT:UNIT\?"), "A"),
    (re.compile(r":DIG\d+:TECH\?"), "TTL"),
    (re.compile(r":TIM:SCAL\?"), "1.00E-03"),
    (re.compile(r":TIM:DIV\?"), "12"),
    (re.compile(r":TRIG:A:SOUR\?"), "CH1"),
    (re.compile(r":TRIG:A:EDGE:SLOP\?"), "POS"),
    (re.compile(r":TRIG:A:PATT:SOUR\?"), '"0"'),
    (re.compile(r":ACQ:(HRES|PEAK)\?"), "OFF"),
    (re.compile(r".*\?$"), "0"),
]


def both_clocks():
    """Return CLOCK_MONOTONIC and CLOCK_REALTIME of the same moment."""
    brackets = []
    for _ in range(100):
        before, real, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        brackets.append((after - before, (before + after) // 2, real))
    return min(brackets)[1:]


class Instrument:
    def __init__(self, rate, ppm, lose_at=None, lose=0, log=None):
        self.rate = rate
        self.stretch = 1 + ppm * 1e-6
        self.lose_at, self.lose = lose_at, lose
        self.log = log
        self.start_monotonic_ns, self.start_realtime_ns = both_clocks()

    def produced(self):
        return int((time.monotonic_ns() - self.start_monotonic_ns) / 1e9 / self.stretch * self.rate)

    def serve(self, connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begin, end = self.produced(), None
        lead = None
        buffer = b""
        while True:
            data = connection.recv(4096)
            if not data:
                return
            buffer += data
            while b"\n" in buffer:
                line, buffer = buffer.split(b"\n", 1)
                command = line.decode().strip()
                asked = re.search(r":CHAN(\d):DATA\?", command)
                if not asked:
                    answer = self.answer(command)
                    if answer is not None:
                        connection.sendall(answer.encode() + b"\n")
                    continue
                channel = int(asked.group(1))
                if lead is None or channel == lead:
                    # The first channel of a round latches the window for all.
                    lead = channel
                    begin = end if end is not None else self.produced()
                    if self.lose_at is not None and begin >= self.lose_at * self.rate:
                        begin += self.lose
                        self.lose_at = None
                    while self.produced() - begin < self.rate * FRAME_SECONDS:
                        time.sleep(0.001)  # the samples are made by this machine's clock
                    end = self.produced()
                    begin = max(begin, end - int(self.rate * RING_SECONDS))
                payload = window(channel, begin, end)
                length = str(len(payload)).encode()
                if self.log:
                    self.log.write(f"{channel} {end} {time.monotonic_ns()}\n")
                connection.sendall(b"#%d%s" % (len(length), length) + payload)

    def answer(self, command):
        if command.startswith(":ACQ:SRAT?"):
            return f"{self.rate:.6E}"
        for pattern, text in ANSWERS:
            if pattern.match(command):
                return text
        return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument(
        "--ppm", type=float, default=0.0, help="how much slower than its rate the sample clock is"
    )
    parser.add_argument(
        "--lose-at",
        type=float,
        help="seconds after the start at which samples are lost inside the instrument",
    )
    parser.add_argument("--lose", type=int, default=0, help="how many samples are lost then")
    parser.add_argument("--log", type=argparse.FileType("w", bufsize=1), help="file for the sending times")
    arguments = parser.parse_args()
    instrument = Instrument(arguments.rate, arguments.ppm, arguments.lose_at, arguments.lose, arguments.log)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", arguments.port))
    listener.listen()
    ready = {
        "port": listener.getsockname()[1],
        "start_monotonic_ns": instrument.start_monotonic_ns,
        "start_realtime_ns": instrument.start_realtime_ns,
    }
    print(json.dumps(ready), flush=True)

    def attend(connection):
        try:
            with connection:
                instrument.serve(connection)
        except OSError:
            pass

    while True:
        connection, _ = listener.accept()
        threading.Thread(target=attend, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.stdout.flush()
        os._exit(0)
