# SPDX-License-Identifier: GPL-3.0-or-later
"""An outlet of a power distribution unit, switched by one of labgrid's power drivers.

host_vars of a test host:

    power_cycle: { by: labgrid, model: gude, host: 192.168.40.9, index: 3 }

labgrid is imported only for a host that declares this: it is an optional extra.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.model import PowerCycle, without_password

PACKAGE = "labgrid.driver.power"


class Outlet:
    """Outlet `index` of the unit at `host`. Raises UserError where labgrid has no such driver."""

    def __init__(self, host: str, asked: PowerCycle) -> None:
        self._host, self._asked = host, asked
        self._driver = _load(host, asked.model or "")

    def off(self) -> None:
        self._set(False)

    def on(self) -> None:
        self._set(True)

    def _set(self, value: bool) -> None:
        asked = self._asked
        port = asked.port or getattr(self._driver, "PORT", None)
        try:
            self._driver.power_set(asked.host, port, asked.index, value)
        except Exception as error:  # of whatever library the driver uses
            what = without_password(" ".join(f"{type(error).__name__}: {error}".split()))[:200]
            raise UserError(f"{self._host}: power_cycle: {asked.shown}: {what}") from None


def _load(host: str, model: str) -> Any:
    where = f"{host}: power_cycle"
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
