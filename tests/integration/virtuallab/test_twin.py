# SPDX-License-Identifier: GPL-3.0-or-later
"""The twin as its users see it: a real nbdkit, driven by qemu-io, nbdinfo and nbdcopy."""

import hashlib
import json
import os
import select
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.support.programs import wait_for
from tests.support.twins import ACTIVITY_SECONDS, RAIL_12V, Stream, Twin

MIB = 1 << 20
STATES_APART_SECONDS = 0.02


@pytest.fixture
def twin(tmp_path):
    with Twin(tmp_path) as running:
        yield running


def test_offers_the_drive_that_was_asked_for(twin):
    info = json.loads(subprocess.check_output(["nbdinfo", "--no-content", "--json", twin.uri]))["exports"][0]
    assert info["export-size"] == 64 * MIB
    assert info["can_flush"]
    assert info["can_fua"]
    assert info["can_trim"]
    assert info["can_zero"]
    assert info["can_multi_conn"]
    assert not info["is_read_only"]


def test_begins_with_all_counters_at_zero(twin):
    state = twin.state()
    assert state["serial"] == "JRTEST0001"
    assert [rail["name"] for rail in state["rails"]] == ["12v", "3v3"]
    assert set(state["counters"].values()) == {0}


def test_counts_each_operation(twin):
    twin.io("read 0 64k", "read 64k 4k", "write -P 7 0 8k", "write -f -P 7 1M 4k", "flush", "discard 2M 1M",
            "write -z 4M 1M", "write -z -u 5M 1M")  # fmt: skip
    counters = twin.counters()
    assert counters["reads"] == 2
    assert counters["read_bytes"] == 68 << 10
    assert counters["writes"] == 4
    assert counters["write_bytes"] == (12 << 10) + 2 * MIB
    assert counters["zeroes"] == 2
    assert counters["zero_bytes"] == 2 * MIB
    assert counters["fua_writes"] == 1
    assert counters["discards"] == 1
    assert counters["discard_bytes"] == MIB
    assert counters["flushes"] >= 1
    assert counters["throttled_ns"] == 0


def test_true_joules_are_idle_power_plus_the_energy_of_the_operations(tmp_path):
    rail = "5v,5,0.05,0.8,1e-9,2e-9,1e-5,3e-4"
    with Twin(tmp_path, rails=[rail]) as twin:
        before = twin.state()
        twin.io("write -P 1 0 1M", "write -f -P 1 1M 64k", "read 0 512k", "flush", "discard 8M 8M")
        time.sleep(ACTIVITY_SECONDS)
        after = twin.state()
    seconds = (after["monotonic_ns"] - before["monotonic_ns"]) / 1e9
    done = after["counters"]
    commands = done["reads"] + done["writes"] + done["flushes"] + done["discards"]
    expected = (
        0.8 * seconds
        + 1e-9 * done["read_bytes"]
        + 2e-9 * done["write_bytes"]
        + 1e-5 * commands
        + 3e-4 * (done["flushes"] + done["fua_writes"])
    )
    measured = after["rails"][0]["joules"] - before["rails"][0]["joules"]
    assert measured == pytest.approx(expected, abs=2e-9)  # figures are given to the nanojoule


def test_volts_droop_by_ohms_times_amps(tmp_path):
    with Twin(tmp_path, rails=["12v,12,0.5,6,0,0,0,0,1"]) as twin:
        rail = twin.state()["rails"][0]
    assert rail["volts"] == pytest.approx(12 - 0.5 * rail["amps"], rel=1e-8)
    assert rail["volts"] * rail["amps"] == pytest.approx(6, rel=1e-8)
    assert rail["volts"] > 11


def test_data_survive_a_restart_and_counters_restart(tmp_path):
    twin = Twin(tmp_path)
    with twin:
        twin.io("write -P 0x5a 1M 1M")
    with twin:
        assert twin.counters()["writes"] == 0
        assert "Pattern verification failed" not in twin.io("read -P 0x5a 1M 1M", "read -P 0 2M 1M")


def test_a_whole_image_copies_through_unchanged(twin, tmp_path):
    content = os.urandom(64 * MIB)
    source, target = tmp_path / "source.img", tmp_path / "target.img"
    source.write_bytes(content)
    subprocess.run(["nbdcopy", "--flush", str(source), twin.uri], check=True, timeout=60)
    subprocess.run(["nbdcopy", twin.uri, str(target)], check=True, timeout=60)
    assert hashlib.sha256(target.read_bytes()).digest() == hashlib.sha256(content).digest()
    counters = twin.counters()
    assert counters["write_bytes"] == counters["read_bytes"] == 64 * MIB


