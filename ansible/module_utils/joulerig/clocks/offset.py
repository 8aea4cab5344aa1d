# SPDX-License-Identifier: GPL-3.0-or-later
"""Offset between this host's clock and the controller's, by SNTP (RFC 5905).

Of several exchanges, the one with the least round trip counts.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Any

from ansible.module_utils.joulerig.tools import Failed

NTP_EPOCH_SECONDS = 2208988800  # from 1900-01-01 to 1970-01-01


def _ntp_to_ns(seconds: int, fraction: int) -> int:
    return (seconds - NTP_EPOCH_SECONDS) * 1_000_000_000 + (fraction * 1_000_000_000 >> 32)


def exchange(sock: socket.socket) -> tuple[int, int]:
    """Return (offset_ns, round_trip_ns) of one exchange on a connected UDP socket.

    The offset is server minus this host.
    """
    sent = time.time_ns()
    seconds, rest = divmod(sent, 1_000_000_000)
    originate = struct.pack("!II", (seconds + NTP_EPOCH_SECONDS) & 0xFFFFFFFF, (rest << 32) // 1_000_000_000)
    sock.send(struct.pack("!B39x", 0x23) + originate)  # version 4, mode 3 (client)
    while True:
        answer = sock.recv(256)
        arrived = time.time_ns()
        if len(answer) >= 48 and answer[0] & 7 == 4 and answer[24:32] == originate:
            break  # else: a late answer to an earlier question
    received = _ntp_to_ns(*struct.unpack("!II", answer[32:40]))
    transmitted = _ntp_to_ns(*struct.unpack("!II", answer[40:48]))
    offset = ((received - sent) + (transmitted - arrived)) // 2
    return offset, (arrived - sent) - (transmitted - received)


def booted_ns() -> int:
    """Return when this host booted, by its clock: it moves where that clock is set, and only there.

    Slewing moves both clocks that it is the difference of. They are read several times, as the
    process may have to wait in between.
    """
    readings = []
    for _ in range(5):
        before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        now = time.time_ns()
        after = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        readings.append((after - before, now - (before + after) // 2))
    return min(readings)[1]


def measure(server: str, exchanges: int = 24, timeout: float = 1.0) -> dict[str, Any]:
    """Return the clock offset by the exchange with the least round trip.

    Gives {"at_ns", "offset_ns", "error_ns", "exchanges", "booted_ns"}: when (host's clock),
    controller minus host, half the round trip, how many exchanges were answered, and `booted_ns`.
    `server` is "address:port" (UDP), an IPv6 address in brackets. Raises Failed when nothing
    answers.
    """
    address, _, port = server.rpartition(":")
    address = address.strip("[]")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    best = None
    answered = 0
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.settimeout(timeout)
        try:
            sock.connect((address, int(port)))
        except (OSError, ValueError) as error:
            raise Failed(f"clock: {server!r} cannot be reached: {error}") from None
        for attempt in range(exchanges):
            try:
                offset, round_trip = exchange(sock)
            except OSError:
                if not answered and attempt >= 3:
                    break
                continue
            answered += 1
            if best is None or round_trip < best[1]:
                best = (offset, round_trip, time.time_ns())
    if best is None:
        raise Failed(f"clock: {server} (UDP) does not answer; is powerd running on the controller?")
    offset, round_trip, at = best
    return {
        "at_ns": at,
        "offset_ns": offset,
        "error_ns": max(round_trip, 0) // 2 + 1,
        "exchanges": answered,
        "booted_ns": booted_ns(),
    }
