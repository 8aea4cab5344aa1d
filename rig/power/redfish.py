# SPDX-License-Identifier: GPL-3.0-or-later
"""A host's BMC by Redfish (DMTF DSP0266): its system's PowerState, and its action Reset.

    switch:
      by: redfish
      host: https://192.168.40.8
      username: lab
      password_file: ~/.config/joulerig/bmc

A BMC's certificate is its own: it is not verified.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx

from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.switch import State, Switch

SYSTEMS = "/redfish/v1/Systems"
SECONDS = 15.0  # for a reply
SWITCHED_SECONDS = 30.0  # within which a BMC reports what it was asked for
LOOK_SECONDS = 0.5
STATES: dict[str, State] = {"Off": "off", "On": "on"}  # by PowerState; others are on their way
RESET = {"Off": "ForceOff", "On": "On"}  # by the PowerState that follows


class Controller:
    """The BMC at `host`; `where` is what errors call it."""

    def __init__(self, asked: Switch, where: str) -> None:
        self._asked, self._where = asked, f"{where}: {asked.shown}"
        self.unit = frozenset([f"redfish {asked.host}"])
        self._password = ""
        if asked.password_file:
            path = Path(asked.password_file).expanduser()
            try:
                self._password = path.read_text().strip()
            except OSError as error:
                raise UserError(f"{where}.password_file: {path}: {error.strerror}") from None

    def off(self) -> dict[str, int]:
        self._set("Off")
        return {}

    def on(self) -> None:
        self._set("On")

    def state(self) -> State | None:
        with self._client() as client:
            return STATES.get(self._power(client, self._system(client)))

    def _set(self, wanted: str) -> None:
        with self._client() as client:
            system = self._system(client)
            if self._power(client, system) == wanted:
                return  # which a BMC may refuse to do twice
            action = f"{system}/Actions/ComputerSystem.Reset"
            self._reply(client, "POST", action, json={"ResetType": RESET[wanted]})
            end = time.monotonic() + SWITCHED_SECONDS
            while (state := self._power(client, system)) != wanted:
                if time.monotonic() > end:
                    raise UserError(
                        f"{self._where}: PowerState is {state!r} {SWITCHED_SECONDS:g} s after it was to be"
                        f" {wanted!r}"
                    )
                time.sleep(LOOK_SECONDS)

    def _client(self) -> httpx.Client:
        return httpx.Client(
            base_url=str(self._asked.host),
            auth=(self._asked.username, self._password) if self._asked.username else None,
            timeout=SECONDS,
            trust_env=False,
            verify=False,
        )

    def _system(self, client: httpx.Client) -> str:
        if self._asked.system:
            return self._asked.system
        members = self._get(client, SYSTEMS).get("Members", [])
        if len(members) != 1:
            found = ", ".join(str(one.get("@odata.id")) for one in members) or "none"
            raise UserError(f"{self._where}: systems are {found}; 'system' says which")
        return str(members[0].get("@odata.id"))

    def _power(self, client: httpx.Client, system: str) -> str:
        return str(self._get(client, system).get("PowerState"))

    def _get(self, client: httpx.Client, path: str) -> dict[str, Any]:
        found: dict[str, Any] = self._reply(client, "GET", path).json()
        return found

    def _reply(self, client: httpx.Client, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            reply = client.request(method, path, **more)
        except httpx.HTTPError as error:
            raise UserError(f"{self._where}: {' '.join(str(error).split())}") from None
        if reply.is_error:
            text = " ".join(reply.text.split())[:200]
            raise UserError(f"{self._where}: {method} {path}: HTTP {reply.status_code}: {text}")
        return reply
