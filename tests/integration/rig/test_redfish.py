# SPDX-License-Identifier: GPL-3.0-or-later
"""A host's power by its BMC over HTTP, which emulated_bmc.py is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from joulerig.rig.common import bounded
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.switch import Switch
from joulerig.rig.power import redfish
from tests.support import hostile_text
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


def refusal(bmc: Bmc, password: Path) -> str:
    """Return why a BMC's power cannot be read; empty where it can, and is neither on nor off."""
    try:
        assert controller(bmc, password).state() is None
    except UserError as refused:
        text = str(refused)
        assert text == bounded.one_line(text, 700)
        return text
    return ""


def test_a_bmc_names_no_other_machine_to_which_the_password_goes(password: Path) -> None:
    with Bmc() as bmc, Bmc() as other:
        for path in (f"{other.url}/redfish/v1/Systems/1", f"//{other.url[7:]}/1", "@other/1"):
            bmc.replies["Systems"] = json.dumps({"Members": [{"@odata.id": path}]}).encode()
            assert "returned a wrong Members.0.@odata.id" in refusal(bmc, password)
        assert other.passwords == []


WHOLE = {"Systems": {"Members": [{"@odata.id": "/redfish/v1/Systems/1"}]}, "1": {"PowerState": "On"}}


@pytest.mark.parametrize("last", WHOLE)
def test_whatever_a_bmc_replies_is_a_line_or_no_state(password: Path, last: str) -> None:
    """Texts and other JSON, in place of the whole reply and of each part of it."""
    with Bmc() as bmc:
        for odd in [*hostile_text.texts(password.parent).values(), 7, [[]], {}]:
            for reply in hostile_text.with_each(WHOLE[last], odd):
                bmc.replies[last] = json.dumps(reply).encode()
                assert refusal(bmc, password) or last == "1"
        for content in (b"", b"<html>", b"\xff\xfe", b"[" * 100_000):
            bmc.replies[last] = content
            assert "is no JSON" in refusal(bmc, password)
    assert hostile_text.executed(password.parent) == []
