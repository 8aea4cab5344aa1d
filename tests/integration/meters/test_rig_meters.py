# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig meters` at emulated instruments: what it prints, what it refuses, what it stores."""

import io
import json
import socket
import sys
import time
from dataclasses import dataclass

import pytest
import yaml

from joulerig.rig.cli import main
from joulerig.rig.controller import services
from joulerig.rig.lab import model as lab
from joulerig.rig.lab.meters import calibration
from tests.support import emulated_dmm, emulated_korad, emulated_pps
from tests.support.power_processes import SRCAP, Powerd
from tests.support.programs import wait_for


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


class Bench:
    """A supply, a multimeter at its output, the inventory of both, and the command line."""

    def __init__(self, folder, monkeypatch, capsys, psu, dmm):
        self.psu, self.dmm, self.folder = psu, dmm, folder
        self._monkeypatch, self._capsys = monkeypatch, capsys
        (folder / "inventory.ini").write_text("[controller]\nboss\n[test_hosts]\nbench1\n")
        (folder / "host_vars").mkdir()
        supply = {"driver": "scpi-pps", "connection": psu.connection, "accuracy": "rigol-dp832"}
        reference = {"driver": "scpi-dmm", "connection": dmm.connection}
        boss = {"clock_listen": "0.0.0.0:12300", "meters": {"psu": supply, "dmm": reference}}
        rails = {"5v": {"meter": "psu", "volts": "V2", "amps": "I2"}}
        drive = {"interface": "hdd", "serial": "SERIAL-A", "size_bytes": 10**12, "rails": rails}
        bench1 = {"controller_address": "192.0.2.1", "drives": {"fast": drive}}
        for name, values in (("boss", boss), ("bench1", bench1)):
            (folder / "host_vars" / f"{name}.yml").write_text(yaml.safe_dump(values, sort_keys=False))
        monkeypatch.setenv("JOULERIG_INVENTORY", str(folder / "inventory.ini"))
        monkeypatch.setenv("JOULERIG_VAR", str(folder / "var"))

    @property
    def lab(self):
        return lab.load(self.folder / "inventory.ini")

    def declare(self, name, driver="", **keys):
        """Change keys of the inventory's meter `name`, add it, or remove it (`driver` None)."""
        file = self.folder / "host_vars" / "boss.yml"
        boss = yaml.safe_load(file.read_text())
        if driver is None:
            del boss["meters"][name]
        else:
            boss["meters"].setdefault(name, {}).update(keys | ({"driver": driver} if driver else {}))
        file.write_text(yaml.safe_dump(boss, sort_keys=False))

    def rig(self, *words, stdin=""):
        with self._monkeypatch.context() as own:
            own.setattr(sys, "argv", ["rig", "meters", *map(str, words)])
            own.setattr(sys, "stdin", io.StringIO(stdin) if isinstance(stdin, str) else stdin)
            with pytest.raises(SystemExit) as ended:
                main.main()
        said = self._capsys.readouterr()
        return Done(ended.value.code or 0, said.out, said.err)

    def json(self, *words, **more):
        done = self.rig(*words, "--json", **more)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def refused(self, *words, **more):
        done = self.rig(*words, **more)
        assert done.returncode == 2
        line = done.stderr.splitlines()[-1]
        return line[line.index("rig: ") :]


@pytest.fixture
def bench(tmp_path, monkeypatch, capsys):
    with emulated_pps.line() as psu, emulated_dmm.line() as dmm:
        yield Bench(tmp_path, monkeypatch, capsys, psu, dmm)


class Turning(io.StringIO):
    """The person at the bench: turns the knob whenever Enter is asked for."""

    def __init__(self, *steps):
        super().__init__()
        self.steps = list(steps)

    def readline(self, *_):
        if not self.steps:
            return ""
        self.steps.pop(0)()
        return "\n"


def test_list(bench):
    psu, dmm = bench.json("list")
    assert (psu["meter"], psu["driver"], psu["state"]) == ("psu", "scpi-pps", "not running")
    assert psu["rails"] == [
        {"rail": "5v", "host": "bench1", "drive": "fast", "channels": {"volts": "V2", "amps": "I2"}}
    ]
    assert dmm["rails"] == []
    assert psu["calibration"]["state"] == "none"
    printed = bench.rig("list").stdout
    assert "bench1/fast/5v" in printed
    assert "none (a reference)" in printed


