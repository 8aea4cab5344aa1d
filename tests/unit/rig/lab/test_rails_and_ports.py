# SPDX-License-Identifier: GPL-3.0-or-later
"""Rails of stated volts and of two meters, capturers, links, and instruments that look alike."""

import sys

import pytest
import yaml

from joulerig.rig.common.errors import UserError
from joulerig.rig.controller import services
from joulerig.rig.lab import model
from joulerig.rig.lab.meters import connections, source

CLAMP = {"driver": "gwinstek-gpd", "connection": "/dev/ttyUSB2", "timing": "poll", "sample_rate_hz": 2}
DMM = {"driver": "scpi-dmm", "connection": "tcp-raw/192.0.2.9/5025"}
PPK2 = {"driver": "ppk2", "connection": "/dev/ttyACM7", "set": {"millivolts": "5000"}}
PROGRAM = {"driver": "command", "command": ["read-it", "--fast"], "timing": "poll", "sample_rate_hz": 10}
SUPPLY = {"volts": 5.25, "amps": 3}


@pytest.fixture
def write(tmp_path, monkeypatch):
    """write(meters, rail) gives the lab of a drive with that rail."""
    monkeypatch.setenv("JOULERIG_VAR", str(tmp_path / "var"))

    def call(meters, rail=None):
        (tmp_path / "inventory.ini").write_text("[controller]\nboss\n[test_hosts]\nbench1\n")
        (tmp_path / "host_vars").mkdir(exist_ok=True)
        rails = {"5v": rail} if rail else {}
        drive = {"interface": "hdd", "serial": "SERIAL-A", "size_bytes": 10**12, "rails": rails}
        boss = {"clock_listen": "0.0.0.0:12300", "meters": meters}
        bench1 = {"controller_address": "192.0.2.1", "drives": {"fast": drive}}
        for name, values in (("boss", boss), ("bench1", bench1)):
            (tmp_path / "host_vars" / f"{name}.yml").write_text(
                yaml.safe_dump(values, allow_unicode=True, sort_keys=False)
            )
        return model.load(tmp_path / "inventory.ini")

    return call


def refused(write, meters, rail=None):
    with pytest.raises(UserError) as caught:
        write(meters, rail)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---------------------------------------------------------------- stated volts


@pytest.mark.parametrize("written", ["5.00 ± 0.05", "5 +- 0.05", "5.0 +/- .05 V", " 5.00±0.05 "])
def test_volts_may_be_stated_with_how_far_they_can_be_off(write, written):
    lab = write({"m": CLAMP}, {"meter": "m", "volts": written, "amps": "I", "supply": SUPPLY})
    (meter,) = services.meters(lab)
    assert meter["rails"] == [
        {
            "rail": "5v", "host": "bench1", "drive": "fast", "amps": "I",
            "constant_volts": 5.0, "volts_tolerance": 0.05, "greatest_watts": 15.75,
        }
    ]  # fmt: skip
    assert lab.meter_channels("m") == {"I": "amps"}


def test_a_rail_as_the_journal_keeps_it_is_the_same_rail(write):
    for volts in ("5.00 ± 0.05", {"meter": "dmm", "channel": "P1"}):
        lab = write({"m": CLAMP, "dmm": DMM}, {"meter": "m", "volts": volts, "amps": "I"})
        rail = lab.hosts["bench1"].drives["fast"].rails["5v"]
        assert model.Rail.model_validate(rail.model_dump(mode="json")) == rail


@pytest.mark.parametrize(
    ("rail", "expected"),
    [
        ({"volts": 5.0, "amps": "I"}, ["volts: 5.0 is stated without how far", "'5.0 ± 0.05'"]),
        ({"volts": "5 ± 5", "amps": "I"}, ["tolerance: 5; allowed: less than volts, 5"]),
        ({"volts": "0 ± 0.1", "amps": "I"}, ["stated.volts", "greater than 0"]),
        ({"volts": "5 ± 0.05"}, ["has stated", "'volts' and 'amps'"]),
        ({"volts": "5 ± 0.05", "watts": "P"}, ["has stated and watts"]),
        ({"volts": {"meter": "dmm"}, "amps": "I"}, ["volts: has meter; allowed: meter and channel"]),
        ({"volts": {"meter": "m", "channel": "V"}, "amps": "I"}, ["of the same meter"]),
        ({"volts": {"meter": "dm", "channel": "P1"}, "amps": "I"}, ["'dm' is not a meter", "allowed: m, dmm"]),
        ({"volts": {"meter": "dmm", "channel": "V1"}, "amps": "I"}, ["'V1': scpi-dmm has no such channel", "P1"]),
    ],
)  # fmt: skip
def test_a_rail_that_cannot_be_is_refused_in_one_line(write, rail, expected):
    message = refused(write, {"m": CLAMP, "dmm": DMM}, {"meter": "m", **rail})
    for part in ("rails.5v", *expected):
        assert part in message


# ---------------------------------------------------------------- two meters


