# SPDX-License-Identifier: GPL-3.0-or-later
"""The truth of a run's phases is where the twin's operations are, whatever the host's clock says.

Twins without a guest: their streams of volts and amps are the meter, a client loads them, and the
phases are stamped by a host's clock whose offset is measured rightly or wrongly.
"""

import time
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest

from joulerig.analysis.results import phases as run_phases
from joulerig.analysis.results import run_energy, twin_truth
from joulerig.rig.campaign import measure
from joulerig.virtuallab import profile
from tests.support.nbd_client import NbdClient
from tests.support.twins import Stream, TwinTruth, twin_of

SECOND = 1_000_000_000
WINDOW_NS = 1_000_000
POINT_WINDOWS = 10
WRONG_NS = 500_000_000
CLOCK_ERROR_NS = 1_000_000
MOST_AMPS = 2.6  # of a twin's rail
WORST_PERCENT = 0.1  # of the demo's runs, which are long; a short load has what its ends add

LOAD_SECONDS = 4.0
BLOCK, MIB = 65536, 1 << 20
BLOCKS = 128  # of the drive, which the load goes over

INTERVAL_SECONDS = 0.016  # from one operation to the next, so that a busy machine keeps the rate

# What one operation is, by its number.
LOADS = {
    "reads": ("nvme-consumer", lambda client, n: client.read(n * 79 % BLOCKS * MIB, MIB)),
    "writes": ("nvme-enterprise", lambda client, n: client.write(n % BLOCKS * MIB, bytes(MIB))),
    "syncs": ("sata-consumer", lambda client, n: client.write(n % BLOCKS * BLOCK, b"x" * BLOCK, fua=True)),
    "disk": ("hdd-7200", lambda client, n: client.read(n * 79 % BLOCKS * MIB, BLOCK)),
}


class Measured(NamedTuple):
    """A run: phases on the host's clock, and the points that a meter left."""

    phases: list
    points: pl.DataFrame
    source: TwinTruth
    rails: dict


def points_of(rows, rails, real_minus_monotonic_ns):
    """powerd's points of 10 ms, of a meter whose samples are the twin's window means."""
    count = len(rows) // POINT_WINDOWS * POINT_WINDOWS
    values = np.array([row[1:] for row in rows[:count]])
    times = (np.array([row[0] for row in rows[:count]]) + 1) * WINDOW_NS + real_minus_monotonic_ns
    frames = []
    for n, rail in enumerate(rails):
        volts, amps = values[:, 2 * n], values[:, 2 * n + 1]
        watts = (volts * amps).reshape(-1, POINT_WINDOWS)
        samples = np.arange(1, len(watts) + 1) * POINT_WINDOWS
        nothing = np.zeros(len(watts), int)
        frames.append(
            pl.DataFrame(
                {
                    "time_ns": times[POINT_WINDOWS - 1 :: POINT_WINDOWS],
                    "rail": rail,
                    "watts": watts.mean(axis=1),
                    "watts_min": watts.min(axis=1),
                    "watts_max": watts.max(axis=1),
                    "joules": np.cumsum(watts.sum(axis=1)) * WINDOW_NS * 1e-9,
                    "drive": "fast",
                    "meter": "tap1",
                    "volts": volts.reshape(-1, POINT_WINDOWS).mean(axis=1),
                    "amps": amps.reshape(-1, POINT_WINDOWS).mean(axis=1),
                    "samples": samples,
                    "expected": samples,
                    "session": "s",
                    "clock_residual_seconds": 0.0,
                    **dict.fromkeys(("lost", "duplicate", "repeated", "surplus"), nothing),
                    "gap_seconds": 0.0,
                }
            )
        )
    return pl.concat(frames)


