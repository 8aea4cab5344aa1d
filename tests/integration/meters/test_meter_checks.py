# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig meters check` at an emulated supply that feeds a resistor of 10 ohms."""

from __future__ import annotations

import json
import sys

import pytest
import yaml

from joulerig.rig.campaign import provenance
from joulerig.rig.cli import main
from joulerig.rig.controller import services
from joulerig.rig.lab import model as lab
from joulerig.rig.lab.meters import checks
from tests.support import emulated_pps

OHMS = "10"


class Bench:
    """A supply with the resistor at its second output, its inventory, and the command line."""

    def __init__(self, folder, monkeypatch, capsys, supply):
        self.supply, self.folder = supply, folder
        self._monkeypatch, self._capsys = monkeypatch, capsys
        (folder / "inventory.ini").write_text("[controller]\nboss\n[test_hosts]\nbench1\n")
        (folder / "host_vars").mkdir()
        meter = {"driver": "scpi-pps", "connection": supply.connection, "accuracy": "rigol-dp832"}
        rails = {"5v": {"meter": "psu", "volts": "V2", "amps": "I2"}}
        drive = {"interface": "hdd", "serial": "SERIAL-A", "size_bytes": 10**12, "rails": rails}
        self.write("bench1", {"controller_address": "192.0.2.1", "drives": {"fast": drive}})
        self.write("boss", {"clock_listen": "0.0.0.0:12300", "meters": {"psu": meter}})
        monkeypatch.setenv("JOULERIG_INVENTORY", str(folder / "inventory.ini"))
        monkeypatch.setenv("JOULERIG_VAR", str(folder / "var"))
        self.reads(5.0, 0.5)

    def write(self, host, values):
        (self.folder / "host_vars" / f"{host}.yml").write_text(yaml.safe_dump(values, sort_keys=False))

    def reads(self, volts, amps):
        """What the meter reads from now on."""
        self.supply.instrument.outputs[2] = (volts, amps)

    def rig(self, *words):
        """Return the exit code, and what was printed."""
        with self._monkeypatch.context() as own:
            own.setattr(sys, "argv", ["rig", "meters", "check", *map(str, words)])
            with pytest.raises(SystemExit) as ended:
                main.main()
        said = self._capsys.readouterr()
        return ended.value.code or 0, said.out, said.err

    def checked(self, *words):
        """Check the resistor; return what is stored of it."""
        code, out, err = self.rig("psu", "--resistor", OHMS, "--seconds", 0.2, "--json", *words)
        assert code in (0, 1), err
        assert (code == 1) == (json.loads(out)["state"] == "out of control")
        return json.loads(out)

    def refused(self, *words):
        code, _, err = self.rig(*words)
        assert code == 2
        return err[err.index("rig: ") :].strip()

    @property
    def stored(self):
        return checks.load(lab.load(self.folder / "inventory.ini"), "psu")


@pytest.fixture
def bench(tmp_path, monkeypatch, capsys):
    with emulated_pps.line() as supply:
        yield Bench(tmp_path, monkeypatch, capsys, supply)


def test_a_check_is_v_squared_t_over_r_and_is_kept(bench):
    found = bench.checked("--resistor-uncertainty", "0.05%", "--celsius", "23.5")
    assert found["expected_joules"] == pytest.approx(0.5)
    assert found["joules"] == pytest.approx(0.5)
    assert found["deviation"] == pytest.approx(0, abs=1e-6)
    assert (found["state"], found["of"], found["celsius"]) == ("in control", "budget", 23.5)
    assert found["instrument"]["serial"] == "DP8EMU0001"
    [kept] = bench.stored
    assert kept.model_dump(mode="json") == found


def test_amps_that_moved_by_five_percent_are_out_of_control_and_the_last_good_check_is_named(bench):
    bench.checked("--resistor-uncertainty", "0.05%")
    bench.reads(5.0, 0.525)
    code, out, _ = bench.rig("psu", "--resistor", OHMS, "--seconds", 0.2, "--resistor-uncertainty", "0.05%")
    assert code == 1
    assert "+5.0000 %" in out
    assert "out of control" in out
    assert "times what meter and resistor explain" in out
    assert f"since {bench.stored[0].at:%Y-%m-%d %H:%M} UTC, the last check in control, are in doubt" in out


