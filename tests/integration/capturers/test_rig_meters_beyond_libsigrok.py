# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig meters` with capturers, stated volts, and what no inventory names."""

import json
import sys

import pytest
import yaml

from joulerig.rig.cli import main
from tests.support import fake_sysfs
from tests.support.capturers import program
from tests.support.emulated_usb import port

AMMETER = """
    import time
    print("amps")
    while True:
        print(0.5)
        time.sleep(0.02)  # the instrument's pace
"""


@pytest.fixture
def bench(tmp_path, monkeypatch, capsys):
    """bench(meters, rail) writes the inventory; bench.rig(*words) is `rig meters` there."""

    class Bench:
        sys_tree = tmp_path / "sys"

        def __call__(self, meters, rail=None):
            (tmp_path / "inventory.ini").write_text("[controller]\nboss\n[test_hosts]\nbench1\n")
            (tmp_path / "host_vars").mkdir(exist_ok=True)
            drive = {"interface": "hdd", "serial": "SERIAL-A", "size_bytes": 10**12}
            drive |= {"rails": {"5v": rail}} if rail else {}
            boss = {"clock_listen": "0.0.0.0:12300", "meters": meters}
            bench1 = {"controller_address": "192.0.2.1", "drives": {"fast": drive}}
            for name, values in (("boss", boss), ("bench1", bench1)):
                (tmp_path / "host_vars" / f"{name}.yml").write_text(
                    yaml.safe_dump(values, allow_unicode=True)
                )

        def rig(self, *words):
            with monkeypatch.context() as own:
                own.setattr(sys, "argv", ["rig", "meters", *map(str, words)])
                with pytest.raises(SystemExit) as ended:
                    main.main()
            said = capsys.readouterr()
            return ended.value.code or 0, said.out, said.err

        def json(self, *words):
            code, out, err = self.rig(*words, "--json")
            assert code == 0, err
            return json.loads(out)

    monkeypatch.setenv("JOULERIG_INVENTORY", str(tmp_path / "inventory.ini"))
    monkeypatch.setenv("JOULERIG_VAR", str(tmp_path / "var"))
    monkeypatch.setenv("JOULERIG_SYSFS", str(tmp_path / "sys"))
    monkeypatch.setenv("JOULERIG_DEV", str(tmp_path / "dev"))
    return Bench()


def ammeter(tmp_path, **more):
    return {
        "driver": "command",
        "command": program(tmp_path, AMMETER),
        "timing": "poll",
        "sample_rate_hz": 50,
        **more,
    }


def test_scan_finds_chips_and_ports_that_no_inventory_names(bench, tmp_path):
    fake_sysfs.hwmon(bench.sys_tree, 1, "ina226", "1-0040", **fake_sysfs.INA226_HWMON)
    port(bench.sys_tree, "ttyUSB7", idVendor="1a86", idProduct="7523", product="USB Serial", serial="")
    port(bench.sys_tree, "ttyACM3", idVendor="1915", idProduct="c00a", product="PPK2", serial="C9F2")
    bench({})
    chip, kit, other = bench.json("scan")
    assert (chip["asked"], chip["instruments"][0]["connection"]) == ("hwmon", "hwmon/1-0040")
    assert (kit["asked"], kit["instruments"][0]["serial"]) == ("ppk2", "C9F2")
    assert (other["port"], other["problem"]) == ("/dev/ttyUSB7", "USB Serial, USB 1a86:7523")
    _, printed, _ = bench.rig("scan")
    assert "not in the inventory: hwmon at hwmon/1-0040: Linux ina226 1-0040" in printed
    assert "  meter1:\n    driver: hwmon\n    connection: hwmon/1-0040" in printed
    assert "not in the inventory: /dev/ttyUSB7: USB Serial, USB 1a86:7523" in printed
    assert "'rig meters scan --probe'" in printed


def test_a_port_is_named_by_its_lasting_link(bench, tmp_path):
    port(bench.sys_tree, "ttyUSB7", idVendor="1a86", idProduct="7523", product="USB Serial")
    (tmp_path / "dev" / "serial" / "by-id").mkdir(parents=True)
    (tmp_path / "dev" / "serial" / "by-id" / "usb-1a86-if00").symlink_to("/dev/ttyUSB7")
    bench({})
    (found,) = bench.json("scan")
    assert found["port"].endswith("/serial/by-id/usb-1a86-if00")


