# SPDX-License-Identifier: GPL-3.0-or-later
"""Events of a running playbook: JSON lines in a file, from Ansible's plugins to the command line.

An environment variable names the file; `rig` sets it for the ansible-playbook that it starts. A
plain ansible-playbook has none, and writes none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ENVIRONMENT = "JOULERIG_EVENTS"
FAILED, NOTE = "failed", "note"
HANDED_ACTION, RESERVATION_ACTION = "joulerig_handed", "joulerig_reservation"  # whose result is an event
# The event of each module's result.
CONTENTS, FACTS, COMMAND, RESERVATION = "contents", "facts", "command", "reservation"
STOPPED = "stopped"
BY_MODULE = {
    "joulerig_contents": CONTENTS,
    "joulerig_facts": FACTS,
    "joulerig_command": COMMAND,
    "joulerig_reservation": RESERVATION,
    "joulerig_calls": STOPPED,
}


def write(event: str, **detail: Any) -> None:
    """Append an event to the file that the environment names, if it does."""
    if path := os.environ.get(ENVIRONMENT):
        append(Path(path), event, **detail)


def append(path: Path, event: str, **detail: Any) -> None:
    """Append an event in one write, so that processes do not mix their lines."""
    line = json.dumps({"event": event, **detail}) + "\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def follow(path: Path) -> Iterator[list[dict[str, Any]]]:
    """Yield, each time, the events since the last; an incomplete line is left for the next time."""
    offset, partial = 0, b""
    while True:
        if path.exists():
            with path.open("rb") as file:
                file.seek(offset)
                more = file.read()
            offset += len(more)
            *lines, partial = (partial + more).split(b"\n")
            yield [json.loads(line) for line in lines]
        else:
            yield []
