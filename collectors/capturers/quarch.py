# SPDX-License-Identifier: GPL-3.0-or-later
"""quarch: Quarch power modules (PPM, PAM) by their maker's server, QIS, on TCP port 9722.

Channels RAIL_volts, RAIL_amps, RAIL_watts, such as 12V_volts, as the module's header has them. The
server takes lines of text and answers up to a ">" on a separate line. It is asked to resample,
streams into a buffer, and gives stripes on request: a number or time, and a whole number for each
channel in mV, uV, mA, uA, mW or uW. A buffer that overran has lost samples: the stream ends.
Facts: Quarch's application notes AN-012 and AN-032, and quarchpy.
"""

from __future__ import annotations

import contextlib
import re
import socket
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from joulerig.capturers import capture, frames
from joulerig.capturers.capture import (
    AbsentError,
    Block,
    Config,
    Driver,
    Found,
    Identity,
    InstrumentError,
)

PORT = 9722
PROMPT = b">"
UNITS = {"v": "volts", "a": "amps", "w": "watts"}
PREFIXES = {"": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
PERIODS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
STRIPES = 4096
POLL_SECONDS = 0.05
ANSWER_SECONDS = 5.0


@dataclass(frozen=True)
class Column:
    """A channel of a stripe: its name here, its quantity, its place, and its scale to SI units."""

    name: str
    quantity: str
    place: int
    scale: float


def columns(root: ElementTree.Element) -> list[Column]:
    """Return the channels of a stream's header. Those without a known unit are left out."""
    found = []
    for channel in root.iter("channel"):
        name, unit, place = (
            (channel.findtext(key) or "").strip() for key in ("name", "units", "dataPosition")
        )
        match = re.fullmatch(r"([munMUN]?)([vVaAwW])", unit)
        if not match or not place.isdigit():
            continue
        quantity = UNITS[match[2].lower()]
        # A rail's channels have one name in some modules, and one each (12V_V, 12V_I) in others.
        rail = re.sub(r"[_ ](V|I|P|W|A|Pow)$", "", name).replace(" ", "_")
        found.append(Column(f"{rail}_{quantity}", quantity, int(place), PREFIXES[match[1].lower()]))
    return found


def period(root: ElementTree.Element) -> float:
    """Return the seconds between two stripes. Raises InstrumentError where the header has none."""
    text = root.findtext(".//devicePeriod") or root.findtext(".//mainPeriod") or ""
    match = re.fullmatch(r"\s*([\d.]+)\s*(ns|us|ms|s)\s*", text, re.IGNORECASE)
    if match is None:
        raise InstrumentError(f"QIS: the header's period is {text!r}; allowed: such as 1mS")
    return float(match[1]) * PERIODS[match[2].lower()]


class Server:
    """A connection to QIS."""

    def __init__(self, host: str, port: int, seconds: float) -> None:
        self.name = f"QIS at {host}:{port}"
        try:
            self._socket = socket.create_connection((host, port), seconds)
        except OSError as error:
            raise AbsentError(
                f"{self.name}: {error.strerror or error}; is Quarch's server started?"
            ) from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""
        self._until(seconds)  # its welcome

    def _until(self, seconds: float = ANSWER_SECONDS) -> str:
        deadline = time.monotonic() + seconds
        # The prompt stands on a separate line: ">" is in XML too.
        while not re.search(rb"(^|\r?\n)>\s*$", self._rest):
            left = deadline - time.monotonic()
            if left <= 0:
                raise AbsentError(f"{self.name}: no answer within {seconds:g} s")
            self._socket.settimeout(left)
            try:
                data = self._socket.recv(1 << 16)
            except TimeoutError:
                continue
            if not data:
                raise InstrumentError(f"{self.name}: has closed the connection")
            self._rest += data
        found, self._rest = self._rest, b""
        return found.rstrip().removesuffix(PROMPT).decode("ascii", "replace").strip()

    def ask(self, command: str) -> str:
        """Return the server's reply. Raises AbsentError, InstrumentError, OSError."""
        self._socket.sendall(command.encode() + b"\r\n")
        return self._until()

    def modules(self) -> list[str]:
        """Return the names of its modules: TCP:QTL1999-02-001."""
        lines = self.ask("$list").splitlines()
        names = (re.sub(r"^\d+\)\s*", "", line.strip()) for line in lines)
        return [name for name in names if ":" in name]

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


class Numbers:
    """Number stripes by their first column, which counts stripes or a unit of time.

    The first two show by how much it rises from one to the next.
    """

    def __init__(self) -> None:
        self._step = 0
        self._last: tuple[int, int] | None = None

    def index(self, mark: int) -> int:
        """Return a stripe's index. Raises InstrumentError where its mark does not rise."""
        if self._last is None:
            self._last = (0, mark)
            return 0
        rise = mark - self._last[1]
        if rise <= 0:
            raise InstrumentError(f"QIS: stripe {mark} after {self._last[1]}: they do not rise")
        self._step = self._step or rise
        found = self._last[0] + max(1, round(rise / self._step))
        self._last = (found, mark)
        return found


class Module:
    """A module that the server streams."""

    def __init__(self, config: Config) -> None:
        _, _, where = config.connection.partition("/")
        host, _, port = where.partition("/")
        self._server = Server(host, int(port or PORT), config.open_seconds)
        try:
            self._name = self._chosen(config.options.get("module", ""))
            self._open(config)
        except Exception:
            self._server.close()
            raise

    def _chosen(self, wanted: str) -> str:
        there = self._server.modules()
        fits = [name for name in there if wanted.lower() in name.lower()]
        if len(fits) == 1:
            return fits[0]
        names = ", ".join(name.partition(":")[2] for name in there)
        if not fits:
            raise AbsentError(f"{self._server.name}: no module {wanted!r}; there are: {names or 'none'}")
        raise AbsentError(
            f"{self._server.name}: several modules; declare options: {{ module: ONE OF {names} }}"
        )

    def _open(self, config: Config) -> None:
        self.rate_hz = config.rate_hz if config.channels else 1000.0
        self._ask("rec stop")
        answer = self._ask(f"stream mode resample {round(1e6 / self.rate_hz)}uS")
        if answer and not answer.upper().startswith("OK"):
            raise InstrumentError(f"{self._name}: cannot resample to {self.rate_hz:g} Hz: {answer}")
        answer = self._ask("rec stream")
        if answer and not answer.upper().startswith("OK"):
            raise InstrumentError(f"{self._name}: does not stream: {answer}")
        root = self._header(config.open_seconds)
        rate = 1 / period(root)
        if config.channels and abs(rate / self.rate_hz - 1) > 1e-3:
            raise InstrumentError(f"{self._name}: streams at {rate:g} Hz, and not at {self.rate_hz:g}")
        self._columns = columns(root)
        self.quantities = {column.name: column.quantity for column in self._columns}
        self.identity = Identity("Quarch", self._name.partition(":")[2], "", self._name.partition(":")[2])

    def _ask(self, command: str) -> str:
        return self._server.ask(f"{self._name} {command}")

    def _header(self, seconds: float) -> ElementTree.Element:
        deadline = time.monotonic() + seconds
        while True:
            text = self._ask("stream text header")
            if "Not Available" not in text or time.monotonic() > deadline:
                break
            time.sleep(POLL_SECONDS)  # the module has not begun
        start = text.find("<")
        try:
            return ElementTree.fromstring(text[start:])
        except ElementTree.ParseError:
            raise InstrumentError(
                f"{self._name}: its header is no XML: {text[:60]!r}; QIS 1.19 or newer has it"
            ) from None

    def blocks(self) -> Iterator[Block | None]:
        """Yield the stripes. Raises InstrumentError where the buffer overran."""
        numbers = Numbers()
        asked = time.monotonic()
        while True:
            text = self._ask(f"stream text {STRIPES}")
            at = frames.now()
            stripes = [line.split() for line in text.replace("eof", "").splitlines() if line.strip()]
            if not stripes:
                yield None
                if time.monotonic() - asked > 1.0:
                    asked = time.monotonic()
                    self._check()
                time.sleep(POLL_SECONDS)  # there is no way to be woken by it
                continue
            yield from self._cut(stripes, numbers, at)

    def _cut(self, stripes: Sequence[Sequence[str]], numbers: Numbers, at: frames.Clocks) -> Iterator[Block]:
        try:
            table = np.array([[float(cell) for cell in stripe] for stripe in stripes])
        except ValueError:
            raise InstrumentError(f"{self._name}: {' '.join(stripes[0])[:80]!r} is no stripe") from None
        indices = [numbers.index(int(mark)) for mark in table[:, 0]]
        values = {one.name: table[:, one.place] * one.scale for one in self._columns}
        yield from capture.stretches(values, indices, at)

    def _check(self) -> None:
        status = self._ask("stream?")
        if "stopped" in status.lower():
            raise InstrumentError(f"{self._name}: {' '.join(status.split())[:100]}")

    def close(self) -> None:
        """Stop the stream."""
        with contextlib.suppress(AbsentError, InstrumentError, OSError):
            self._ask("rec stop")
        self._server.close()


def find() -> list[Found]:
    """Return the modules of a server on this machine."""
    try:
        server = Server("127.0.0.1", PORT, 0.5)
    except (AbsentError, InstrumentError):
        return []
    try:
        names = [name.partition(":")[2] for name in server.modules()]
    except (AbsentError, InstrumentError, OSError):
        names = []
    server.close()
    return [Found(f"tcp-raw/127.0.0.1/{PORT}", Identity("Quarch", name, "", name)) for name in names]


DRIVER = Driver(open=Module, find=find, options=("conn", "module"), settings=("samplerate",))
