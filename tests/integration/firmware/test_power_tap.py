# SPDX-License-Identifier: GPL-3.0-or-later
"""The power tap (posix port) between real twins and the real libsigrok."""

import contextlib
import re
import signal
import socket
import subprocess
import threading
import time

import numpy as np
import pytest

from tests.support.captures import Capture
from tests.support.programs import built, end, processor_seconds, wait_for
from tests.support.srcap_frames import ANALOG, LOGIC
from tests.support.tap_client import Client
from tests.support.twins import RAIL_3V3, RAIL_12V, Stream, Twin

PROGRAM = built("power_tap")
RATE_HZ = 1000
WINDOW_NS = 1_000_000_000 // RATE_HZ
HELD = 1048575  # samples, that the tap keeps for a client
HELD_SECONDS = HELD / 1e6  # at 1 MS/s, from the clock alone


class Tap:
    """A running power tap; `rails` are its --rail values, `options` further ones."""

    def __init__(self, *rails, rate_hz=RATE_HZ, options=()):
        self.command = [PROGRAM, "--listen", "127.0.0.1:0,127.0.0.1:0", "--rate", str(rate_hz), *options]
        for rail in rails:
            self.command += ["--rail", rail]

    def __enter__(self):
        self.process = subprocess.Popen(
            self.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.ports = [int(port) for port in re.findall(r":(\d+)", self.process.stdout.readline())]
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGCONT)
        end(self.process, 5)

    def client(self, instrument=0):
        return Client(self.ports[instrument])


def synthetic_tap(rate_hz, *options):
    return Tap(rate_hz=rate_hz, options=["--synthetic", *options])


def synthetic_numbers(amps_1, amps_2):
    """Return the synthetic samples' numbers, modulo 4096 x 4093, from the rails' ramps."""
    first = np.rint((np.asarray(amps_1, float) / 1 - 1) * 4096).astype(int)
    second = np.rint((np.asarray(amps_2, float) / 1.5 - 1) * 4093).astype(int)
    return first + 4096 * ((second - first) * pow(4096, -1, 4093) % 4093)


class Load:
    """Reads, writes and flushes a twin until stopped."""

    def __init__(self, twin, burst=20):
        self.twin, self.burst = twin, burst
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        n = 0
        while not self.stopping.is_set():
            n += 1
            self.twin.io(*[f"write -P {n % 256} {k}M 512k" for k in range(self.burst)], "flush", "read 0 4M")

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join(30)


def windows_of(stream):
    """First window's number, and float32 rows (windows, volts and amps of each rail)."""
    rows = stream.stop()
    return rows[0][0], np.array([values for _, *values in rows], "<f4")


def sigrok(port, *arguments):
    """Runs sigrok-cli on an instrument. Returns its stdout."""
    command = ["sigrok-cli", "-d", f"hameg-hmo:conn=tcp-raw/127.0.0.1/{port}", *arguments]
    return subprocess.run(command, capture_output=True, timeout=20).stdout


def frames_of(port, channels, samples, meanwhile=lambda running: None):
    """Return srcap's frames of an instrument's channels, while `meanwhile` acts on it.

    It goes on until more than so many samples of each analog channel have come after that. Through
    srcap, not sigrok-cli: on a busy machine the latter's -O wav now and then lacks 10 samples that
    libsigrok has delivered.
    """
    names = channels.split(",")
    last = [name for name in names if name.startswith("CH")][-1]
    driver = f"hameg-hmo:conn=tcp-raw/127.0.0.1/{port}"
    with contextlib.closing(Capture(driver, names, silence=10)) as running:
        meanwhile(running)
        enough = running.count(last) + samples
        running.wait(lambda: running.count(last) > enough, f"{samples} samples")
        running.process.terminate()
        running.ended(10)
        return running.frames


def channels_of(frames, count):
    """Return the analog channels' samples as rows, as far as all channels have them."""
    analog = [frame for frame in frames if frame.type == ANALOG]
    channels = [np.concatenate([f.samples() for f in analog if f.channel == n]) for n in range(count)]
    whole = min(map(len, channels))
    return np.stack([values[:whole] for values in channels], axis=1)


def captured(port, samples, **options):
    """What libsigrok gives of an instrument's four channels, as rows."""
    return channels_of(frames_of(port, "CH1,CH2,CH3,CH4", samples, **options), 4)


