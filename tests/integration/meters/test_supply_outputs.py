# SPDX-License-Identifier: GPL-3.0-or-later
"""Outputs of an emulated supply, switched by the real libsigrok, with powerd and without it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from joulerig.rig.common.errors import UserError
from joulerig.rig.controller import services
from joulerig.rig.lab.switch import Switch
from joulerig.rig.power import supply
from tests.support import emulated_pps
from tests.support.measured_rail import lab_of, running
from tests.support.programs import wait_for

RAIL: dict[str, Any] = {
    "meter": "psu1", "volts": "V2", "amps": "I2", "supply": {"volts": 6, "amps": 3, "ohms": 0.05},
}  # fmt: skip


@pytest.fixture
def line() -> Iterator[Any]:
    with emulated_pps.line() as line:
        yield line


@pytest.fixture
def socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The powerd that is asked is the one of the test."""
    monkeypatch.setattr(services, "_status_socket", lambda: tmp_path / "s.sock")


def meters(line: Any) -> dict[str, Any]:
    return {"psu1": {"driver": "scpi-pps", "connection": line.connection}}


def outputs(folder: Path, line: Any, **asked: Any) -> supply.Outputs:
    lab = lab_of(folder, meters(line), RAIL)
    return supply.Outputs(
        lab, Switch(by="supply", **asked), "bench1: drives.fast.switch", lab.drive_rails("bench1", "fast")
    )


def test_while_it_is_measured_powerds_capture_switches_it(tmp_path: Path, socket: None, line: Any) -> None:
    with running(tmp_path, meters(line), RAIL) as rail:
        switch = outputs(tmp_path, line)
        assert rail.measured(1.0)["watts"] == pytest.approx(7.5, rel=0.01)
        switch.off()
        assert line.instrument.off == {2}
        wait_for(lambda: rail.meter["rails"][0]["watts"] == 0, 10, "the rail draws nothing")
        switch.on()
        assert line.instrument.off == set()
        wait_for(lambda: rail.meter["rails"][0]["watts"] > 7, 10, "the rail draws again")
        assert rail.meter["restarts"] == 0, "and the capture goes on"


def test_a_supply_that_measures_nothing_is_switched_as_well(tmp_path: Path, socket: None, line: Any) -> None:
    switch = outputs(tmp_path, line, meter="psu1", output="3")
    switch.off()
    assert line.instrument.off == {3}
    switch.on()
    assert line.instrument.off == set()


@pytest.mark.parametrize("measured", [True, False])
def test_an_output_that_stays_on_is_no_cut(tmp_path: Path, socket: None, line: Any, measured: bool) -> None:
    line.instrument.stuck = True
    switch = outputs(tmp_path, line)
    if not measured:
        with pytest.raises(UserError, match=r"output 2 of psu1: .*the instrument says that it is on"):
            switch.off()
        return
    with running(tmp_path, meters(line), RAIL) as rail:
        rail.measured(0.1)
        with pytest.raises(UserError, match=r"output 2 of psu1: .*the instrument says that it is on"):
            switch.off()


def test_an_output_that_there_is_not_is_named_with_those_there_are(
    tmp_path: Path, socket: None, line: Any
) -> None:
    switch = outputs(tmp_path, line, meter="psu1", output="7")
    with pytest.raises(UserError, match="output 7 of psu1: "):
        switch.off()
    assert line.instrument.off == set()
