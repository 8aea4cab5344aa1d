# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading a real InfluxDB bit by bit."""

from __future__ import annotations

import time

import numpy as np
import pytest

from joulerig.analysis.results.influxdb.client import Databases
from joulerig.rig.dashboard.feed import IO, IO_BUCKET_NS, POWER_BUCKET_NS, Ledger, Loads, Phases, Power, tidy
from tests.support.influxd import Influxd

SECOND = 1_000_000_000
MS = 1_000_000


@pytest.fixture
def client(influxd: Influxd) -> Databases:
    return influxd.databases()


@pytest.fixture
def now() -> int:
    """A bucket's start, now: points lie around it."""
    return time.time_ns() // SECOND * SECOND


def power(
    at: int, watts: float, low: float | None = None, high: float | None = None, drive: str = "d1"
) -> str:
    low, high = watts if low is None else low, watts if high is None else high
    return (
        f"power,meter=m,rail=12v,host=h,drive={drive} volts=12,amps=1,watts={watts},watts_min={low},"
        f"watts_max={high},joules=1,samples=10i,expected=10i,lost=0i,repeated=0i,gap_seconds=0,"
        f'clock_residual_seconds=0,session="s" {at}'
    )


def blockio(at: int, writes: int, host: str = "h", drive: str = "d1", more: str = "") -> str:
    return (
        f"blockio,host={host},drive={drive} reads=0i,read_bytes=0i,writes={writes}i,"
        f"write_bytes={writes * 4096}i,flushes={writes // 2}i{more} {at}"
    )


def bucket(power: Power, channel: int, at: int) -> list[float]:
    number = at // POWER_BUCKET_NS
    return power.window.read(number, number + 1)[channel, :, 0].tolist()


def test_a_bucket_has_the_mean_of_its_points_and_the_extremes_of_their_samples(influxd, client, now):
    at = now - SECOND
    influxd.write(power(at, 2.0, 1.5, 2.5), power(at + 10 * MS, 4.0, 3.5, 19.0), power(at + 100 * MS, 7.0))
    reader = Power()
    reader.poll(client, now)
    assert bucket(reader, 0, at) == [3.0, 1.5, 19.0]
    assert bucket(reader, 0, at + 100 * MS) == [7.0, 7.0, 7.0]
    assert np.isnan(bucket(reader, 0, at + 200 * MS)).all()


def test_what_was_read_before_is_not_asked_for_again(influxd, client, now):
    influxd.write(*(power(now - 20 * SECOND + i * 100 * MS, 1.0) for i in range(200)))
    reader = Power()
    assert reader.poll(client, now) == reader.window.start
    reader.poll(client, now)  # the first sweep
    assert reader.poll(client, now) * POWER_BUCKET_NS >= now - SECOND


def test_a_meter_whose_points_come_later_than_the_others_is_read_completely(influxd, client, now):
    reader = Power()
    influxd.write(power(now - 2 * SECOND, 1.0, drive="slow"), power(now - 2 * SECOND, 1.0, drive="fast"))
    reader.poll(client, now)
    influxd.write(*(power(now - SECOND + i * 100 * MS, 1.0, drive="fast") for i in range(10)))
    reader.poll(client, now)
    influxd.write(power(now - SECOND, 5.0, drive="slow"))
    reader.poll(client, now)
    slow = next(i for i, rail in enumerate(reader.rails) if rail["drive"] == "slow")
    assert bucket(reader, slow, now - SECOND) == [5.0, 5.0, 5.0]


def test_points_spooled_through_an_outage_are_read_when_they_come(influxd, client, now):
    reader = Power()
    influxd.write(power(now - 30 * SECOND, 1.0))
    reader.poll(client, now - 30 * SECOND)
    reader.reading.outage.failed(now - 25 * SECOND)
    influxd.write(power(now, 3.0))  # the newest come first, the spool drains after
    reader.poll(client, now)
    influxd.write(power(now - 20 * SECOND, 2.0))
    reader.poll(client, now + 11 * SECOND)
    assert bucket(reader, 0, now - 20 * SECOND)[0] == 2.0