def test_discarded_and_zeroed_ranges_read_zero_and_give_space_back(twin):
    twin.io("write -P 9 0 16M", "flush")
    full = twin.file.stat().st_blocks
    output = twin.io("discard 0 8M", "write -z 8M 4M", "read -P 0 0 12M", "read -P 9 12M 4M")
    assert "Pattern verification failed" not in output
    assert twin.file.stat().st_blocks < full
    assert twin.file.stat().st_size == 64 * MIB


def test_many_connections_at_once_lose_no_count(twin):
    def load():
        twin.io(*["write -P 3 0 4k"] * 200)

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert twin.counters()["writes"] == 800


@pytest.mark.timed
def test_the_power_limit_holds_operations_up_and_reports_it(tmp_path):
    # 20 MB at 0.1 uJ/B are 2 J; the rail allows 10 W: 0.2 s.
    with Twin(tmp_path, rails=["5v,5,0.01,1,0,1e-7,0,0,10"]) as twin:
        before = twin.joules()["5v"]
        began = time.monotonic()
        twin.io(*[f"aio_write -P 1 {n}M 1M" for n in range(20)], "aio_flush")  # always more to do than it may
        seconds = time.monotonic() - began
        time.sleep(ACTIVITY_SECONDS)
        assert seconds > 0.19
        assert twin.counters()["throttled_ns"] > 100e6
        assert twin.joules()["5v"] - before > 20 * MIB * 1e-7


def test_stream_gives_every_window_in_order(twin):
    stream = Stream(twin, 1_000_000)
    twin.io(*["write -P 1 0 256k", "flush"] * 50)
    stream.wait_rows(401)
    rows = stream.stop()
    numbers = [row[0] for row in rows]
    assert len(rows) > 400
    assert numbers == list(range(numbers[0], numbers[0] + len(rows)))
    assert all(len(row) == 5 for row in rows)


def test_stream_windows_lie_on_the_monotonic_clock(twin):
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    stream = Stream(twin, 5_000_000)
    stream.wait_rows(20)
    sent = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    rows = stream.stop()
    after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    # Begins with the window that runs when the twin reads the request, and never sends one that is
    # not over.
    assert before // 5_000_000 <= rows[0][0] <= sent // 5_000_000
    assert sent // 5_000_000 - 1 <= rows[-1][0] < after // 5_000_000


def test_a_coarser_stream_is_the_mean_of_the_finer(twin):
    fine, coarse = Stream(twin, 1_000_000), Stream(twin, 10_000_000)
    twin.io(*["write -P 1 0 512k", "flush"] * 50)
    coarse.wait_rows(10)
    fine_rows = {row[0]: row[1:] for row in fine.stop()}
    compared = 0
    for number, *values in coarse.stop():
        parts = [fine_rows.get(number * 10 + n) for n in range(10)]
        if None in parts:
            continue
        for column, value in enumerate(values):
            assert value == pytest.approx(sum(part[column] for part in parts) / 10, rel=1e-7)
        compared += 1
    assert compared > 5


def test_stream_volts_times_amps_integrate_to_the_true_joules(twin):
    stream = Stream(twin, 1_000_000)
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        twin.io(*["write -P 1 0 1M", "read 0 256k", "flush"] * 10)
    rows = stream.stop()
    clock = twin.state()
    offset = clock["realtime_ns"] - clock["monotonic_ns"]
    first, last = rows[0][0] * 1_000_000 + offset, (rows[-1][0] + 1) * 1_000_000 + offset
    truth = twin.ask(f"history {first} {last}")
    for column, rail in enumerate(truth["rails"]):
        summed = sum(row[1 + 2 * column] * row[2 + 2 * column] for row in rows) * 1e-3
        true = rail["joules"][1] - rail["joules"][0]
        assert true > 0
        # The product of the means is above the mean of the products by
        # ohms * var(I) within a window.
        assert summed == pytest.approx(true, rel=2e-3)


def test_a_reader_that_does_not_keep_up_is_closed_not_skipped(tmp_path):
    # Windows so short that the twin holds only 2 s of them and its buffers fill at once.
    held_seconds = 2
    with Twin(tmp_path, rails=[RAIL_12V], options=["window=2000"]) as twin:
        with twin.connect() as connection:
            connection.sendall(b"stream 2000\n")
            with connection.makefile() as lines:
                numbers = [int(lines.readline().split()[0])]
                time.sleep(1.5 * held_seconds)
                numbers += [int(line.split()[0]) for line in lines if line.endswith("\n")]  # to its end
        assert len(numbers) > 1000  # closed for what it did not take, not at once
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert (numbers[-1] + 1) * 2000 < time.clock_gettime_ns(time.CLOCK_MONOTONIC) - 1_000_000_000
        assert twin.counters()["reads"] == 0  # others are still served


