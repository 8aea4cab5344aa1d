# SPDX-License-Identifier: GPL-3.0-or-later
"""Meters in the inventory: what each family fills in, and what it refuses, on one line."""

import pytest
import yaml

from joulerig.rig.common.errors import UserError
from joulerig.rig.controller import services
from joulerig.rig.lab import meters, model

HMO = {"driver": "hameg-hmo", "connection": "tcp-raw/192.0.2.7/5025", "sample_rate_hz": 1000}
PPS = {"driver": "scpi-pps", "connection": "tcp-raw/192.0.2.8/5025"}
DPS = {"driver": "rdtech-dps", "connection": "/dev/ttyUSB0"}
KORAD = {"driver": "korad-kaxxxxp", "connection": "/dev/ttyACM0"}
LOAD = {"driver": "arachnid-labs-re-load-pro", "connection": "/dev/ttyUSB1"}
DMM = {"driver": "scpi-dmm", "connection": "tcp-raw/192.0.2.9/5025"}
DEMO = {"driver": "demo", "set": {"A1.measured_quantity": "current"}}
OTHER = {"driver": "gwinstek-gpd", "connection": "/dev/ttyUSB2", "timing": "poll", "sample_rate_hz": 2}
VI = {"volts": "V", "amps": "I"}


@pytest.fixture
def write(tmp_path, monkeypatch):
    """write(meter, *rails) gives the lab of a meter `m` whose drive has these rails."""
    monkeypatch.setenv("JOULERIG_VAR", str(tmp_path / "var"))

    def call(meter, *rails, more=None):
        (tmp_path / "inventory.ini").write_text("[controller]\nboss\n[test_hosts]\nbench1\n")
        (tmp_path / "host_vars").mkdir(exist_ok=True)
        wired = {f"r{number}": {"meter": "m", **rail} for number, rail in enumerate(rails)}
        drive = {"interface": "hdd", "serial": "SERIAL-A", "size_bytes": 10**12, "rails": wired}
        boss = {"clock_listen": "0.0.0.0:12300", "meters": {"m": meter, **(more or {})}}
        bench1 = {"controller_address": "192.0.2.1", "drives": {"fast": drive}}
        for name, values in (("boss", boss), ("bench1", bench1)):
            (tmp_path / "host_vars" / f"{name}.yml").write_text(yaml.safe_dump(values))
        return model.load(tmp_path / "inventory.ini")

    return call


@pytest.mark.parametrize(
    ("meter", "rails", "timing", "samples", "rate", "silence"),
    [
        (HMO, [{"volts": "CH1", "amps": "CH2"}], "stream", "window-mean", 1000, None),
        (PPS, [{"volts": "V1", "amps": "I1"}], "poll", "point", 40, 2.0),
        (PPS, [{"volts": "V1", "amps": "I1"}, {"watts": "P2"}], "poll", "point", 80 / 3, 2.0),
        (DPS, [VI], "poll", "point", 0.8 * 9600 / 10 / 29, 2.0),
        (DPS, [{"watts": "P"}], "poll", "point", 0.8 * 9600 / 10 / 29, 2.0),
        ({**DPS, "serialcomm": "115200/8n1"}, [VI], "poll", "point", 0.8 * 97, 2.0),
        (KORAD, [VI], "poll", "point", 4.1, 0.8),
        (LOAD, [VI], "poll", "point", 5, 2.0),
        (DMM, [], "poll", "point", 5, 2.0),
        (DEMO, [{"volts": "A0", "amps": "A1"}], "stream", "point", 1000, None),
        (OTHER, [VI], "poll", "point", 2, 2.5),
        ({**OTHER, "driver": "teleinfo"}, [{"watt_hours": "BASE"}], "poll", "point", 2, 2.5),
        ({**OTHER, "samples": "window-mean", "silence_seconds": 9}, [VI], "poll", "window-mean", 2, 9),
    ],
)
def test_what_a_family_fills_in(write, meter, rails, timing, samples, rate, silence):
    found = write(meter, *rails).controller.meters["m"]
    assert (found.timing, found.samples, found.silence_seconds) == (timing, samples, silence)
    assert found.sample_rate_hz == pytest.approx(rate)


