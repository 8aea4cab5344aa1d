# SPDX-License-Identifier: GPL-3.0-or-later
"""Switches of hosts and drives: how they are declared, and what each kind is asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from joulerig.rig import power
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.model import Lab
from joulerig.virtuallab import qmp
from tests.support.lab_files import LabFiles

GUDE = {"by": "labgrid", "model": "gude", "host": "http://me:secret@192.0.2.9", "index": 3}
DRIVERS = {
    "gude": "PORT = 80\nasked = []\ndef power_set(*arguments): asked.append(arguments)\n",
    "slow": """
PORT, reports = None, []
def power_set(*arguments): reports[:] = [not arguments[3]] * 2 + [arguments[3]]
def power_get(*arguments): return reports.pop(0) if len(reports) > 1 else reports[0]
""",
    "stuck": """
def power_set(*arguments): pass
def power_get(*arguments): return True
""",
    "mute": """
def power_set(*arguments): pass
def power_get(*arguments): raise NotImplementedError
""",
    "broken": "def power_set(host, port, index, value): raise OSError(f'no route to {host}/off')\n",
    "snmp": "import a_library_that_is_not_there\n",
}


@pytest.fixture
def labgrid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A labgrid with some drivers."""
    folder = tmp_path / "python" / "labgrid" / "driver" / "power"
    folder.mkdir(parents=True)
    for parent in (folder, folder.parent, folder.parent.parent):
        (parent / "__init__.py").touch()
    for name, text in DRIVERS.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path / "python")
    yield
    for name in [one for one in sys.modules if one.split(".")[0] == "labgrid"]:
        del sys.modules[name]


def declared(lab_files: LabFiles, **changes: Any) -> Lab:
    lab_files.host["switch"] = {**GUDE, **changes}
    lab_files.host["power_cycle"] = {}
    return lab_files.load()


def of_host(lab: Lab) -> power.Switch:
    found = power.host_switch(lab, "bench1")
    assert found
    return found


def test_labgrids_driver_gets_the_outlet_off_and_on(lab_files: LabFiles, labgrid: None) -> None:
    switch = of_host(declared(lab_files))
    switch.off()
    switch.on()
    from labgrid.driver.power import gude  # type: ignore[import-not-found]

    assert gude.asked == [(GUDE["host"], 80, 3, False), (GUDE["host"], 80, 3, True)]


