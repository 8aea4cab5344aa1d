# SPDX-License-Identifier: GPL-3.0-or-later
"""Chips that the kernel reads (hwmon, IIO), in a tree as /sys."""

import contextlib
import itertools
import json
import math
import statistics
import subprocess
import sys

import pytest

from tests.support import fake_sysfs
from tests.support.capturers import Capture

POLL = ("--set", "samplerate=100")


@pytest.fixture
def sys_tree(tmp_path, monkeypatch):
    monkeypatch.setenv("JOULERIG_SYSFS", str(tmp_path / "sys"))
    monkeypatch.setenv("JOULERIG_DEV", str(tmp_path))
    return tmp_path / "sys"


def the_one(values):
    """Return what all values are."""
    assert len(set(values)) == 1
    return values[0]


@contextlib.contextmanager
def captured(driver, channels, *more, samples=20, **keys):
    with contextlib.closing(Capture(driver, channels, *more, **keys)) as taken:
        taken.wait_samples(samples)
        assert taken.stop() == 0
        yield taken


def test_hwmon_reads_volts_amps_and_watts_in_the_kernels_units(sys_tree):
    fake_sysfs.hwmon(sys_tree, 0, "coretemp", temp1_input=45000)
    fake_sysfs.hwmon(sys_tree, 1, "ina226", "1-0040", **fake_sysfs.INA226_HWMON)
    with captured("hwmon:conn=hwmon/1-0040", ["in1", "curr1", "power1"], *POLL) as taken:
        assert the_one(taken.samples("in1")) == pytest.approx(11.985)
        assert the_one(taken.samples("curr1")) == pytest.approx(1.25)
        assert the_one(taken.samples("power1")) == pytest.approx(14.98125)
        assert {f.mq for f in taken.frames_of("curr1")} == {10001}
        start = taken.events()[0]
    assert (start["model"], start["serial"], start["samplerate_hz"]) == ("ina226", "1-0040", 0)


def test_an_energy_register_in_microjoules_is_watt_hours(sys_tree):
    fake_sysfs.hwmon(sys_tree, 3, "ina228", "1-0041", energy1_input=7_200_000_001, in1_input=0)
    with captured("hwmon:conn=hwmon/ina228", ["energy1"], *POLL) as taken:
        assert taken.samples("energy1")[0] * 3600 == pytest.approx(7200.000001, abs=1e-7)


def test_iio_reads_raw_values_by_their_scale(sys_tree):
    fake_sysfs.iio(sys_tree, 0, "ina226", "1-0040", **fake_sysfs.INA226_IIO)
    with captured(
        "iio:conn=iio/ina226", ["voltage1", "current3", "power2"], *POLL, "--set", "timing=poll"
    ) as taken:
        assert taken.samples("voltage1")[0] == pytest.approx(11.985)
        assert taken.samples("current3")[0] == pytest.approx(1.25)
        assert taken.samples("power2")[0] == pytest.approx(14.975)


def test_an_offset_and_a_scale_of_all_channels_count(sys_tree):
    fake_sysfs.iio(sys_tree, 1, "adc", in_voltage0_raw=100, in_voltage0_offset=-50, in_voltage_scale=2)
    with captured("iio:conn=iio/adc", ["voltage0"], *POLL) as taken:
        assert taken.samples("voltage0")[0] == pytest.approx(0.1)


def test_iio_streams_scans_of_its_buffer_at_the_chips_own_rate(sys_tree, tmp_path):
    device = fake_sysfs.iio(sys_tree, 0, "ina226", "1-0040", **fake_sysfs.INA226_IIO)
    stream = ("--set", "timing=stream", "--set", "samplerate=200")
    with contextlib.closing(fake_sysfs.Buffer(tmp_path, device)) as buffer:
        with captured("iio:conn=iio/1-0040", ["voltage1", "current3"], *stream, samples=50) as taken:
            assert the_one(taken.samples("voltage1")) == pytest.approx(12.0)
            assert taken.samples("current3")[:4] == pytest.approx([-1.25, 1.25, -1.25, 1.25])
            assert taken.events()[0]["samplerate_hz"] == 200
            assert [f.first for f in taken.frames_of("current3")][:2] == [0, taken.frames_of("current3")[0].n]
        assert (buffer.scans / "in_voltage1_en").read_text().strip() == "1"
        assert (buffer.scans / "in_power2_en").read_text().strip() == "0"
        assert buffer.enabled.read_text().strip() == "0", "the buffer is left off"


