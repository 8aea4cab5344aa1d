# SPDX-License-Identifier: GPL-3.0-or-later
"""What a twin keeps and loses when its power is cut, as its NBD client sees it."""

import errno
import os
import random
import subprocess
import threading
import time

import pytest

from tests.support.nbd_client import NbdClient
from tests.support.programs import wait_for
from tests.support.twins import ACTIVITY_SECONDS, RAIL_12V, Stream, Twin

KIB = 1 << 10
SECTOR = 512
CACHE = "write_cache=4M"
NEVER_BY_AGE = "destage=0"
HOLDUP_SECONDS = 0.002
DESTAGE_SECONDS = 0.1


@pytest.fixture
def start(tmp_path):
    """Starts a twin with a write cache and further parameters, and a client of it."""
    running = []

    def begin(*options, **others):
        twin = Twin(tmp_path / f"twin{len(running)}", options=[CACHE, NEVER_BY_AGE, *options], **others)
        running.append(twin)
        twin.start()
        client = NbdClient(twin.nbd)
        running.append(client)
        return twin, client

    yield begin
    for one in reversed(running):
        one.close() if isinstance(one, NbdClient) else one.stop()


def content(number, length=4 * KIB):
    """Bytes by which a write is known, also in each of its sectors."""
    return random.Random(number).randbytes(length)


def write_some(client, count=32, length=4 * KIB):
    """Writes of `length`, next to one another."""
    for number in range(count):
        client.write(number * length, content(number, length))