def test_history_agrees_with_state(twin):
    states = []
    for _ in range(3):
        twin.io(*["write -P 1 0 1M"] * 10)
        states.append(twin.state())
        time.sleep(STATES_APART_SECONDS)
    times = [state["realtime_ns"] for state in states]
    truth = twin.ask("history " + " ".join(map(str, times)))
    assert truth["times_ns"] == times
    for index, rail in enumerate(truth["rails"]):
        assert rail["name"] == states[0]["rails"][index]["name"]
        for state, joules in zip(states, rail["joules"], strict=True):
            # Interpolated within a millisecond: a quarter of 1 ms x 24 W at most.
            assert joules == pytest.approx(state["rails"][index]["joules"], abs=6e-3)


def test_history_has_the_counters_at_each_time(twin):
    asked, expected = [], []
    for commands in ["write -P 1 0 1M"], ["flush", "read 0 64k"], ["discard 2M 1M", "write -f -P 2 0 4k"], []:
        if commands:
            twin.io(*commands)
        state = twin.state()
        asked.append(state["realtime_ns"] + 2_000_000)  # after the cell of 1 ms that the last operation is in
        expected.append(state["counters"])
        time.sleep(STATES_APART_SECONDS)
    truth = twin.ask("history " + " ".join(map(str, asked)))
    assert [{name: values[n] for name, values in truth["counters"].items()} for n in range(4)] == expected
    assert expected[0]["writes"] == 1
    assert expected[3]["fua_writes"] == 1


def test_counters_of_history_under_load_lag_by_less_than_a_millisecond(twin):
    load = threading.Thread(target=twin.io, args=["write -P 3 0 4k"] * 10000)
    load.start()
    states = []
    while load.is_alive():
        states.append(twin.state())
        time.sleep(STATES_APART_SECONDS)
    load.join()
    for state in states:
        at = state["realtime_ns"]
        truth = twin.ask(f"history {at - 1_000_000} {at}")["counters"]["writes"]
        # The cell begins at most a millisecond before; 10 us: the two clocks' offset, read again.
        earlier = twin.ask(f"history {at - 1_010_000}")["counters"]["writes"][0]
        assert earlier <= truth[1] <= state["counters"]["writes"]
        assert truth[0] <= truth[1]
    assert len({state["counters"]["writes"] for state in states}) > 3


def test_history_refuses_the_future_and_what_was_before(twin):
    now = time.time_ns()
    for asked in (now + 10_000_000_000, now - 3600_000_000_000):
        assert "held are" in twin.ask(f"history {asked}")["error"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("hello", "allowed are"),
        ("history", "allowed are"),
        ("history ", "no time"),
        ("history x", "decimal"),
        ("history -5", "decimal"),
        ("stream 1500000", "multiple of 1000000"),
        ("stream 0", "multiple of 1000000"),
        ("stream 3000000000", "at most"),
        ("", "allowed are"),
    ],
)
def test_refuses_what_it_does_not_know(twin, line, reason):
    assert reason in twin.ask(line)["error"]


def test_serves_several_requests_of_one_connection_and_several_connections(twin):
    with twin.connect() as one, twin.connect() as other:
        one.sendall(b"state\nstate\nnonsense\n")
        other.sendall(b"state\n")
        with one.makefile() as replies:
            answers = [json.loads(replies.readline()) for _ in range(3)]
        with other.makefile() as replies:
            assert "counters" in json.loads(replies.readline())
    assert "counters" in answers[0]
    assert "counters" in answers[1]
    assert "error" in answers[2]


def test_readers_that_vanish_in_mid_stream_cost_the_others_nothing(twin):
    descriptors = Path(f"/proc/{twin.process.pid}/fd")
    before = len(list(descriptors.iterdir()))
    steady = Stream(twin, 1_000_000)
    for _ in range(3):
        readers = [twin.connect() for _ in range(20)]
        for reader in readers:
            reader.sendall(b"stream 1000000\n")
        half_a_request = twin.connect()
        half_a_request.sendall(b"histo")
        for reader in readers:
            unread, _, _ = select.select([reader], [], [], 10)
            assert unread
        for connection in (*readers, half_a_request):
            connection.close()
    only_the_steady = before + 1
    wait_for(lambda: len(list(descriptors.iterdir())) == only_the_steady, 5, "the others are closed")
    twin.io("write -P 1 0 4k")
    assert twin.counters()["writes"] == 1
    numbers = [row[0] for row in steady.stop()]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_one_reader_more_than_there_is_room_for_is_closed_and_the_others_stay(twin):
    readers = [twin.connect() for _ in range(32)]
    assert readers[-1].send(b"state\n") == 6
    assert readers[-1].recv(1) == b"{"
    with twin.connect() as one_more:
        assert one_more.recv(1) == b""
    for reader in readers:
        reader.close()


def test_takes_its_socket_away_when_it_ends(tmp_path):
    twin = Twin(tmp_path)
    with twin:
        pass
    assert not twin.control.exists()


