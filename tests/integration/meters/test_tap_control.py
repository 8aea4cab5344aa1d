# SPDX-License-Identifier: GPL-3.0-or-later
"""Switching a drive's rails by the power tap, while its ports stream to others."""

import re
import socket
import struct
import subprocess

import pytest
import yaml

from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import model
from joulerig.rig.lab.meters import tap
from tests.support.programs import built, end, wait_for
from tests.support.twins import Twin

HOLDUP_SECONDS = 0.03


@pytest.fixture
def twin(tmp_path):
    options = [f"holdup={HOLDUP_SECONDS * 1e9:.0f}"]
    with Twin(tmp_path / "t", options=options) as running:
        yield running


@pytest.fixture
def ports(twin):
    """Ports of a tap whose rails 3 and 4 are the twin's."""
    command = [built("power_tap"), "--listen", "127.0.0.1:0,127.0.0.1:0", "--rate", "1000"]
    command += ["--rail", f"3={twin.control}:12v", "--rail", f"4={twin.control}:3v3"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    yield [int(port) for port in re.findall(r":(\d+)", process.stdout.readline())]
    end(process)


@pytest.fixture
def bench(tmp_path, ports):
    """bench(**more) is a lab whose drive "fast" is behind port B; `more` is added to the meter."""

    def load(**more):
        meter = {"driver": "hameg-hmo", "connection": f"tcp-raw/127.0.0.1/{ports[1]}", "sample_rate_hz": 1000}
        rails = {
            "12v": {"meter": "tapb", "volts": "CH1", "amps": "CH2"},
            "3v3": {"meter": "tapb", "volts": "CH3", "amps": "CH4"},
        }
        drive = {"interface": "nvme", "serial": "SERIAL-A", "size_bytes": 10**12}
        files = {
            "boss": {"clock_listen": "0.0.0.0:12300", "meters": {"tapb": {**meter, **more}}},
            "bench1": {
                "controller_address": "192.0.2.1",
                "drives": {"fast": {**drive, "rails": rails}, "bare": {**drive, "serial": "SERIAL-B"}},
            },
        }
        (tmp_path / "host_vars").mkdir(exist_ok=True)
        for name, values in files.items():
            (tmp_path / "host_vars" / f"{name}.yml").write_text(yaml.safe_dump(values))
        (tmp_path / "inventory.ini").write_text("[controller]\nboss\n[test_hosts]\nbench1\n")
        return model.load(tmp_path / "inventory.ini")

    return load


SAMPLES = b":FORM:BORD LSBF;:FORM REAL,32;:CHAN1:DATA?\n"


def streams(port):
    """A connection that takes the port's samples, as powerd's srcap does."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    connection.sendall(SAMPLES)
    assert connection.recv(65536).startswith(b"#")
    return connection


def newest_volts(connection):
    """The last sample of a port's first rail."""
    connection.sendall(SAMPLES)
    return struct.unpack("<f", connection.recv(65536)[-4:])[0]


def on_rails(twin):
    return [rail["name"] for rail in twin.state()["rails"] if rail["on"]]


def test_a_drive_is_cut_and_powered_again_while_both_ports_stream(bench, ports, twin):
    described = bench()
    with streams(ports[0]), streams(ports[1]):
        first = tap.switch_drive(described, "bench1", "fast", on=False)
        assert list(first) == ["fast/12v", "fast/3v3"]
        assert on_rails(twin) == []
        wait_for(lambda: not twin.state()["powered"], 5, "the drive has stopped")
        again = tap.switch_drive(described, "bench1", "fast", on=True)
    assert on_rails(twin) == ["12v", "3v3"]
    assert twin.state()["powered"]
    assert all(again[rail] > first[rail] > 0 for rail in first)


def test_one_rail_is_switched_and_reported(bench, twin):
    described = bench()
    rail = described.hosts["bench1"].drives["fast"].rails["3v3"]
    assert tap.is_on(described, rail)
    tap.switch(described, rail, False)
    assert on_rails(twin) == ["12v"]
    assert not tap.is_on(described, rail)


def test_the_hold_up_is_the_drives(bench, ports, twin):
    described = bench()
    rail = described.hosts["bench1"].drives["fast"].rails["12v"]
    assert tap.hold_up(described, rail) == tap.HoldUp("NONE")
    with streams(ports[1]) as connection:
        wait_for(lambda: newest_volts(connection) > 11, 5, "the tap sees the rail's volts")
    tap.switch(described, rail, False)
    done = wait_for(
        lambda: (found := tap.hold_up(described, rail)).state == "DONE" and found, 5, "the hold-up is over"
    )
    assert HOLDUP_SECONDS <= done.seconds <= HOLDUP_SECONDS + 0.002
    assert done.volts == pytest.approx(12, abs=0.1)
    assert done.threshold_volts == pytest.approx(done.volts / 2)


def test_a_separate_control_connection_names_the_first_rail(bench, ports, twin):
    described = bench(control={"connection": f"tcp-raw/127.0.0.1/{ports[0]}", "first_rail": 3})
    tap.switch(described, described.hosts["bench1"].drives["fast"].rails["12v"], False)
    assert on_rails(twin) == ["3v3"]


def test_what_the_tap_refuses_is_reported_in_its_words(bench, ports, twin):
    described = bench()
    with tap.control(described, "tapb") as (port, first):
        assert first == 3
        with pytest.raises(UserError, match=r"TAP:OUTP9.*Header suffix out of range"):
            port.query("TAP:OUTP9?")


def test_a_drive_without_rails_and_a_tap_that_is_gone_are_named(bench):
    with pytest.raises(UserError, match="bench1/bare: has no rail"):
        tap.switch_drive(bench(), "bench1", "bare", on=False)
    described = bench(connection="tcp-raw/127.0.0.1/1")
    with pytest.raises(UserError, match=r"tapb \(tcp-raw/127.0.0.1/1\): the tap does not answer"):
        tap.switch_drive(described, "bench1", "fast", on=False)


@pytest.mark.parametrize(
    ("meter", "reason"),
    [
        ({"control": {"connection": "/dev/ttyACM1", "first_rail": 2}}, "first_rail"),
        (
            {"driver": "scpi-pps", "control": {"connection": "/dev/ttyACM1", "first_rail": 1}},
            "only for power taps",
        ),
    ],
)
def test_a_wrong_control_is_refused_with_the_inventory(bench, meter, reason):
    with pytest.raises(UserError, match=reason):
        bench(**meter)


def test_a_serial_tap_needs_a_control_port(bench):
    described = bench(connection="/dev/ttyACM0", serialcomm="115200/8n1")
    with pytest.raises(UserError, match=r"meters\.tapb\.control: missing"):
        tap.switch_drive(described, "bench1", "fast", on=False)
