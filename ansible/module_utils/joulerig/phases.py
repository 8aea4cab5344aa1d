# SPDX-License-Identifier: GPL-3.0-or-later
"""Phases of a run and its work.

They are recorded for the result, and announced to the host's agent as they come.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

# Names of the phases, as the controller declares them with their meaning
# (analysis/results/schema.py); a test compares.
PREPARE, SETUP, IDLE, WORKLOAD, TAIL = "prepare", "setup", "idle", "workload", "tail"
PURGE, PASSES, ROUNDS = "purge", "passes", "rounds"  # of preconditioning


def _tag(text: str) -> str:
    return text.replace(",", "\\,").replace("=", "\\=").replace(" ", "\\ ")


class Phases:
    """Records (phase, start_ns, end_ns) in the host's clock.

    `tags` are those of the `phase` measurement; `socket` is the agent's.
    """

    def __init__(self, agent_socket: str, tags: Mapping[str, str], clock: Mapping[str, Any]) -> None:
        self.socket, self._tags, self._clock = agent_socket, tags, clock
        self._announced: dict[str, int] = {}
        self.recorded: list[dict[str, Any]] = []

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = self.begin(name)
        try:
            yield
        finally:
            self.add(name, start, time.time_ns())

    def begin(self, name: str) -> int:
        """Announce a phase whose exact ends come later by `add`; return when it began."""
        start = time.time_ns()
        self._announced[name] = start
        self._announce(name, start, None)
        return start

    def add(self, name: str, start: int, end: int) -> None:
        """Record a phase whose ends are known."""
        self.recorded.append({"phase": name, "start_ns": start, "end_ns": end})
        self._announce(name, start, end)

    def _announce(self, name: str, start: int, end: int | None) -> None:
        offset = self._clock["offset_ns"]
        tags = sorted({**self._tags, "phase": name}.items())
        fields = {
            "start_ns": start + offset,
            "end_ns": end + offset if end is not None else None,
            "clock_offset_ns": offset,
            "clock_error_ns": self._clock["error_ns"],
        }
        # Time and tags are a point's identity: the end must carry those of the beginning to
        # complete it.
        self._send("phase", tags, fields, self._announced.get(name, start) + offset)

    def work(self, counts: Mapping[str, int | None], end: int) -> None:
        """Announce what the load did since it last did, as a `workload` point.

        `end` is its time (host's clock). `counts` are integers, None where one is not known.
        """
        self._send_of_run("workload", counts, end + self._clock["offset_ns"])

    def round(self, found: Mapping[str, Any], at_most: int) -> None:
        """Announce a round of a precondition (host's clock), of which there are to be `at_most`."""
        offset = self._clock["offset_ns"]
        start, end = found["start_ns"] + offset, found["end_ns"] + offset
        fields = {key: found[key] for key in ("number", "ops")}
        self._send_of_run(
            "precondition", {**fields, "at_most": at_most, "start_ns": start, "end_ns": end}, end
        )

    def over(self) -> None:
        """Have the agent count again and send all that it has: the controller waits for it."""
        self._tell(b"send\n")

    def _send_of_run(self, measurement: str, fields: Mapping[str, int | None], at: int) -> None:
        tags = sorted((key, self._tags[key]) for key in ("run", "host", "drive"))
        self._send(measurement, tags, fields, at)

    def words(self) -> list[str]:
        """Return the words of a command line by which flowop sends `workload` points itself."""
        tags = [word for key in ("run", "host", "drive") for word in (f"--{key}", self._tags[key])]
        return ["--points", f"unix:{self.socket}", *tags]

    def _send(
        self,
        measurement: str,
        tags: Iterable[tuple[str, str]],
        fields: Mapping[str, int | None],
        at: int,
    ) -> None:
        line = measurement + "".join(f",{key}={_tag(value)}" for key, value in tags) + " "
        line += ",".join(f"{key}={value}i" for key, value in fields.items() if value is not None)
        self._tell(f"{line} {at}\n".encode())

    def _tell(self, datagram: bytes) -> None:
        # The agent may be down: the run's own record of its phases is what counts.
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.sendto(datagram, self.socket)
