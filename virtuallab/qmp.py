# SPDX-License-Identifier: GPL-3.0-or-later
"""QEMU's machine protocol (QMP): the power button and the plug of a virtual test host."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError

REPLY_SECONDS = 10.0


def execute(path: Path, *commands: str) -> list[Any]:
    """Give QEMU commands, one after another; return its replies. Raises UserError.

    QEMU serves one client at a time, so the connection is closed at the end.
    """
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(REPLY_SECONDS)
            connection.connect(str(path))
            with connection.makefile("rb") as lines:
                json.loads(lines.readline())  # the greeting
                replies = []
                for command in ("qmp_capabilities", *commands):
                    connection.sendall(json.dumps({"execute": command}).encode() + b"\n")
                    replies.append(_read_reply(path, command, lines))
    except (OSError, ValueError) as error:
        raise UserError(f"{paths.short(path)}: QEMU does not answer: {error}") from None
    return replies[1:]


def _read_reply(path: Path, command: str, lines: Any) -> Any:
    while line := lines.readline():
        reply = json.loads(line)
        if "error" in reply:
            raise UserError(f"{paths.short(path)}: {command}: {reply['error'].get('desc', reply['error'])}")
        if "return" in reply:  # else it is an event
            return reply["return"]
    raise OSError("it closed the connection")