def test_a_rail_may_have_the_volts_of_another_meter(write):
    rail = {"meter": "m", "volts": {"meter": "dmm", "channel": "P1"}, "amps": "I"}
    lab = write({"m": CLAMP, "dmm": DMM}, rail)
    clamp, dmm = services.meters(lab)
    assert clamp["rails"][0] | {"volts": "P1", "volts_meter": "dmm", "amps": "I"} == clamp["rails"][0]
    assert (dmm["name"], dmm["rails"]) == ("dmm", [])
    assert lab.meter_channels("dmm") == {"P1": "volts"}
    assert lab.hosts["bench1"].drives["fast"].rails["5v"].meters == {"m", "dmm"}


def test_amps_that_stream_take_stated_volts_alone(write):
    volts = {"meter": "dmm", "channel": "P1"}
    message = refused(write, {"m": PPK2, "dmm": DMM}, {"meter": "m", "volts": volts, "amps": "amps"})
    assert "timing: poll, or volts that are stated: 5.00 ± 0.05" in message
    write({"m": PPK2, "dmm": DMM}, {"meter": "m", "volts": "5.00 ± 0.05", "amps": "amps"})


def test_an_ammeter_has_no_volts(write):
    message = refused(write, {"m": PPK2}, {"meter": "m", "volts": "volts", "amps": "amps"})
    assert "rails.5v.volts: m (ppk2) has a channel of amps alone; allowed: volts that are stated" in message


# ---------------------------------------------------------------- capturers


def test_a_capturer_is_started_by_powerd_in_srcaps_place(write):
    lab = write({"m": PPK2}, {"meter": "m", "volts": "5.00 ± 0.05", "amps": "amps"})
    (meter,) = services.meters(lab)
    assert meter["capturer"] == [sys.executable, "-m", "joulerig.capturers"]
    assert (meter["driver"], meter["sample_rate_hz"]) == ("ppk2:conn=/dev/ttyACM7", 100_000)
    assert meter["set"] == {"millivolts": "5000"}


def test_a_program_is_given_with_its_arguments_and_how_its_samples_come(write, tmp_path):
    lab = write({"m": {**PROGRAM, "options": {"clock": "unix"}}}, {"meter": "m", "watts": "watts"})
    (meter,) = services.meters(lab)
    assert meter["capturer"][3:] == ["--program", '["read-it", "--fast"]']
    assert meter["driver"] == "command"
    assert meter["set"] == {"samplerate": "10", "timing": "poll", "clock": "unix"}
    relative = write({"m": {**PROGRAM, "command": ["./tools/read-it"]}}, {"meter": "m", "watts": "watts"})
    assert relative.controller.meters["m"].command == [str(tmp_path / "tools/read-it")]


def test_a_converter_may_stream_or_be_polled(write):
    iio = {"driver": "iio", "connection": "iio/1-0040"}
    polled = write({"m": iio}).controller.meters["m"]
    assert (polled.timing, polled.sample_rate_hz) == ("poll", 20)
    stream = {**iio, "timing": "stream"}
    assert "sample_rate_hz: missing" in refused(write, {"m": stream})
    assert write({"m": {**stream, "sample_rate_hz": 455}}).controller.meters["m"].timing == "stream"


@pytest.mark.parametrize(
    ("meter", "expected"),
    [
        ({**PROGRAM, "command": None}, ["command: missing; allowed: a list"]),
        ({**PROGRAM, "command": []}, ["command", "at least 1 item"]),
        ({**PROGRAM, "timing": None}, ["timing: missing"]),
        ({**PROGRAM, "connection": "/dev/ttyUSB0"}, ["connection: '/dev/ttyUSB0': driver command needs none"]),
        ({**DMM, "command": ["x"]}, ["command: only with driver: command, not with scpi-dmm"]),
        ({**PPK2, "connection": None}, ["connection"]),
        ({**PPK2, "connection": "tcp-raw/h/1"}, ["ppk2 does not support it", "/dev/ttyUSB0"]),
        ({**PPK2, "driver": "ppk"}, ["did you mean 'ppk2'", "driver: command"]),
        ({**PPK2, "driver": "joulescop"}, ["did you mean 'joulescope'"]),
        ({"driver": "hwmon", "connection": "iio/1-0040"}, ["hwmon does not support it"]),
    ],
)  # fmt: skip
def test_a_mistake_in_a_capturers_meter(write, meter, expected):
    message = refused(write, {"m": {key: value for key, value in meter.items() if value is not None}})
    for part in ("host_vars/boss.yml: meters.m", *expected):
        assert part in message


def test_a_driver_without_a_connection_can_be_declared(write):
    acme = {"driver": "baylibre-acme", "timing": "poll", "sample_rate_hz": 10}
    lab = write({"m": acme}, {"meter": "m", "watts": "P1_ENRG_PWR"})
    assert source.driver(lab, "m") == "baylibre-acme"
    assert write({"m": {"driver": "joulescope"}}).controller.meters["m"].sample_rate_hz == 10_000
    with_one = {"driver": "joulescope", "connection": "joulescope/002557"}
    assert source.driver(write({"m": with_one}), "m") == "joulescope:conn=joulescope/002557"