def test_readings_are_as_far_apart_as_asked_and_stamped_when_they_were_read(sys_tree):
    fake_sysfs.hwmon(sys_tree, 1, "ina226", **fake_sysfs.INA226_HWMON)
    with captured("hwmon:conn=hwmon/hwmon1", ["in1"], "--set", "samplerate=50", samples=40) as taken:
        times = [f.monotonic_ns for f in taken.frames_of("in1")]
    pauses = [(later - one) / 1e9 for one, later in itertools.pairwise(times)]
    assert statistics.mean(pauses) == pytest.approx(0.02, rel=0.2)
    assert statistics.stdev(pauses) > 0.1 * 0.02  # at random: no load can be in step with them


@pytest.mark.parametrize(
    ("driver", "channels", "code", "expected"),
    [
        ("hwmon:conn=hwmon/1-0099", ["in1"], 3, ["hwmon/1-0099: is not there", "hwmon/1-0040 (ina226)"]),
        ("hwmon:conn=hwmon/ina226", ["in1"], 3, ["fits several", "hwmon/1-0040", "hwmon/1-0041"]),
        ("hwmon:conn=hwmon/1-0040", ["in7"], 2, ["has no 'in7'", "allowed: curr1, in0, in1, power1"]),
        ("hwmon", ["in1"], 2, ["conn: missing"]),
        ("iio:conn=iio/x", ["voltage1"], 3, ["none: the kernel has no iio device"]),
    ],
)
def test_what_is_not_there_is_refused_in_one_line(sys_tree, driver, channels, code, expected):
    for number, address in ((1, "1-0040"), (2, "1-0041")):
        fake_sysfs.hwmon(sys_tree, number, "ina226", address, **fake_sysfs.INA226_HWMON)
    with contextlib.closing(Capture(driver, channels, *POLL)) as taken:
        assert taken.ended() == code
        said = taken.said.splitlines()
    assert len(said) == 1
    for part in expected:
        assert part in said[0]


def test_a_chip_without_a_buffer_says_that_it_can_be_polled(sys_tree):
    fake_sysfs.iio(sys_tree, 0, "ina226", **fake_sysfs.INA226_IIO)
    stream = ("--set", "timing=stream", "--set", "samplerate=200")
    with contextlib.closing(Capture("iio:conn=iio/ina226", ["voltage1"], *stream)) as taken:
        assert taken.ended() == 2
        assert "has no buffer; allowed: timing poll" in taken.said


def test_the_kernels_chips_are_found_by_themselves(sys_tree):
    fake_sysfs.hwmon(sys_tree, 0, "coretemp", temp1_input=45000)
    fake_sysfs.hwmon(sys_tree, 1, "ina226", "1-0040", **fake_sysfs.INA226_HWMON)
    fake_sysfs.iio(sys_tree, 0, "ina219", "1-0044", **fake_sysfs.INA226_IIO)
    done = subprocess.run(
        [sys.executable, "-m", "joulerig.capturers", "--find"], capture_output=True, check=True
    )
    found = {(one["driver"], one["connection"]): one for one in json.loads(done.stdout)}
    assert {key for key in found if key[0] in ("hwmon", "iio")} == {
        ("hwmon", "hwmon/1-0040"),
        ("iio", "iio/1-0044"),
    }
    assert [c["name"] for c in found["hwmon", "hwmon/1-0040"]["channels"]] == [
        "curr1",
        "in0",
        "in1",
        "power1",
    ]
    assert math.isclose(found["iio", "iio/1-0044"]["channels"][0]["index"], 0)
