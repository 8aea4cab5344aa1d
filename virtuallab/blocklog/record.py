# SPDX-License-Identifier: GPL-3.0-or-later
"""Record what an application writes to a twin, with marks of what it had acknowledged."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError
from joulerig.virtuallab.blocklog.device import LoopDevice, make, mounted
from joulerig.virtuallab.standalone_twin import StandaloneTwin

WITNESS_SECONDS = 120.0  # for the next line of the application
MARKS = {"acknowledged": "commit", "failed": "rollback"}


def record(
    profile: str,
    size_bytes: int,
    definition: Mapping[str, Any],
    command: Sequence[str],
    transactions: int,
    seed: int,
    log: Path,
) -> int:
    """Log the writes of so many acknowledged transactions; return how many there were.

    `definition`: of the file system, as for a test host. `command`: the writer's, which
    starts the application. The log begins with an empty drive: it has mkfs too. Raises UserError.
    """
    with StandaloneTwin(profile, size_bytes, [f"writes={log}"]) as twin, contextlib.ExitStack() as undo:
        device = undo.enter_context(LoopDevice(twin.nbd))
        make(device, definition)
        folder = undo.enter_context(mounted(device, definition))
        done = _transact(twin, [*command, "--seed", str(seed)], folder, transactions)
        twin.mark("end")
    return done


def _transact(twin: StandaloneTwin, command: Sequence[str], folder: str, transactions: int) -> int:
    """Be the writer's witness, whose log is the twin's."""
    with (
        tempfile.TemporaryDirectory(prefix="witness-", dir=paths.run()) as where,
        socket.socket(socket.AF_UNIX) as listener,
    ):
        listener.bind(f"{where}/witness")
        listener.listen()
        listener.settimeout(WITNESS_SECONDS)
        options = ["--directory", folder, "--witness", f"unix:{where}/witness"]
        environment = {key: value for key, value in os.environ.items() if key != "JOULERIG_WITNESS_SECRET"}
        process = subprocess.Popen(
            [*command, *options], env=environment, stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            connection, _ = listener.accept()
            connection.settimeout(WITNESS_SECONDS)
            with connection:
                done = _take(twin, connection, transactions)
        except TimeoutError:
            raise UserError(f"{command[0]}: no transaction in {WITNESS_SECONDS:g} s") from None
        finally:
            process.kill()
            _, complaint = process.communicate()
    if done < transactions:
        raise UserError(f"the application ended after {done} of {transactions}: {complaint.strip()}")
    return done


def _take(twin: StandaloneTwin, connection: socket.socket, transactions: int) -> int:
    done = 0
    with connection.makefile("r") as lines:
        for text in lines:
            line = json.loads(text)
            if line["event"] == "issued":
                twin.mark(f"begin {line['sequence']}")
                continue
            twin.mark(f"{MARKS[line['event']]} {line['sequence']}")
            done += line["event"] == "acknowledged"
            connection.sendall(b"stop\n" if done == transactions else b"ok\n")
            if done == transactions:
                break
    return done