def test_what_was_written_outlives_a_killed_twin(tmp_path):
    twin = Twin(tmp_path).start()
    twin.io("write -P 0x5a 1M 1M", "flush", "write -P 0x5b 2M 1M")
    twin.kill()
    with twin:
        output = twin.io("read -P 0x5a 1M 1M", "read -P 0x5b 2M 1M")
    assert "Pattern verification failed" not in output


def test_the_truth_socket_of_a_killed_twin_is_replaced(tmp_path):
    twin = Twin(tmp_path).start()
    twin.kill()
    assert twin.control.exists()
    twin.nbd.unlink()
    with twin:
        assert twin.counters()["writes"] == 0


def test_the_nbd_socket_of_a_killed_twin_is_named(tmp_path):
    twin = Twin(tmp_path).start()
    twin.kill()
    error = refusal_to_serve(twin)
    assert str(twin.nbd) in error
    assert "in use" in error


def refusal_to_serve(twin):
    done = subprocess.run(twin.command, capture_output=True, text=True, timeout=10)
    assert done.returncode != 0
    return done.stderr


def test_a_truth_socket_that_another_twin_listens_on_is_refused(tmp_path, twin):
    other = Twin(tmp_path / "other")
    other.command = [
        f"control={twin.control}" if argument.startswith("control=") else argument
        for argument in other.command
    ]
    assert f"control={twin.control}: another twin listens there" in refusal(other)
    assert twin.state()["serial"] == "JRTEST0001"


def test_a_truth_path_that_is_a_file_is_left_alone(tmp_path):
    twin = Twin(tmp_path)
    twin.control.write_text("precious")
    assert f"control={twin.control}: exists and is not a socket" in refusal(twin)
    assert twin.control.read_text() == "precious"


@pytest.fixture
def full_disk(tmp_path):
    """How to run a command that sees a file system of 1 MiB at the given folder."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = f'mount -t tmpfs -o size=1m none {folder} && exec "$@"'
    inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh"]
    if os.geteuid() == 0:
        inside = ["unshare", "--mount", "sh", "-c", mount, "sh"]
    probe = subprocess.run([*inside, "true"], capture_output=True, text=True)
    if probe.returncode:
        pytest.skip(f"no small file system can be made here: {probe.stderr.strip()}")
    return folder, inside


def test_a_full_disk_is_reported_to_the_client_and_counted_in_nothing(tmp_path, full_disk):
    folder, inside = full_disk
    twin = Twin(tmp_path / "twin")
    twin.command = inside + [
        f"file={folder / 'drive.img'}" if argument.startswith("file=") else argument
        for argument in twin.command
    ]
    with twin:
        twin.io("write -P 1 0 512k")
        failed = subprocess.run(
            ["qemu-io", "-f", "raw", "-t", "none", "-c", "write 1M 2M", "-c", "write -f 4M 2M", twin.uri],
            capture_output=True,
            text=True,
            timeout=60,
        )
        counters = twin.counters()
        assert failed.stdout.count("No space left on device") == 2
        assert (counters["writes"], counters["write_bytes"], counters["fua_writes"]) == (1, 512 << 10, 0)
        # The drive is not broken by it: what is there reads back, and space that is given back is
        # written.
        output = twin.io("read -P 1 0 512k", "discard 1M 8M", "write -P 4 1M 256k", "read -P 4 1M 256k")
        assert "Pattern verification failed" not in output
        assert twin.counters()["writes"] == 2


def refusal(twin):
    done = subprocess.run([*twin.command, "--run", "true"], capture_output=True, text=True, timeout=10)
    assert done.returncode != 0
    return done.stderr


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"rails": []}, "rail= is missing"),
        ({"rails": ["12v,12"]}, "ohms is missing"),
        ({"rails": [RAIL_12V, RAIL_12V]}, "already"),
        ({"serial": "a b"}, "serial=a b"),
        ({"size": "0"}, "size=0"),
        ({"options": ["window=0"]}, "window=0"),
        ({"options": ["windows=5"]}, "allowed keys are"),
    ],
)
def test_a_wrong_parameter_is_named(tmp_path, options, reason):
    assert reason in refusal(Twin(tmp_path, **options))


def test_a_drive_does_not_change_its_size(tmp_path):
    with Twin(tmp_path):
        pass
    assert "67108864 bytes long" in refusal(Twin(tmp_path, size="32M"))
    assert (tmp_path / "drive.img").stat().st_size == 64 * MIB


def test_two_twins_do_not_share_a_backing_file(tmp_path, twin):
    other = Twin(tmp_path / "other")
    other.command = [
        f"file={twin.file}" if argument.startswith("file=") else argument for argument in other.command
    ]
    assert "another twin has it open" in refusal(other)