def landed(client, count=32, length=4 * KIB):
    """Of each such write, the sectors that the drive holds; the others it holds zeroes in."""
    result = []
    for number in range(count):
        found, wanted = client.read(number * length, length), content(number, length)
        sectors = set()
        for at in range(0, length, SECTOR):
            here = found[at : at + SECTOR]
            assert here in (wanted[at : at + SECTOR], bytes(SECTOR))
            if here == wanted[at : at + SECTOR]:
                sectors.add(at // SECTOR)
        result.append(sectors)
    return result


ALL_SECTORS = set(range(8))


def refused(operation, *arguments):
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        operation(*arguments)


def test_an_unflushed_write_reads_back_and_is_lost(start):
    twin, client = start()
    client.write(0, content(1))
    assert client.read(0, 4 * KIB) == content(1)
    cut = twin.ask("power off 1 all")
    assert (cut["dirty_bytes"], cut["lost_bytes"], cut["lost_sectors"]) == (4 * KIB, 4 * KIB, 8)
    assert twin.ask("power on")["on_ns"] > cut["cut_ns"]
    assert client.read(0, 4 * KIB) == bytes(4 * KIB)


def test_what_was_flushed_before_survives_every_loss(start):
    for mode in "all", "random", "torn", "reordered":
        twin, client = start()
        write_some(client)
        client.flush()
        client.write(1 << 20, content(99))
        assert twin.ask(f"power off 5 {mode}")["dirty_bytes"] == 4 * KIB
        twin.ask("power on")
        assert landed(client) == [ALL_SECTORS] * 32


def test_fua_keeps_its_own_write_and_no_other(start):
    twin, client = start()
    client.write(0, content(0))
    client.write(4 * KIB, content(1), fua=True)
    client.write(8 * KIB, content(2))
    client.write_zeroes(16 * KIB, 4 * KIB, fua=True)
    assert twin.state()["cache"] == {"capacity_bytes": 4 << 20, "dirty_bytes": 8 * KIB}
    twin.ask("power off 1 all")
    twin.ask("power on")
    assert landed(client, 3) == [set(), ALL_SECTORS, set()]


def test_an_overwritten_sector_falls_back_to_what_was_durable(start):
    twin, client = start()
    client.write(0, content(1))
    client.flush()
    client.write(0, content(2))
    client.write(0, content(3))
    client.trim(4 * KIB, 4 * KIB)
    twin.ask("power off 1 all")
    twin.ask("power on")
    assert client.read(0, 4 * KIB) == content(1)


@pytest.mark.parametrize("mode", ["random", "torn", "reordered"])
def test_a_seed_repeats_what_is_lost_and_another_loses_other_writes(start, mode):
    losses = []
    for seed in 7, 7, 8:
        twin, client = start()
        write_some(client)
        twin.ask(f"power off {seed} {mode}")
        twin.ask("power on")
        losses.append(landed(client))
    assert losses[0] == losses[1] != losses[2]
    assert losses[0] != [ALL_SECTORS] * 32
    assert losses[0] != [set()] * 32


def test_only_the_torn_loss_parts_a_write_and_only_between_sectors(start):
    for mode in "random", "torn", "reordered":
        twin, client = start()
        write_some(client)
        cut = twin.ask(f"power off 3 {mode}")
        twin.ask("power on")
        parts = landed(client)
        parted = [sectors for sectors in parts if sectors not in (set(), ALL_SECTORS)]
        assert bool(parted) == (mode == "torn")
        assert cut["lost_sectors"] == 8 * 32 - sum(len(sectors) for sectors in parts)


def test_the_parameters_seed_and_mode_are_used_where_the_command_gives_none(start):
    reports = []
    for _ in range(2):
        twin, client = start("cut_seed=42", "cut_mode=random")
        write_some(client)
        reports.append(twin.ask("power off"))
    assert (reports[0]["seed"], reports[0]["mode"]) == (42, "random")
    assert reports[0]["lost_bytes"] == reports[1]["lost_bytes"] > 0


def test_without_a_seed_every_cut_has_its_own(start):
    twin, _ = start()
    seeds = set()
    for _ in range(4):
        seeds.add(twin.ask("power off")["seed"])
        twin.ask("power on")
    assert len(seeds) == 4


def test_a_drive_with_power_loss_protection_loses_nothing(start):
    for mode in "all", "random", "torn", "reordered":
        twin, client = start("plp=yes")
        write_some(client)
        cut = twin.ask(f"power off 1 {mode}")
        assert cut["held_up"]
        assert cut["dirty_bytes"] == 32 * 4 * KIB
        assert cut["lost_bytes"] == 0
        twin.ask("power on")
        assert landed(client) == [ALL_SECTORS] * 32


def test_a_drive_that_lies_acknowledges_flush_and_fua_and_loses_them(start):
    twin, client = start("lie=flush")
    write_some(client)
    client.flush()
    client.write(1 << 20, content(99), fua=True)
    state = twin.state()
    assert state["counters"]["flushes"] == 1
    assert state["cache"]["dirty_bytes"] == 33 * 4 * KIB
    twin.ask("power off 1 all")
    twin.ask("power on")
    assert landed(client) == [set()] * 32
    assert client.read(1 << 20, 4 * KIB) == bytes(4 * KIB)


def test_a_full_cache_makes_the_oldest_durable(start):
    twin, client = start("write_cache=64K")
    write_some(client)
    assert twin.state()["cache"] == {"capacity_bytes": 64 * KIB, "dirty_bytes": 64 * KIB}
    twin.ask("power off 1 all")
    twin.ask("power on")
    assert landed(client) == [ALL_SECTORS] * 16 + [set()] * 16


def test_what_is_older_than_the_destage_age_is_durable(start):
    twin, client = start(f"destage={DESTAGE_SECONDS * 1e9:.0f}")
    client.write(0, content(0))
    time.sleep(1.5 * DESTAGE_SECONDS)
    client.write(4 * KIB, content(1))
    twin.ask("power off 1 all")
    twin.ask("power on")
    assert landed(client, 2) == [ALL_SECTORS, set()]


def test_without_a_cache_every_acknowledged_write_is_durable(start):
    twin, client = start("write_cache=0")
    write_some(client)
    assert twin.ask("power off 1 all")["dirty_bytes"] == 0
    twin.ask("power on")
    assert landed(client) == [ALL_SECTORS] * 32


def test_without_power_nothing_works_and_the_connection_stays(start):
    twin, client = start("ready=300000000")
    twin.ask("power off 1 none")
    refused(client.read, 0, SECTOR)
    refused(client.write, 0, bytes(SECTOR))
    refused(client.flush)
    refused(client.trim, 0, 4 * KIB)
    refused(client.write_zeroes, 0, 4 * KIB)
    assert not twin.state()["powered"]
    began = time.monotonic()
    twin.ask("power on")
    state = twin.state()
    assert state["powered"]
    assert not state["ready"]
    refused(client.read, 0, SECTOR)
    wait_for(lambda: twin.state()["ready"], 5, "the drive is ready")
    assert time.monotonic() - began >= 0.3
    client.read(0, SECTOR)


def test_what_is_in_flight_at_the_cut_is_never_acknowledged(start):
    # 0.1 J a write, and 2 W at most: a write waits 50 ms for the one before it.
    twin, client = start(rails=["5v,5,0.01,0.5,0,0,0.1,0,2"])
    handles = [client.submit_write(n * 4 * KIB, content(n)) for n in range(12)]
    handles.append(client.submit_flush())
    client.result(handles[0])
    cut = twin.ask("power off 1 all")
    acknowledged = 1
    for handle in handles[1:]:
        acknowledged += client.error(handle) == 0
    assert acknowledged < 12
    done = twin.counters()
    assert (done["writes"], done["flushes"]) == (acknowledged, 0)
    assert cut["lost_bytes"] == cut["dirty_bytes"]
    twin.ask("power on")
    client.write(0, content(77))
    assert client.read(0, 4 * KIB) == content(77)


def test_in_flight_operations_fail_at_the_cut_and_not_later(start):
    twin, client = start(rails=["5v,5,0.01,0.5,0,0,2,0,1"])  # a write takes two seconds of the rail's watts
    client.write(0, bytes(SECTOR))
    waiting = client.submit_write(0, bytes(SECTOR))
    time.sleep(0.1)  # the twin has it by now, which no state shows
    began = time.monotonic()
    twin.ask("power off 1 all")
    refused(client.result, waiting)
    assert time.monotonic() - began < 0.5


def test_rails_without_power_read_nothing_and_their_joules_stand_still(start):
    twin, client = start()
    client.write(0, content(1))
    twin.ask("power off 1 all")
    time.sleep(2 * HOLDUP_SECONDS + 0.005)
    first = twin.state()
    stream = Stream(twin, 1_000_000)
    stream.wait_rows(100)
    rows = stream.stop()
    later = twin.state()
    for before, after in zip(first["rails"], later["rails"], strict=True):
        assert (after["volts"], after["amps"], after["on"]) == (0, 0, False)
        assert after["joules"] == before["joules"] > 0
    assert all(value == 0 for row in rows for value in row[1:])
    history = twin.ask(f"history {first['realtime_ns']} {later['realtime_ns']}")
    assert history["rails"][0]["joules"][0] == history["rails"][0]["joules"][1]
    twin.ask("power on")
    wait_for(
        lambda: twin.state()["rails"][0]["joules"] > later["rails"][0]["joules"], 5, "joules count again"
    )


def test_a_rail_that_is_off_for_less_than_the_hold_up_is_ridden_through(start):
    holdup_seconds = 0.5
    twin, client = start(f"holdup={holdup_seconds * 1e9:.0f}")
    client.write(0, content(1))
    twin.ask("rail 12v off")
    client.write(4 * KIB, content(2))
    twin.ask("rail 12v on")
    time.sleep(1.2 * holdup_seconds)
    state = twin.state()
    assert state["powered"]
    assert state["unsafe_shutdowns"] == 0
    assert state["last_cut"] is None
    assert client.read(0, 4 * KIB) == content(1)


def test_a_rail_that_is_off_longer_than_the_hold_up_stops_the_drive_then(start):
    twin, client = start("cut_mode=all")
    write_some(client)
    switched = twin.ask("rail 3v3 off")
    wait_for(lambda: not twin.state()["powered"], 5, "the drive has stopped")
    state = twin.state()
    assert state["last_cut"]["cut_ns"] == switched["switched_ns"] + HOLDUP_SECONDS * 1e9
    assert [rail["on"] for rail in state["rails"]] == [True, False]
    refused(client.read, 0, SECTOR)
    # The other rail has its volts and nothing draws from it.
    assert state["rails"][0]["volts"] == 12
    assert state["rails"][0]["amps"] == 0
    twin.ask("rail 3v3 on")
    assert landed(client) == [set()] * 32


def test_volts_fall_to_half_by_the_hold_up(start):
    twin, _ = start("holdup=50000000", rails=[RAIL_12V])
    stream = Stream(twin, 1_000_000)
    stream.wait_rows(10)
    switched_ns = twin.ask("rail 12v off")["switched_ns"]
    stream.wait_rows(150)
    rows = stream.stop()
    volts = {row[0]: row[1] for row in rows}
    window = switched_ns // 1_000_000
    before = volts[window - 1]
    for after_ms in 10, 50, 90:
        middle_ms = (window + after_ms + 0.5) - switched_ns / 1e6
        assert volts[window + after_ms] == pytest.approx(before * (1 - middle_ms / 100), rel=1e-6)
    assert volts[window + 101] == 0


def test_counts_power_cycles_and_unsafe_shutdowns(start):
    twin, _ = start()
    first = twin.state()
    assert (first["power_cycles"], first["unsafe_shutdowns"]) == (1, 0)
    for _ in range(3):
        twin.ask("power off")
        twin.ask("power on")
    last = twin.state()
    assert (last["power_cycles"], last["unsafe_shutdowns"]) == (4, 3)


def test_joules_by_cause_add_up_to_the_rails_joules(start):
    twin, client = start()
    for round_ in range(40):
        write_some(client)
        client.flush()
        client.write(0, content(round_), fua=True)
        client.read(0, 64 * KIB)
        client.trim(1 << 20, 64 * KIB)
        if round_ % 10 == 5:
            twin.ask("power off 1 random")
            twin.ask("power on")
    time.sleep(ACTIVITY_SECONDS)
    state = twin.state()
    history = twin.ask(f"history {state['realtime_ns']}")
    for rail, past in zip(state["rails"], history["rails"], strict=True):
        causes = rail["cause_joules"]
        assert sum(causes.values()) == pytest.approx(rail["joules"], rel=1e-9)
        assert {name for name, joules in causes.items() if joules > 0} == {
            "idle", "read", "write", "flush", "discard"
        }  # fmt: skip
        at_once = {name: joules[0] for name, joules in past["cause_joules"].items()}
        assert sum(at_once.values()) == pytest.approx(past["joules"][0], rel=1e-9)
        assert at_once == {name: pytest.approx(joules, abs=1e-3) for name, joules in causes.items()}


def test_each_cause_has_the_energy_of_its_operations(start):
    twin, client = start(rails=["5v,5,0.05,0.8,1e-9,2e-9,1e-5,3e-4"])
    before = twin.state()
    for n in range(10):
        client.write(n * 4 * KIB, content(n))
    client.write(0, content(1), fua=True)
    client.flush()
    client.read(0, 64 * KIB)
    client.trim(1 << 20, 64 * KIB)
    time.sleep(ACTIVITY_SECONDS)
    after = twin.state()
    spent = {
        name: joules - before["rails"][0]["cause_joules"][name]
        for name, joules in after["rails"][0]["cause_joules"].items()
    }
    seconds = (after["monotonic_ns"] - before["monotonic_ns"]) / 1e9
    assert spent["idle"] == pytest.approx(0.8 * seconds, abs=1e-10)
    assert spent["write"] == pytest.approx(11 * (1e-5 + 4096 * 2e-9), abs=1e-10)
    assert spent["flush"] == pytest.approx(1e-5 + 2 * 3e-4, abs=1e-10)
    assert spent["read"] == pytest.approx(1e-5 + 65536 * 1e-9, abs=1e-10)
    assert spent["discard"] == pytest.approx(1e-5, abs=1e-10)


def test_a_twin_that_is_stopped_flushes_and_one_that_is_killed_loses(tmp_path):
    twin = Twin(tmp_path, options=[CACHE, NEVER_BY_AGE])
    with twin, NbdClient(twin.nbd) as client:
        write_some(client)
    with twin, NbdClient(twin.nbd) as client:
        assert landed(client) == [ALL_SECTORS] * 32
        client.write(1 << 20, content(50))
        twin.kill()
    with twin, NbdClient(twin.nbd) as client:
        assert landed(client) == [ALL_SECTORS] * 32
        assert client.read(1 << 20, 4 * KIB) == bytes(4 * KIB)


def test_many_writers_lose_only_what_was_not_flushed(start):
    """Four connections, each with its flushes, cut under load: what was promised is there."""
    twin, client = start("cut_mode=torn")
    promised: dict[int, int] = {}  # by place: the number of the newest write that a flush followed
    stop = threading.Event()

    def work(worker):
        with NbdClient(twin.nbd) as own:
            number = 0
            while not stop.is_set():
                number += 1
                place = worker * 8 + number % 8
                data = content(number * 4 + worker)
                if own.error(own.submit_write(place * 4 * KIB, data)) or own.error(own.submit_flush()):
                    return
                promised[place] = number * 4 + worker

    threads = [threading.Thread(target=work, args=[n]) for n in range(4)]
    for thread in threads:
        thread.start()
    wait_for(lambda: len(promised) == 32, 20, "each place is promised")
    twin.ask("power off")
    stop.set()
    for thread in threads:
        thread.join(20)
    twin.ask("power on")
    assert len(promised) == 32
    for place, number in promised.items():
        found = client.read(place * 4 * KIB, 4 * KIB)
        # The newest promised one, or in any sector the one that was under way after it in that
        # place.
        newer = content(number + 8 * 4)
        for at in range(0, 4 * KIB, SECTOR):
            assert found[at : at + SECTOR] in (content(number)[at : at + SECTOR], newer[at : at + SECTOR])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("power", "allowed are"),
        ("power up", "allowed are"),
        ("power off 1", "power off: allowed are"),
        ("power off x all", "power off: allowed are"),
        ("power off 1 some", "power off: allowed are"),
        ("power on", "all rails are on"),
        ("rail 5v off", "12v, 3v3"),
        ("rail 12v out", "12v, 3v3"),
    ],
)
def test_a_wrong_command_is_refused(start, line, reason):
    twin, _ = start()
    assert reason in twin.ask(line)["error"]
    assert twin.state()["powered"]


def test_what_is_off_cannot_be_cut(start):
    twin, _ = start()
    twin.ask("power off")
    assert "no power" in twin.ask("power off")["error"]
    assert twin.state()["unsafe_shutdowns"] == 1


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["write_cache=1000"], "write_cache=1000: allowed is"),
        (["plp=maybe"], "plp=maybe: allowed are no, yes"),
        (["lie=fua", CACHE], "lie=fua: allowed are none, flush"),
        (["lie=flush"], "lie=flush: allowed with a write_cache above 0 only"),
        (["cut_seed=-1"], "cut_seed=-1: allowed is"),
        (["cut_mode=some"], "cut_mode=some: allowed are none, all, random, torn, reordered"),
        (["holdup=-1"], "holdup=-1: allowed are"),
    ],
)
def test_a_wrong_parameter_of_the_cut_is_named(tmp_path, options, reason):
    twin = Twin(tmp_path, options=options)
    done = subprocess.run([*twin.command, "--run", "true"], capture_output=True, text=True, timeout=10)
    assert done.returncode != 0
    assert reason in done.stderr