@pytest.mark.parametrize(
    ("meter", "expected"),
    [
        ({**DPS, "connection": "tcp-raw/192.0.2.8/5"}, ["connection: 'tcp-raw/", "rdtech-dps", "/dev/tty"]),
        ({**KORAD, "connection": "tcp-raw/h/1"}, ["connection", "korad-kaxxxxp", "allowed: /dev/ttyUSB0"]),
        ({**HMO, "connection": "vxi/192.0.2.7"}, ["connection: 'vxi/", "tcp-raw/HOST/PORT", "usbtmc/"]),
        ({**DEMO, "connection": "/dev/ttyUSB0"}, ["connection: '/dev/ttyUSB0'", "demo needs none"]),
        ({**HMO, "sample_rate_hz": None}, ["sample_rate_hz: missing", "hameg-hmo"]),
        ({**PPS, "timing": "stream"}, ["timing: 'stream'", "allowed: 'poll'"]),
        ({**PPS, "timing": "sometimes"}, ["timing", "'sometimes'", "'poll'"]),
        ({**OTHER, "timing": None}, ["timing: missing", "gwinstek-gpd"]),
        ({**OTHER, "sample_rate_hz": None}, ["sample_rate_hz: missing", "gwinstek-gpd"]),
        ({**OTHER, "driver": "gwinstek"}, ["driver: 'gwinstek'", "sigrok-cli -L"]),
        ({**OTHER, "driver": "GPD:x"}, ["driver: 'GPD:x'"]),
        ({**PPS, "accuracy": "rigol-dp9000"}, ["accuracy: 'rigol-dp9000'", "rigol-dp832"]),
        ({**PPS, "accuracy": {"ohms": {}}}, ["accuracy", "ohms"]),
        ({**PPS, "accuracy": {"volts": {"percent": 1}}}, ["accuracy", "'percent'", "gain_percent"]),
        ({**PPS, "accuracy": {"volts": {"offset": -1}}}, ["accuracy", "offset", "-1"]),
        ({**PPS, "silence_seconds": 0.1}, ["silence_seconds", "0.1", "0.2"]),
        ({**PPS, "options": {"modbusaddr": "1:2"}}, ["options", "1:2"]),
        ({"driver": "scpi-pps", "virtual": {"tap": "t", "port": "a"}}, ["driver: 'scpi-pps'", "hameg-hmo"]),
    ],
)  # fmt: skip
def test_a_mistake_in_a_meter(write, meter, expected):
    with pytest.raises(UserError) as caught:
        write({key: value for key, value in meter.items() if value is not None})
    message = str(caught.value)
    assert "host_vars/boss.yml: meters.m" in message
    assert "\n" not in message
    for part in expected:
        assert part in message


@pytest.mark.parametrize(
    ("meter", "rail", "expected"),
    [
        (PPS, {"volts": "V1"}, ["rails.r0", "has volts", "'volts' and 'amps'", "'watt_hours'"]),
        (PPS, {}, ["rails.r0", "has no channel"]),
        (PPS, {"volts": "V1", "amps": "I1", "watts": "P1"}, ["has volts and amps and watts"]),
        (PPS, {"volts": "CH1", "amps": "I1"}, ["rails.r0.volts: 'CH1'", "scpi-pps", "V1 and I1"]),
        (PPS, {"watt_hours": "E1"}, ["rails.r0.watt_hours", "no energy register"]),
        (HMO, {"watts": "CH1"}, ["rails.r0.watts", "volts and amps only"]),
        (KORAD, {"watts": "P"}, ["rails.r0.watts", "volts and amps only"]),
        (DMM, {"volts": "P1", "amps": "P2"}, ["rails.r0", "one quantity at a time", "5.00 ± 0.05"]),
        ({**OTHER, "timing": "stream"}, {"watt_hours": "E"}, ["rails.r0.watt_hours", "timing: poll"]),
        (DPS, {"volts": "V", "amps": "V"}, ["channel V of m already measures", "r0"]),
    ],
)  # fmt: skip
def test_a_mistake_in_the_wiring(write, meter, rail, expected):
    if rail.get("amps") == "V":
        expected = ["rails.r0.amps: 'V' is also the volts channel"]
    with pytest.raises(UserError) as caught:
        write(meter, rail)
    message = str(caught.value)
    assert "host_vars/bench1.yml: drives.fast.rails.r0" in message
    assert "\n" not in message
    for part in expected:
        assert part in message


