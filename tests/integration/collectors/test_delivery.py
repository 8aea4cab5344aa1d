# SPDX-License-Identifier: GPL-3.0-or-later
"""From an instrument to InfluxDB while parts fail: every sample is accounted for."""

import itertools
import signal
import subprocess
import sys
import time

import pytest

from tests.support import emulated_hmo, faulty_proxy
from tests.support.influxd import Influxd, servers
from tests.support.power_processes import SRCAP, Emulator, Powerd, settings_of
from tests.support.programs import wait_for

RATE = 10_000
POINTS_PER_SECOND = 500  # a minute's points in 12 s
RAILS = {"12v": 1, "5v": 2}  # the emulator's number of each
TEN_SECONDS_NS = 10_000_000_000  # of which power_10s has a point for each rail
DOWN_SECONDS = 1.5  # of a powerd that is killed, until the next start
NOT_IN_AN_ORIGIN = {"volts", "amps", "watts", "watts_min", "watts_max"}


@pytest.fixture(params=servers())
def influxd(tmp_path, request):
    """A server of the test's own: it is killed."""
    with Influxd(tmp_path / "influxd", program=request.param) as server:
        yield server


def configuration(folder, influxd, emulator):
    (folder / "password").write_text(influxd.writer[1])
    return {
        "state_dir": str(folder / "powerd"),
        "srcap": SRCAP,
        "status_socket": str(folder / "status.sock"),
        "points_per_second": POINTS_PER_SECOND,
        "influx": {
            "url": influxd.url,
            "database": influxd.power,
            "username": influxd.writer[0],
            "password_file": str(folder / "password"),
        },
        "meters": [
            {
                "name": "a",
                "driver": emulator.driver,
                "set": settings_of(emulator.driver),
                "sample_rate_hz": RATE,
                "samples": "window-mean",
                "silence_seconds": 1,
                "rails": [
                    {"rail": rail, "host": "vhost1", "drive": "d", "volts": volts, "amps": amps}
                    for rail, volts, amps in (("12v", "CH1", "CH2"), ("5v", "CH3", "CH4"))
                ],
            }
        ],
    }


def points(influxd, rail):
    def whole():
        # InfluxDB 1.x shows a batch that it is just writing field by field.
        rows = influxd.rows(f"SELECT * FROM power WHERE rail='{rail}' ORDER BY time")
        missing = [{field for field, value in row.items() if value is None} for row in rows]
        return all(fields in (set(), NOT_IN_AN_ORIGIN) for fields in missing) and (rows,)

    return wait_for(whole, 20, "all fields of the points")[0]


def absent_tens(influxd, rail, begin, end):
    """How many points of ten seconds a stream lacks, from its first measured point to its last."""
    tens = influxd.rows(f"SELECT watts_min FROM power_10s WHERE rail='{rail}'")
    return end // TEN_SECONDS_NS - begin // TEN_SECONDS_NS + 1 - len(tens)


def wait_captured(powerd, seconds):
    """Wait until the meter has so many further seconds of samples."""
    enough = powerd.meter("a")["samples"] + seconds * RATE
    wait_for(lambda: powerd.meter("a")["samples"] >= enough, 10 + 2 * seconds, f"{seconds} s of samples")


def spool_is_empty(powerd):
    status = powerd.status()["writer"]
    return status["spooled_bytes"] == 0 and status["sent_lines"] > 0


def streams(rows):
    """Points of one stream each, its origin first."""
    found = []
    for row in rows:
        if row["watts"] is None:
            found.append([])
        found[-1].append(row)
    return found


