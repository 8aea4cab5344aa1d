# SPDX-License-Identifier: GPL-3.0-or-later
"""Offset between this host's clock and the controller's, by SNTP (RFC 5905).

Of several exchanges, the one with the least round trip counts.
"""

import socket
import struct
import time

from ansible.module_utils.joulerig.tools import Failed

NTP_EPOCH_SECONDS = 2208988800  # from 1900-01-01 to 1970-01-01


def _ntp_to_ns(seconds, fraction):
    return (seconds - NTP_EPOCH_SECONDS) * 1_000_000_000 + (fraction * 1_000_000_000 >> 32)


def exchange(sock):
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


def measure(server, exchanges=24, timeout=1.0):
    """Return the clock offset by the exchange with the least round trip.

    Gives {"at_ns", "offset_ns", "error_ns", "exchanges"}: when (host's clock), controller minus
    host, half the round trip, and how many exchanges were answered. `server` is "address:port"
    (UDP), an IPv6 address in brackets. Raises Failed when nothing answers.
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
    }