@pytest.mark.parametrize(
    ("meter", "rails", "expected"),
    [
        ({**PPS, "sample_rate_hz": 60}, [{"volts": "V1", "amps": "I1"}], ["60", "2 channels", "up to 48.5"]),
        ({**PPS, "sample_rate_hz": 120}, [{"watts": "P1"}], ["120", "1 channel ", "up to 97"]),
        ({**DPS, "sample_rate_hz": 50}, [VI], ["50", "rdtech-dps", "up to 33.1"]),
        ({**KORAD, "sample_rate_hz": 10}, [VI], ["10", "up to 4.167"]),
    ],
)
def test_a_rate_that_the_driver_cannot_reach(write, meter, rails, expected):
    with pytest.raises(UserError) as caught:
        write(meter, *rails)
    assert "meters.m.sample_rate_hz: " in str(caught.value)
    for part in expected:
        assert part in str(caught.value)


def test_two_meters_at_one_connection(write):
    with pytest.raises(UserError, match=r"meters\.other\.connection: .* is also that of m; they must differ"):
        write(PPS, more={"other": {**DMM, "connection": PPS["connection"]}})


def test_powerd_gets_the_rails_by_what_their_channels_are(write):
    described = write(PPS, {"volts": "V1", "amps": "I1"}, {"watts": "P2"})
    reported = []
    for name, wiring in described.hosts["bench1"].drives["fast"].rails.items():
        reported.append({"rail": name, **wiring.channels})
    assert reported == [{"rail": "r0", "volts": "V1", "amps": "I1"}, {"rail": "r1", "watts": "P2"}]
    config = services._meter(described, "m", reported)
    assert config["driver"] == "scpi-pps:conn=tcp-raw/192.0.2.8/5025"
    assert (config["timing"], config["samples"], config["silence_seconds"]) == ("poll", "point", 2.0)


def test_the_demo_driver_is_set_to_the_declared_rate(write):
    described = write({**DEMO, "sample_rate_hz": 500}, {"volts": "A0", "amps": "A1"})
    config = services._meter(described, "m", [])
    assert config["driver"] == "demo:analog_channels=4:logic_channels=0"
    assert config["set"] == {"samplerate": "500", "A1.measured_quantity": "current"}
    assert "timing" not in config


def test_scan_options_of_ones_own(write):
    described = write({**DPS, "options": {"modbusaddr": "2"}}, VI)
    assert services._meter(described, "m", [])["driver"] == "rdtech-dps:conn=/dev/ttyUSB0:modbusaddr=2"


@pytest.mark.parametrize("family", meters.FAMILIES.values(), ids=meters.FAMILIES)
def test_the_config_in_a_familys_docstring_is_one_that_is_taken(write, family):
    package = "captured" if family.capturer else "families"
    module = __import__(
        f"joulerig.rig.lab.meters.{package}.{family.driver.replace('-', '_')}", fromlist=["FAMILY"]
    )
    lines = [line for line in module.__doc__.splitlines() if line.startswith("    ")]
    [shown] = yaml.safe_load("\n".join(line[4:] for line in lines)).values()
    assert write(shown).controller.meters["m"].driver == family.driver
