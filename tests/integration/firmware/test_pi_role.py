# SPDX-License-Identifier: GPL-3.0-or-later
"""What role power_tap puts on a Raspberry Pi: it sets the chips up, and its unit starts the tap."""

import os
import shlex
import subprocess

import jinja2
import pytest
import yaml

from tests.support import ROOT
from tests.support.fake_converters import Converters, place
from tests.support.programs import built, end
from tests.support.tap_client import Client

ROLE = ROOT / "ansible" / "roles" / "power_tap"
PROGRAM = "/usr/local/src/joulerig-power-tap/build/power_tap"
RAILS = [
    {"rail": 1, "chip": place(0), "shunt_ohms": 0.01},
    {"rail": 2, "chip": place(1), "shunt_ohms": 0.02},
]


def rendered(name, **more):
    defaults = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text())["power_tap_defaults"]
    loader = jinja2.FileSystemLoader(ROLE / "templates")
    environment = jinja2.Environment(loader=loader, undefined=jinja2.StrictUndefined, trim_blocks=True)
    return environment.get_template(name).render(
        power_tap_as_is={**defaults, "ports": [0, 0], "address": "127.0.0.1", **more}
    )


@pytest.fixture
def chips(tmp_path):
    amps = [lambda windows: windows * 0 + 1.0] * 2
    with Converters(tmp_path, [12.0, 5.0], amps) as chips:
        yield chips


@pytest.fixture
def set_up(tmp_path, chips):
    """set_up(RAILS) runs what sets the chips up, with a modprobe that only notes its calls."""
    (tmp_path / "bin").mkdir()
    modprobe = tmp_path / "bin" / "modprobe"
    modprobe.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/modprobe.calls\n')
    modprobe.chmod(0o755)
    (tmp_path / "sys/bus/i2c/devices/i2c-1").mkdir(parents=True)
    for number in range(2):
        (tmp_path / "sys/bus/i2c/devices" / place(number)).mkdir(parents=True)

    def run(rails):
        script = tmp_path / "converters"
        script.write_text(rendered("converters.j2", rails=rails))
        environment = {**os.environ, **chips.environment, "PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
        return subprocess.run(["sh", script], env=environment, capture_output=True, text=True)

    return run


def test_chips_convert_as_fast_as_the_tap_needs_and_know_their_shunts(chips, set_up, tmp_path):
    assert set_up(RAILS).returncode == 0
    assert (tmp_path / "modprobe.calls").read_text() == "-r ina2xx\nina2xx-adc\n"
    for device, ohms in zip(chips.devices, ("0.01", "0.02"), strict=True):
        found = {
            name: (device / name).read_text().strip()
            for name in ("in_voltage0_integration_time", "in_oversampling_ratio", "in_shunt_resistor")
        }
        assert found == {
            "in_voltage0_integration_time": "0.000332", "in_oversampling_ratio": "1",
            "in_shunt_resistor": ohms,
        }  # fmt: skip


def test_a_chip_that_the_kernel_does_not_know_yet_is_declared_and_one_that_is_not_there_named(
    set_up, tmp_path
):
    done = set_up([{"rail": 1, "chip": "1-004f", "shunt_ohms": 0.01}])
    assert (tmp_path / "sys/bus/i2c/devices/i2c-1/new_device").read_text() == "ina226 0x4f\n"
    assert done.returncode == 1
    assert "converter 1-004f: the kernel's driver has not found it" in done.stderr


def test_the_units_command_is_one_that_the_tap_takes(chips, tmp_path):
    lamp = tmp_path / "brightness"
    lamp.write_text("1\n")
    unit = rendered("joulerig-tap.service.j2", serial="pi7", rails=[{**RAILS[0], "switch": lamp}, RAILS[1]])
    [start] = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    command = shlex.split(start.removeprefix("ExecStart="))
    assert command[0] == PROGRAM
    command = [built("power_tap"), *command[1:]]
    command[command.index("--memory") + 1] = str(tmp_path / "calibration")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=chips.environment)
    try:
        port = int(process.stdout.readline().rpartition("on ")[2].split(",")[0].rpartition(":")[2])
        with Client(port) as client:
            assert "pi7-A" in client.text("*IDN?")
            assert client.seconds(0.3)[:, 0].mean() == pytest.approx(12, abs=0.01)
            assert client.text("TAP:OUTP1?") == "1"
    finally:
        end(process, 5)
