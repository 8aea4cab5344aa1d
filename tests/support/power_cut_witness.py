# SPDX-License-Identifier: GPL-3.0-or-later
"""The witness of a power cut that does not come: durawriter stops, and all must be there."""

from __future__ import annotations

import json
import socket
import threading
from typing import Any

ACKNOWLEDGEMENTS = 60
TAG_BYTES = 512  # each has a tag, whatever the drive's block


class Witness(threading.Thread):
    """Takes so many acknowledgements on a port of this machine, and says stop then.

    `held`: it answers none before `let_go`, so that the writer is at work until then.
    """

    def __init__(self, *, held: bool = False) -> None:
        super().__init__(daemon=True)
        self._may_answer = threading.Event()
        if not held:
            self._may_answer.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.operations: dict[int, dict[str, Any]] = {}
        self.acknowledged: set[int] = set()
        self.failed: list[dict[str, Any]] = []

    def let_go(self) -> None:
        self._may_answer.set()

    def run(self) -> None:
        connection, _ = self._listener.accept()
        # One file for both would forget, at each write, the lines that it has read ahead.
        with connection, connection.makefile("r") as said_to_us, connection.makefile("w") as answers:
            for line in said_to_us:
                said = json.loads(line)
                if said["event"] == "issued":
                    self.operations[said["sequence"]] = said
                if said["event"] in ("issued", "hello"):
                    continue
                if said["event"] == "failed":
                    self.failed.append(said)
                else:
                    self.acknowledged.add(said["sequence"])
                self._may_answer.wait()
                answers.write("stop\n" if len(self.acknowledged) >= ACKNOWLEDGEMENTS else "ok\n")
                answers.flush()

    def check_whole_blocks(self, block_bytes: int) -> None:
        """Fail unless every write was one of whole blocks, and none failed."""
        assert not self.failed
        written = [one for one in self.operations.values() if one["operation"] != "flush"]
        assert {one["offset"] % block_bytes for one in written} == {0}
        assert {one["bytes"] % block_bytes for one in written} == {0}

    def check_survey(self, survey: str) -> None:
        """Fail unless a drive shows the newest write of each place, and nothing damaged."""
        extents = [json.loads(line) for line in survey.splitlines() if '"state"' in line]
        assert {one["state"] for one in extents} <= {"record", "zero", "foreign"}
        newest: dict[int, int] = {}
        for one in sorted(self.operations.values(), key=lambda one: int(one["sequence"])):
            if one["operation"] != "flush":
                places = range(one["offset"], one["offset"] + one["bytes"], TAG_BYTES)
                newest |= dict.fromkeys(places, one["sequence"])
        seen = {
            one["offset"] + TAG_BYTES * index: one["sequence"]
            for one in extents
            if one["state"] == "record"
            for index in range(one["sectors"])
        }
        assert seen == newest
