# SPDX-License-Identifier: GPL-3.0-or-later
"""A host's power by its BMC over HTTP, which emulated_bmc.py is."""

from __future__ import annotations

from pathlib import Path

import pytest

from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.switch import Switch
from joulerig.rig.power import redfish
from tests.support.emulated_bmc import PASSWORD, USER, Bmc


@pytest.fixture
def password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(redfish, "LOOK_SECONDS", 0.01)
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    return tmp_path / "password"


def controller(bmc: Bmc, password: Path, system: str | None = None) -> redfish.Controller:
    asked = Switch(by="redfish", host=bmc.url, username=USER, password_file=str(password), system=system)
    return redfish.Controller(asked, "bench1: switch")


def test_the_power_is_cut_and_restored_and_each_is_waited_for(password: Path) -> None:
    with Bmc() as bmc:
        bmc.looks = 3
        controller(bmc, password).off()
        assert bmc.states["1"] == "Off"
        controller(bmc, password).on()
        assert bmc.states["1"] == "On"
        assert bmc.asked == [("1", "ForceOff"), ("1", "On")]


def test_what_is_as_it_should_be_is_not_asked_for(password: Path) -> None:
    with Bmc() as bmc:
        controller(bmc, password).on()
        assert bmc.asked == []


def test_of_several_systems_of_a_bmc_the_inventory_names_one(password: Path) -> None:
    with Bmc("left", "right") as bmc:
        with pytest.raises(UserError, match=r"systems are /redfish/v1/Systems/left, .*right; 'system' says"):
            controller(bmc, password).off()
        controller(bmc, password, "/redfish/v1/Systems/right").off()
        assert bmc.states == {"left": "On", "right": "Off"}


def test_a_power_that_stays_is_no_cut(password: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redfish, "SWITCHED_SECONDS", 0.05)
    with Bmc() as bmc:
        bmc.looks = 10**6
        with pytest.raises(UserError, match=r"PowerState is 'On' 0.05 s after it was to be 'Off'"):
            controller(bmc, password).off()


def test_a_wrong_password_and_a_bmc_that_is_gone_are_one_line(password: Path) -> None:
    with Bmc() as bmc:
        password.write_text("other")
        with pytest.raises(UserError, match=r"bench1: switch: the BMC at .*: HTTP 401: .*who are you"):
            controller(bmc, password).off()
    with pytest.raises(UserError, match=r"bench1: switch: the BMC at .*refused"):
        controller(bmc, password).off()
