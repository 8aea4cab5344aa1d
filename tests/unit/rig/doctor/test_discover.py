# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig hosts discover`: the file that describes a host, from facts that are made up."""

import datetime
import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from joulerig.rig.cli.main import app
from joulerig.rig.common import paths, yaml_text
from joulerig.rig.common.errors import UserError
from joulerig.rig.doctor import asking, discover
from tests.support import hostile_text
from tests.support.host_facts import disk, facts, hard_disk

ON = datetime.date(2026, 2, 3)


def written(*disks, **subjects):
    return yaml_text.parse(discover.described("bench1", facts(*disks, **subjects), ON).text, "bench1.yml")


def left_out(one):
    found = discover.described("bench1", facts(disk(), one), ON)
    assert found.drives == ["nvme-1"]
    [line] = found.left_out
    assert one["device"] not in found.text
    return line


def test_drives_as_the_host_reads_them():
    found = written()
    assert found["controller_address"] == "192.0.2.1"
    assert found["drives"]["nvme-1"] == {
        "interface": "nvme", "serial": "S3HCNX0K401234", "wwn": "eui.36344830584012340025384300000001",
        "size_bytes": 960197124096, "model": "FAST 960", "plp": False, "wipe_blank": False,
    }  # fmt: skip
    assert found["drives"]["hdd-1"]["interface"] == "hdd"


def test_the_controllers_address_may_be_of_ipv6():
    assert written(system={"controller": "fd00::1"})["controller_address"] == "fd00::1"


def test_a_solid_state_disk_that_is_no_nvme_drive():
    assert list(written(hard_disk(rotates=False))["drives"]) == ["sata-ssd-1"]


def test_drives_of_one_kind_are_numbered():
    found = written(hard_disk(), disk())["drives"]
    assert list(found) == ["hdd-1", "nvme-1"]


NVDIMM = {"serial": "8680-1+8680-2", "size_bytes": 1 << 37, "devices": ["pmem0"], "use": ""}


def test_nvdimms_are_known_by_their_modules():
    found = written(disk(), disk(device="pmem0", transport="scsi", serial=None), nvdimms=[NVDIMM])
    assert list(found["drives"]) == ["nvme-1", "nvdimm-1"]
    assert found["drives"]["nvdimm-1"] == {
        "interface": "nvdimm", "serial": "8680-1+8680-2", "size_bytes": 1 << 37, "plp": False,
        "wipe_blank": False,
    }  # fmt: skip


def test_an_nvdimm_that_is_in_use_is_left_out():
    used = {**NVDIMM, "use": "/dev/pmem0: carries /data"}
    found = discover.described("bench1", facts(disk(), nvdimms=[used]), ON)
    assert found.drives == ["nvme-1"]
    assert found.left_out == ["NVDIMM 8680-1+8680-2 (137438953472 bytes): /dev/pmem0: carries /data"]


@pytest.mark.parametrize("serial", ["0012345670", "12E4567", "1_000_000", "yes-1", "12:30:45", "it's"])
def test_a_serial_is_read_back_as_it_is(serial):
    assert written(disk(serial=serial))["drives"]["nvme-1"]["serial"] == serial


@pytest.mark.parametrize(
    ("wwn", "expected"),
    [
        ("0x5000c500a1b2c3d4", "naa.5000c500a1b2c3d4"),
        ("t10.ATA     SLOW 4000     ZC10A1B2", None),  # the kernel's own, of model and serial
        ("nvme.144d-53334843-46415354-00000001", None),
        (None, None),
    ],
)
def test_a_wwn_that_a_maker_gave(wwn, expected):
    assert written(hard_disk(wwn=wwn))["drives"]["hdd-1"].get("wwn") == expected


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (
            hard_disk(use="/dev/sda carries /"),
            "sda (SLOW 4000, serial ZC10A1B2, 4000787030016 bytes): /dev/sda carries /",
        ),
        (hard_disk(removable=True), "removable"),
        (hard_disk(read_only=True), "read-only"),
        (hard_disk(transport="usb"), "behind a USB bridge"),
        (hard_disk(size_bytes=0), "has no size"),
        (hard_disk(serial=""), "reports no serial"),
        (hard_disk(serial="0123456789ABCDEF"), "makers put where they give none"),
    ],
)
def test_what_is_left_out(one, expected):
    assert expected in left_out(one)


def test_two_disks_of_one_serial_are_both_left_out():
    found = discover.described("bench1", facts(disk(), hard_disk(serial=disk()["serial"])), ON)
    assert found.drives == []
    assert len(found.left_out) == 2


def test_a_host_without_a_free_drive():
    assert written(hard_disk(use="/dev/sda carries /"))["drives"] == {}


# --- a host that lies


