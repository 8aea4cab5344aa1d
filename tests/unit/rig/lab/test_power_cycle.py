# SPDX-License-Identifier: GPL-3.0-or-later
"""The switch of a host's power: how it is declared, and what is asked of labgrid and of QEMU."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import power
from joulerig.rig.lab.model import Lab
from joulerig.virtuallab import qmp
from tests.support.lab_files import LabFiles

GUDE = {"by": "labgrid", "model": "gude", "host": "http://me:secret@192.0.2.9", "index": 3}
DRIVERS = {
    "gude": "PORT = 80\nasked = []\ndef power_set(*arguments): asked.append(arguments)\n",
    "broken": "def power_set(host, port, index, value): raise OSError(f'no route to {host}/off')\n",
    "snmp": "import a_library_that_is_not_there\n",
}


@pytest.fixture
def labgrid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A labgrid with three drivers."""
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
    lab_files.host["power_cycle"] = {**GUDE, **changes}
    return lab_files.load()


def test_labgrids_driver_gets_the_outlet_off_and_on(lab_files: LabFiles, labgrid: None) -> None:
    switch = power.switch(declared(lab_files), "bench1")
    switch.off()
    switch.on()
    from labgrid.driver.power import gude  # type: ignore[import-not-found]

    assert gude.asked == [(GUDE["host"], 80, 3, False), (GUDE["host"], 80, 3, True)]


def test_a_port_that_is_declared_replaces_the_drivers(lab_files: LabFiles, labgrid: None) -> None:
    power.switch(declared(lab_files, port=8080), "bench1").off()
    from labgrid.driver.power import gude

    assert gude.asked == [(GUDE["host"], 8080, 3, False)]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"model": "gudy"}, "power_cycle.model: 'gudy' is no driver of labgrid; allowed: broken, gude, snmp"),
        (
            {"model": "snmp"},
            "power_cycle.model: 'snmp' needs a_library_that_is_not_there, which is not installed",
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
        "bench1: power_cycle.by: 'labgrid': labgrid is not installed; pip install 'joulerig[labgrid]'"
    )


def test_a_host_that_declares_nothing_needs_no_labgrid(bench: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "labgrid", None)
    power.check(bench, ["bench1", "no-longer-there"])


def test_an_error_of_the_unit_is_one_line_without_its_password(lab_files: LabFiles, labgrid: None) -> None:
    switch = power.switch(declared(lab_files, model="broken"), "bench1")
    with pytest.raises(UserError) as refused:
        switch.off()
    assert str(refused.value) == (
        "bench1: power_cycle: broken at http://192.0.2.9, outlet 3: OSError: no route to http://192.0.2.9/off"
    )


def test_a_virtual_host_is_stopped_and_reset(
    lab_files: LabFiles, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(qmp, "execute", lambda path, *commands: asked.append(commands))
    for drive in lab_files.drives.values():
        drive["profile"] = "hdd-7200"
    lab_files.host.update({"virtual": {}, "power_cycle": {"by": "qemu"}})
    switch = power.switch(lab_files.load(), "bench1")
    switch.off()
    switch.on()
    assert asked == [("stop",), ("system_reset", "cont")]


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ({"by": "qemu"}, "power_cycle.by: 'qemu': the host is physical; allowed: labgrid"),
        ({**GUDE, "index": None}, "power_cycle.index: missing; labgrid needs model, host, index"),
        (
            {"by": "qemu", "host": "192.0.2.9"},
            "power_cycle.host: '192.0.2.9': only with by: labgrid; leave it out",
        ),
        ({**GUDE, "most": 0}, "power_cycle.most: 0; allowed: greater than 0"),
    ],
)
def test_a_mistake_is_one_line(lab_files: LabFiles, written: dict[str, Any], complaint: str) -> None:
    lab_files.host["power_cycle"] = written
    with pytest.raises(UserError) as refused:
        lab_files.load()
    assert str(refused.value).endswith(complaint)