@pytest.fixture
def twin(tmp_path):
    with Twin(tmp_path / "twin") as running:
        yield running


@pytest.fixture
def tap(twin):
    with Tap(f"1={twin.control}:12v", f"2={twin.control}:3v3") as running:
        yield running


def find(needle, hay):
    """Where the rows of needle stand in hay; all of them, in order, without gap."""
    candidates = np.flatnonzero((hay[: len(hay) - len(needle) + 1] == needle[0]).all(axis=1))
    return [int(at) for at in candidates if np.array_equal(hay[at : at + len(needle)], needle)]


def test_sigrok_finds_the_instrument(tap):
    for port in tap.ports:
        output = sigrok(port, "--scan").decode()
        assert "hameg-hmo - Rohde&Schwarz RTA4004" in output


def test_sigrok_shows_volts_and_amps_with_their_units(tap):
    output = sigrok(tap.ports[0], "-C", "CH1,CH2,CH3,CH4", "--frames", "2", "--samples", "1000000000",
                    "-O", "analog").decode()  # fmt: skip
    readings = set(re.findall(r"(CH\d): (\S+) (\S+)", output))
    assert {(channel, unit) for channel, _, unit in readings} == {
        ("CH1", "V"), ("CH2", "A"), ("CH3", "V"), ("CH4", "A"),
    }  # fmt: skip
    values = {channel: float(value) for channel, value, _ in readings}
    assert values["CH1"] == pytest.approx(12, abs=0.1)
    assert values["CH2"] == pytest.approx(1.5 / 12, abs=0.05)
    assert values["CH3"] == pytest.approx(3.3, abs=0.1)


def test_energy_through_sigrok_is_the_true_energy(twin, tap):
    truth = Stream(twin, WINDOW_NS)
    with Load(twin):
        rows = captured(tap.ports[0], 4 * RATE_HZ)
    first_window, windows = windows_of(truth)
    assert len(rows) > 4 * RATE_HZ

    # Sample for sample the twin's own windows, so nothing is lost, repeated or swapped.
    places = find(rows, windows)
    assert len(places) == 1
    assert np.ptp(rows[:, 1]) > 0.05, "the load must show"

    clock = twin.state()
    offset = clock["realtime_ns"] - clock["monotonic_ns"]
    begin = (first_window + places[0]) * WINDOW_NS + offset
    history = twin.ask(f"history {begin} {begin + len(rows) * WINDOW_NS}")
    for n, rail in enumerate(history["rails"]):
        measured = float((rows[:, 2 * n].astype(float) * rows[:, 2 * n + 1]).sum()) / RATE_HZ
        true = rail["joules"][1] - rail["joules"][0]
        error = measured / true - 1
        print(f"{rail['name']}: measured {measured:.6f} J, true {true:.6f} J, error {error:+.2e}")
        assert measured == pytest.approx(true, rel=2e-3)


def counted(client):
    """How many samples the tap has made for the client's instrument."""
    return int(client.text("TAP:COUN?").split(",")[0])


def test_several_clients_in_sequence_each_start_at_the_newest_sample():
    with synthetic_tap(RATE_HZ) as tap:
        for _ in range(3):
            with tap.client() as client:
                # What passes before the first request is not delivered.
                wait_for(lambda client=client: counted(client) > 0.3 * RATE_HZ, 10, "samples have passed")
                before = counted(client)
                amps = client.channel(2), client.channel(4)
                after = counted(client)
            assert before >= 0.25 * RATE_HZ
            numbers = synthetic_numbers(*amps)
            assert before <= numbers[0]
            assert numbers[-1] < after


@pytest.mark.timed
def test_frames_come_about_every_20_ms(tap):
    with tap.client() as client:
        client.channel(1)
        sizes, waits = [], []
        for _ in range(50):
            began = time.monotonic()
            sizes.append(len(client.channel(1)))
            waits.append(time.monotonic() - began)
    assert 20 <= np.median(sizes) <= 30
    assert np.percentile(waits, 90) < 0.05


