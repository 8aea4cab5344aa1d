# SPDX-License-Identifier: GPL-3.0-or-later
"""An outlet of a power distribution unit, or a relay, by one of labgrid's power drivers.

    switch: { by: labgrid, model: gude, host: 192.168.40.9, index: 3 }

labgrid is imported only for what declares this: it is an optional extra.
"""

from __future__ import annotations

import importlib
import pkgutil
import time
from typing import Any

from joulerig.rig.common.bounded import one_line
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.switch import State, Switch, without_password

PACKAGE = "labgrid.driver.power"
SWITCHED_SECONDS = 10.0  # within which a unit reports what it was asked for
LOOK_SECONDS = 0.2


class Outlet:
    """Outlet `index` of the unit at `host`; `where` is what errors call it.

    Raises UserError where labgrid has no such driver.
    """

    def __init__(self, asked: Switch, where: str) -> None:
        self._asked, self._where = asked, where
        self._driver = _load(where, asked.model or "")
        self.unit = frozenset([f"labgrid {asked.host}"])

    def off(self) -> dict[str, int]:
        self._set("off")
        return {}

    def on(self) -> None:
        self._set("on")

    def state(self) -> State | None:
        if not hasattr(self._driver, "power_get"):
            return None
        found = self._call("power_get")
        return None if found is None else "on" if found else "off"

    def _set(self, wanted: State) -> None:
        self._call("power_set", wanted == "on")
        end = time.monotonic() + SWITCHED_SECONDS
        while (state := self.state()) not in (wanted, None):
            if time.monotonic() > end:
                raise UserError(
                    f"{self._where}: {self._asked.shown}: is still {state} {SWITCHED_SECONDS:g} s after"
                    " it was switched"
                )
            time.sleep(LOOK_SECONDS)

    def _call(self, function: str, *arguments: bool) -> Any:
        asked = self._asked
        port = asked.port or getattr(self._driver, "PORT", None)
        try:
            return getattr(self._driver, function)(asked.host, port, asked.index, *arguments)
        except NotImplementedError:
            return None
        except Exception as error:  # of whatever library the driver uses
            what = one_line(without_password(f"{type(error).__name__}: {error}"), 200)
            raise UserError(f"{self._where}: {asked.shown}: {what}") from None


def _load(where: str, model: str) -> Any:
    try:
        drivers = importlib.import_module(PACKAGE)
    except ModuleNotFoundError as error:
        missing = (error.name or PACKAGE).split(".")[0]
        raise UserError(
            f"{where}.by: 'labgrid': {missing} is not installed; pip install 'joulerig[labgrid]'"
        ) from None
    known = sorted(one.name for one in pkgutil.iter_modules(drivers.__path__))
    if model not in known:
        raise UserError(f"{where}.model: {model!r} is no driver of labgrid; allowed: {', '.join(known)}")
    try:
        return importlib.import_module(f"{PACKAGE}.{model}")
    except ModuleNotFoundError as error:
        raise UserError(f"{where}.model: {model!r} needs {error.name}, which is not installed") from None
