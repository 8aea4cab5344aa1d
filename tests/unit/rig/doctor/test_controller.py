# SPDX-License-Identifier: GPL-3.0-or-later
"""What `rig doctor` says of the controller and its meters, on a tree of files that is made up."""

import os
import socket

import pytest

from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.doctor import controller
from joulerig.rig.doctor.finding import Severity
from joulerig.rig.lab.meters import discovery

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
FOUND = {
    "vendor": "Rohde&Schwarz",
    "model": "RTA4004",
    "serial": "017-A",
    "channels": [{"name": f"CH{n}"} for n in (1, 2, 3, 4)],
}
LINK = "/dev/serial/by-id/usb-FTDI_A50285BI-if00-port0"


@pytest.fixture
def root(tmp_path, monkeypatch):
    folder = tmp_path / "root"
    (folder / "proc").mkdir(parents=True)
    monkeypatch.setenv("JOULERIG_SYSFS", str(folder / "sys"))
    monkeypatch.setenv("JOULERIG_DEV", str(folder / "dev"))
    return folder


@pytest.fixture
def check(lab_files, root):
    """check(NAME, REPLY...) runs one check; a meter replies with FOUND, or as a test says."""

    def run(name, reply=None, **more):
        def scan(lab, meter):
            if isinstance(reply, str):
                raise UserError(reply)
            return [{**FOUND, **(reply or {})}]

        seen = controller.Seen(lab_files.load(), root=root, scan=scan, **more)
        return list(controller.CHECKS[name](seen))

    return run


def meter(lab_files, name="tap1", **keys):
    lab_files.controller["meters"][name].update(keys)


def port(root, path, mode=0o666):
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("")
    place.chmod(mode)
    return place


def usb_serial(root, name="ttyUSB7"):
    """Make a serial port of a USB device, as the kernel shows it."""
    device = root / "sys/class/tty" / name / "device"
    device.mkdir(parents=True)
    (device / "idVendor").write_text("0403\n")


def as_a_stranger(monkeypatch):
    """Root may open everything: ask the file's mode instead, as for a user who is in no group."""
    monkeypatch.setattr(controller.os, "access", lambda path, mode: bool(os.stat(path).st_mode & 0o006))


def test_programs_that_are_not_built(check, tmp_path, monkeypatch):
    monkeypatch.setenv("JOULERIG_PROGRAMS", str(tmp_path))
    [one] = check("programs")
    assert (one.severity, one.remedy) == (ERROR, "make build")
    assert "has no srcap, powerd, iod, flowop, durawriter" in one.text
    for name in controller.PROGRAMS:
        (tmp_path / name).write_text("")
    assert check("programs") == []


def test_a_controller_without_a_clock_to_follow(check, root):
    [one] = check("clock")
    assert (one.severity, one.subject) == (NOTE, "controller")
    assert "chronyc tracking" in one.remedy


@pytest.fixture
def token(lab_files, tmp_path):
    file = tmp_path / "token"
    lab_files.controller["influxdb"] = {"url": "http://127.0.0.1:1", "token_file": str(file)}
    return file


def test_a_token_that_is_not_there(check, token):
    [one] = check("secrets")
    assert (one.severity, one.key) == (ERROR, "influxdb.token_file")
    assert "No such file" in one.text


@pytest.mark.parametrize(("mode", "count"), [(0o600, 0), (0o400, 0), (0o640, 1), (0o644, 1)])
def test_a_token_that_others_may_read(check, token, mode, count):
    token.write_text("secret")
    token.chmod(mode)
    found = check("secrets")
    assert [one.severity for one in found] == [WARNING] * count
    assert all(one.remedy == f"chmod 600 {token}" for one in found)


def test_the_files_that_grafana_needs_are_looked_at(check, lab_files):
    grafana = {
        "url": "http://127.0.0.1:3000",
        "token_file": "/nowhere/a",
        "influxdb_token_file": "/nowhere/b",
    }
    lab_files.controller["grafana"] = grafana
    keys = ["grafana.token_file", "grafana.influxdb_token_file"]
    assert [one.key for one in check("secrets")] == keys


def test_a_key_of_ssh_that_is_not_there(check):
    keys = {
        "bench1": {"ansible_ssh_private_key_file": "/nowhere/id"},
        "bench2": {"ansible_ssh_private_key_file": "{{ key }}"},
    }
    [one] = check("secrets", connection_keys=keys)
    assert (one.key, one.severity) == ("ansible_ssh_private_key_file", ERROR)


def test_an_influxdb_that_is_not_reached(check, token):
    [one] = check("influxdb")
    assert "http://127.0.0.1:1: Connection refused" in one.text


def test_a_serial_port_that_is_not_there(check, lab_files, root):
    meter(lab_files, connection=LINK)
    usb_serial(root)
    other = root / "dev/serial/by-id/usb-Other-if00"
    other.parent.mkdir(parents=True)
    other.symlink_to("/dev/ttyUSB7")
    [one] = check("serial-ports")
    assert (one.severity, one.subject) == (ERROR, "meter tap1")
    assert one.text == f"{LINK}: no such port; present: {other}"


