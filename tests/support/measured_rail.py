# SPDX-License-Identifier: GPL-3.0-or-later
"""From an inventory's meters to what powerd measures of a drive's rail, without InfluxDB."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from joulerig.rig.controller import services
from joulerig.rig.lab import model
from tests.support.power_processes import SRCAP, Powerd
from tests.support.programs import wait_for

NOWHERE = {"url": "http://127.0.0.1:9", "database": "power"}
SECONDS = 30.0


class Rail:
    """A rail of a running powerd."""

    def __init__(self, powerd: Powerd, meter: str) -> None:
        self.powerd, self.meter_name = powerd, meter

    @property
    def meter(self) -> dict[str, Any]:
        """Return powerd's status of the rail's meter."""
        found: dict[str, Any] = self.powerd.meter(self.meter_name) or {}
        return found

    def measured(self, joules: float) -> dict[str, Any]:
        """Return the rail's status once it has so many joules."""

        def there() -> dict[str, Any] | None:
            rails = self.meter.get("rails") or [{}]
            return rails[0] if rails[0].get("joules", 0) >= joules else None

        return wait_for(there, SECONDS, f"{joules} J (see {self.powerd.log_path})")

    def reason(self, text: str) -> str:
        """Return why the meter is silent or failed, once that says `text`."""

        def there() -> str | None:
            said: str = self.meter.get("reason", "")
            return said if text in said else None

        return wait_for(there, SECONDS, f"{text!r} as the reason (see {self.powerd.log_path})")


def lab_of(folder: Path, meters: Mapping[str, Any], rail: Mapping[str, Any]) -> model.Lab:
    """Return the lab of a drive with that rail."""
    (folder / "inventory.ini").write_text("[controller]\nboss\n[test_hosts]\nbench1\n")
    (folder / "host_vars").mkdir(exist_ok=True)
    drive = {"interface": "hdd", "serial": "SERIAL-A", "size_bytes": 10**12, "rails": {"5v": dict(rail)}}
    boss = {"clock_listen": "0.0.0.0:12300", "meters": dict(meters)}
    bench1 = {"controller_address": "192.0.2.1", "drives": {"fast": drive}}
    for name, values in (("boss", boss), ("bench1", bench1)):
        (folder / "host_vars" / f"{name}.yml").write_text(yaml.safe_dump(values, allow_unicode=True))
    return model.load(folder / "inventory.ini")


@contextlib.contextmanager
def running(folder: Path, meters: Mapping[str, Any], rail: Mapping[str, Any]) -> Iterator[Rail]:
    """Run powerd as `rig up` configures it for that lab."""
    lab = lab_of(folder, meters, rail)
    config = {
        "state_dir": str(folder / "powerd"),
        "srcap": SRCAP,
        "status_socket": str(folder / "s.sock"),
        "influx": NOWHERE,
        "meters": services.meters(lab),
    }
    powerd = Powerd(folder, config)
    try:
        yield Rail(powerd, rail["meter"])
    finally:
        powerd.stop()
