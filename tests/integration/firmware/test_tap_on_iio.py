# SPDX-License-Identifier: GPL-3.0-or-later
"""The power tap on a Raspberry Pi: converters of the kernel's, in a tree as /sys, four rails."""

import re
import subprocess

import numpy as np
import pytest

from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.meters import tap
from tests.support.fake_converters import Converters, place
from tests.support.measured_rail import lab_of, running
from tests.support.programs import built, end
from tests.support.tap_client import Client

PROGRAM = built("power_tap")
RATE_HZ = 1000
VOLTS = [12.0, 5.0, 3.3, 1.8]


def toggling(high):
    """Amps that change from window to window, so that each lost or doubled sample shows."""
    return lambda windows: np.where(windows % 2, high, high / 2)


@pytest.fixture
def chips(tmp_path):
    with Converters(tmp_path, VOLTS, [toggling(high) for high in (2.0, 1.5, 1.0, 0.5)]) as chips:
        yield chips


class Tap:
    def __init__(self, chips, *options, rails=4):
        self.command = [PROGRAM, "--listen", "127.0.0.1:0,127.0.0.1:0", "--rate", str(RATE_HZ), *options]
        for number in range(rails):
            self.command += ["--rail", f"{number + 1}=iio:{place(number)}"]
        self.environment = chips.environment

    def __enter__(self):
        self.process = subprocess.Popen(
            self.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment
        )
        self.ports = [int(port) for port in re.findall(r":(\d+)", self.process.stdout.readline())]
        return self

    def __exit__(self, *_):
        end(self.process, 5)


def test_four_rails_at_a_thousand_samples_a_second_lose_and_double_none(chips):
    with Tap(chips) as running_tap, Client(running_tap.ports[0]) as a, Client(running_tap.ports[1]) as b:
        samples = np.hstack([a.seconds(1.0)[:800], b.seconds(1.0)[:800]])
        assert a.text("TAP:COUN?").split(",")[1] == "0"
    assert len(samples) == 800
    for rail, volts in enumerate(VOLTS):
        assert samples[:, 2 * rail] == pytest.approx(volts, abs=1.25e-3)
        amps = samples[:, 2 * rail + 1]
        high = (2.0, 1.5, 1.0, 0.5)[rail]
        assert set(np.round(amps, 4)) == {high, high / 2}
        assert (amps[1:] != amps[:-1]).all(), "each window once, in order"


def test_what_a_chip_missed_is_not_a_number_on_its_rail_alone(chips):
    chips.missing[1] = lambda windows: windows % 10 == 3
    with Tap(chips) as running_tap, Client(running_tap.ports[0]) as client:
        samples = client.seconds(1.0)
    lost = np.isnan(samples[:, 2])
    assert np.isnan(samples[:, 3]).tolist() == lost.tolist()
    assert lost.mean() == pytest.approx(0.1, abs=0.02)
    assert set(np.diff(np.flatnonzero(lost))) == {10}
    assert np.isfinite(samples[:, :2]).all()


def test_joules_of_a_rail_by_libsigrok_and_powerd(chips, tmp_path):
    with Tap(chips, "--serial", "pi1") as running_tap:
        connection = f"tcp-raw/127.0.0.1/{running_tap.ports[0]}"
        meter = {"driver": "hameg-hmo", "connection": connection, "sample_rate_hz": RATE_HZ}
        rail = {"meter": "tap1a", "volts": "CH3", "amps": "CH4"}
        with running(tmp_path, {"tap1a": {**meter, "samples": "window-mean"}}, rail) as found:
            # 5 V at 1.5 and 0.75 A in turn.
            status = found.measured(3.0)
            assert found.meter["instrument"]["serial"] == "pi1-A"
            assert status["joules"] / found.meter["samples"] * RATE_HZ == pytest.approx(5.625, rel=0.01)
            assert found.meter["lost"] == 0


def test_samples_that_a_chip_missed_are_lost_ones_of_the_ledger(chips, tmp_path):
    chips.missing[1] = lambda windows: windows % 100 == 3
    with Tap(chips) as running_tap:
        connection = f"tcp-raw/127.0.0.1/{running_tap.ports[0]}"
        meter = {"driver": "hameg-hmo", "connection": connection, "sample_rate_hz": RATE_HZ}
        rail = {"meter": "tap1a", "volts": "CH3", "amps": "CH4"}
        with running(tmp_path, {"tap1a": {**meter, "samples": "window-mean"}}, rail) as found:
            found.measured(3.0)
            status = found.meter
    assert status["lost"] / status["expected"] == pytest.approx(0.01, abs=0.003)


def test_a_rails_switch_is_a_file_and_a_rail_without_one_is_never_said_to_be_off(chips, tmp_path):
    lamp = tmp_path / "brightness"
    lamp.write_text("1\n")
    with Tap(chips, "--switch", f"1={lamp}") as running_tap:
        meter = {"driver": "hameg-hmo", "connection": f"tcp-raw/127.0.0.1/{running_tap.ports[0]}"}
        rails = {"meter": "t", "volts": "CH1", "amps": "CH2"}
        lab = lab_of(tmp_path, {"t": {**meter, "sample_rate_hz": RATE_HZ}}, rails)
        rail = lab.hosts["bench1"].drives["fast"].rails["5v"]
        assert tap.is_on(lab, rail)
        tap.switch(lab, rail, False)
        assert lamp.read_text() == "0\n"
        assert not tap.is_on(lab, rail)
        tap.switch(lab, rail, True)
        assert lamp.read_text() == "1\n"
        other = rail.model_copy(update={"volts": "CH3", "amps": "CH4"})
        with pytest.raises(UserError, match="rail 2 does not switch off"):
            tap.switch(lab, other, False)


def test_a_tap_that_starts_again_leaves_the_switches_as_they_are(chips, tmp_path):
    lamp = tmp_path / "brightness"
    lamp.write_text("0\n")
    with Tap(chips, "--switch", f"1={lamp}") as running_tap, Client(running_tap.ports[0]) as client:
        assert client.text("TAP:OUTP1?") == "0"
    assert lamp.read_text() == "0\n"


def test_a_chip_that_goes_ends_the_tap_so_that_nothing_is_made_up(chips):
    with Tap(chips) as running_tap:
        with Client(running_tap.ports[0]) as client:
            client.seconds(0.2)
        chips.unplug(2)
        assert running_tap.process.wait(10) == 1
        assert "--rail 3=iio:1-0042: its buffer has ended" in running_tap.process.stderr.read()


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (["--rail", "1=iio:1-0041"], "allowed is N=iio:DEVICE"),
        (["--rail", "2=iio:1-0077"], "--rail 2=iio:1-0077: no such device"),
        (["--rail", "2=iio:device1:voltage9,current3"], "not all of voltage9, current3 and timestamp"),
        (["--switch", "2=/tmp/x"], "--switch: allowed for rails of converters only"),
        (["--switch", "1=here"], "allowed is N=/FILE"),
        (["--rate", "2000"], "converts 1506.0 times a second; --rate may be that at most"),
        (["--synthetic"], "--synthetic: allowed without --rail only"),
        (["--serial", "a,b"], "a word without comma"),
    ],
)
def test_a_mistake_is_one_line(chips, more, complaint):
    command = [*Tap(chips, rails=1).command, *more]
    done = subprocess.run(command, capture_output=True, text=True, env=chips.environment, timeout=10)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
