# SPDX-License-Identifier: GPL-3.0-or-later
"""A host's BMC by Redfish (DMTF DSP0266): its system's PowerState, and its action Reset.

    switch:
      by: redfish
      host: https://192.168.40.8
      username: lab
      password_file: ~/.config/joulerig/bmc

A BMC's certificate is its own: it is not verified. What it replies is not believed either: a path
is a path on the BMC, so that the password reaches no other machine.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import httpx
from pydantic import Field

from joulerig import json_text
from joulerig.rig.common.bounded import MOST_ENTRIES, Line, Model, Returned, one_line, read
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.switch import State, Switch

SYSTEMS = "/redfish/v1/Systems"
SECONDS = 15.0  # for a reply
SWITCHED_SECONDS = 30.0  # within which a BMC reports what it was asked for
LOOK_SECONDS = 0.5
STATES: dict[str, State] = {"Off": "off", "On": "on"}  # by PowerState; others are on their way
RESET = {"Off": "ForceOff", "On": "On"}  # by the PowerState that follows


class Member(Returned):
    """A system, by its path on the BMC."""

    path: Annotated[str, Field(alias="@odata.id", pattern=r"^/[A-Za-z0-9_][!-~]*$", max_length=300)]


class Systems(Returned):
    """The systems of a BMC."""

    members: list[Member] = Field(alias="Members", default_factory=list, max_length=MOST_ENTRIES)


class System(Returned):
    """A system's power."""

    power: Line | None = Field(alias="PowerState", default=None)


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
        members = self._get(client, SYSTEMS, Systems).members
        if len(members) != 1:
            found = ", ".join(one.path for one in members) or "none"
            raise UserError(f"{self._where}: systems are {found}; 'system' says which")
        return members[0].path

    def _power(self, client: httpx.Client, system: str) -> str:
        return str(self._get(client, system, System).power)

    def _get(self, client: httpx.Client, path: str, model: type[Model]) -> Model:
        reply = self._reply(client, "GET", path)
        try:
            data = json_text.parse(reply.content)
        except ValueError:
            raise UserError(f"{self._where}: GET {path}: is no JSON") from None
        return read(model, data, f"{self._where}: GET {path}")

    def _reply(self, client: httpx.Client, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            reply = client.request(method, path, **more)
        except httpx.HTTPError as error:
            raise UserError(f"{self._where}: {one_line(error)}") from None
        if reply.is_error:
            text = one_line(reply.text, 200)
            raise UserError(f"{self._where}: {method} {path}: HTTP {reply.status_code}: {text}")
        return reply
