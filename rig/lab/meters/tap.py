# SPDX-License-Identifier: GPL-3.0-or-later
"""Use the power tap's native commands: switch rails, and ask how long a rail held up.

They are in firmware/power_tap/PROTOCOL.md ("Native") and go over a separate connection, next to the
one that powerd streams from: `control` of the meter where the inventory has it, else a second
connection to the meter's TCP port.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import socket
import time
import tty
from collections.abc import Iterator
from dataclasses import dataclass

from joulerig.rig.common.bounded import one_line
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.model import Lab, Meter, Rail

ANSWER_SECONDS = 5.0
MOST_BYTES = 4096  # of a reply
FIRST_RAIL = {"A": 1, "B": 3}  # of the tap's two instruments


HOLD_UP = re.compile(r"[A-Z]+(,-?\d+(\.\d+)?([eE][+-]?\d+)?){0,3}", re.ASCII)
SAMPLE = re.compile(r"\d{1,18}", re.ASCII)


@dataclass(frozen=True)
class HoldUp:
    """A rail after a cut. `state`: "NONE" (never cut, or on again), "RUNNING" or "DONE".

    `seconds` from the cut until the volts were at `threshold_volts` or below (so far, while
    RUNNING); `volts` before the cut.
    """

    state: str
    seconds: float | None = None
    volts: float | None = None
    threshold_volts: float | None = None


class TapPort:
    """One connection to a tap; `name` is what errors call it."""

    def __init__(self, connection: str, name: str) -> None:
        self.name = f"{name} ({connection})"
        self._socket: socket.socket | None = None
        try:
            if connection.startswith("/dev/"):
                self._file = os.open(connection, os.O_RDWR | os.O_NOCTTY)
                tty.setraw(self._file)
            else:
                _, host, port = connection.split("/")
                self._socket = socket.create_connection((host, int(port)), ANSWER_SECONDS)
                self._file = self._socket.fileno()
        except (OSError, ValueError) as error:
            raise UserError(f"{self.name}: the tap does not answer: {error}") from None

    def close(self) -> None:
        """Close the connection."""
        if self._socket:
            self._socket.close()
        else:
            os.close(self._file)

    def ask(self, commands: str) -> str:
        """Return the reply to a line of commands with a query in it. Raises UserError on none."""
        deadline = time.monotonic() + ANSWER_SECONDS
        reply = b""
        try:
            os.write(self._file, commands.encode() + b"\n")
            while not reply.endswith(b"\n"):
                left = max(0.0, deadline - time.monotonic())
                if not select.select([self._file], [], [], left)[0]:
                    raise TimeoutError(f"no answer within {ANSWER_SECONDS:g} s")
                part = os.read(self._file, 4096)
                if not part:
                    raise ConnectionError("closed")
                reply += part
                if len(reply) > MOST_BYTES:
                    raise ConnectionError(f"over {MOST_BYTES} bytes without an end")
        except OSError as error:
            raise UserError(f"{self.name}: {commands}: {error}") from None
        return one_line(reply.decode("ascii", "replace"), MOST_BYTES)

    def query(self, command: str) -> str:
        """Return the reply to one query. Raises UserError with the tap's message if it refuses."""
        *replies, error = self.ask(f"*CLS;{command};:SYST:ERR?").split(";")
        if not error.startswith("0,") or len(replies) != 1:
            raise UserError(f"{self.name}: {command}: {error}")
        return replies[0]


@contextlib.contextmanager
def control(lab: Lab, meter: str) -> Iterator[tuple[TapPort, int]]:
    """Connect to a meter's tap for native commands.

    Yield the port and the tap's number of the rail.

    The rail is the one on CH1 and CH2.
    """
    spec = _tap(lab, meter)
    connection = spec.control.connection if spec.control else lab.connection(meter)
    port = TapPort(connection or "", meter)
    try:
        if spec.control:
            yield port, spec.control.first_rail
            return
        serial = ",".join(port.query("*IDN?").split(",")[2:3])
        if serial[-2:-1] != "-" or serial[-1] not in FIRST_RAIL:
            raise UserError(f"{port.name}: serial {serial!r}: is not a power tap's instrument")
        yield port, FIRST_RAIL[serial[-1]]
    finally:
        port.close()


def _tap(lab: Lab, meter: str) -> Meter:
    spec = lab.controller.meters[meter]
    if not spec.family.power_tap:
        raise UserError(f"meter {meter}: {spec.driver} has no switch; allowed: a power tap (hameg-hmo)")
    if not spec.control and spec.connection and spec.connection.startswith("/dev/"):
        raise UserError(
            f"meters.{meter}.control: missing; powerd has {spec.connection}: name the tap's other serial port"
        )
    return spec


def rail_number(first: int, rail: Rail) -> int:
    """Return the tap's number of a rail, `first` being that of the rail on CH1 and CH2."""
    return first + (rail.volts not in ("CH1", "CH2"))


def switch(lab: Lab, rail: Rail, on: bool) -> int:
    """Switch a drive's rail; return the number of the tap's sample in which it was switched."""
    with control(lab, rail.meter) as (port, first):
        number = rail_number(first, rail)
        command = f"TAP:OUTP{number} {'ON' if on else 'OFF'};:TAP:OUTP{number}?"
        if port.query(command) != str(int(on)):
            raise UserError(f"{port.name}: rail {number} does not switch {'on' if on else 'off'}")
        cut = port.query(f"TAP:OUTP{number}:CUT?")
        if not SAMPLE.fullmatch(cut):
            raise UserError(f"{port.name}: {cut[:40]!r} is no number of a sample")
        return int(cut)


def is_on(lab: Lab, rail: Rail) -> bool:
    """Return whether a rail is on, as the tap's hardware reports."""
    with control(lab, rail.meter) as (port, first):
        return port.query(f"TAP:OUTP{rail_number(first, rail)}?") == "1"


def hold_up(lab: Lab, rail: Rail) -> HoldUp:
    """Return how long a rail held up since it was last switched off."""
    with control(lab, rail.meter) as (port, first):
        found = port.query(f"TAP:HOLD{rail_number(first, rail)}?")
    if not HOLD_UP.fullmatch(found):
        raise UserError(f"{port.name}: {found[:40]!r} is no hold-up")
    state, *figures = found.split(",")
    return HoldUp(state, *map(float, figures))


def switch_drive(lab: Lab, host: str, drive: str, on: bool) -> dict[str, int]:
    """Switch all rails of a drive, or of an array's members, one after the other.

    Return, by "drive/rail", the number of the sample in which it was switched. Raises UserError,
    before any is switched, where one is not behind a tap.
    """
    return {f"{member}/{name}": switch(lab, rail, on) for member, name, rail in rails(lab, host, drive)}


def rails(lab: Lab, host: str, drive: str) -> list[tuple[str, str, Rail]]:
    """Return the rails of a drive as `drive_rails`. Raises UserError where one has no tap."""
    found = lab.drive_rails(host, drive)
    if not found:
        raise UserError(f"{host}/{drive}: has no rail on a power tap")
    for _, _, rail in found:
        _tap(lab, rail.meter)
    return found
