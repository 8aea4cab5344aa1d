# SPDX-License-Identifier: GPL-3.0-or-later
"""The health that a twin reports of its drive, and what of it outlives the twin."""

import subprocess
import time

import pytest

from tests.support.nbd_client import NbdClient
from tests.support.programs import wait_for
from tests.support.twins import Twin

KIB = 1 << 10
ON_SECONDS = OFF_SECONDS = 0.2
THERMAL_SECONDS = 0.05


def test_bytes_and_power_cycles_outlive_a_twin_that_is_stopped(tmp_path):
    twin = Twin(tmp_path)
    for run in range(1, 4):
        with twin, NbdClient(twin.nbd) as client:
            client.write(0, bytes(64 * KIB))
            health = twin.state()["health"]
        assert health["host_bytes_written"] == health["nand_bytes_written"] == run * 64 * KIB
        assert (health["power_cycles"], health["unsafe_shutdowns"]) == (run, 0)


def test_a_cut_and_a_killed_twin_are_unsafe_shutdowns(tmp_path):
    twin = Twin(tmp_path)
    with twin:
        twin.ask("power off")
        twin.ask("power on")
    twin.start()
    assert twin.state()["unsafe_shutdowns"] == 1
    record = tmp_path / "drive.img.health"
    wait_for(lambda: "running 1" in record.read_text(), 5, "the twin's start is on record")
    twin.kill()
    with twin:
        state = twin.state()
    assert state["unsafe_shutdowns"] == state["health"]["unsafe_shutdowns"] == 2
    assert state["power_cycles"] == 4


def test_hours_count_while_there_is_power(tmp_path):
    with Twin(tmp_path) as twin:
        first = twin.state()
        time.sleep(ON_SECONDS)
        twin.ask("power off")
        cut = twin.state()
        time.sleep(OFF_SECONDS)
        later = twin.state()
    on = cut["health"]["power_on_seconds"] - first["health"]["power_on_seconds"]
    assert on == pytest.approx(ON_SECONDS, abs=0.1)
    assert later["health"]["power_on_seconds"] == cut["health"]["power_on_seconds"]


def test_temperature_goes_to_ambient_and_what_the_watts_add(tmp_path):
    rail = "5v,5,0,2,0,0,0,0"
    options = ["ambient_celsius=30", "kelvin_per_watt=10", f"thermal_seconds={THERMAL_SECONDS}"]
    with Twin(tmp_path, rails=[rail], options=options) as twin:
        time.sleep(10 * THERMAL_SECONDS)
        assert twin.state()["health"]["temperature_celsius"] == pytest.approx(50, abs=0.01)
        twin.ask("power off")
        time.sleep(10 * THERMAL_SECONDS)
        assert twin.state()["health"]["temperature_celsius"] == pytest.approx(30, abs=0.01)


def test_a_damaged_record_is_named(tmp_path):
    twin = Twin(tmp_path)
    record = tmp_path / "drive.img.health"
    record.write_text("nonsense\n")
    done = subprocess.run([*twin.command, "--run", "true"], capture_output=True, text=True, timeout=10)
    assert done.returncode != 0
    assert f"{record}: is no record of a drive's health" in done.stderr
    assert record.read_text() == "nonsense\n"


HOT = ["ambient_celsius=30", "kelvin_per_watt=10", f"thermal_seconds={THERMAL_SECONDS}"]
FLASH = [
    "model=flash",
    "channels=4",
    "page_bytes=16384",
    "read_command_ns=1000",
    "write_command_ns=1000",
    "flush_ns=1000",
    "page_read_ns=1000",
    "program_ns=1000",
    "erase_ns=0",
    "read_bytes_per_second=1e8",
    "write_bytes_per_second=1e8",
    "overprovisioning=0.1",
]


def test_a_hot_drive_is_slower_draws_less_and_counts_it(tmp_path):
    rail = "5v,5,0,2,1e-8,0,0,0,4"
    with Twin(tmp_path, rails=[rail], options=[*HOT, *FLASH, "throttle=45,35,0.1,0.25"]) as twin:
        time.sleep(10 * THERMAL_SECONDS)  # 2 W: 50 degrees
        health = twin.state()["health"]
        assert health["throttle_level"] == 1
        assert health["throttled"][0]["entered"] == 1
        with NbdClient(twin.nbd) as client:
            began = time.monotonic()
            client.read(0, 1 << 20)
            seconds = time.monotonic() - began
        assert seconds >= (1 << 20) / 1e7  # a tenth of the link's rate
        twin.ask("power off")
        time.sleep(10 * THERMAL_SECONDS)  # 30 degrees
        cool = twin.state()["health"]
    assert cool["throttle_level"] == 0
    assert cool["throttled"][0]["seconds"] >= seconds
    assert cool["throttled"][1] == {"entered": 0, "seconds": 0}
    with Twin(tmp_path, rails=[rail]) as again:
        kept = again.state()["health"]["throttled"][0]
    assert kept["entered"] == 1
    assert kept["seconds"] == pytest.approx(cool["throttled"][0]["seconds"], abs=0.01)
