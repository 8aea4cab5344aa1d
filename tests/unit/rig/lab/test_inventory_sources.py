# SPDX-License-Identifier: GPL-3.0-or-later
"""An inventory is what Ansible takes: folders, programs, vaulted files, templates, IPv6."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.controller import influxdb, services
from joulerig.rig.lab import inventory, model

BIN = Path(sys.executable).parent


def test_a_folder_whose_files_are_put_together(lab_files):
    lab_files.write()
    folder = lab_files.folder / "lab"
    folder.mkdir()
    (folder / "01-controller.ini").write_text("[controller]\nboss\n")
    (folder / "02-hosts.ini").write_text("[test_hosts]\nbench1\n")
    (lab_files.folder / "host_vars").rename(folder / "host_vars")
    lab = model.load(folder)
    assert list(lab.hosts) == ["bench1"]
    assert lab.folder == folder


def program(lab_files, listing):
    """Write an inventory that is a program, and prints `listing`."""
    lab_files.write()
    path = lab_files.folder / "inventory.sh"
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(listing)}\nEND\n")
    path.chmod(0o755)
    return path


def test_a_program_that_prints_the_hosts(lab_files):
    groups = {"controller": {"hosts": ["boss"]}, "test_hosts": {"hosts": ["bench1"]}}
    lab = model.load(program(lab_files, {**groups, "_meta": {"hostvars": {}}}))
    assert list(lab.hosts) == ["bench1"]


def test_a_program_that_prints_the_variables_too(lab_files):
    drive = {"interface": "hdd", "serial": 12345678, "size_bytes": 512}
    variables = {"controller_address": "192.0.2.1", "drives": {"only": drive}}
    groups = {"controller": {"hosts": ["boss"]}, "test_hosts": {"hosts": ["other"]}}
    lab = model.load(program(lab_files, {**groups, "_meta": {"hostvars": {"other": variables}}}))
    assert lab.hosts["other"].drives["only"].serial == "12345678"


def test_templates_are_filled_in(lab_files):
    lab_files.host["sizes"] = {"tb": 10**12}
    lab_files.drives["bare"]["size_bytes"] = "{{ sizes.tb }}"
    assert lab_files.load().hosts["bench1"].drives["bare"].size_bytes == 10**12


@pytest.mark.parametrize("key", ["serial", "model", "description"])
def test_what_identifies_a_drive_is_no_template(lab_files, key):
    text = f"{{{{ lookup('pipe', 'touch {lab_files.folder}/executed') }}}}"
    lab_files.drives["bare"][key] = text
    assert getattr(lab_files.load().hosts["bench1"].drives["bare"], key) == text
    assert not (lab_files.folder / "executed").exists()


def test_a_template_that_cannot_be_filled_in_names_its_file(lab_files):
    lab_files.drives["bare"]["size_bytes"] = "{{ nothing }}-D"
    with pytest.raises(UserError, match=r"host_vars/bench1\.yml:\d+: .*'nothing' is undefined"):
        lab_files.load()


@pytest.fixture
def vaulted(lab_files):
    """Give the inventory whose [all] group has a vaulted file, and the file with its password."""
    lab_files.host.pop("controller_address")
    lab_files.write()
    folder = lab_files.folder / "group_vars/all"
    folder.mkdir(parents=True)
    secret, password = folder / "vault.yml", lab_files.folder / "password"
    secret.write_text("controller_address: 192.0.2.44\n")
    password.write_text("open\n")
    command = [BIN / "ansible-vault", "encrypt", "--vault-password-file", password, secret]
    subprocess.run(command, check=True, capture_output=True)
    assert secret.read_text().startswith("$ANSIBLE_VAULT")
    return lab_files.inventory, password


def address(path, **environment):
    """Load the lab in a fresh process: Ansible reads its settings once."""
    script = (
        "import sys; from pathlib import Path; from joulerig.rig.lab import model\n"
        "for _ in range(2): lab = model.load(Path(sys.argv[1]))\n"
        "print(lab.hosts['bench1'].controller_address)"
    )
    return subprocess.run(
        [sys.executable, "-c", script, str(path)], cwd=paths.ROOT, env={**os.environ, **environment},
        capture_output=True, text=True,
    )  # fmt: skip


def test_a_vaulted_file_is_read_with_its_password(vaulted):
    path, password = vaulted
    done = address(path, ANSIBLE_VAULT_PASSWORD_FILE=str(password))
    assert done.stdout.strip() == "192.0.2.44", done.stderr


def test_a_vaulted_file_without_its_password_is_refused_with_the_way_out(vaulted):
    done = address(vaulted[0])
    last = done.stderr.splitlines()[-1]
    assert "UserError" in last
    assert "set ANSIBLE_VAULT_PASSWORD_FILE to the file that holds the vault's password" in last


@pytest.mark.parametrize(
    ("address", "in_url"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("boss.lab.example", "boss.lab.example"),
        ("fd00::1", "[fd00::1]"),
        ("fe80::1%eno1", "[fe80::1%eno1]"),
    ],
)
def test_the_controllers_address(lab_files, state, address, in_url):
    lab_files.host["controller_address"] = address
    lab = lab_files.load()
    assert influxdb.url_from_host(lab, lab.hosts["bench1"]).startswith(f"http://{in_url}:")
    assert services.deployment(lab, "bench1")["rig_clock_server"] == f"{in_url}:12300"


@pytest.mark.parametrize("wrong", ["192.0.2.1/24", "http://boss", "boss:22", "[fd00::1]"])
def test_what_is_no_address_of_the_controller(lab_files, wrong):
    lab_files.host["controller_address"] = wrong
    with pytest.raises(UserError, match=r"controller_address: "):
        lab_files.load()


def test_an_influxdb_at_an_ipv6_address(lab_files):
    lab_files.controller["influxdb"] = {"url": "http://[fd00::2]:8086", "token_file": "t"}
    assert lab_files.load().controller.influxdb.url == "http://[fd00::2]:8086"


def test_keys_have_the_place_where_they_stand(lab_files):
    path = lab_files.write()
    found = model.read(path)
    lines = Path(lab_files.folder / "host_vars/bench1.yml").read_text().splitlines()
    place = found.places["bench1"]["drives", "hdd-1", "serial"]
    assert place.file.name == "bench1.yml"
    assert lines[place.line - 1].strip() == "serial: SERIAL-B"


def test_every_problem_is_found_at_once(lab_files):
    lab_files.drives["fast"]["size_bytes"] = "1 TB"
    lab_files.drives["bare"]["serial"] = "SERIAL-B"
    lab_files.drives["hdd-2"]["rails"]["12v"]["meter"] = "tap7"
    lab_files.controller["meters"]["tap1"]["samples"] = "mean"
    lab, wrong = model.examine(inventory.read(lab_files.write(), model.KEYS))
    found = [f"{one.key}: {one.text}" for one in wrong]
    for part in (
        "drives.fast.size_bytes",
        "drives.bare.serial",
        "drives.hdd-2.rails.12v.meter",
        "meters.tap1.samples",
    ):
        assert sum(part in one for one in found) == 1, (part, found)
    assert len(found) == 4, found
    assert lab is not None


def test_a_meter_that_is_wrong_makes_no_further_problem(lab_files):
    lab_files.controller["meters"]["tap1"]["samples"] = "mean"
    _, wrong = model.examine(inventory.read(lab_files.write(), model.KEYS))
    assert [one.key for one in wrong] == ["meters.tap1.samples"]


def test_an_array_of_a_drive_that_is_wrong_makes_no_further_problem(lab_files):
    lab_files.drives["hdd-1"]["interface"] = "ssd"
    _, wrong = model.examine(inventory.read(lab_files.write(), model.KEYS))
    assert [one.key for one in wrong] == ["drives.hdd-1.interface"]


def test_two_drives_of_one_wwn(lab_files):
    for name in ("hdd-1", "hdd-2"):
        lab_files.drives[name]["wwn"] = "0x5000c500a1b2c3d4"
    with pytest.raises(UserError, match=r"drives\.hdd-2\.wwn: 'naa\.5000c500a1b2c3d4' is already the wwn"):
        lab_files.load()


def test_a_port_of_udevs_name_holds_samples_back_as_its_adapter_does(lab_files):
    tap = lab_files.controller["meters"]["tap1"]
    tap["connection"] = "/dev/serial/by-id/usb-FTDI_FT232R_A50285BI-if00-port0"
    assert lab_files.load().controller.meters["tap1"].latency_seconds == 0.018


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("192.0.2.1:12300", "192.0.2.1 port 12300 iburst"),
        ("boss.lab.example:12300", "boss.lab.example port 12300 iburst"),
        ("[fd00::1]:12300", "fd00::1 port 12300 iburst"),
    ],
)
def test_chrony_is_given_the_controllers_address(server, expected):
    from ansible.parsing.dataloader import DataLoader
    from ansible.template import Templar

    loader = DataLoader()
    path = paths.ROOT / "ansible/roles/time_sync/defaults/main.yml"
    defaults = loader.load_from_file(str(path), trusted_as_template=True)
    [line] = Templar(loader=loader, variables={"rig_clock_server": server}).template(
        defaults["time_sync_servers"]
    )
    assert line.startswith(expected)