def test_scan_of_the_inventory(bench):
    psu, dmm = bench.json("scan")
    assert (psu["asked"], psu["instruments"][0]["serial"]) == ("psu", "DP8EMU0001")
    assert [c["name"] for c in psu["instruments"][0]["channels"]][:3] == ["V1", "I1", "P1"]
    assert dmm["instruments"][0]["model"] == "34465A"


def test_scan_of_the_inventory_says_what_to_do_next(bench):
    bench.declare("psu", connection="tcp-raw/127.0.0.1/1")
    done = bench.rig("scan")
    silent, found, *advice = done.stdout.splitlines()
    assert done.returncode == 0
    silence = "psu: no instrument answers at scpi-pps:conn=tcp-raw/127.0.0.1/1"
    assert silent.startswith(f"{silence}; scpi-pps of libsigrok knows ")
    assert "driver: command" in silent
    assert found.startswith("dmm: Keysight Technologies 34465A")
    assert "'rig meters show METER'" in advice[0]
    assert "check the meter's power and cable, and its 'connection'" in advice[1]


def test_scan_of_a_connection(bench):
    done = bench.rig("scan", "--driver", "scpi-dmm", "--connection", bench.dmm.connection)
    assert "Keysight Technologies 34465A A.03.02, serial MYEMU00001; channels P1" in done.stdout
    assert "this is dmm of the inventory" in done.stdout


def test_what_a_scan_of_a_new_instrument_prints_is_its_inventory_entry(bench):
    bench.declare("dmm", None)
    done = bench.rig("scan", "--driver", "scpi-dmm", "--connection", bench.dmm.connection)
    written = yaml.safe_load("\n".join(line for line in done.stdout.splitlines() if line.startswith("  ")))
    assert written == {"meter1": {"driver": "scpi-dmm", "connection": bench.dmm.connection}}
    bench.declare("meter1", **written["meter1"])
    assert bench.json("show", "meter1")["instrument"]["model"] == "34465A"


