# SPDX-License-Identifier: GPL-3.0-or-later
"""From a known waveform, through libsigrok, srcap and powerd, to joules in a real InfluxDB."""

import itertools
import json
import math
import socket
import struct
import subprocess
import time

import pytest

from tests.support import emulated_hmo
from tests.support.power_processes import POWERD, SRCAP, Emulator, Powerd, settings_of
from tests.support.programs import free_port, wait_for

RATE = 1000
NOWHERE = {"url": "http://127.0.0.1:9", "database": "power"}
NOT_IN_AN_ORIGIN = {"volts", "amps", "watts", "watts_min", "watts_max"}
CLOCK_READING = 20e-6  # reading CLOCK_REALTIME and CLOCK_MONOTONIC one after the other, seconds


def configuration(folder, influx, meters, clock_port=None):
    config = {
        "state_dir": str(folder / "powerd"),
        "srcap": SRCAP,
        "status_socket": str(folder / "status.sock"),
        "points_per_second": 100,
        "influx": influx,
        "meters": meters,
    }
    if clock_port:
        config["clock_listen"] = f"127.0.0.1:{clock_port}"
    return config


def meter(name, emulator_driver, **more):
    rails = [
        {"rail": "12v", "host": "vhost1", "drive": "d 1", "volts": "CH1", "amps": "CH2"},
        {"rail": "5v", "host": "vhost1", "drive": "d 1", "volts": "CH3", "amps": "CH4"},
    ]
    return {
        "name": name,
        "driver": emulator_driver,
        "set": settings_of(emulator_driver),
        "sample_rate_hz": RATE,
        "samples": "window-mean",
        "silence_seconds": 1,
        "rails": rails,
        **more,
    }


class Path:
    """Two instruments, powerd and InfluxDB, running."""

    def points(self, meter, rail, where=""):
        query = f"SELECT * FROM power WHERE meter='{meter}' AND rail='{rail}' {where} ORDER BY time"

        def whole():
            # InfluxDB 1.x shows a batch that it is just writing field by field.
            rows = self.influx.rows(query)
            missing = [{field for field, value in row.items() if value is None} for row in rows]
            return all(fields in (set(), NOT_IN_AN_ORIGIN) for fields in missing) and (rows,)

        return wait_for(whole, 10, "all fields of the points")[0]


@pytest.fixture(scope="module")
def path(tmp_path_factory, influxd_server):
    folder = tmp_path_factory.mktemp("power")
    p = Path()
    p.influx = influxd_server
    influxd_server.start()
    influxd_server.empty()
    user, password = influxd_server.writer
    (folder / "password").write_text(password)
    influx = {
        "url": influxd_server.url,
        "database": influxd_server.power,
        "username": user,
        "password_file": str(folder / "password"),
    }
    p.clock_port = free_port(socket.SOCK_DGRAM)
    p.a = Emulator(rate=RATE, ppm=40, log=folder / "sent-a")
    p.b = Emulator(rate=RATE, ppm=-25, log=folder / "sent-b")
    p.powerd = Powerd(
        folder,
        configuration(folder, influx, [meter("a", p.a.driver), meter("b", p.b.driver)], p.clock_port),
    )
    try:
        p.powerd.wait_state("a", "streaming", 10)
        p.powerd.wait_state("b", "streaming", 10)
        yield p
    finally:
        if p.powerd.process.poll() is None:
            p.powerd.stop()
        for emulator in (p.a, p.b):
            with emulator:
                pass


def settled(path, seconds):
    """Wait until both meters' points of the session's first `seconds` are in InfluxDB."""
    for name in "ab":
        for rail in "12v", "5v":
            wait_for(
                lambda name=name, rail=rail: (
                    (found := path.points(name, rail)) and found[-1]["samples"] >= seconds * RATE
                ),
                seconds + 10,
                f"{seconds} s of points of {name}'s {rail}",
            )


