# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of this machine by real Ansible: the module is found, and reads a real kernel's files."""

import os
import platform
from pathlib import Path

import pytest

from joulerig.rig.doctor import asking


@pytest.fixture
def facts(tmp_path, monkeypatch):
    monkeypatch.setenv("JOULERIG_VAR", str(tmp_path / "var"))
    inventory = tmp_path / "inventory.ini"
    host = "here ansible_connection=local ansible_python_interpreter=/usr/bin/python3"
    inventory.write_text(f"[controller]\nhere\n[test_hosts]\n{host}\n")
    drive = {"interface": "hdd", "serial": "NOT-THERE-1", "wwn": None, "size_bytes": 512}
    asked = {"units": ["no-such.timer"], "addresses": ["127.0.0.1:1"], "drives": {"absent": drive}}
    found = asking.ask(inventory, {"here": asked, "gone": {}})
    assert isinstance(found["here"], asking.Facts), found
    return found


def test_the_machine(facts):
    found = facts["here"].machine
    assert found["system"]["kernel"] == platform.release()
    assert found["system"]["user"] == os.geteuid()
    assert found["unreached"] == {"127.0.0.1:1": "Connection refused"}
    assert found["units"] == {}
    assert found["space"]["/"] > 0
    assert isinstance(found["clock"]["synchronised"], bool)


def test_each_disk_of_the_kernel_has_facts(facts):
    for disk in facts["here"].disks:
        sectors = int(Path(f"/sys/block/{disk['device']}/size").read_text())
        assert disk["size_bytes"] == sectors * 512


def test_a_declared_drive_that_is_absent(facts):
    assert "no drive with serial 'NOT-THERE-1' on this host" in facts["here"].declared["absent"]["problem"]


def test_a_host_that_is_not_in_the_inventory_gave_no_answer(facts):
    assert facts["gone"] == "gave no answer"