def test_an_influxdb_that_fails_again_soon_has_spools_of_before_too(influxd, client, now):
    reader = Power()
    influxd.write(power(now - 55 * SECOND, 1.0))
    reader.poll(client, now - 55 * SECOND)
    reader.reading.outage.failed(now - 50 * SECOND)
    reader.poll(client, now - 12 * SECOND)  # back for a moment, and the spool not yet drained
    reader.reading.outage.failed(now - 11 * SECOND)
    influxd.write(power(now, 3.0))
    reader.poll(client, now)
    influxd.write(power(now - 45 * SECOND, 2.0))
    reader.poll(client, now + 11 * SECOND)
    assert bucket(reader, 0, now - 45 * SECOND)[0] == 2.0


def test_rates_of_a_drive(influxd, client, now):
    start = now - 3 * SECOND
    influxd.write(*(blockio(start + i * 100 * MS, 1000 + 20 * i) for i in range(31)))
    reader = IO()
    reader.poll(client, now)
    rates = reader.rates(start // IO_BUCKET_NS + 1)[0][:5, :5]
    expected = np.array([[0], [200], [100], [0], [200 * 4096e-6]])
    np.testing.assert_allclose(rates, np.broadcast_to(expected, (5, 5)), atol=1e-9)


def test_the_time_that_requests_took_is_a_rate_too(influxd, client, now):
    """By the requests a second it is their mean latency."""
    start = now - 3 * SECOND
    took = [f",write_seconds={0.01 * i}" for i in range(31)]  # 0.5 ms a write
    influxd.write(*(blockio(start + i * 100 * MS, 20 * i, more=one) for i, one in enumerate(took)))
    reader = IO()
    reader.poll(client, now)
    reads, writes, flushes = reader.rates(start // IO_BUCKET_NS + 1)[0][5:, 2]
    assert writes == pytest.approx(0.1)
    assert np.isnan([reads, flushes]).all(), "this kernel does not count them"


def test_a_host_that_boots_gives_no_negative_rate(influxd, client, now):
    start = now - 3 * SECOND
    counts = [9000 + 10 * i if i < 15 else 10 * (i - 15) for i in range(30)]
    influxd.write(*(blockio(start + i * 100 * MS, n) for i, n in enumerate(counts)))
    reader = IO()
    reader.poll(client, now)
    writes = reader.rates(reader.window.start)[0, 1]
    assert np.nanmin(writes) >= 0
    assert np.nanmax(writes) == pytest.approx(100)


def test_a_drives_rates_lie_on_the_controllers_time(influxd, client, now):
    """A guest's clock may be off; its counters must lie under the power they caused."""
    ahead = 5 * SECOND
    influxd.write(*(blockio(now - 3 * SECOND - ahead + i * 100 * MS, 20 * i) for i in range(31)))
    reader = IO()
    reader.offset_ns = {"h": ahead}
    reader.poll(client, now)
    writes = reader.rates(reader.window.start)[0, 1]
    have = np.flatnonzero(~np.isnan(writes)) + reader.window.start
    assert have[-1] == now // IO_BUCKET_NS
    assert len(have) == 6


def phase(run: str, name: str, start: int, end: int | None = None) -> str:
    tail = f",end_ns={end}i" if end else ""
    return (
        f"phase,campaign=c,run={run},host=h,drive=d1,phase={name} "
        f"start_ns={start}i{tail},clock_offset_ns=250i,clock_error_ns=100i {start}"
    )


def test_a_phase_ends_when_its_point_says_so(influxd, client, now):
    reader = Phases()
    influxd.write(phase("r1", "workload", now - 400 * SECOND))
    reader.poll(client, now)
    assert [band["end_ns"] for band in reader.bands.values()] == [None]
    influxd.write(phase("r1", "workload", now - 400 * SECOND, now - 2 * SECOND))
    reader.poll(client, now)
    assert [band["end_ns"] for band in reader.bands.values()] == [now - 2 * SECOND]
    assert reader.offset_ns == {"h": 250}


def test_a_phase_that_began_while_influxdb_was_away_is_read_when_it_comes(influxd, client, now):
    reader = Phases()
    reader.poll(client, now - 500 * SECOND)
    reader.outage.failed(now - 450 * SECOND)
    reader.poll(client, now)
    influxd.write(phase("r1", "workload", now - 400 * SECOND))  # the spool drains
    reader.poll(client, now + SECOND)
    assert [band["phase"] for band in reader.bands.values()] == ["workload"]


def test_an_open_phase_ends_where_its_host_goes_on(influxd, client, now):
    influxd.write(phase("r1", "workload", now - 9 * SECOND), phase("r2", "prepare", now - 4 * SECOND))
    reader = Phases()
    reader.poll(client, now)
    ends = {band["run"]: band["end_ns"] for band in reader.bands.values()}
    assert ends == {"r1": now - 4 * SECOND, "r2": None}


def test_the_open_phase_of_a_lost_run_ends_with_the_run(influxd, client, now):
    influxd.write(phase("r1", "workload", now - 9 * SECOND))
    reader = Phases()
    reader.poll(client, now)
    reader.close({"r1": now - 3 * SECOND})
    assert [band["end_ns"] for band in reader.bands.values()] == [now - 3 * SECOND]


def test_phases_that_ended_before_the_window_are_forgotten_but_for_the_current_runs(now):
    def band(run: str, start: int, end: int | None) -> dict:
        return {"host": "h", "run": run, "phase": "x", "start_ns": start, "end_ns": end}

    old = band("r1", now - 300 * SECOND, now - 200 * SECOND)
    first = band("r2", now - 190 * SECOND, now - 150 * SECOND)
    current = band("r2", now - 150 * SECOND, None)
    kept = tidy({("1",): old, ("2",): first, ("3",): current}, now)
    assert list(kept.values()) == [first, current]


def test_an_open_phase_of_one_drive_goes_on_while_its_host_begins_one_of_another(now):
    def band(drive: str, phase: str, start: int, end: int | None = None) -> dict:
        times = {"start_ns": now - start * SECOND, "end_ns": None if end is None else now - end * SECOND}
        return {"host": "h", "drive": drive, "run": f"run of {drive}", "phase": phase, **times}

    bands = [band("d1", "idle", 300, 290), band("d1", "workload", 290), band("d2", "prepare", 5)]
    kept = tidy({(str(number),): one for number, one in enumerate(bands)}, now)
    assert [(one["drive"], one["phase"], one["end_ns"] is None) for one in kept.values()] == [
        ("d1", "idle", False), ("d1", "workload", True), ("d2", "prepare", True),
    ]  # fmt: skip


def test_the_ledger_gives_losses_in_percent_of_what_was_expected(influxd, client, now):
    line = power(now - SECOND, 1.0).replace("expected=10i,lost=0i", "expected=400i,lost=1i")
    influxd.write(line.replace("gap_seconds=0,", "gap_seconds=0.5,"))
    reader = Ledger()
    reader.poll(client, now)
    known = reader.state({"host": "h", "drive": "d1", "rail": "12v", "meter": "m"})
    assert (known["lost_percent"], known["gap_seconds"], known["volts"]) == (0.25, 0.5, 12.0)


def workload(at: int, run: str = "r1", **classes: float) -> str:
    figures = "".join(f",class_{name}={value}" for name, value in classes.items())
    return f"workload,host=h,drive=d1,run={run} ops=100i,read_bytes=0i,write_bytes=4096i{figures} {at}"


def test_a_load_has_the_quantiles_of_its_newest_second(influxd, client, now):
    figures = {"fsync_p50_seconds": 0.001, "fsync_p99_seconds": 0.004, "fsync_max_seconds": 0.02}
    influxd.write(
        workload(now - 3 * SECOND, **figures),
        workload(now - 2 * SECOND, **figures | {"fsync_p99_seconds": 0.008, "fsync_seconds": 0.9}),
    )
    influxd.write(*(f"workload,host=h,drive=d1,run=r1 class_{name}_ops={n}i {now - 2 * SECOND}"
                    for name, n in (("fsync", 70), ("read", 0))))  # fmt: skip
    reader = Loads()
    reader.poll(client, now, {})
    assert reader.newest == [
        {
            "host": "h", "drive": "d1", "run": "r1", "age_seconds": 2.0,
            "classes": {"fsync": {"ops": 70, "seconds": 0.9, "p50": 0.001, "p99": 0.008, "max": 0.02}},
        }
    ]  # fmt: skip


def test_a_load_without_quantiles_is_there_without(influxd, client, now):
    influxd.write(workload(now - SECOND))
    reader = Loads()
    reader.poll(client, now, {})
    assert [one["classes"] for one in reader.newest] == [{}]


def test_a_load_that_is_over_is_none(influxd, client, now):
    influxd.write(workload(now - 20 * SECOND), workload(now - 14 * SECOND, run="r2"))
    reader = Loads()
    reader.poll(client, now, {})
    assert reader.newest == []
    reader.poll(client, now, {"h": 5 * SECOND})  # by the controller's clock it is of 9 s ago
    assert [(one["run"], one["age_seconds"]) for one in reader.newest] == [("r2", 9.0)]
