# SPDX-License-Identifier: GPL-3.0-or-later
"""How late a tap's samples are: `rig meters check --steps` at taps that are wrong."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.meters import checks, timing
from joulerig.rig.lab.meters.timing import Step
from joulerig.rig.lab.model import Lab
from tests.support.lab_files import LabFiles
from tests.support.programs import built, end
from tests.support.twins import Twin

OHMS = 12.0  # at 12 V
RAIL = "bench1/fast/12v"
MS = 1_000_000
Tap = Callable[..., Lab]


@pytest.fixture
def tap(tmp_path: Path, lab_files: LabFiles) -> Iterator[Tap]:
    """tap(faults, **meter) is a lab whose tap1 has faults, and a resistor on its rail."""
    running = []
    with Twin(tmp_path / "resistor", size="1M", rails=["12v,12,0,12,0,0,0,0"]) as twin:

        def start(faults: str = "", **meter: object) -> Lab:
            (tmp_path / "faults").write_text(faults)
            command = [built("power_tap"), "--listen", "127.0.0.1:0,127.0.0.1:0", "--rate", "1000"]
            command += ["--rail", f"1={twin.control}:12v", "--faults", str(tmp_path / "faults")]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            running.append(process)
            assert process.stdout
            port = re.findall(r":(\d+)", process.stdout.readline())[0]
            lab_files.controller["meters"] = {
                "tap1": {
                    "driver": "hameg-hmo",
                    "sample_rate_hz": 1000,
                    "samples": "window-mean",
                    "connection": f"tcp-raw/127.0.0.1/{port}",
                    **meter,
                }
            }
            rails = {"12v": {"meter": "tap1", "volts": "CH1", "amps": "CH2"}}
            lab_files.host["drives"] = {"fast": {**lab_files.drives["fast"], "rails": rails}}
            lab_files.host["arrays"] = {}
            return lab_files.load()

        try:
            yield start
        finally:
            for process in running:
                end(process)


def checked(lab: Lab) -> checks.Check:
    return checks.judged(checks.take(lab, "tap1", RAIL, OHMS, seconds=0.2, steps=5), [])


def test_samples_of_a_right_tap_are_in_time(tap: Tap) -> None:
    found = checked(tap())
    assert found.lateness
    assert abs(found.lateness.late) < 0.0015
    assert abs(found.lateness.skew) < 0.0001
    assert (found.faults, found.state) == ([], "no limits yet")


def test_a_delay_that_the_bounds_allow_for_is_measured_and_no_fault(tap: Tap) -> None:
    found = checked(tap("delay=20\n", latency_seconds=0.02))
    assert found.lateness
    assert found.lateness.late == pytest.approx(0.020, abs=0.0015)
    assert found.faults == []


def test_samples_that_are_later_than_the_bounds_allow_are_out_of_control(tap: Tap) -> None:
    found = checked(tap("delay=8\n"))
    assert found.state == "out of control"
    (text,) = found.faults
    assert re.match(r"samples are \d\.\d ms late .* bounds allow for 2 ms: declare latency_seconds", text)


def test_amps_that_are_later_than_the_volts_are_out_of_control(tap: Tap) -> None:
    found = checked(tap("skew=2\n"))
    assert found.state == "out of control"
    assert found.faults == ["amps are 2.0 ms later than volts"]


def test_a_meter_without_a_switch_is_refused(tap: Tap) -> None:
    lab = tap(timing="poll")
    rail = lab.hosts["bench1"].drives["fast"].rails["12v"]
    with pytest.raises(UserError, match="only volts and amps that are streamed"):
        timing.take(lab, rail, 3)


# --- in figures


def stream(rise_ms: float, samples: int = 1000) -> np.ndarray:
    """Return means over milliseconds of 12 that begins at an instant, noise included."""
    whole = np.clip(np.arange(1, samples + 1) - rise_ms, 0.0, 1.0)
    return 12 * whole + 0.003 * np.random.default_rng(1).normal(size=samples)


@pytest.mark.parametrize("at", [500.0, 500.25, 500.9])
def test_a_rise_within_a_sample_is_found_by_its_height(at: float) -> None:
    [found] = timing.rises(stream(at), [Step(499 * MS, 501 * MS)], 0.0, 1e-3)
    assert found == pytest.approx(at * MS, abs=0.01 * MS)


def test_a_rail_that_never_rises_has_no_rise() -> None:
    assert timing.rises(np.zeros(1000), [Step(499 * MS, 501 * MS)], 0.0, 1e-3) == [None]


def test_a_stream_begins_by_its_earliest_arrival() -> None:
    arrivals = [(130 * MS, 20), (141 * MS, 40), (170 * MS, 60)]
    assert timing.first_sample_ns(arrivals, 1e-3) == 101 * MS


def test_commands_that_took_long_do_not_count() -> None:
    steps = [Step(0, MS), Step(0, 2 * MS), Step(0, 900 * MS), Step(0, 950 * MS)]
    rises = [5.5 * MS, 6 * MS, 800 * MS, 900 * MS]
    found = timing.judged(steps, rises, rises, sample=1e-3, allowed=2e-3)
    assert found.late == pytest.approx(0.005)
    assert found.reach == pytest.approx(0.001)


def test_steps_that_are_not_seen_are_an_error() -> None:
    steps = [Step(0, MS)] * 3
    with pytest.raises(UserError, match="2 of 3 steps of the rail not seen"):
        timing.judged(steps, [None, None, 1.0], [1.0, None, 1.0], sample=1e-3, allowed=2e-3)