def first_sample(points, emulator, rail):
    """Return which of the instrument's samples began the session, by the exact joules."""
    origin = points[0]
    assert origin["samples"] == 0
    assert origin["joules"] == 0
    assert origin["watts"] is None
    guess = round(emulator.samples_at(points[-1]["time"])) - points[-1]["samples"]
    # After whole periods of the waveform every first sample fits; a quarter apart only the true one
    # does.
    quarter = emulated_hmo.PERIOD // 4 // 10
    ends = [points[-1], points[-1 - quarter]]

    def misfit(first, end):
        joules = emulated_hmo.true_joules(rail, first + end["samples"], RATE)
        joules -= emulated_hmo.true_joules(rail, first, RATE)
        return abs(joules - end["joules"]) / abs(joules)

    fits = [
        first for first in range(guess - 40, guess + 40) if all(misfit(first, end) < 1e-9 for end in ends)
    ]
    assert len(fits) == 1, f"joules {[end['joules'] for end in ends]} fit at samples {fits} near {guess}"
    return fits[0]


@pytest.mark.parametrize("name", ["a", "b"])
@pytest.mark.parametrize(("rail", "number"), [("12v", 1), ("5v", 2)])
def test_joules_are_exact_for_the_samples_that_they_count(path, name, rail, number):
    settled(path, 3)
    emulator = getattr(path, name)
    points = path.points(name, rail)
    first = first_sample(points, emulator, number)
    before = emulated_hmo.true_joules(number, first, RATE)
    for p in points[1:]:
        want = emulated_hmo.true_joules(number, first + p["samples"], RATE) - before
        assert p["joules"] == pytest.approx(want, rel=1e-9, abs=1e-9)
    assert [p["samples"] for p in points] == list(range(points[0]["samples"], points[-1]["samples"] + 1, 10))


def steady(path, name, seconds):
    """Return a session's points from 1.5 s to `seconds`, their lateness, its least and spread.

    How late samples arrive depends on the machine; what powerd makes of them does not. In its first
    10 s it puts a line of the declared rate under the arrivals, lowering it as better ones come. So
    no point is earlier than the sample could have come; and lateness varies by no more than the
    best arrival of the first second lies above the line, which the residual bounds (the root mean
    square of that over the seconds so far), and by the crystal's drift. All in seconds.
    """
    emulator = getattr(path, name)
    points = wait_for(
        lambda: (found := path.points(name, "12v")) and found[-1]["samples"] >= seconds * RATE and found,
        30,
        f"{seconds} s of points",
    )
    first = first_sample(points, emulator, 1)
    points = [p for p in points if 1.5 <= p["samples"] / RATE <= seconds]
    late = [(p["time"] - emulator.time_of(first + p["samples"])) / 1e9 for p in points]
    drift = abs(emulator.ppm) * 1e-6 * seconds
    varies = points[-1]["clock_residual_seconds"] * math.sqrt(seconds + 1) + drift + CLOCK_READING
    soonest = min(
        sent - emulator.start_monotonic_ns - end / RATE * (1 + emulator.ppm * 1e-6) * 1e9
        for _, end, sent in emulator.sent()
    )
    return points, late, soonest / 1e9 - drift - CLOCK_READING, varies


@pytest.mark.parametrize("name", ["a", "b"])
def test_joules_of_an_interval_of_utc_are_the_true_ones_as_far_as_its_ends_are_known(path, name):
    points, _, _, varies = steady(path, name, 7)
    emulator = getattr(path, name)
    # Whole periods of the waveform, so that being late at both ends alike does not matter.
    begin, end = points[0], points[500]
    assert end["samples"] - begin["samples"] == 5 * emulated_hmo.PERIOD
    truth = [emulated_hmo.true_joules(1, emulator.samples_at(p["time"]), RATE) for p in (begin, end)]
    most_watts = max(p["watts_max"] for p in points)
    assert end["joules"] - begin["joules"] == pytest.approx(truth[1] - truth[0], abs=most_watts * varies)


@pytest.mark.parametrize("name", ["a", "b"])
def test_times_rise_and_are_late_by_the_least_delay_of_the_arrivals(path, name):
    points, late, soonest, varies = steady(path, name, 7)
    assert all(a["time"] < b["time"] for a, b in itertools.pairwise(points))
    assert min(late) >= soonest
    assert max(late) - min(late) <= varies


def test_points_carry_means_extremes_and_the_session(path):
    settled(path, 3)
    points = path.points("a", "5v")[1:]
    assert {p["session"] for p in points} == {path.powerd.status()["session"]}
    assert {(p["host"], p["drive"]) for p in points} == {("vhost1", "d 1")}
    for p in points:
        assert p["watts_min"] <= p["watts"] <= p["watts_max"]
    # The rail that feeds back for a while: the sign is kept.
    assert min(p["amps"] for p in points) < -0.25
    assert min(p["watts_min"] for p in points) < -1.2