def test_a_port_that_is_declared_replaces_the_drivers(lab_files: LabFiles, labgrid: None) -> None:
    of_host(declared(lab_files, port=8080)).off()
    from labgrid.driver.power import gude

    assert gude.asked == [(GUDE["host"], 8080, 3, False)]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"model": "gudy"},
            "switch.model: 'gudy' is no driver of labgrid; allowed: broken, gude, mute, slow, snmp, stuck",
        ),
        (
            {"model": "snmp"},
            "switch.model: 'snmp' needs a_library_that_is_not_there, which is not installed",
        ),
    ],
)
def test_a_driver_that_cannot_be_used_is_one_line_before_the_campaign(
    lab_files: LabFiles, labgrid: None, changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(UserError) as refused:
        power.check(declared(lab_files, **changes), ["bench1"])
    assert str(refused.value) == f"bench1: {complaint}"


def test_without_labgrid_it_says_how_to_install_it(
    lab_files: LabFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "labgrid", None)
    with pytest.raises(UserError) as refused:
        power.check(declared(lab_files), ["bench1"])
    assert str(refused.value) == (
        "bench1: switch.by: 'labgrid': labgrid is not installed; pip install 'joulerig[labgrid]'"
    )


def test_a_host_that_declares_nothing_needs_no_labgrid(bench: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "labgrid", None)
    power.check(bench, ["bench1", "no-longer-there"])


def test_an_error_of_the_unit_is_one_line_without_its_password(lab_files: LabFiles, labgrid: None) -> None:
    switch = of_host(declared(lab_files, model="broken"))
    with pytest.raises(UserError) as refused:
        switch.off()
    assert str(refused.value) == (
        "bench1: switch: broken at http://192.0.2.9, outlet 3: OSError: no route to http://192.0.2.9/off"
    )


def test_a_virtual_host_is_stopped_and_reset(
    lab_files: LabFiles, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(qmp, "execute", lambda path, *commands: asked.append(commands))
    for drive in lab_files.drives.values():
        drive["profile"] = "hdd-7200"
    lab_files.host.update({"virtual": {}, "power_cycle": {}})
    switch = of_host(lab_files.load())
    switch.off()
    switch.on()
    assert asked == [("stop",), ("system_reset", "cont")]


@pytest.mark.parametrize("model", ["slow", "mute"])
def test_what_a_unit_reports_is_waited_for_where_it_can_be_asked(
    lab_files: LabFiles, labgrid: None, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    monkeypatch.setattr(power.labgrid_outlet, "LOOK_SECONDS", 0.0)
    of_host(declared(lab_files, model=model)).off()


def test_an_outlet_that_stays_on_is_no_cut(
    lab_files: LabFiles, labgrid: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(power.labgrid_outlet, "SWITCHED_SECONDS", 0.0)
    switch = of_host(declared(lab_files, model="stuck"))
    switch.on()
    with pytest.raises(UserError, match=r"stuck at http://192.0.2.9, outlet 3: is still on 0 s after"):
        switch.off()


# ---------------------------------------------------------------- programs, a BMC


def test_a_program_has_switched_when_it_says_so(lab_files: LabFiles) -> None:
    lamp = lab_files.folder / "lamp"
    relay = lab_files.folder / "relay"
    relay.write_text(f'#!/bin/sh\ncase $1 in state) cat {lamp};; *) echo "$1" > {lamp};; esac\n')
    relay.chmod(0o755)
    lab_files.drives["bare"]["switch"] = {
        "by": "command", "off": ["./relay", "off"], "on": ["./relay", "on"], "state": ["./relay", "state"],
    }  # fmt: skip
    switch = power.drive_switch(lab_files.load(), "bench1", "bare")
    assert switch
    switch.off()
    assert lamp.read_text() == "off\n"
    switch.on()
    assert lamp.read_text() == "on\n"


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ({"off": ["/nowhere/relay"]}, "switch.off: /nowhere/relay: No such file or directory"),
        ({"off": ["sh", "-c", "echo no relay >&2; exit 3"]}, "switch.off: sh: exit 3: no relay"),
        (
            {"off": ["sh", "-c", r"printf '\377\033[2J' >&2; exit 3"]},
            "switch.off: sh: exit 3: \ufffd\ufffd[2J",
        ),
        ({"off": ["true"], "state": ["echo", "on"]}, "switch.state: 'on' after it was switched off"),
    ],
)
def test_a_program_that_does_not_switch_is_one_line(
    lab_files: LabFiles, command: dict[str, Any], complaint: str
) -> None:
    lab_files.drives["bare"]["switch"] = {"by": "command", "on": ["true"], **command}
    switch = power.drive_switch(lab_files.load(), "bench1", "bare")
    assert switch
    with pytest.raises(UserError) as refused:
        switch.off()
    assert str(refused.value) == f"bench1: drives.bare.{complaint}"


@pytest.fixture
def ipmitool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An ipmitool whose chassis is off some looks after it was asked; gives its calls' file."""
    folder = tmp_path / "bin"
    folder.mkdir()
    calls, state = tmp_path / "calls", tmp_path / "state"
    state.write_text("on on on off")
    text = f"""#!/bin/sh
echo "$@" >> {calls}
read -r now rest < {state}
case "$*" in
    *"power status") echo "Chassis Power is $now"; [ "$rest" ] && echo "$rest" > {state};;
    *"power on") echo on > {state};;
esac
exit 0
"""
    (folder / "ipmitool").write_text(text)
    (folder / "ipmitool").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr(power.ipmi, "LOOK_SECONDS", 0.01)
    return calls


def test_a_bmc_by_ipmi_is_asked_until_it_reports_the_state(lab_files: LabFiles, ipmitool: Path) -> None:
    (lab_files.folder / "secret").write_text("pass")
    lab_files.host["switch"] = {
        "by": "ipmi", "host": "192.0.2.8", "username": "lab",
        "password_file": str(lab_files.folder / "secret"),
    }  # fmt: skip
    switch = of_host(lab_files.load())
    switch.off()
    switch.on()
    asked = ipmitool.read_text().splitlines()
    how = f"-I lanplus -H 192.0.2.8 -U lab -f {lab_files.folder}/secret chassis power"
    assert asked == [f"{how} {word}" for word in ("off", *["status"] * 4, "on", "status")]


# ---------------------------------------------------------------- mistakes


def complaint_of(lab_files: LabFiles) -> str:
    with pytest.raises(UserError) as refused:
        lab_files.load()
    return str(refused.value)


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ({**GUDE, "index": None}, "switch.index: missing; by: labgrid needs model, host, index"),
        (
            {"by": "command", "off": ["x"], "on": ["y"], "host": "192.0.2.9"},
            "switch.host: '192.0.2.9': only with by: labgrid, ipmi, redfish; leave it out",
        ),
        (
            {"by": "tap"},
            "switch.by: 'tap'; allowed: labgrid, ipmi, redfish, supply, command",
        ),
        ({"by": "supply"}, "switch.meter: missing; a host needs meter and output"),
        ({"by": "supply", "meter": "psu1"}, "switch.output: needs 'meter' too; allowed: both, or neither for the drive's rails"),
        ({"by": "redfish", "host": "192.0.2.8"}, "switch.host: '192.0.2.8'; allowed: the BMC's URL, such as https://192.168.40.8"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_hosts_switch_is_one_line(
    lab_files: LabFiles, written: dict[str, Any], complaint: str
) -> None:
    lab_files.host["switch"] = written
    assert complaint_of(lab_files).endswith(complaint)


def test_a_drive_has_no_bmc_and_only_a_host_with_a_switch_can_be_its(lab_files: LabFiles) -> None:
    lab_files.drives["bare"]["switch"] = {"by": "ipmi", "host": "192.0.2.8"}
    assert "drives.bare.switch.by: 'ipmi'; allowed: tap, supply, labgrid, command, host" in complaint_of(
        lab_files
    )
    lab_files.drives["bare"]["switch"] = {"by": "host"}
    assert "drives.bare.switch.by: 'host', and the host has no switch; declare one" in complaint_of(lab_files)


def test_a_virtual_host_has_qemu(lab_files: LabFiles) -> None:
    for drive in lab_files.drives.values():
        drive["profile"] = "hdd-7200"
    lab_files.host.update({"virtual": {}, "switch": GUDE})
    assert "switch.by: 'labgrid': the host is virtual; leave it out" in complaint_of(lab_files)


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ({}, "power_cycle: nothing switches the host; declare its 'switch' too"),
        ({"most": 0}, "power_cycle.most: 0; allowed: greater than 0"),
        ({"by": "qemu"}, "power_cycle: unknown key 'by'; allowed: most, off_seconds"),
    ],
)
def test_a_mistake_in_power_cycles_is_one_line(
    lab_files: LabFiles, written: dict[str, Any], complaint: str
) -> None:
    lab_files.host["power_cycle"] = written
    assert complaint_of(lab_files).endswith(complaint)


@pytest.mark.parametrize(
    ("switch", "complaint"),
    [
        (None, "bare of bench1 has neither rails on a power tap nor a 'switch', so its power cannot be cut"),
        (
            {"by": "supply"},
            "bench1: drives.bare.switch: no rails, and no 'meter' and 'output'; allowed: one of the two",
        ),
        (
            {"by": "supply", "meter": "tap1", "output": "1"},
            "bench1: drives.bare.switch.meter: tap1 (hameg-hmo) has no outputs to switch; allowed: a supply"
            " (scpi-pps)",
        ),
        (
            {"by": "supply", "meter": "tap9", "output": "1"},
            "bench1: drives.bare.switch.meter: 'tap9' is not a meter of the controller; allowed: tap1, tap2",
        ),
    ],
)
def test_a_drive_whose_power_cannot_be_cut_is_refused_with_the_plan(
    lab_files: LabFiles, switch: dict[str, Any] | None, complaint: str
) -> None:
    if switch:
        lab_files.drives["bare"]["switch"] = switch
    with pytest.raises(UserError) as refused:
        power.check_cut(lab_files.load(), "bench1", "bare")
    assert str(refused.value) == complaint


def test_a_supplys_outputs_follow_from_the_drives_rails(lab_files: LabFiles) -> None:
    lab_files.controller["meters"]["psu1"] = {"driver": "scpi-pps", "connection": "tcp-raw/192.0.2.9/5555"}
    lab_files.drives["bare"].update(
        switch={"by": "supply"},
        rails={
            "5v": {"meter": "psu1", "volts": "V2", "amps": "I2"},
            "12v": {"meter": "psu1", "watts": "P3"},
        },
    )
    switch = power.drive_switch(lab_files.load(), "bench1", "bare")
    assert isinstance(switch, power.supply.Outputs)
    assert switch._outputs == {("psu1", "2"), ("psu1", "3")}
