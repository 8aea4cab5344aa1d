# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a test host answers, by ping and at its SSH port: the proof that its kernel is down."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Callable
from typing import Protocol

from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import inventory
from joulerig.rig.lab.model import Lab

SSH_PORT = 22
CONNECT_SECONDS = 0.5
# Without an answer for so long a host is down: a kernel that resets keeps silent for longer, while
# the firmware starts, and one lost packet is no silence.
SILENT_SECONDS = 3.0
DOWN_SECONDS = 60.0  # at most until then
LOOK_SECONDS = 0.2


class Reach(Protocol):
    """Asks a host for any sign of life. Raises UserError where it cannot be asked at all."""

    def answers(self) -> str:
        """Return what answers, for people; empty: nothing does."""


class Network:
    """A host at `address`, whose SSH server listens at `port`."""

    def __init__(self, address: str, port: int) -> None:
        self._address, self._port = address, port

    def answers(self) -> str:
        if self._connects():
            return f"port {self._port} of {self._address}"
        return f"ping of {self._address}" if self._replies() else ""

    def _connects(self) -> bool:
        """Whether its kernel answers at the port: one that refuses is up as well."""
        try:
            socket.create_connection((self._address, self._port), CONNECT_SECONDS).close()
        except ConnectionRefusedError:
            return True
        except (OSError, UnicodeError):
            return False
        return True

    def _replies(self) -> bool:
        command = ["ping", "-n", "-q", "-c", "1", "-W", "1", "--", self._address]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=5, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0


def of_host(lab: Lab, host: str) -> Network:
    """Return how a host is reached: by the address that SSH connects to.

    Raises UserError where SSH goes through another host: its silence cannot be seen from here.
    """
    found = inventory.read(lab.inventory, ("ansible_host", "ansible_port")).values[host]
    named = str(found.get("ansible_host") or host)
    given = found.get("ansible_port")
    said: dict[str, str] = {}
    if shutil.which("ssh"):
        done = subprocess.run(
            ["ssh", "-G", *(["-p", str(given)] if given else []), "--", named],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=10, check=False,
        )  # fmt: skip
        said = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    for key in ("proxyjump", "proxycommand"):
        if said.get(key, "none") != "none":
            raise UserError(
                f"{host}: SSH reaches it through {said[key]}: the controller cannot see that it is down,"
                " so its drives' power is not cut; allowed: a host of the controller's own network"
            )
    return Network(said.get("hostname", named), int(said.get("port") or given or SSH_PORT))


def check(host: str, reach: Reach) -> None:
    """Raise UserError unless a host that is up answers: its silence would say nothing later."""
    if not reach.answers():
        raise UserError(
            f"{host}: answers neither ping nor a connection to SSH's port, so that it could not be shown"
            " to be down; allowed: a host that answers one of them (Debian: apt-get install iputils-ping)"
        )


def await_down(host: str, reach: Reach, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
    """Wait until a host has answered nothing for SILENT_SECONDS.

    Raises UserError where it still answers after DOWN_SECONDS.
    """
    end, silent_since = clock() + DOWN_SECONDS, None
    while True:
        began = clock()
        if said := reach.answers():
            silent_since = None
            if began > end:
                raise UserError(f"{host}: {said} still answers {DOWN_SECONDS:g} s after it was to be down")
        elif silent_since is None:
            silent_since = began
        elif clock() - silent_since >= SILENT_SECONDS:
            return
        sleep(LOOK_SECONDS)