def test_what_the_inventory_names_is_not_found_again(bench):
    fake_sysfs.hwmon(bench.sys_tree, 1, "ina226", "1-0040", **fake_sysfs.INA226_HWMON)
    bench({"ina": {"driver": "hwmon", "connection": "hwmon/1-0040"}})
    (declared,) = bench.json("scan")
    assert (declared["asked"], declared["instruments"][0]["model"]) == ("ina", "ina226")
    assert [c["name"] for c in declared["instruments"][0]["channels"]] == ["curr1", "in0", "in1", "power1"]


def test_scan_of_a_program_shows_its_columns(bench, tmp_path):
    bench({"m": ammeter(tmp_path)})
    (found,) = bench.json("scan")
    assert [c["name"] for c in found["instruments"][0]["channels"]] == ["amps"]


def test_scan_asks_at_a_driver_and_connection(bench):
    fake_sysfs.hwmon(bench.sys_tree, 1, "ina226", "1-0040", **fake_sysfs.INA226_HWMON)
    bench({})
    code, printed, _ = bench.rig("scan", "--driver", "hwmon", "--connection", "hwmon/ina226")
    assert code == 0
    assert "hwmon: Linux ina226 hwmon1, serial 1-0040; channels curr1, in0, in1, power1" in printed


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["scan", "--driver", "joulescop"], "did you mean 'joulescope'"),
        (["scan", "--driver", "hwmon", "--connection", "hwmon/1-0099"], "hwmon/1-0099: is not there"),
        (["scan", "--driver", "ppk2", "--connection", "/dev/serial/by-id/none"], "is not there: unplugged?"),
    ],
)
def test_what_cannot_be_asked_is_one_line(bench, words, expected):
    bench({})
    code, _, err = bench.rig(*words)
    assert code == 2
    assert expected in err
    assert "Traceback" not in err


def test_a_meter_whose_link_is_unplugged_does_not_keep_the_others_from_being_asked(bench):
    fake_sysfs.hwmon(bench.sys_tree, 1, "ina226", "1-0040", **fake_sysfs.INA226_HWMON)
    gone = {"driver": "korad-kaxxxxp", "connection": "/dev/serial/by-id/no-such-port"}
    bench({"a": gone, "b": {"driver": "hwmon", "connection": "hwmon/1-0040"}})
    a, b = bench.json("scan")
    assert "is not there: unplugged?" in a["problem"]
    assert b["instruments"][0]["model"] == "ina226"


def test_show_gives_watts_and_a_budget_of_stated_volts(bench, tmp_path):
    accuracy = {"amps": {"gain_percent": 1.0}}
    bench({"m": ammeter(tmp_path, accuracy=accuracy)}, {"meter": "m", "volts": "5.00 ± 0.05", "amps": "amps"})
    shown = bench.json("show", "m")
    (reading,) = shown["readings"]
    assert (reading["volts"], reading["amps"], reading["watts"]) == (5.0, 0.5, 2.5)
    (budget,) = shown["uncertainty"]
    relative = (0.01**2 + 0.01**2) ** 0.5 / 3**0.5
    assert budget["watts_standard"] == pytest.approx(2.5 * relative, rel=1e-3)
    (rail,) = bench.json("list")[0]["rails"]
    assert rail["stated"] == {"volts": 5.0, "tolerance": 0.05}


def test_check_of_an_ammeter_squares_the_supplys_volts(bench, tmp_path):
    bench({"m": ammeter(tmp_path)}, {"meter": "m", "volts": "5.00 ± 0.05", "amps": "amps"})
    words = ["check", "m", "--resistor", "10", "--resistor-uncertainty", "0.1%", "--seconds", "1"]
    code, _, err = bench.rig(*words)
    assert code == 2
    assert "has no channel of volts; give the supply's with --supply" in err
    taken = bench.json(*words, "--supply", "5.0+-0.01")
    assert taken["watts"] == pytest.approx(2.5)
    assert taken["deviation"] == pytest.approx(0, abs=1e-6)