def test_a_serial_port_that_this_user_may_not_open(check, lab_files, root, monkeypatch):
    as_a_stranger(monkeypatch)
    meter(lab_files, connection=LINK)
    place = port(root, "/dev/ttyUSB0", mode=0o660)
    (root / LINK.lstrip("/")).parent.mkdir(parents=True)
    (root / LINK.lstrip("/")).symlink_to(place)
    [one] = check("serial-ports")
    assert "may not read and write it (group" in one.text
    assert "sudo usermod --append --groups" in one.remedy
    place.chmod(0o666)
    assert check("serial-ports") == []


def test_the_second_port_of_a_tap_is_looked_at_too(check, lab_files):
    meter(lab_files, control={"connection": "/dev/ttyACM9", "first_rail": 1})
    [one] = check("serial-ports")
    assert one.text.startswith("/dev/ttyACM9: no such port; present: none")


def instrument(root, kind=("fe", "03")):
    device = root / "sys/bus/usb/devices/1-2"
    interface = root / "sys/bus/usb/devices/1-2:1.0"
    for folder in (device, interface):
        folder.mkdir(parents=True)
    files = {"manufacturer": "Rigol", "product": "DP800", "busnum": "1", "devnum": "7"}
    for name, text in files.items():
        (device / name).write_text(text + "\n")
    for name, text in zip(("bInterfaceClass", "bInterfaceSubClass"), kind, strict=True):
        (interface / name).write_text(text + "\n")
    return port(root, "/dev/bus/usb/001/007", mode=0o660)


def test_an_instrument_that_this_user_may_not_open(check, root, monkeypatch):
    as_a_stranger(monkeypatch)
    instrument(root)
    [one] = check("usb")
    assert (one.severity, one.check) == (ERROR, "usb")
    assert "Rigol DP800: this user may not open the instrument" in one.text
    assert "sudo install --mode 644 rig/lab/meters/60-joulerig-meters.rules /etc/udev/rules.d/" in one.remedy


def test_the_rules_are_missing(check, lab_files, root):
    meter(lab_files, connection="usbtmc/1.7")
    instrument(root)
    [one] = check("usb")
    assert (one.severity, "udev rules are not installed" in one.text) == (NOTE, True)
    port(root, f"/etc/udev/rules.d/{controller.RULES}")
    assert check("usb") == []


def test_a_scan_leaves_out_the_instrument_that_the_inventory_names(lab_files, root):
    instrument(root)
    assert list(discovery.ports(lab_files.load(), [])) == [discovery.Port("usbtmc/1.7", "Rigol DP800")]
    meter(lab_files, connection="usbtmc/1.7")
    assert list(discovery.ports(lab_files.load(), [])) == []


def test_no_instrument_is_plugged_in(check, lab_files, root):
    meter(lab_files, connection="usbtmc/1.7")
    instrument(root, kind=("08", "06"))  # a disk
    port(root, f"/etc/udev/rules.d/{controller.RULES}")
    [one] = check("usb")
    assert "no instrument of the USBTMC class is plugged in, for tap1" in one.text


def test_the_shipped_rules_are_there():
    text = (paths.ROOT / "rig/lab/meters" / controller.RULES).read_text()
    assert "fe03" in text
    assert 'ENV{ID_MM_DEVICE_IGNORE}="1"' in text