def test_points_reach_influxdb_soon(path):
    settled(path, 3)
    newest = path.influx.rows("SELECT last(joules) FROM power WHERE meter='b' AND rail='12v'")[0]["time"]
    # srcap wakes powerd, powerd hands on, and the writer sends, once a second each (decision 006).
    assert time.time_ns() - newest < 3_000_000_000


def test_the_ledger_balances(path):
    settled(path, 3)
    for name in ("a", "b"):
        m = path.powerd.meter(name)
        assert (m["lost"], m["repeated"], m["gap_seconds"], m["restarts"]) == (0, 0, 0, 0)
        assert m["samples"] > 2000
        # What is independent: the controller's clock times the declared rate.
        assert abs(m["expected"] - m["samples"]) <= 5
        assert m["observed_rate_hz"] == pytest.approx(RATE, rel=5e-3)


def ask_clock(port):
    request = bytearray(48)
    request[0] = 4 << 3 | 3
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(5)
        s.sendto(request, ("127.0.0.1", port))
        return s.recv(100)


def test_sntp_answers_from_the_controllers_clock(path):
    before = time.time()
    answer = ask_clock(path.clock_port)
    after = time.time()
    assert answer[0] & 7 == 4
    assert len(answer) == 48
    received, sent = (
        (v >> 32) - 2208988800 + (v & 0xFFFFFFFF) / 2**32 for v in struct.unpack(">QQ", answer[32:48])
    )
    assert before - 1e-5 <= received <= sent <= after + 1e-5


def test_an_instrument_that_dies_and_returns_leaves_a_gap_and_no_points_in_it(path):
    settled(path, 3)
    killed = time.time_ns()
    path.a.kill()
    silent = path.powerd.wait_state("a", "silent", 4)
    assert silent["reason"]
    wait_for(lambda: path.powerd.meter("a")["gap_seconds"] > 1.5, 10, "a gap of 1.5 s")
    assert path.powerd.meter("b")["state"] == "streaming"
    assert path.points("a", "12v", f"AND time > {killed + 20_000_000}") == []

    returned = time.time_ns()
    path.a = Emulator(port=path.a.port, rate=RATE, ppm=40)
    path.powerd.wait_state("a", "streaming", 12)
    wait_for(
        lambda: len(path.points("a", "12v", f"AND time > {returned}")) > 100,
        10,
        "points after the return",
    )

    points = path.points("a", "12v")
    at = next(i for i, p in enumerate(points) if p["time"] > returned)
    last, origin, after = points[at - 1], points[at], points[-1]
    assert last["time"] <= killed + 20_000_000
    assert origin["watts"] is None
    assert origin["joules"] == last["joules"]
    assert origin["samples"] == last["samples"]
    gap = (origin["time"] - last["time"]) / 1e9
    assert origin["gap_seconds"] == pytest.approx(gap, abs=0.005)
    assert origin["lost"] == pytest.approx(gap * RATE, abs=5)
    assert after["gap_seconds"] == origin["gap_seconds"]
    assert abs(after["expected"] - after["samples"] - after["lost"]) <= 10

    # After the gap joules go on from where they were, by the new samples alone.
    first = round(path.a.samples_at(origin["time"]))
    wants = [
        emulated_hmo.true_joules(1, k + after["samples"] - origin["samples"], RATE)
        - emulated_hmo.true_joules(1, k, RATE)
        for k in range(max(0, first - 40), first + 40)
    ]
    got = after["joules"] - origin["joules"]
    assert any(abs(w - got) < 1e-9 * w for w in wants)

    b = path.powerd.meter("b")
    assert (b["restarts"], b["gap_seconds"], b["lost"]) == (0, 0, 0)
    assert path.powerd.meter("a")["restarts"] >= 1


def test_sigterm_stops_srcap_and_flushes(path):
    settled(path, 3)
    children = subprocess.run(
        ["ps", "--ppid", str(path.powerd.process.pid), "-o", "pid="], capture_output=True, text=True
    ).stdout.split()
    assert len(children) == 2
    asked = time.time_ns()
    assert path.powerd.stop() == 0
    for pid in children:
        assert subprocess.run(["ps", "-p", pid], capture_output=True).returncode != 0
    for name in ("a", "b"):
        newest = path.influx.rows(f"SELECT last(joules) FROM power WHERE meter='{name}' AND rail='12v'")[0][
            "time"
        ]
        assert newest > asked - 100_000_000
    log = path.powerd.log_path.read_text()
    assert "spool" not in log


