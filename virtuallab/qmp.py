# SPDX-License-Identifier: GPL-3.0-or-later
"""QEMU's machine protocol: what a virtual test host's power button and plug are."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError

ANSWER_SECONDS = 10.0


def execute(path: Path, *commands: str) -> list[Any]:
    """What QEMU returns to each of the commands, given in this order. Raises UserError.

    Only one client at a time is served: the connection is closed again.
    """
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(ANSWER_SECONDS)
            connection.connect(str(path))
            with connection.makefile("rb") as lines:
                json.loads(lines.readline())  # the greeting
                answers = []
                for command in ("qmp_capabilities", *commands):
                    connection.sendall(json.dumps({"execute": command}).encode() + b"\n")
                    answers.append(_answer(path, command, lines))
    except (OSError, ValueError) as error:
        raise UserError(f"{paths.short(path)}: QEMU does not answer: {error}") from None
    return answers[1:]


def _answer(path: Path, command: str, lines: Any) -> Any:
    while line := lines.readline():
        answer = json.loads(line)
        if "error" in answer:
            raise UserError(f"{paths.short(path)}: {command}: {answer['error'].get('desc', answer['error'])}")
        if "return" in answer:  # else it is an event
            return answer["return"]
    raise OSError("it closed the connection")