@pytest.fixture(scope="module", params=LOADS)
def run(request, tmp_path_factory):
    name, operate = LOADS[request.param]

    def load(client):
        begin = time.monotonic()
        for n in range(round(LOAD_SECONDS / INTERVAL_SECONDS)):
            time.sleep(max(0.0, begin + n * INTERVAL_SECONDS - time.monotonic()))
            operate(client, n)

    rails = profile.load(name).rails
    with twin_of(tmp_path_factory.mktemp("twin"), name) as twin, NbdClient(twin.nbd) as client:
        state = twin.state()
        twin.io("write -P 7 0 16M", "flush")
        stream = Stream(twin, WINDOW_NS)
        stream.wait_rows(700)
        phases = []

        def phase(kind, act):
            start = time.time_ns()
            act()
            phases.append({"phase": kind, "start_ns": start, "end_ns": time.time_ns()})

        phase("idle", lambda: stream.wait_rows(1200))
        phase("workload", lambda: load(client))
        phase("tail", lambda: stream.wait_rows(1200))
        stream.wait_rows(700)  # as before the first phase: a clock that is wrong asks for it
        rows = stream.stop()
        points = points_of(rows, rails, state["realtime_ns"] - state["monotonic_ns"])
        yield Measured(phases, points, TwinTruth(twin), rails)


def recorded(run, lab_files, offset_error_ns):
    """Return the run's energy rows where the clock's offset was measured wrong by that."""
    wired = {
        rail: {
            "meter": "tap1",
            "volts": f"CH{2 * n + 1}",
            "amps": f"CH{2 * n + 2}",
            "supply": {"volts": known.volts, "amps": MOST_AMPS, "ohms": known.source_ohms},
        }
        for n, (rail, known) in enumerate(run.rails.items())
    }
    lab_files.drives["fast"]["rails"] = wired
    lab_files.drives["hdd-1"]["rails"] = {}
    lab = lab_files.load()
    clock = [{"at_ns": 0, "offset_ns": offset_error_ns, "error_ns": CLOCK_ERROR_NS}]
    phases = run_phases.on_controller_time(run.phases, clock)
    described = lab.model_dump(mode="json", exclude={"inventory": True})
    described["controller"]["meters"]["tap1"]["samples"] = "window-mean"
    found = run_energy.phase_energies(
        run.points,
        phases,
        [("fast", "tap1", rail) for rail in run.rails],
        host="bench1",
        lab=described,
        provenance={},
    )
    rows = [run_energy.row(*parts) for parts in found]
    truth = measure.truths(run.source, lab, "bench1", ["fast"], phases)
    twin_truth.add_truth(rows, phases, truth)
    return rows


def loads(rows):
    return [row for row in rows if row["phase"] == "workload"]


def error_percent(row):
    return 100 * (row["joules"] - row["true_joules"]) / row["true_joules"]


def test_with_a_right_clock_the_truth_is_within_the_bounds_of_every_phase(run, lab_files):
    rows = recorded(run, lab_files, 0)
    for row in rows:
        print(
            row["phase"], row["rail"], f"{error_percent(row):+.4f} %", row["joules_low"], row["joules_high"]
        )
    assert all(row["joules_low"] <= row["true_joules"] <= row["joules_high"] for row in rows)
    for row in loads(rows):
        worst = WORST_PERCENT / 100 * row["true_joules"] + row["interpolation_joules"]
        assert abs(row["joules"] - row["true_joules"]) <= worst


@pytest.mark.parametrize("offset_error_ns", [WRONG_NS, -WRONG_NS], ids=["late", "early"])
def test_a_hosts_clock_that_is_half_a_second_wrong_is_seen(run, lab_files, offset_error_ns):
    rows = loads(recorded(run, lab_files, offset_error_ns))
    for row in rows:
        print(row["rail"], f"{error_percent(row):+.4f} %")
    assert any(not row["joules_low"] <= row["true_joules"] <= row["joules_high"] for row in rows)


def test_the_truth_stays_where_the_operations_are(run, lab_files):
    """A wrong clock moves what is measured; the truth, by what the load's ends leave open."""
    right = {row["rail"]: row["true_joules"] for row in loads(recorded(run, lab_files, 0))}
    for wrong in (WRONG_NS, -WRONG_NS):
        for row in loads(recorded(run, lab_files, wrong)):
            moved = abs(row["joules"] - right[row["rail"]])
            assert abs(row["true_joules"] - right[row["rail"]]) < moved / 2