def test_samples_lost_inside_the_instrument_are_found(tmp_path):
    with Emulator(rate=RATE, lose_at=2.5, lose=400) as emulator:
        config = configuration(tmp_path, NOWHERE, [meter("a", emulator.driver)])
        powerd = Powerd(tmp_path, config)
        try:
            powerd.wait_state("a", "streaming", 10)
            m = wait_for(lambda: (s := powerd.meter("a"))["lost"] and s, 10, "the loss is found")
        finally:
            assert powerd.stop() == 0
    assert 380 <= m["lost"] <= 402
    assert m["gap_seconds"] == pytest.approx(m["lost"] / RATE)
    assert m["restarts"] == 0


def check_fails(tmp_path, config, *words):
    path = tmp_path / "powerd.json"
    path.write_text(config if isinstance(config, str) else json.dumps(config))
    done = subprocess.run([POWERD, "--config", str(path)], capture_output=True, text=True, timeout=10)
    assert done.returncode == 2
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1
    for word in (str(path), *words):
        assert word in lines[0]


def test_bad_configurations_are_refused_in_one_line(tmp_path):
    def base():
        return configuration(tmp_path, dict(NOWHERE), [meter("a", "demo")])

    c = base()
    c["points_per_secnd"] = 100
    check_fails(tmp_path, c, "points_per_secnd")
    c = base()
    c["meters"][0]["samples"] = "mean"
    check_fails(tmp_path, c, "meters[0].samples", '"mean"', "window-mean, point")
    c = base()
    c["meters"][0]["rails"][1]["amps"] = "CH3"
    check_fails(tmp_path, c, "meters[0].rails[1].amps", '"CH3"', "another channel")
    c = base()
    c["meters"].append(c["meters"][0])
    check_fails(tmp_path, c, "meters[1].name", '"a"')
    c = base()
    c["influx"]["url"] = "localhost:8086"
    check_fails(tmp_path, c, "influx.url", "localhost:8086", "http://HOST:PORT")
    c = base()
    c["influx"]["pasword_file"] = "x"
    check_fails(tmp_path, c, "pasword_file")
    c = base()
    c["srcap"] = "/nonexistent/srcap"
    check_fails(tmp_path, c, "srcap", "/nonexistent/srcap")
    c = base()
    c["meters"][0]["sample_rate_hz"] = 0
    check_fails(tmp_path, c, "meters[0].sample_rate_hz", "0")
    check_fails(tmp_path, "{", "powerd.json", "unexpected EOF")


def test_a_rate_that_is_not_the_instruments_is_refused_not_integrated(tmp_path):
    with Emulator(rate=RATE) as emulator:
        powerd = Powerd(
            tmp_path,
            configuration(tmp_path, NOWHERE, [meter("a", emulator.driver, sample_rate_hz=2000)]),
        )
        try:
            m = powerd.wait_state("a", "failed", 10)
        finally:
            assert powerd.stop() == 0
    assert "1000 Hz" in m["reason"]
    assert "2000" in m["reason"]
    assert m["samples"] == 0


def test_volts_and_amps_that_are_swapped_are_refused(tmp_path):
    with Emulator(rate=RATE) as emulator:
        rails = [{"rail": "12v", "host": "h", "drive": "d", "volts": "CH2", "amps": "CH1"}]
        powerd = Powerd(
            tmp_path,
            configuration(tmp_path, NOWHERE, [meter("a", emulator.driver, rails=rails)]),
        )
        try:
            m = powerd.wait_state("a", "failed", 10)
        finally:
            assert powerd.stop() == 0
    assert "CH1 is not amps" in m["reason"]
    assert m["samples"] == 0


def test_a_lab_without_a_meter_has_its_clock_all_the_same(tmp_path):
    port = free_port(socket.SOCK_DGRAM)
    powerd = Powerd(tmp_path, configuration(tmp_path, NOWHERE, [], port))
    try:
        wait_for(lambda: (tmp_path / "status.sock").exists(), 10, "powerd is there")
        assert powerd.status()["meters"] == []
        assert len(ask_clock(port)) == 48
    finally:
        assert powerd.stop() == 0
