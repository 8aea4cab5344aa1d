# SPDX-License-Identifier: GPL-3.0-or-later
"""Phases of a run: recorded for the result, and announced to the host's agent as they begin and end."""

import contextlib
import socket
import time


def _tag(text):
    return text.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=").replace(" ", "\\ ")


class Phases:
    """Records (phase, start_ns, end_ns) in the host's clock; `tags` are those of the `phase` measurement."""

    def __init__(self, agent_socket, tags, clock):
        self._socket, self._tags, self._clock = agent_socket, tags, clock
        self.recorded = []

    @contextlib.contextmanager
    def phase(self, name):
        start = time.time_ns()
        self._announce(name, start, None)
        try:
            yield
        finally:
            self.add(name, start, time.time_ns())

    def add(self, name, start, end):
        """Record a phase whose ends are known."""
        self.recorded.append({"phase": name, "start_ns": start, "end_ns": end})
        self._announce(name, start, end)

    def begin(self, name):
        """Announce a phase whose exact ends come later by `add`; gives when it began."""
        start = time.time_ns()
        self._announce(name, start, None)
        return start

    def _announce(self, name, start, end):
        offset = self._clock["offset_ns"]
        tags = "".join(
            f",{key}={_tag(value)}" for key, value in sorted({**self._tags, "phase": name}.items())
        )
        fields = [
            f"start_ns={start + offset}i",
            f"clock_offset_ns={offset}i",
            f"clock_error_ns={self._clock['error_ns']}i",
        ]
        if end is not None:
            fields.append(f"end_ns={end + offset}i")
        line = f"phase{tags} {','.join(fields)} {start + offset}\n"
        # The agent may be down: the run's own record of its phases is what counts.
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.sendto(line.encode(), self._socket)