@pytest.mark.long
def test_without_a_known_uncertainty_it_has_no_limits_until_there_is_a_chart(bench):
    for amps in (0.5002, 0.4998, 0.5001, 0.4999, 0.5002, 0.4999, 0.5001, 0.4998):
        bench.reads(5.0, amps)
        assert bench.checked()["state"] == "no limits yet"
    assert bench.checked()["state"] == "in control"
    bench.reads(5.0, 0.51)
    assert bench.checked()["state"] == "out of control"
    bench.reads(5.0, 0.5)
    assert bench.checked()["of"] == "chart", "one that is out of control counts in no chart"
    assert bench.checked()["high"] < 0.005


@pytest.mark.long
def test_another_resistor_begins_another_chart(bench):
    for _ in range(9):
        bench.checked()
    code, out, _ = bench.rig("psu", "--resistor", "10.01", "--seconds", 0.2)
    assert code == 0
    assert "no limits yet" in out
    assert "this is number 1" in out


def test_a_known_supply_shows_what_volts_and_amps_share(bench):
    bench.reads(5.05, 0.505)
    assert bench.checked("--resistor-uncertainty", "0.05%")["deviation"] == pytest.approx(0, abs=1e-6)
    found = bench.checked("--resistor-uncertainty", "0.05%", "--supply", "5.000+-0.01%")
    assert found["deviation"] == pytest.approx(1.01**2 - 1, rel=1e-4)
    assert found["expected_joules"] == pytest.approx(0.5)


def test_a_dry_run_stores_nothing(bench):
    code, out, _ = bench.rig("psu", "--resistor", OHMS, "--seconds", 0.2, "--dry-run")
    assert code == 0
    assert "nothing was stored" in out
    assert bench.stored == []


def test_without_a_resistor_the_chart_is_shown(bench):
    assert "no check yet; give --resistor OHMS" in bench.rig("psu")[1]
    bench.checked("--resistor-uncertainty", "0.05%")
    out = bench.rig("psu")[1]
    assert "in control" in out
    assert "bench1/fast/5v" in out
    assert len(json.loads(bench.rig("psu", "--json")[1])) == 1


def test_a_campaign_keeps_the_newest_check_of_its_meters(bench):
    described = lab.load(bench.folder / "inventory.ini")
    assert provenance.checks(described) == {}
    bench.checked("--resistor-uncertainty", "0.05%")
    assert provenance.checks(described)["checks"]["psu"]["state"] == "in control"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["psu", "--resistor", "0"], "--resistor: 0; allowed: ohms, above 0"),
        (["psu", "--resistor", "10", "--rail", "x"], "'x' is not a rail of meter psu; allowed: bench1"),
        (["psu", "--resistor", "10", "--supply", "12V"], "--supply: '12V'; allowed: volts, such as 12.000"),
        (["psu", "--resistor", "10", "--resistor-uncertainty", "x"], "-uncertainty: 'x'; allowed: a number"),
        (["psu", "--resistor", "100", "--seconds", "0.2"], "is the resistor on this rail, and alone?"),
        (["other", "--resistor", "10"], "'other' is not a meter of the controller; allowed: psu"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_line_and_nothing_is_stored(bench, words, line):
    said = bench.refused(*words)
    assert line in said
    assert len(said.splitlines()) == 1
    assert bench.stored == []


def test_a_rail_without_volts_is_no_supply(bench):
    bench.reads(0.0, 0.0)
    assert "is at 0 V: no supply" in bench.refused("psu", "--resistor", OHMS, "--seconds", "0.2")


def test_a_meter_that_powerd_reads_is_left_alone(bench, monkeypatch):
    monkeypatch.setattr(services, "powerd_status", lambda: {"meters": [{"name": "psu"}]})
    assert "in use by powerd" in bench.refused("psu", "--resistor", OHMS)
    assert bench.stored == []


def test_a_file_of_checks_that_is_damaged_is_named(bench):
    bench.checked()
    file = bench.folder / "checks" / "psu.yml"
    file.write_text(file.read_text().replace("state: no limits yet", "state: fine"))
    assert "checks/psu.yml" in bench.refused("psu", "--resistor", OHMS)