def test_channels_of_a_round_are_of_the_same_window(twin, tap):
    with Load(twin), tap.client() as client:
        rows = client.seconds(1)
    # The droop law ties volts to amps of the same sample: to float32 resolution.
    assert np.abs(rows[:, 0] - (12 - 0.05 * rows[:, 1])).max() < 2e-6
    assert np.abs(rows[:, 2] - (3.3 - 0.03 * rows[:, 3])).max() < 1e-6


def test_all_rails_of_a_tap_are_simultaneous(tmp_path):
    with (
        Twin(tmp_path / "a", rails=[RAIL_12V, RAIL_3V3]) as one,
        Twin(tmp_path / "b", rails=["5v,5,0.02,0.4,1e-9,2e-9,1e-5,1e-4"]) as other,
        Tap(
            f"1={one.control}:12v", f"3={one.control}:12v", f"2={other.control}:5v", f"4={other.control}:5v"
        ) as tap,
        Load(one),
        Load(other),
        tap.client(0) as first,
        tap.client(1) as second,
    ):
        results = {}
        threads = [
            threading.Thread(target=lambda n=n, c=c: results.update({n: c.seconds(1)}))
            for n, c in enumerate((first, second))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    # Both instruments carry the same two rails here; where they overlap they must agree row by row.
    length = min(map(len, results.values())) - 200
    part = results[0][100 : 100 + length]
    assert len(find(part, results[1])) == 1


def test_a_rail_without_a_source_reads_zero(tap):
    with tap.client(1) as client:
        assert not client.seconds(0.1).any()


@pytest.mark.timed
def test_a_tap_without_any_source_keeps_its_rate(tmp_path):
    with Tap(f"1={tmp_path}/none.sock:12v") as tap, tap.client() as client:
        client.channel(1)
        began = time.monotonic()
        rows = client.seconds(1)
        assert not rows.any()
        assert abs(len(rows) - (time.monotonic() - began) * RATE_HZ) < 60


def test_a_stalled_source_is_waited_for_and_loses_nothing(twin, tap):
    truth = Stream(twin, WINDOW_NS)
    with Load(twin), tap.client() as client:
        before = client.seconds(0.3)
        twin.process.send_signal(signal.SIGSTOP)
        restart = threading.Timer(1, twin.process.send_signal, [signal.SIGCONT])
        restart.start()
        began = time.monotonic()
        during = client.seconds(0.9)
        waited = time.monotonic() - began
        after = client.seconds(0.5)
        restart.join()
    _, windows = windows_of(truth)
    assert waited > 0.9
    rows = np.concatenate([before, during, after])
    assert len(rows) > 1500, "the stalled time's windows come after the stall"
    assert len(find(rows, windows)) == 1


def test_a_source_that_ends_reads_zero_and_is_found_again(tmp_path):
    twin = Twin(tmp_path / "twin")
    with Tap(f"1={twin.control}:12v", f"2={twin.control}:3v3") as tap, tap.client() as client:
        with twin:
            wait_for(lambda: client.seconds(0.1)[-1, 0] > 11, 10, "the twin's volts")
            assert (client.seconds(0.3)[-100:, 0] > 11).all()
        assert not client.seconds(0.5)[-100:].any()
        with twin:
            wait_for(lambda: client.seconds(0.1)[-1, 0] > 11, 10, "the next twin's volts")
            assert (client.seconds(0.3)[-100:, 0] > 11).all()
        rows = client.seconds(0.3)
    # A rail is either there or not: nothing between.
    assert set(np.round(rows[:, 0]).astype(int)) <= {0, 12}


def test_a_client_that_stalls_too_long_gets_a_report_of_what_it_lost(tmp_path):
    with Tap(f"1={tmp_path}/none.sock:12v", rate_hz=1000000) as tap, tap.client() as client:
        client.channel(1)
        assert client.text("TAP:COUNT?").endswith(",0")
        time.sleep(2 * HELD_SECONDS)
        client.channel(1)
        samples, overruns = map(int, client.text("TAP:COUNT?").split(","))
        assert samples > 1800000
        assert 0 < overruns < samples - HELD


def test_what_libsigrok_came_too_late_for_is_nan_and_the_other_samples_keep_their_place():
    def stall(running):
        running.wait_samples(100_000)
        running.process.send_signal(signal.SIGSTOP)
        time.sleep(1.5 * HELD_SECONDS)
        running.process.send_signal(signal.SIGCONT)

    with synthetic_tap(1000000) as tap:
        rows = captured(tap.ports[0], 500_000, meanwhile=stall)
        with tap.client() as client:
            taken, overruns = map(int, client.text("TAP:COUN?").split(","))
    lost = np.isnan(rows[:, 0])
    assert (np.isnan(rows) == lost[:, None]).all()
    numbers = synthetic_numbers(np.where(lost, 1, rows[:, 1]), np.where(lost, 1.5, rows[:, 3]))
    assert np.ptp((numbers - np.arange(len(rows)))[~lost]) == 0
    assert not lost[0]
    # A reader on a busy processor is also late for samples after the last that it asked for.
    last_row = numbers[0] + len(rows) - 1
    later = taken - 1 - last_row
    assert 200_000 < lost.sum() <= overruns <= lost.sum() + later


@pytest.mark.timed
def test_a_million_samples_a_second_reach_libsigrok_whole():
    with synthetic_tap(1000000) as tap:
        rows = captured(tap.ports[0], 3_000_000)
    assert len(rows) > 3_000_000
    numbers = synthetic_numbers(rows[:, 1], rows[:, 3])
    assert (np.diff(numbers) == 1).all()
    volts = np.float32(12) - np.float32(0.05) * rows[:, 1]
    assert np.abs(rows[:, 0] - volts).max() <= 1e-6


def test_markers_come_to_libsigrok_in_the_window_of_volts_and_amps():
    with synthetic_tap(20000) as tap:
        frames = frames_of(tap.ports[0], "CH1,CH2,CH4,D0,D1,D2,D3,D4,D5,D6,D7", 21_000)
    rows = channels_of(frames, 3)
    logic = np.concatenate([np.frombuffer(f.payload, "u1") for f in frames if f.type == LOGIC])
    length = min(len(rows), len(logic))
    assert length > 20000
    numbers = synthetic_numbers(rows[:length, 1], rows[:length, 2])
    assert (np.diff(numbers) == 1).all()
    expected = numbers // 4096 % 2 | (numbers // 4093 % 2) << 1
    assert set(expected) == {0, 1, 2, 3}
    assert np.array_equal(logic[:length], expected)


def test_markers_alone_do_not_hang_libsigrok(tap):
    output = sigrok(tap.ports[0], "-C", "D0,D1,D8", "--frames", "3", "--samples", "1000000000", "-O", "bits")
    assert b"D0:" in output
    assert b"D1:" in output


@pytest.mark.timed
def test_a_byte_on_the_marker_socket_sets_the_lines_when_it_comes(tmp_path):
    path = str(tmp_path / "markers.sock")
    with (
        synthetic_tap(20000, "--markers", path) as tap,
        tap.client() as client,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender,
    ):
        client.channel(1)
        bits, sent = [client.pod(1)], []
        for byte in (1, 3, 0xFE, 0):
            sender.sendto(bytes([byte]), path)
            sent.append(time.monotonic())
            while time.monotonic() < sent[-1] + 0.2:
                client.channel(1)
                bits.append(client.pod(1))
        assert client.text("TAP:MARK?") == "0"
    bits = np.concatenate(bits)
    changes = np.flatnonzero(np.diff(bits)) + 1
    assert [bits[0], *bits[changes]] == [0, 1, 3, 2, 0]
    assert np.diff(changes) / 20000 == pytest.approx(np.diff(sent), abs=0.02)


def test_a_rail_that_is_switched_off_reads_zero_and_the_other_goes_on(twin, tap):
    with tap.client() as stream, tap.client(1) as control:
        assert (stream.seconds(0.2)[:, 0] > 11).all()
        assert control.text("TAP:OUTP1 OFF;:TAP:OUTP1?;:TAP:OUTP2?") == "0;1"
        assert not twin.state()["rails"][0]["on"]
        rows = stream.seconds(0.3)
        assert not rows[-100:, :2].any()
        assert (rows[:, 2] > 3).all()
        assert not rows[-100:, 3].any()  # without one of its rails the drive draws nothing from the other
        assert control.text("TAP:OUTP1 ON;:TAP:HOLD1?") == "NONE"
        rows = stream.seconds(0.3)
        assert (rows[-100:, 0] > 11).all()
        assert (rows[-100:, 3] > 0).all()
        assert control.text("TAP:OUTP:ALL OFF;:TAP:OUTP1?;:TAP:OUTP3?") == "1;0"


@pytest.mark.parametrize("holdup_seconds", [0.002, 0.04])
def test_the_hold_up_of_a_twin_is_its_drives(tmp_path, holdup_seconds):
    options = [f"holdup={holdup_seconds * 1e9:.0f}"]
    with (
        Twin(tmp_path, options=options) as twin,
        Tap(f"1={twin.control}:12v", f"2={twin.control}:3v3") as tap,
        tap.client() as stream,
        tap.client(1) as control,
    ):
        stream.seconds(0.2)
        control.text("TAP:OUTP1 OFF;:TAP:OUTP1?")
        rows = stream.seconds(0.3)
        state, seconds, volts, threshold = control.text("TAP:HOLD1?").split(",")
        died_ns = twin.state()["last_cut"]["cut_ns"]
        switched_ns = twin.ask("rail 12v")["switched_ns"]
    assert state == "DONE"
    # The first mean at or below half of the volts, counted from the sample in which the rail was
    # switched.
    assert holdup_seconds <= float(seconds) <= holdup_seconds + 2 / RATE_HZ
    assert float(volts) == pytest.approx(12, abs=0.1)
    assert float(threshold) == pytest.approx(float(volts) / 2)
    assert died_ns - switched_ns == pytest.approx(holdup_seconds * 1e9, abs=1)
    # Amps end at the switch, volts fall in a line that is at half at the hold-up.
    fallen = int(np.flatnonzero(rows[:, 1] == 0)[0])
    assert not rows[fallen:, 1].any()
    assert np.count_nonzero(rows[fallen:, 0]) / RATE_HZ == pytest.approx(2 * holdup_seconds, abs=1.5e-3)


def test_the_cut_and_the_hold_up_are_exact_to_the_sample():
    with synthetic_tap(20000) as tap, tap.client() as stream, tap.client(1) as control:
        rows = [stream.seconds(0.2)]
        control.text("TAP:OUTP1 OFF;:TAP:OUTP1?")
        rows.append(stream.seconds(0.2))
        cut = int(control.text("TAP:OUTP1:CUT?"))
        state, seconds, volts, threshold = control.text("TAP:HOLD1?").split(",")
    rows = np.concatenate(rows)
    at = int(np.flatnonzero(rows[:, 1] == 0)[0])
    start = synthetic_numbers(rows[:1, 1], rows[:1, 3])[0]
    assert start + at == cut
    assert rows[at - 1, 0] == pytest.approx(float(volts), abs=1e-3)
    below = at + int(np.flatnonzero(rows[at:, 0] <= float(threshold))[0])
    assert state == "DONE"
    assert float(seconds) == (below - at) / 20000
    # The synthetic rail falls in a line to nothing within 20 ms.
    assert float(seconds) == pytest.approx(0.01, abs=1e-4)


def test_calibration_is_kept_in_the_memory_and_a_damaged_one_is_not_used(tmp_path):
    memory = tmp_path / "calibration"
    options = ["--memory", str(memory)]
    with synthetic_tap(1000, *options) as tap, tap.client() as client:
        assert client.text("TAP:CAL:STAT?") == "NONE"
        before = client.channel(3)[0]
        assert client.text("TAP:CAL3 1.01,-0.5;:TAP:CAL:SAVE;:SYST:ERR?") == '0,"No error"'
    with synthetic_tap(1000, *options) as tap, tap.client() as client:
        assert client.text("TAP:CAL:STAT?;:TAP:CAL3?") == "STORED;1.00999999E+00,-5.00000000E-01"
        assert client.channel(3)[0] == pytest.approx(before * 1.01 - 0.5, abs=1e-6 + 0.05 * 3)
    image = bytearray(memory.read_bytes())
    image[10] ^= 1
    memory.write_bytes(image)
    with synthetic_tap(1000, *options) as tap, tap.client() as client:
        assert client.text("TAP:CAL:STAT?;:TAP:CAL3?") == "CORRUPT;1.00000000E+00,0.00000000E+00"


def test_blocks_dropped_on_purpose_are_missing_without_a_word():
    lost_blocks = []
    for _ in range(2):
        with synthetic_tap(20000, "--drop-blocks", "0.05", "--seed", "7") as tap, tap.client() as client:
            rows = client.seconds(4)
            samples, overruns, missed = map(int, client.text("TAP:COUN?").split(","))
        numbers = synthetic_numbers(rows[:, 1], rows[:, 3])
        steps = np.diff(numbers)
        assert set(steps) == {1, 401}, "whole blocks of 20 ms"
        lost = numbers[np.flatnonzero(steps > 1)] + 1
        assert (lost % 400 == 0).all()
        lost_blocks.append(lost // 400)
        assert overruns == 0
        assert missed / (samples + missed) == pytest.approx(0.05, abs=0.006)
    same = min(map(max, lost_blocks))
    first, second = ([n for n in blocks if 20 < n <= same] for blocks in lost_blocks)
    assert first == second
    assert len(first) > 5


@pytest.mark.timed
def test_native_commands(tap):
    with tap.client() as client:
        assert client.ask("TAP:IDN?") == b"Joulerig,power tap,virtual,2,0.2.0,posix\n"
        assert client.ask("TAP:RATE?") == b"1000\n"
        asked = time.monotonic()
        before = int(client.ask("TAP:COUNT?").split(b",")[0])
        answered = time.monotonic()
        time.sleep(1)  # that samples are counted of
        least = (time.monotonic() - answered) * RATE_HZ
        made = int(client.ask("TAP:COUNT?").split(b",")[0]) - before
        assert least - 40 < made < (time.monotonic() - asked) * RATE_HZ + 40


def test_takes_little_of_a_core(twin, tap):
    with tap.client(0) as one, tap.client(1) as other:
        thread = threading.Thread(target=lambda: other.seconds(3))
        before = processor_seconds(tap.process.pid)
        thread.start()
        one.seconds(3)
        thread.join()
        share = (processor_seconds(tap.process.pid) - before) / 3
    print(f"{share * 100:.1f} % of a core")
    assert share < 0.05


LISTEN = ["--listen", "127.0.0.1:0,127.0.0.1:0"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--rate", "1000"], "--listen is missing"),
        (["--listen", "127.0.0.1:0,127.0.0.1:0"], "--rate is missing"),
        (["--listen", "127.0.0.1:0", "--rate", "1000"], "--listen 127.0.0.1:0: allowed is two"),
        (["--listen", "here:1,there:2", "--rate", "1000"], "--listen here:1,there:2"),
        (["--listen", "127.0.0.1:0,127.0.0.1:0", "--rate", "0"], "--rate 0"),
        (["--listen", "127.0.0.1:0,127.0.0.1:0", "--rate", "3000"], "--rate 3000"),
        (["--rail", "5=x:y"], "--rail 5=x:y"),
        (["--rail", "1=x"], "--rail 1=x"),
        (["--rail", "1=x:y", "--rail", "1=z:y"], "--rail 1=z:y"),
        (["--rails", "1"], "allowed are --listen"),
        (["--drop-blocks", "1.5"], "--drop-blocks 1.5: allowed is a number from 0 to 1"),
        (["--drop-blocks", "nan"], "--drop-blocks nan"),
        (["--seed", "-1"], "--seed -1"),
        ([*LISTEN, "--rate", "10", "--drop-blocks", "0.1"], "--rate 10: allowed is 50 or more"),
        (
            [*LISTEN, "--rate", "1000", "--synthetic", "--rail", "1=x:y"],
            "--synthetic: allowed without --rail",
        ),
        ([*LISTEN, "--rate", "1000", "--markers", "/nonexistent/socket"], "--markers /nonexistent/socket"),
        ([*LISTEN, "--rate", "1000", "--markers", "/dev/null"], "exists and is not a socket"),
        (["--rate"], "a value must follow"),
    ],
)
def test_wrong_arguments_are_named(arguments, reason):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=5)
    assert done.returncode == 2
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("rail", "rate", "reason"),
    [("24v", 1000, "no such rail; allowed are 12v, 3v3"), ("12v", 2000, "multiple of 1000000")],
)
def test_what_the_twin_cannot_give_is_named(twin, rail, rate, reason):
    tap = Tap(f"1={twin.control}:{rail}", rate_hz=rate)
    done = subprocess.run(tap.command, capture_output=True, text=True, timeout=5)
    assert done.returncode == 2
    assert reason in done.stderr
