# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of the lab's own that switch: a USB relay, a hub's ports, a socket without a driver.

    switch:
      by: command
      off: [uhubctl, --location, 1-1, --ports, "2", --action, "off"]
      on: [uhubctl, --location, 1-1, --ports, "2", --action, "on"]

They have switched when they exit with 0. A relative path is below the inventory's folder.
"""

from __future__ import annotations

import subprocess

from joulerig.rig.common.bounded import one_line
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.model import Lab
from joulerig.rig.lab.switch import State, Switch

SECONDS = 30.0


def run(command: list[str], where: str) -> str:
    """Return what a program prints. Raises UserError where it fails, in its own last words."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
    except OSError as error:
        raise UserError(f"{where}: {command[0]}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise UserError(f"{where}: {command[0]}: still running after {SECONDS:g} s") from None
    if done.returncode:
        said = one_line((done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1], 200)
        raise UserError(f"{where}: {command[0]}: exit {done.returncode}: {said}")
    return done.stdout


class Programs:
    """A switch that programs are; `where` is what errors call it."""

    def __init__(self, lab: Lab, asked: Switch, where: str) -> None:
        self._lab, self._asked, self._where = lab, asked, where
        self.unit = frozenset([f"command {(asked.off or ['?'])[0]}"])

    def off(self) -> dict[str, int]:
        self._run(self._asked.off or [], "off")
        return {}

    def on(self) -> None:
        self._run(self._asked.on or [], "on")

    def state(self) -> State | None:
        if not self._asked.state:
            return None
        found = run(self._below(self._asked.state), f"{self._where}.state").strip().lower()
        if found not in ("on", "off"):
            raise UserError(f"{self._where}.state: {found[:40]!r}; allowed: on or off")
        return "on" if found == "on" else "off"

    def _run(self, command: list[str], wanted: str) -> None:
        run(self._below(command), f"{self._where}.{wanted}")
        if (found := self.state()) not in (wanted, None):
            raise UserError(f"{self._where}.state: {found!r} after it was switched {wanted}")

    def _below(self, command: list[str]) -> list[str]:
        first, *rest = command
        return [str(self._lab.folder / first) if "/" in first else first, *rest]