def check_stream(rows, emulator, number):
    """Check that each point of a stream is there and has the true joules of its samples."""
    origin, last = rows[0], rows[-1]
    assert all(a["time"] < b["time"] for a, b in itertools.pairwise(rows))
    per_point = RATE // POINTS_PER_SECOND
    steps = [b["samples"] - a["samples"] for a, b in itertools.pairwise(rows)]
    assert set(steps[:-1]) <= {per_point}, "a point is missing"  # what ends a stream may be shorter
    assert 0 < steps[-1] <= per_point
    counts = [row["samples"] - origin["samples"] for row in rows]
    begin = round(emulator.samples_at(last["time"])) - counts[-1]

    def misfit(first, rows_and_counts):
        before = true_joules(number, first)
        return max(
            abs(row["joules"] - origin["joules"] - true_joules(number, first + count) + before)
            for row, count in rows_and_counts
        )

    # All of a period and more: over whole periods the joules do not tell where they began.
    some = list(zip(rows, counts, strict=True))[: 2 * emulated_hmo.PERIOD // per_point]
    first = min(range(max(0, begin - 400), begin + 400), key=lambda first: misfit(first, some))
    # Joules are of the controller's seconds: the fit of the device's clock is good to some ppm
    # after 10 s.
    assert misfit(first, list(zip(rows, counts, strict=True))) < 50e-6 * abs(last["joules"])


def _joules_of_a_period(number):
    volts, amps = emulated_hmo.WAVEFORM[2 * number - 1], emulated_hmo.WAVEFORM[2 * number]
    watts = (v * i / RATE for v, i in zip(volts, amps, strict=True))
    return list(itertools.accumulate(watts, initial=0.0))


PERIOD_JOULES = {number: _joules_of_a_period(number) for number in RAILS.values()}


def true_joules(number, samples):
    """emulated_hmo.true_joules at RATE for whole samples, quick enough for thousands of them."""
    periods, rest = divmod(samples, emulated_hmo.PERIOD)
    return PERIOD_JOULES[number][-1] * periods + PERIOD_JOULES[number][rest]


def account(row):
    """What the books have of a point: samples, lost, duplicates and repeats."""
    return row["samples"] + row["lost"] + row["duplicate"] + row["repeated"]


def test_an_outage_of_influxdb_loses_no_point_and_doubles_no_energy(tmp_path, influxd):
    """A minute's points while InfluxDB is killed, stays away, and comes back."""
    with Emulator(rate=RATE, ppm=20) as emulator:
        powerd = Powerd(tmp_path, configuration(tmp_path, influxd, emulator))
        try:
            powerd.wait_state("a", "streaming", 10)
            wait_for(lambda: points(influxd, "12v"), 10, "the first points")
            wait_captured(powerd, 1)
            influxd.kill()
            wait_captured(powerd, 12)
            waiting = powerd.status()["writer"]
            assert waiting["spooled_bytes"] > 1_000_000
            assert waiting["last_error"]
            influxd.start()
            wait_for(lambda: spool_is_empty(powerd), 30, "the spool is empty")
            assert powerd.meter("a")["lost"] == 0
        finally:
            assert powerd.stop() == 0
        writer_lines = sum(len(points(influxd, rail)) for rail in RAILS)
        for rail, number in RAILS.items():
            (stream,) = streams(points(influxd, rail))
            assert stream[-1]["samples"] > 13 * RATE
            assert stream[0]["samples"] == 0
            check_stream(stream, emulator, number)
            # What should have come, by the controller's clock, came: to 20 ppm and what was under
            # way.
            assert abs(stream[-1]["expected"] - stream[-1]["samples"]) < 0.05 * RATE
            assert (stream[-1]["lost"], stream[-1]["gap_seconds"]) == (0, 0)
        assert writer_lines > 2 * 13 * POINTS_PER_SECOND


@pytest.mark.long
def test_a_full_disk_loses_points_but_neither_samples_nor_energy(tmp_path, influxd):
    """The spool's disk is full while InfluxDB is away: later points make up for missing ones."""
    state = tmp_path / "powerd"
    state.mkdir()
    with Emulator(rate=RATE) as emulator:
        config = configuration(tmp_path, influxd, emulator)
        run = [
            # A segment (1 MB) stays until it is full and all sent, and powerd hands over what it
            # has again when it ends: with less room than for that and two seconds' points, some
            # are dropped then, after they are counted.
            *("unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=3m none "$0" && exec "$@"'),
            str(state),
        ]
        if subprocess.run([*run, "true"], capture_output=True).returncode:
            pytest.skip("this kernel gives a user no disk of his own")
        powerd = Powerd(tmp_path, config, run=run)
        try:
            powerd.wait_state("a", "streaming", 10)
            wait_for(lambda: points(influxd, "12v"), 10, "the first points")
            influxd.stop()
            full = wait_for(
                lambda: (s := powerd.status()["writer"])["dropped_lines"] and s, 30, "points are dropped"
            )
            assert full["spooled_bytes"] > 500_000
            wait_captured(powerd, 1)
            assert powerd.meter("a")["state"] == "streaming"
            assert powerd.meter("a")["lost"] == 0
            influxd.start()
            wait_for(lambda: spool_is_empty(powerd), 30, "the spool is empty")
            writer = powerd.status()["writer"]
            assert writer["rejected_lines"] == 0, writer
            dropped = writer["dropped_lines"]
            more = writer["sent_lines"] + len(RAILS) * POINTS_PER_SECOND
            wait_for(lambda: powerd.status()["writer"]["sent_lines"] > more, 10, "a second's points are sent")
            assert powerd.status()["writer"]["dropped_lines"] == dropped
        finally:
            assert powerd.stop() == 0
        absent = 0
        for rail, number in RAILS.items():
            rows = points(influxd, rail)
            assert len(streams(rows)) == 1
            first = rows[0]
            steps = [b["samples"] - a["samples"] for a, b in itertools.pairwise(rows)]
            per_point = RATE // POINTS_PER_SECOND
            absent += sum(step // per_point - 1 for step in steps if step > per_point)
            assert abs(rows[-1]["expected"] - rows[-1]["samples"]) < 0.05 * RATE
            assert (rows[-1]["lost"], rows[-1]["gap_seconds"]) == (0, 0)
            # The energy over the hole is there, exactly.
            widest = max(range(len(steps)), key=steps.__getitem__)
            samples = rows[widest + 1]["samples"] - rows[widest]["samples"]
            guess = round(emulator.samples_at(rows[widest]["time"]))
            got = rows[widest + 1]["joules"] - rows[widest]["joules"]
            fits = [
                k
                for k in range(guess - 400, guess + 400)
                if true_joules(number, k + samples) - true_joules(number, k) == pytest.approx(got, rel=1e-9)
            ]
            assert steps[widest] > POINTS_PER_SECOND // 2 * per_point
            assert fits
            assert first["samples"] == 0
            absent += absent_tens(influxd, rail, rows[1]["time"], rows[-1]["time"])
        assert absent == dropped, (writer, powerd.log_path.read_text())


@pytest.mark.long
def test_an_influxdb_that_answers_wrongly_gets_each_point_once(tmp_path, influxd):
    """5xx, lost answers and late ones, in front of a real InfluxDB."""
    faulty = subprocess.Popen(
        [sys.executable, faulty_proxy.__file__, influxd.url],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        port = int(faulty.stdout.readline())
        with Emulator(rate=RATE, ppm=-15) as emulator:
            config = configuration(tmp_path, influxd, emulator)
            config["influx"]["url"] = f"http://127.0.0.1:{port}"
            powerd = Powerd(tmp_path, config)
            try:
                powerd.wait_state("a", "streaming", 10)
                wait_captured(powerd, 10)
                faulty.send_signal(signal.SIGUSR1)  # no faults from here on
                wait_for(lambda: spool_is_empty(powerd), 30, "the spool is empty")
                assert powerd.status()["writer"]["rejected_lines"] == 0
            finally:
                assert powerd.stop() == 0
            for rail, number in RAILS.items():
                (stream,) = streams(points(influxd, rail))
                check_stream(stream, emulator, number)
                assert stream[-1]["samples"] > 9 * RATE
    finally:
        faulty.terminate()
        met = faulty.communicate(timeout=10)[0]
    for fault in ("500 applied", "503", "answer lost", "connection lost"):
        assert fault in met


@pytest.mark.long
@pytest.mark.parametrize("away", [False, True], ids=["influxdb there", "influxdb away"])
def test_a_powerd_that_is_killed_goes_on_in_its_session_with_a_gap(tmp_path, influxd, away):
    """SIGKILL amid a stream, twice, and a new start: a gap in the books, and no step of energy."""
    starts = 3
    with Emulator(rate=RATE) as emulator:
        config = configuration(tmp_path, influxd, emulator)
        killed = []
        for start in range(starts):
            powerd = Powerd(tmp_path, config)
            powerd.wait_state("a", "streaming", 15)
            if start == 0:
                wait_for(lambda: points(influxd, "12v"), 10, "the first points")
                if away:
                    influxd.stop()
            wait_captured(powerd, 3)
            if start + 1 < starts:
                powerd.process.kill()
                killed.append(time.time_ns())
                powerd.process.wait()
                powerd.log.close()
                time.sleep(DOWN_SECONDS)
        if away:
            influxd.start()
        wait_for(lambda: spool_is_empty(powerd), 30, "the spool is empty")
        assert powerd.stop() == 0
        for rail, number in RAILS.items():
            rows = points(influxd, rail)
            assert len({row["session"] for row in rows}) == 1
            parts = streams(rows)
            assert len(parts) == starts
            for part in parts:
                check_stream(part, emulator, number)
            # Energy never steps back: that of a rail that never feeds back only rises.
            if rail == "12v":
                assert all(b["joules"] >= a["joules"] for a, b in itertools.pairwise(rows))
            for counter in ("samples", "lost", "gap_seconds", "expected", "duplicate", "repeated"):
                assert all(b[counter] >= a[counter] for a, b in itertools.pairwise(rows)), counter
            assert all(a["time"] < b["time"] for a, b in itertools.pairwise(rows))
            for (before, after), at in zip(itertools.pairwise(parts), killed, strict=True):
                end, origin = before[-1], after[0]
                # What was not handed to the spool is lost with the process: a second of points, and
                # half a second of samples on their way to powerd.
                assert at - 1_600_000_000 < end["time"] <= at + 20_000_000
                # What was counted but not published may be in the state: no more than that.
                gap = (origin["time"] - end["time"]) / 1e9
                assert gap > DOWN_SECONDS
                unpublished = origin["samples"] - end["samples"]
                assert 0 <= unpublished <= RATE / 2
                booked = origin["gap_seconds"] - end["gap_seconds"]
                assert booked == pytest.approx(gap - unpublished / RATE, abs=0.02)
                assert origin["lost"] - end["lost"] == pytest.approx(booked * RATE, abs=0.02 * RATE)
                most = max(row["watts_max"] for row in rows if row["watts"] is not None)
                assert origin["joules"] - end["joules"] <= most * unpublished / RATE + 1e-9
                # The bounds take the gap in: at the least and the greatest that the rail was seen
                # to draw.
                least = min(row["watts_min"] for row in rows if row["watts"] is not None)
                low = origin["joules_low"] - end["joules_low"] - (origin["joules"] - end["joules"])
                high = origin["joules_high"] - end["joules_high"] - (origin["joules"] - end["joules"])
                assert high - low <= (most - least) * booked * 1.01 + 1e-9
                truth = emulated_hmo.true_joules(
                    number, emulator.samples_at(origin["time"]), RATE
                ) - emulated_hmo.true_joules(number, emulator.samples_at(end["time"]), RATE)
                assert end["joules_low"] <= end["joules_high"]
                slack = most * 0.02
                assert origin["joules_low"] - end["joules_low"] <= truth + slack
                assert truth - slack <= origin["joules_high"] - end["joules_high"]
            for row in rows:
                # expected is by the controller's clock: 500 ppm of crystal, and what is under way.
                assert abs(row["expected"] - account(row)) <= 0.05 * RATE