@pytest.fixture
def listening(lab_files):
    """Two ports at which meters accept connections."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        for name, server in (("tap1", one), ("tap2", two)):
            meter(lab_files, name, connection=f"tcp-raw/127.0.0.1/{server.getsockname()[1]}")
        yield


def test_meters_that_reply(check, listening):
    assert check("replies") == []


def test_a_meter_that_is_off(check, lab_files, listening):
    meter(lab_files, connection="tcp-raw/127.0.0.1/1")
    [one] = check("replies")
    assert (one.subject, one.severity) == ("meter tap1", ERROR)
    assert one.text == "tcp-raw/127.0.0.1/1: Connection refused"


def test_a_model_that_libsigrok_does_not_have(check, listening):
    one, _ = check("replies", "no instrument answers at hameg-hmo:conn=tcp-raw/h/1")
    assert "no reply to hameg-hmo, or a model that this libsigrok does not have" in one.text
    assert one.remedy.startswith("rig meters scan --driver hameg-hmo --connection tcp-raw/127.0.0.1/")


def test_a_channel_that_the_instrument_lacks(check, listening):
    found = check("replies", {"channels": [{"name": "CH1"}, {"name": "CH2"}]})
    assert [one.text for one in found] == [
        "Rohde&Schwarz RTA4004 has no channel CH3",
        "Rohde&Schwarz RTA4004 has no channel CH4",
    ]
    assert "CH1, CH2" in found[0].remedy


def test_another_instrument_than_declared(check, lab_files, listening):
    meter(lab_files, serial="042")
    [one] = check("replies")
    assert one.text == "the instrument is serial '017-A', and serial '042' is declared"
    assert one.remedy == "swap the cables, or correct the inventory"


def test_an_oscilloscope_in_place_of_a_tap(check, listening):
    one, _ = check("replies", {"serial": "1335.7700k04/102030"})
    assert "an oscilloscope is no power tap" in one.text


def a_capturer(lab_files, **keys):
    """Make tap2 a meter without rails that a capturer reads."""
    lab_files.drives["hdd-1"]["rails"] = {}
    for drive in lab_files.drives.values():
        drive["rails"] = {k: r for k, r in drive.get("rails", {}).items() if r["meter"] != "tap2"}
    lab_files.controller["meters"]["tap2"] = keys


def test_a_meter_that_a_capturer_reads_is_not_asked_of_libsigrok(check, lab_files, listening):
    a_capturer(lab_files, driver="joulescope")
    one = check("replies", "no instrument answers")[-1]
    assert one.text == "no reply to joulescope: no instrument answers"
    assert one.remedy == "rig meters scan --driver joulescope"


def test_a_program_that_does_not_print_is_to_be_run(check, lab_files, listening):
    a_capturer(lab_files, driver="command", command=["read-it", "a b"], timing="poll", sample_rate_hz=1)
    assert check("replies", "it ended")[-1].remedy == "read-it 'a b'"


def test_a_capturer_is_given_its_meter(lab_files, monkeypatch):
    a_capturer(lab_files, driver="command", command=["read-it"], timing="poll", sample_rate_hz=1)
    asked = []
    monkeypatch.setattr(controller.source, "scan", lambda *args: asked.append(args))
    lab = lab_files.load()
    controller.scan(lab, "tap2")
    [(specification, family, _, meter)] = asked
    assert (specification, family.capturer, meter.command) == ("command", True, ["read-it"])


def test_a_bench_of_capturers_needs_no_sigrok_cli(check, lab_files, monkeypatch, tmp_path):
    monkeypatch.setenv("JOULERIG_PROGRAMS", str(tmp_path))
    for name in controller.PROGRAMS:
        (tmp_path / name).write_text("")
    monkeypatch.setattr(controller.shutil, "which", lambda name: None)
    assert len(check("programs")) == 1
    a_capturer(lab_files, driver="joulescope")
    for drive in lab_files.drives.values():
        drive["rails"] = {}
    del lab_files.controller["meters"]["tap1"]
    assert check("programs") == []


def test_meters_that_powerd_has_are_not_asked(check, listening):
    assert check("replies", "busy", running=frozenset({"tap1", "tap2"})) == []


@pytest.mark.parametrize(
    ("rate", "severity", "expected"),
    [
        (0.5, WARNING, "0.5 readings a second"),
        (20, NOTE, "20 readings a second; 100 points"),
        (1000, None, ""),
    ],
)
def test_rates(check, lab_files, rate, severity, expected):
    meter(lab_files, sample_rate_hz=rate)
    found = check("rates")
    assert [one.severity for one in found] == ([severity] if severity else [])
    assert all(expected in one.text for one in found)


def test_little_space_for_results(check, monkeypatch):
    monkeypatch.setattr(controller.shutil, "disk_usage", lambda place: type("Usage", (), {"free": 1 << 30}))
    assert all("1.0 GiB free" in one.text for one in check("free-space"))
    assert check("free-space")


def test_virtual_meters_are_not_looked_at(state, monkeypatch):
    from joulerig.rig.lab import model

    lab = model.load(paths.ROOT / "inventory.ini")
    seen = controller.Seen(lab, scan=lambda lab, name: pytest.fail("asked"))
    for name in ("serial-ports", "usb", "replies", "rates"):
        assert list(controller.CHECKS[name](seen)) == []


# --- switches


def switch(**keys):
    return {"by": "command", "off": ["false"], "on": ["false"], **keys}  # which no check runs


def test_a_switch_that_reports_its_power_is_well(lab_files, check):
    lab_files.host["switch"] = switch(state=["echo", "on"])
    lab_files.drives["fast"]["switch"] = switch(state=["echo", "On"])
    assert check("switches") == []


def test_drives_that_a_tap_or_their_host_switches_are_not_asked(lab_files, check):
    lab_files.host["switch"] = switch(state=["echo", "on"])
    lab_files.drives["fast"]["switch"] = {"by": "host"}
    assert check("switches") == []


@pytest.mark.parametrize(
    ("state", "severity", "text"),
    [
        (["echo", "off"], WARNING, "it reports that it is off"),
        (["echo", "perhaps"], ERROR, "'perhaps'; allowed: on or off"),
        (["no-such-relay"], ERROR, "no-such-relay: No such file or directory"),
        (None, NOTE, "cannot be asked whether it has switched"),
    ],
)
def test_what_a_switch_does_not_say_is_found(lab_files, check, state, severity, text):
    described = switch(**({"state": state} if state else {}))
    lab_files.host["switch"] = lab_files.drives["fast"]["switch"] = described
    of_host, of_drive = check("switches")
    assert (of_host.severity, of_drive.severity) == (severity, severity)
    assert text in of_host.found
    assert text in of_drive.found
    assert (of_host.subject, of_drive.subject) == ("bench1", "bench1: fast")