def test_a_scan_that_fails_says_why_once(bench):
    done = bench.rig("scan", "--driver", "scpi-pps", "--connection", "tcp-raw/127.0.0.1/1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("tcp-raw/127.0.0.1/1") == 1
    assert "check its power, its cable and --connection" in done.stderr


def test_scan_of_a_mute_peer_ends(bench):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        connection = f"tcp-raw/127.0.0.1/{mute.getsockname()[1]}"
        began = time.monotonic()
        line = bench.refused("scan", "--driver", "scpi-pps", "--connection", connection, "--seconds", "1")
    assert "accepts connections, but does not answer within 1 s" in line
    assert time.monotonic() - began < 4


def test_scan_of_a_serial_line(bench):
    with emulated_korad.line() as line:
        found = bench.json("scan", "--driver", "korad-kaxxxxp", "--connection", line.connection)
    assert found[0]["instruments"][0]["model"] == "KD3005P"


V2 = ["calibrate", "psu", "--channel", "V2"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["scan", "--connection", "tcp-raw/h/1"], "--driver: missing"),
        (["scan", "--driver", "korad"], "--driver: 'korad' is not a driver of this libsigrok"),
        (["scan", "--driver", "scpi-pps", "--connection", "tcp-raw/127.0.0.1/1"], "no instrument answers"),
        (["show", "tap9"], "'tap9' is not a meter of the controller; allowed: psu, dmm"),
        (["watch", "dmm"], "meter dmm: measures no rail"),
        (V2, "needs either --point (twice or more) or --reference"),
        (["calibrate", "psu", "--channel", "CH1", "--point", "1=1"], "--channel: 'CH1': scpi-pps has no"),
        ([*V2, "--point", "1=1"], "1 distinct reading(s)"),
        ([*V2, "--point", "1=1", "--point", "2=1"], "1 distinct reading(s)"),
        ([*V2, "--point", "1=one"], "--point: '1=one' is not REFERENCE[=READING]"),
        ([*V2[:3], "V3", "--point", "1=1", "--point", "2=2"], "'V3' of psu measures no rail"),
        ([*V2, "--reference", "dmm"], "'dmm' is not METER:CHANNEL"),
        ([*V2, "--reference", "psu:V1"], "'psu:V1' is not METER:CHANNEL of another"),
        ([*V2, "--point", "1=1", "--expires", "soon"], "--expires: 'soon' is not a date"),
        (
            [*V2, "--point", "1=1", "--expires", "2020-01-01"],
            "--expires: 2020-01-01 is before",
        ),
        (
            [*V2, "--point", "1=1", "--reference-uncertainty", "little"],
            "--reference-uncertainty: 'little'",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(bench, words, expected):
    assert expected in bench.refused(*words)
    assert not (bench.folder / "calibration").exists()


def test_show_reads_the_meter_itself_where_powerd_does_not(bench):
    reported = bench.json("show", "psu")
    assert reported["instrument"]["serial"] == "DP8EMU0001"
    assert reported["channels"] == {"V2": "volts", "I2": "amps"}
    [rail] = reported["uncertainty"]
    assert rail["watts_value"] == pytest.approx(7.5)
    # 0.05 % of 5 V and 10 mV as a rectangle's half width.
    assert rail["volts"]["meter_class"] == pytest.approx((0.0025 + 0.010) / 3**0.5)
    assert rail["watts_standard"] > 0
    assert "no calibration" in bench.rig("show", "psu").stdout


def test_show_says_so_where_nothing_answers(bench):
    bench.psu.unplug()
    assert "no instrument answers" in bench.json("show", "psu")["problem"]


def test_watch_reads_the_meter_itself_where_powerd_does_not(bench):
    done = bench.rig("watch", "psu", "--count", "2", "--interval", "0.3", "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == 2
    [rail] = rows[1]["rails"]
    assert (rail["volts"], rail["amps"], rail["watts"]) == pytest.approx((5.0, 1.5, 7.5))


def test_typed_points_with_their_certificate(bench):
    typed = ["--point", "3.3000=3.2987", "--point", "5.0000=4.9981", "--point", "12.001=11.997"]
    more = ["--certificate", "C-2026-17", "--laboratory", "Lab", "--operator", "AB", "--date", "2026-03-01"]
    reported = bench.json("calibrate", "psu", "--channel", "V2", *typed, *more)
    stored = calibration.load(bench.lab, "psu").channels["V2"].current
    assert stored.model_dump(mode="json") == reported
    assert stored.instrument.serial == "DP8EMU0001"
    assert (stored.certificate, stored.laboratory, stored.operator) == ("C-2026-17", "Lab", "AB")
    assert stored.expires.isoformat() == "2027-03-01"
    assert [p.reading for p in stored.points] == [3.2987, 4.9981, 11.997]
    assert stored.gain * 4.9981 + stored.offset == pytest.approx(5.0, abs=1e-3)
    assert stored.u_gain > 0


def test_readings_are_averaged_where_only_the_reference_is_typed(bench):
    outputs = bench.psu.instrument.outputs
    turning = Turning(lambda: outputs.update({2: (3.3, 1.5)}), lambda: outputs.update({2: (12.0, 1.5)}))
    words = ["--point", "3.306", "--point", "12.015", "--seconds", "0.5"]
    reported = bench.json("calibrate", "psu", "--channel", "V2", *words, stdin=turning)
    assert reported["gain"] == pytest.approx((12.015 - 3.306) / (12.0 - 3.3))
    assert [p["reading"] for p in reported["points"]] == pytest.approx([3.3, 12.0])
    # Two points, but the meter's last digit is known: so is how well they lie.
    assert reported["u_gain"] == pytest.approx(2**0.5 * 0.001 / 12**0.5 / 8.7, rel=0.01)


def test_a_reference_meter_is_read_at_the_same_time(bench):
    outputs = bench.psu.instrument.outputs

    def turn(true):
        def step():
            bench.dmm.instrument.volts = true
            outputs.update({2: ((true - 0.004) / 1.002, 1.5)})

        return step

    turning = Turning(turn(1.0), turn(5.0), turn(12.0))
    words = ["--reference", "dmm:P1", "--seconds", "0.5"]
    reported = bench.json("calibrate", "psu", "--channel", "V2", *words, stdin=turning)
    # The supply reports four digits after the point.
    assert reported["gain"] == pytest.approx(1.002, abs=2e-5)
    assert reported["offset"] == pytest.approx(0.004, abs=2e-4)
    assert reported["reference_instrument"] == "dmm: Keysight Technologies 34465A MYEMU00001"


def test_a_reference_of_another_quantity_is_refused(bench):
    words = ["calibrate", "psu", "--channel", "I2", "--reference", "dmm:P1", "--seconds", "0.3"]
    line = bench.refused(*words, stdin=Turning(lambda: None))
    assert "meter dmm: channel P1 reads volts; allowed: amps" in line


def test_points_that_are_never_set_end_it(bench):
    assert "standard input ended" in bench.refused("calibrate", "psu", "--channel", "V2", "--point", "5")


def test_a_dry_run_stores_nothing(bench):
    done = bench.rig(
        "calibrate", "psu", "--channel", "V2", "--point", "1=1", "--point", "2=2.01", "--dry-run"
    )
    assert "nothing was stored" in done.stdout
    assert not (bench.folder / "calibration").exists()


def test_a_supply_in_the_place_of_the_one_that_was_calibrated(bench):
    bench.rig("calibrate", "psu", "--channel", "V2", "--point", "1=1", "--point", "2=2.01")
    bench.psu.instrument.identity = bench.psu.instrument.identity.replace("EMU0001", "EMU0002")
    reported = bench.json("show", "psu")["calibration"]
    assert reported["state"] == "none"
    assert "it is of serial 'DP8EMU0001', this instrument's is 'DP8EMU0002'" in reported["reason"]


@pytest.fixture
def measured(bench):
    """powerd measures with the supply, which reads 1 % low and is calibrated for it."""
    bench.rig("calibrate", "psu", "--channel", "V2", "--point", "0=0", "--point", "5.05=5")
    rails = [{"rail": "5v", "host": "bench1", "drive": "fast", "volts": "V2", "amps": "I2"}]
    config = {
        "state_dir": str(bench.folder / "powerd"),
        "srcap": SRCAP,
        "status_socket": str(services._status_socket()),
        "points_per_second": 10,
        "influx": {"url": "http://127.0.0.1:9", "database": "power"},
        "meters": [services._meter(bench.lab, "psu", rails)],
    }
    bench.psu.instrument.noise = 1e-4
    powerd = Powerd(bench.folder, config)
    try:
        powerd.wait_state("psu", "streaming", 15)
        wait_for(
            lambda: (m := powerd.meter("psu"))["samples"] + m["repeated"] >= 60,
            15,
            "readings enough for their rate",
        )
        yield bench
    finally:
        powerd.stop()


def test_with_powerd_the_figures_are_powerds_and_corrected(measured):
    [psu, _dmm] = measured.json("list")
    assert psu["state"] == "streaming"
    reported = measured.json("show", "psu")
    assert reported["instrument"]["serial"] == "DP8EMU0001"
    assert 20 < reported["observed_rate_hz"] < 50
    ledger = reported["ledger"]
    assert ledger["expected"] == sum(ledger[k] for k in ("samples", "lost", "duplicate", "repeated")) > 0
    assert reported["readings"][0]["volts"] == pytest.approx(5.05, rel=1e-3)
    done = measured.rig("watch", "psu", "--count", "2", "--interval", "1", "--json")
    rows = [json.loads(line)["rails"][0] for line in done.stdout.splitlines()]
    assert rows[0]["watts"] == pytest.approx(7.575, rel=2e-3)
    assert rows[1]["joules"] > rows[0]["joules"] > 0
    assert "volts" in measured.rig("watch", "psu", "--count", "1").stdout


def test_powerd_refuses_to_correct_another_instrument(measured):
    measured.psu.instrument.identity = measured.psu.instrument.identity.replace("EMU0001", "EMU0002")
    measured.psu.reset()

    def refused():
        [psu, _dmm] = measured.json("list")
        return psu["reason"] if psu["state"] == "failed" else None

    reason = wait_for(refused, 10, "powerd to refuse the other instrument")
    assert "serial 'DP8EMU0002'" in reason or 'serial "DP8EMU0002"' in reason
    assert "DP8EMU0001" in reason


def test_with_powerd_no_other_process_reads_the_meter(measured):
    live = measured.refused("calibrate", "psu", "--channel", "V2", "--point", "1", "--point", "2")
    assert "in use by powerd" in live
    scanned = measured.json("scan")
    assert scanned[0]["problem"] == "not asked: in use by powerd"
    line = measured.refused("scan", "--driver", "scpi-pps", "--connection", measured.psu.connection)
    assert "in use by powerd" in line
