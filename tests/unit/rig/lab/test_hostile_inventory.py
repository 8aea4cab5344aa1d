# SPDX-License-Identifier: GPL-3.0-or-later
"""Hostile text in what an inventory copies from drives, hosts and meters, by the lab's models."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import pytest

from joulerig.rig.cli.drives.command import state
from joulerig.rig.cli.meters.command import list_
from joulerig.rig.common import bounded
from joulerig.rig.common.errors import Strict
from joulerig.rig.grafana import dashboards, provision
from joulerig.rig.lab import inventory, model
from tests.support import hostile_text
from tests.support.lab_files import LabFiles

# The keys that identify, by model; and, of each, the places in the tests' lab.
PLACES = {
    ("Drive", "serial"): "drives.bare.serial",
    ("Drive", "wwn"): "drives.hdd-1.wwn",
    ("Drive", "model"): "drives.bare.model",
    ("Drive", "description"): "drives.bare.description",
    ("TestHost", "controller_address"): "controller_address",
    ("Meter", "serial"): "meters.tap1.serial",
    ("Meter", "description"): "meters.tap1.description",
    ("Meter", "connection"): "meters.spare.connection",
    ("TapControl", "connection"): "meters.tap2.control.connection",
    ("Switch", "model"): "drives.hdd-2.switch.model",
}

FREE = [path for (_, key), path in PLACES.items() if key in ("serial", "description")] + ["drives.bare.model"]


def below(kind: type[Strict]) -> Iterator[type[Strict]]:
    for one in kind.__subclasses__():
        yield one
        yield from below(one)


def test_every_key_that_identifies_is_in_the_table():
    of_lab = (one for one in below(Strict) if one.__module__ in (model.__name__, "joulerig.rig.lab.switch"))
    found = {(one.__name__, name) for one in of_lab for name in inventory.LITERAL & one.model_fields.keys()}
    assert found == PLACES.keys()


def place(values: dict, path: str, text: str) -> None:
    *above, last = path.split(".")
    for key in above:
        values = values.setdefault(key, {})
    values[last] = text


def plant(lab_files: LabFiles, paths: Iterable[str], text: str) -> None:
    for path in paths:
        place(lab_files.controller if path.startswith("meters") else lab_files.host, path, text)


@pytest.mark.parametrize("kind", hostile_text.NAMES)
def test_each_key_that_identifies_is_read_as_it_is_written_or_refused_in_a_line(
    kind, lab_files, tmp_path, monkeypatch
):
    text = hostile_text.NAMES[kind]
    monkeypatch.chdir(tmp_path)
    lab_files.controller["meters"]["spare"] = {"driver": "scpi-dmm"}
    lab_files.drives["hdd-2"]["switch"] = {"by": "labgrid", "host": "192.0.2.3", "index": 1}
    plant(lab_files, PLACES.values(), text)
    found = model.read(lab_files.write())
    assert found.values["boss"]["meters"]["spare"]["connection"] == text
    assert found.values["bench1"]["drives"]["hdd-2"]["switch"]["model"] == text
    _, problems = model.examine(found)
    refused = {one.key for one in problems}
    assert "drives.hdd-1.wwn" in refused
    assert ("drives.bare.serial" in refused) == (not text.isprintable())
    assert [str(one) for one in problems if not str(one).isprintable()] == []
    assert hostile_text.executed(tmp_path) == []


@pytest.mark.parametrize("kind", hostile_text.NAMES)
def test_what_is_accepted_is_text_to_dashboards_and_commands(kind, lab_files, tmp_path, monkeypatch, capsys):
    text = hostile_text.NAMES[kind]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JOULERIG_VAR", str(tmp_path / "var"))
    plant(lab_files, [one for one in FREE if text.isprintable() or not one.endswith("bare.serial")], text)
    monkeypatch.setenv("JOULERIG_INVENTORY", str(lab_files.write()))
    lab = model.load()
    assert lab.hosts["bench1"].drives["bare"].description == text
    described = provision.describe(lab)
    made = [lab.without_secrets(), *(one.as_json(described) for one in dashboards.all_of(described))]
    list_(as_json=False)
    state(as_json=False)
    shown = json.dumps(made) + "".join(capsys.readouterr())
    assert bounded.printable(shown, keep="\n") == shown
    assert hostile_text.evaluated(shown) == []
    assert hostile_text.executed(tmp_path) == []


@pytest.mark.parametrize("kind", hostile_text.NAMES)
def test_an_unsafe_text_of_another_key_is_no_template_either(kind, lab_files, tmp_path, monkeypatch):
    text = hostile_text.NAMES[kind]
    monkeypatch.chdir(tmp_path)
    lab_files.controller["meters"]["tap1"]["serialcomm"] = "MARK"
    path = lab_files.write().parent / "host_vars" / "boss.yml"
    path.write_text(path.read_text().replace("MARK", f"!unsafe {json.dumps(text)}"))
    assert model.read(lab_files.inventory).values["boss"]["meters"]["tap1"]["serialcomm"] == text
    assert hostile_text.executed(tmp_path) == []