@pytest.mark.parametrize("kind", hostile_text.texts(Path("/tmp")))
@pytest.mark.parametrize("key", ["model", "serial"])
def test_whatever_a_drive_is_called_it_is_one_line_of_data(kind, key):
    """A reply of joulerig_facts is typed first: on one line, printable, bounded."""
    text = hostile_text.texts(Path("/tmp"))[kind]
    reply = {"machine": facts().machine, "disks": [disk(**{key: text}), hard_disk()], "declared": {}}
    given = asking.Reply.model_validate({**reply, "nvdimms": []}).model_dump(exclude_unset=True)
    found = discover.described("bench1", asking.Facts(**given), ON)
    plain = discover.described("bench1", facts(disk(**{key: "PLAIN"}), hard_disk()), ON)
    for line, usual in zip(found.text.splitlines(), plain.text.splitlines(), strict=False):
        assert line == usual or line.strip().startswith(f'{key}: !unsafe "') or not found.drives[1:]
    comments = [line for line in found.text.splitlines() if line.startswith("#")]
    assert comments == [line for line in plain.text.splitlines() if line.startswith("#")]
    assert set(yaml_text.parse(found.text, "")) == {"controller_address", "drives"}


@pytest.mark.parametrize("kind", hostile_text.texts(Path("/tmp")))
def test_an_address_that_is_none_is_left_out_with_what_to_do(kind):
    text = hostile_text.texts(Path("/tmp"))[kind]
    for address in (text, f"192.0.2.1{text}", f"fe80::1%{text}"):
        if kind == "long" and address.startswith("fe80"):
            continue
        found = discover.described("bench1", facts(system={"controller": address}), ON)
        assert set(yaml_text.parse(found.text, "")) == {"drives"}
        assert discover.ADDRESSLESS in found.left_out


def test_a_serial_that_no_inventory_can_have_leaves_the_drive_out():
    assert "its serial cannot be declared" in left_out(hard_disk(serial="ÄÖÜ-1234"))


# --- the command


@pytest.fixture
def new_host(lab_files, monkeypatch):
    """An inventory whose host bench1 has no file yet, and answers."""
    lab_files.write()
    path = lab_files.folder / "host_vars/bench1.yml"
    path.unlink()
    monkeypatch.setenv("JOULERIG_INVENTORY", str(lab_files.inventory))
    monkeypatch.setattr(asking, "ask", lambda path, asked: dict.fromkeys(asked, facts()))
    return path


def rig(*words):
    return CliRunner().invoke(app, words)


def test_what_is_written_is_a_lab(new_host):
    done = rig("hosts", "discover", "bench1")
    assert done.exit_code == 0, done.output
    assert f"bench1: 2 drives written to {new_host}" in done.stdout
    command = [sys.executable, "-m", "joulerig.rig.cli.main", "doctor", "--offline", "--json"]
    # Another process: Ansible remembers which files were not there.
    done = subprocess.run(command, cwd=paths.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {one["check"] for one in json.loads(done.stdout)} == {"drives-without-rails", "unused-meters"}


def test_a_file_that_is_there_is_not_overwritten(new_host):
    new_host.write_text("mine: true\n")
    done = rig("hosts", "discover", "bench1")
    assert (
        str(done.exception)
        == f"{new_host}: describes the host already; --print shows what would be in it, --force replaces it"
    )
    assert new_host.read_text() == "mine: true\n"
    assert rig("hosts", "discover", "bench1", "--force").exit_code == 0
    assert "nvme-1" in new_host.read_text()


@pytest.mark.parametrize("name", ["bench1.yaml", "bench1"])
def test_a_file_of_another_form_is_not_doubled(new_host, name):
    other = new_host.with_name(name)
    other.mkdir() if name == "bench1" else other.write_text("mine: true\n")
    done = rig("hosts", "discover", "bench1", "--force")
    assert isinstance(done.exception, UserError)
    assert not new_host.exists()


def test_printing_writes_nothing(new_host):
    new_host.write_text("mine: true\n")
    done = rig("hosts", "discover", "bench1", "--print")
    assert yaml_text.parse(done.stdout, "")["drives"]["nvme-1"]["size_bytes"] == 960197124096
    assert new_host.read_text() == "mine: true\n"


def test_a_host_that_is_not_in_the_inventory(new_host):
    done = rig("hosts", "discover", "bench7")
    assert "'bench7' is not a test host of" in str(done.exception)
    assert "a line below [test_hosts]" in str(done.exception)


def test_a_host_that_does_not_answer(new_host, monkeypatch):
    monkeypatch.setattr(asking, "ask", lambda path, asked: dict.fromkeys(asked, "Connection timed out"))
    done = rig("hosts", "discover", "bench1")
    assert str(done.exception) == "bench1: Connection timed out"
    assert not new_host.exists()
