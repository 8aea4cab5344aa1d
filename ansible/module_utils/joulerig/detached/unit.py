# SPDX-License-Identifier: GPL-3.0-or-later
"""The process of a call: a transient unit of systemd, with a control group for all that it starts.

Where the host has no systemd, it is a separate session under a keeper (`child.supervise`).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible.module_utils.joulerig import tools

SYSTEMD = "/run/systemd/system"
END_SECONDS = 90  # what a call that is asked to end may take to put everything back
# A run is not a service that a host should have limits for: the load sets its own.
PROPERTIES = (
    "Type=exec", "KillMode=mixed", "SendSIGHUP=no", "OOMPolicy=continue", "TasksMax=infinity",
    "LimitNOFILE=1048576", "LimitMEMLOCK=infinity", f"TimeoutStopSec={END_SECONDS}",
)  # fmt: skip


def boot_id() -> str:
    """Return the id of this boot of the host."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def identity(process: int) -> dict[str, Any]:
    """Return what a process is known by: its number alone is given to another one later."""
    return {"pid": process, "started": _started(process), "boot_id": boot_id()}


def is_alive(state: Mapping[str, Any] | None) -> bool:
    """Check whether the process of `identity` is there still."""
    if not state or state["boot_id"] != boot_id():
        return False
    return bool(_started(state["pid"]) == state["started"])


def start(name: str, folder: Path, command: Sequence[str], ended: str) -> None:
    """Start `command` as a transient unit. Raises Failed where the host cannot.

    `ended`: a command of the shell that succeeds where nothing is to be put back afterwards.
    """
    words = folder / "words"
    words.touch(mode=0o600)
    if not os.path.isdir(SYSTEMD):
        _start_session(words, [*command, "keep"])
        return
    properties = [
        *PROPERTIES,
        f"StandardOutput=append:{words}",
        f"StandardError=append:{words}",
        # What it leaves behind where it is killed is put back at once.
        f"ExecStopPost={_quoted(put_back_command(command, ended))}",
    ]
    tools.run(
        [
            "systemd-run",
            "--quiet",
            "--collect",
            f"--unit={unit_name(name)}",
            f"--description=Joulerig: {name}",
            f"--setenv=PATH={os.environ.get('PATH', os.defpath)}",
            *(f"--property={one}" for one in properties),
            *command,
            "run",
        ]
    )


def put_back_command(command: Sequence[str], ended: str) -> list[str]:
    """Return what is executed once the process of `command` is gone.

    Python, which takes seconds to start on a slow host, would delay the next call: it is started
    only where `ended` fails.
    """
    return ["/bin/sh", "-c", ended + ' || exec "$0" "$@"', *command, "after"]


def end(name: str, state: Mapping[str, Any] | None) -> None:
    """Ask a unit to end in good order, and wait until it has."""
    if os.path.isdir(SYSTEMD):
        with contextlib.suppress(tools.Failed):
            tools.run(["systemctl", "stop", unit_name(name)], timeout=END_SECONDS + 30)
        return
    if not state:
        return
    with contextlib.suppress(ProcessLookupError):
        descriptor = tools.process_descriptor(state["pid"])
        try:
            if is_alive(state):  # and by its descriptor no other one is reached from here on
                tools.send_signal(descriptor, signal.SIGTERM)
                last = time.monotonic() + END_SECONDS
                while is_alive(state) and time.monotonic() < last:
                    time.sleep(0.1)
                tools.send_signal(descriptor, signal.SIGKILL)  # its keeper puts back what it left
        finally:
            os.close(descriptor)


def is_ending(name: str, state: Mapping[str, Any] | None) -> bool:
    """Check whether what follows the end of its process is still to come."""
    if os.path.isdir(SYSTEMD):
        asked = subprocess.run(["systemctl", "is-active", unit_name(name)], capture_output=True, text=True)
        return asked.stdout.strip() in ("active", "activating", "deactivating")
    return is_alive(state and state["keeper"])


def unit_name(name: str) -> str:
    """Return the name of a call's unit: of a length that systemd takes, whatever the call's."""
    return f"joulerig-{hashlib.sha256(name.encode()).hexdigest()[:16]}.service"


def _started(process: int) -> int | None:
    """Return when a process started, in ticks since the boot; None where it has ended."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else int(fields[19])


def _start_session(words: Path, command: Sequence[str]) -> None:
    with open(words, "a") as output:
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, cwd="/"
        )


def _quoted(command: Sequence[str]) -> str:
    """Return a command as a line of a unit file."""
    quoted = []
    for word in command:
        escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        quoted.append('"' + escaped.replace("%", "%%").replace("$", "$$") + '"')
    return " ".join(quoted)
