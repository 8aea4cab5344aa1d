# SPDX-License-Identifier: GPL-3.0-or-later
"""A program that prints known samples, through its capturer and powerd, to joules in InfluxDB."""

import json
import math
import sys

import pytest

from tests.support.capturers import program
from tests.support.power_processes import SRCAP, Powerd
from tests.support.programs import wait_for

RATE = 1000
SAMPLES = 3000
LOST, FIRST_LOST, OVER, FIRST_OVER = 50, 1000, 20, 2000
VOLTS, SUPPLY_WATTS = 5.0, 12.0

STREAM = f"""
    import time
    print("time,volts,amps")
    begin = time.monotonic()
    for k in range({SAMPLES}):
        if k % 20 == 0:  # a sample comes after it was made, never before
            time.sleep(max(0, begin + (k + 20) / {RATE} - time.monotonic()))
        if {FIRST_LOST} <= k < {FIRST_LOST + LOST}:
            continue
        amps = "OL" if {FIRST_OVER} <= k < {FIRST_OVER + OVER} else 0.5 + 0.25 * (k % 2)
        print(f"{{k / {RATE}:.3f}},{VOLTS},{{amps}}")
    time.sleep(60)  # until it is ended
"""

REGISTER = """
    import time
    begin = time.monotonic()
    while True:
        now = time.monotonic() - begin
        print('{"joules": %.6f}' % (1e7 + 3.5 * now))
        time.sleep(0.05)  # the instrument's pace
"""


class Measured:
    def __init__(self, influx, powerd):
        self.influx, self.powerd = influx, powerd

    def reached(self, **wanted):
        """Return the first point that has all its fields and whose counters are at least these.

        InfluxDB takes a point field by field, and answers a query meanwhile.
        """

        def there():
            for row in self.influx.rows("SELECT * FROM power ORDER BY time"):
                if None not in row.values() and all(row[key] >= least for key, least in wanted.items()):
                    return row
            return None

        return wait_for(there, 30, f"a point with {wanted} (see {self.powerd.log_path})")


@pytest.fixture
def measure(tmp_path, influxd):
    """measure(text, meter, rail) runs powerd on the capturer of a Python program of that text."""
    running = []

    def start(text, meter, rail):
        user, password = influxd.writer
        (tmp_path / "password").write_text(password)
        argv = json.dumps(program(tmp_path, text))
        timing = meter.get("timing", "stream")
        config = {
            "state_dir": str(tmp_path / "powerd"),
            "srcap": SRCAP,
            "status_socket": str(tmp_path / "s.sock"),
            "influx": {
                "url": influxd.url,
                "database": influxd.power,
                "username": user,
                "password_file": str(tmp_path / "password"),
            },
            "meters": [
                {
                    "name": "mine",
                    "driver": "command",
                    "capturer": [sys.executable, "-m", "joulerig.capturers", "--program", argv],
                    "samples": "window-mean",
                    "silence_seconds": 5,
                    "set": {"samplerate": f"{meter['sample_rate_hz']:g}", "timing": timing},
                    "rails": [{"rail": "5v", "host": "h", "drive": "d", **rail}],
                    **meter,
                }
            ],
        }
        running.append(Powerd(tmp_path, config))
        return Measured(influxd, running[-1])

    yield start
    for one in running:
        if one.process.poll() is None:
            one.stop()


def test_the_joules_of_known_samples_are_exact_and_what_was_lost_is_booked_and_bounded(measure):
    rail = {"volts": "volts", "amps": "amps", "greatest_watts": SUPPLY_WATTS}
    measured = measure(STREAM, {"sample_rate_hz": RATE}, rail)
    came = SAMPLES - LOST - OVER
    end = measured.reached(samples=came)
    assert (end["samples"], end["lost"], end["over_range"]) == (came, LOST, OVER)
    assert end["expected"] == SAMPLES
    assert end["gap_seconds"] == pytest.approx((LOST + OVER) / RATE, rel=1e-3)
    joules = came * VOLTS * 0.625 / RATE
    assert end["joules"] == pytest.approx(joules, rel=2e-4)  # the crystal that the fit allows
    truth = SAMPLES * VOLTS * 0.625 / RATE
    assert end["joules_low"] < truth < end["joules_high"]
    most = end["joules"] + LOST / RATE * VOLTS * 0.75 + OVER / RATE * SUPPLY_WATTS
    assert end["joules_high"] == pytest.approx(most, rel=1e-3)
    status = measured.powerd.meter("mine")
    assert status["instrument"]["vendor"] == "command"


def test_a_register_of_joules_is_counted_as_it_is(measure):
    meter = {"sample_rate_hz": 20, "timing": "poll", "samples": "point"}
    measured = measure(REGISTER, meter, {"watt_hours": "joules"})
    end = measured.reached(joules=7)
    first = next(row for row in measured.influx.rows("SELECT * FROM power ORDER BY time"))
    seconds = (end["time"] - first["time"]) / 1e9
    assert end["joules"] == pytest.approx(3.5 * seconds, abs=3.5 * 0.2)
    assert end["joules_low"] == pytest.approx(end["joules"])
    assert math.isclose(end["unbounded_seconds"], 0, abs_tol=1e-9)


def test_a_program_that_ends_is_started_again_and_the_time_between_is_a_gap(measure):
    text = f"""
        import time
        print("watts")
        for k in range(1000):
            print(2)
            if k % 20 == 19:
                time.sleep(20 / {RATE})  # the instrument's pace
    """
    measured = measure(text, {"sample_rate_hz": RATE}, {"watts": "watts"})
    end = measured.reached(samples=1500)
    assert end["gap_seconds"] > 0.2
    assert end["lost"] >= 200
    assert end["joules"] == pytest.approx(end["samples"] * 2 / RATE, rel=2e-4)
    assert measured.powerd.meter("mine")["restarts"] >= 1