# ---------------------------------------------------------------- ports


def test_a_link_is_powerds_to_resolve_at_each_start(write):
    link = "/dev/serial/by-path/pci-0000:00:14.0-usb-0:2:1.0"
    korad = {"driver": "korad-kaxxxxp", "connection": link, "serialcomm": "9600/8n1"}
    (meter,) = services.meters(write({"m": korad}, {"meter": "m", "volts": "V", "amps": "I"}))
    assert meter["driver"] == "korad-kaxxxxp:conn={link}:serialcomm=9600/8n1"
    assert meter["connection_link"] == link


def test_a_link_is_followed_by_what_asks_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "is_link", lambda connection: True)  # outside of /dev too
    (tmp_path / "by-id").symlink_to("ttyUSB5")
    (tmp_path / "ttyUSB5").touch()
    assert connections.port(str(tmp_path / "by-id")) == str(tmp_path / "ttyUSB5")


def test_what_is_a_link():
    assert connections.is_link("/dev/serial/by-id/usb-1")
    assert connections.is_link("/dev/meter-korad")
    for connection in ("/dev/ttyUSB0", "/dev/ttyACM12", "/dev/pts/3", "tcp-raw/h/1", None):
        assert not connections.is_link(connection)


def test_a_link_that_leads_nowhere_is_one_line(write):
    lab = write({"m": {"driver": "korad-kaxxxxp", "connection": "/dev/serial/by-id/no-such-port"}})
    with pytest.raises(UserError, match="/dev/serial/by-id/no-such-port: is not there: unplugged"):
        source.driver(lab, "m")
    assert source.powerd_driver(lab, "m")["connection_link"] == "/dev/serial/by-id/no-such-port"


KORAD = {"driver": "korad-kaxxxxp", "connection": "/dev/ttyACM0"}
USBTMC = {"driver": "scpi-pps", "connection": "usbtmc/1.12"}


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (KORAD, {**KORAD, "connection": "/dev/ttyACM1"}, ["meters.b.connection: '/dev/ttyACM1': a is another korad", "by-path"]),
        ({**KORAD, "serial": "1"}, {**KORAD, "connection": "/dev/ttyACM1", "serial": "2"}, ["by-id"]),
        (USBTMC, {**USBTMC, "connection": "usbtmc/1.13", "serial": "2"}, ["or the serial of each"]),
    ],
)  # fmt: skip
def test_two_instruments_that_look_alike_need_links_or_serials(write, one, other, expected):
    message = refused(write, {"a": one, "b": other})
    for part in expected:
        assert part in message


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (KORAD, {**KORAD, "connection": "/dev/serial/by-id/usb-2"}),
        ({**USBTMC, "serial": "1"}, {**USBTMC, "connection": "usbtmc/1.13", "serial": "2"}),
        (USBTMC, {**USBTMC, "connection": "tcp-raw/192.0.2.3/5555"}),
        (KORAD, {"driver": "rdtech-dps", "connection": "/dev/ttyACM1"}),
    ],
)
def test_two_that_cannot_be_mistaken_for_each_other_are_taken(write, one, other):
    assert len(write({"a": one, "b": other}).controller.meters) == 2


@pytest.mark.parametrize(
    ("meter", "reported", "expected"),
    [
        ({"driver": "hameg-hmo", "sample_rate_hz": 1000}, {"serial": "102030", "model": "HMO1024"}, "an oscilloscope is no power tap"),
        ({"driver": "hameg-hmo", "sample_rate_hz": 1000}, {"serial": "JT0001-A"}, ""),
        ({"driver": "scpi-pps", "serial": "DP1"}, {"serial": "DP2"}, "serial 'DP2', and serial 'DP1' is declared"),
        ({"driver": "scpi-pps", "serial": "DP1"}, {"serial": "DP1"}, ""),
        ({"driver": "scpi-pps", "serial": "DP1"}, {"serial": ""}, ""),
        ({"driver": "scpi-pps"}, {"serial": "DP2"}, ""),
    ],
)  # fmt: skip
def test_another_instrument_than_the_declared_one_is_refused(write, meter, reported, expected):
    meter = {"connection": "tcp-raw/192.0.2.9/5025", **meter}
    declared = write({"m": meter}).controller.meters["m"]
    if not expected:
        connections.check(declared, reported)
        return
    with pytest.raises(UserError, match=expected):
        connections.check(declared, reported)


def test_powerd_is_given_what_the_instrument_has_to_report(write):
    pps = {**DMM, "driver": "scpi-pps", "serial": "DP1"}
    lab = write({"m": pps}, {"meter": "m", "volts": "V1", "amps": "I1"})
    assert services.meters(lab)[0]["expected"] == {"serial": "DP1"}
