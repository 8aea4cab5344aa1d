# SPDX-License-Identifier: GPL-3.0-or-later
"""What an instrument that a scan found needs in the inventory, and what its user does next."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from joulerig.rig.lab import meters, model
from joulerig.rig.lab.meters import declaration

FAMILIES = meters.shipped()


@pytest.fixture
def lab(tmp_path: Path) -> model.Lab:
    (tmp_path / "inventory.ini").write_text("[controller]\nboss\n[test_hosts]\nbench1\n")
    (tmp_path / "host_vars").mkdir()
    boss = {
        "clock_listen": "0.0.0.0:12300",
        "meters": {"meter1": {"driver": "scpi-pps", "connection": "tcp-raw/h/1"}},
    }
    drive = {"interface": "hdd", "serial": "SERIAL-A", "size_bytes": 10**12}
    for name, keys in (("boss", boss), ("bench1", {"controller_address": "h", "drives": {"one": drive}})):
        (tmp_path / "host_vars" / f"{name}.yml").write_text(yaml.safe_dump(keys))
    return model.load(tmp_path / "inventory.ini")


def advice(lab: model.Lab, driver: str, connection: str | None, serialcomm: str | None = None) -> str:
    return "\n".join(declaration.advice(lab, FAMILIES, driver, connection, serialcomm))


@pytest.mark.parametrize(
    ("driver", "connection", "serialcomm", "added"),
    [
        ("scpi-pps", "tcp-raw/h/2", None, {}),
        ("korad-kaxxxxp", "/dev/ttyUSB0", "9600/8n1", {}),
        ("hameg-hmo", "tcp-raw/h/2", None, {"sample_rate_hz": 1}),
        ("no-such-family", "1.12", None, {"timing": "poll", "sample_rate_hz": 1}),
    ],
)
def test_an_entry_is_how_it_is_reached_and_what_has_no_default(
    monkeypatch: pytest.MonkeyPatch,
    driver: str,
    connection: str,
    serialcomm: str | None,
    added: dict[str, object],
) -> None:
    monkeypatch.setattr(meters.other, "drivers", frozenset)
    given = {"driver": driver, "connection": connection}
    given |= {"serialcomm": serialcomm} if serialcomm else {}
    assert declaration.entry(FAMILIES, driver, connection, serialcomm) == given | added


def test_a_driver_without_a_connection_needs_none(lab: model.Lab) -> None:
    assert declaration.entry(FAMILIES, "demo", None) == {"driver": "demo"}


def test_its_name_is_one_that_is_free(lab: model.Lab) -> None:
    text = advice(lab, "scpi-pps", "tcp-raw/h/2")
    assert "  meter2:\n    driver: scpi-pps\n    connection: tcp-raw/h/2" in text
    assert "{ meter: meter2, volts: CHANNEL, amps: CHANNEL }" in text
    assert "'rig meters show meter2'" in text


def test_what_has_no_default_is_named(lab: model.Lab) -> None:
    assert "sample_rate_hz: as it samples; driver hameg-hmo has no default" in advice(
        lab, "hameg-hmo", "tcp-raw/h/2"
    )


def test_a_reference_measures_no_rail(lab: model.Lab) -> None:
    text = advice(lab, "scpi-dmm", "tcp-raw/h/2")
    assert "it can be a reference of 'rig meters calibrate'" in text
    assert "rails" not in text


def test_a_meter_of_the_inventory_is_named(lab: model.Lab) -> None:
    assert advice(lab, "scpi-pps", "tcp-raw/h/1").startswith("this is meter1 of the inventory")


def test_what_no_inventory_can_declare_is_said(lab: model.Lab) -> None:
    assert "has a colon" in advice(lab, "scpi-pps", "tcp-raw/fd00::7/5025")
    assert "does not support it" in advice(lab, "scpi-pps", "vxi/192.0.2.1")
