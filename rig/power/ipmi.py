# SPDX-License-Identifier: GPL-3.0-or-later
"""A host's BMC by IPMI 2.0 over the network (Debian: ipmitool).

switch: { by: ipmi, host: 192.168.40.8, username: lab, password_file: ~/.config/joulerig/bmc }
"""

from __future__ import annotations

import time
from pathlib import Path

from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.switch import State, Switch
from joulerig.rig.power import program

SWITCHED_SECONDS = 30.0  # within which a BMC reports what it was asked for
LOOK_SECONDS = 0.5


class Controller:
    """The BMC at `host`; `where` is what errors call it."""

    def __init__(self, asked: Switch, where: str) -> None:
        self._where = f"{where}: {asked.shown}"
        self.unit = frozenset([f"ipmi {asked.host}"])
        self._command = ["ipmitool", "-I", "lanplus", "-H", str(asked.host)]
        self._command += ["-p", str(asked.port)] if asked.port else []
        self._command += ["-U", asked.username] if asked.username else []
        if asked.password_file:
            path = Path(asked.password_file).expanduser()
            if not path.is_file():
                raise UserError(f"{where}.password_file: {path}: no such file; it holds the BMC's password")
            self._command += ["-f", str(path)]

    def off(self) -> dict[str, int]:
        self._set("off")
        return {}

    def on(self) -> None:
        self._set("on")

    def state(self) -> State | None:
        found = self._ask("power", "status").strip()
        return "on" if found.endswith("is on") else "off" if found.endswith("is off") else None

    def _set(self, wanted: str) -> None:
        self._ask("power", wanted)
        end = time.monotonic() + SWITCHED_SECONDS
        while self.state() != wanted:
            if time.monotonic() > end:
                raise UserError(f"{self._where}: is not {wanted} {SWITCHED_SECONDS:g} s after it was asked")
            time.sleep(LOOK_SECONDS)

    def _ask(self, *words: str) -> str:
        return program.run([*self._command, "chassis", *words], self._where)
