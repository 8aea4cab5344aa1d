# SPDX-License-Identifier: GPL-3.0-or-later
"""The twin as an NVMe/TCP controller, seen by a host: a real nbdkit, real sockets."""

import contextlib
import os
import random
import re
import struct
import time

import pytest

from joulerig.rig.common import host_library
from tests.support import nvme_client
from tests.support.nvme_client import Ended, Failed, Queue, block_fields, wait_for_end
from tests.support.nvme_twin import NAME, NvmeTwin
from tests.support.programs import wait_for
from tests.support.twins import Twin

host_library.find()
from ansible.module_utils.joulerig.settings import features  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
STATES = [
    "operational=0,0", "operational=0,0,0.5", "operational_watts=3v3,8.49,4.48",
    "operational_idle_watts=3v3,0.35,0.20",
    "doze=160000000,2000000,1200000", "doze=500000000,500000,9500000", "doze_watts=3v3,0.04,0.005",
]  # fmt: skip
FLASH = [
    "model=flash", "channels=8", "page_bytes=16384", "read_command_ns=0", "write_command_ns=0",
    "flush_ns=0", "page_read_ns=1000", "program_ns=1000", "erase_ns=0", "read_bytes_per_second=1e10",
    "write_bytes_per_second=1e10", "overprovisioning=0.25", "write_cache=4M",
]  # fmt: skip
INVALID_LIMIT = 0x03E
OTHER_HOST = "nqn.2026-11.test:other"
INVALID_FIELD, INVALID_OPCODE, SEQUENCE, DATA_LENGTH, SGL_TYPE = 0x002, 0x001, 0x00C, 0x00F, 0x011
CONNECT_BUSY, CONNECT_INVALID = 0x181, 0x182


@pytest.fixture
def twin(tmp_path):
    with NvmeTwin(tmp_path, ["write_cache=4M", *STATES]) as running:
        yield running


def test_the_host_sees_the_drive_of_the_inventory(twin):
    with twin.host() as host:
        page = host.identify()
        assert page[4:24].decode().strip() == "JRTEST0001"
        assert page[24:64].decode().strip() == "Joulerig test twin"
        assert page[768:1024].rstrip(b"\0").decode() == NAME
        assert struct.unpack_from("<Q", host.identify(0, 1))[0] * 512 == 64 * MIB


def test_what_was_written_is_read(twin):
    data = os.urandom(64 * KIB)
    with twin.host() as host:
        host.write(1 * MIB, data)
        assert host.read(1 * MIB, len(data)) == data
        assert host.read(2 * MIB, 512) == bytes(512)
    with twin.host() as host:
        assert host.read(1 * MIB, len(data)) == data


def test_data_beyond_a_capsule_are_asked_for(twin):
    data = os.urandom(512 * KIB)
    with twin.host() as host:
        host.write(0, data, capsule=False)
        [(_, offset, length)] = host.io.asked
        assert (offset, length) == (0, len(data))
        assert host.read(0, len(data)) == data


def test_fua_flush_and_the_rest_reach_the_twin_as_what_they_are(twin):
    with twin.host() as host:
        host.write(0, bytes(4 * KIB), fua=True)
        host.write(0, bytes(4 * KIB))
        host.flush()
        host.zero(8 * KIB, 4 * KIB)
        host.zero(16 * KIB, 8 * KIB, deallocate=True)
        host.discard((32 * KIB, 4 * KIB), (48 * KIB, 12 * KIB))
    counters = twin.counters()
    assert (counters["writes"], counters["fua_writes"], counters["flushes"]) == (4, 1, 1)
    assert (counters["zeroes"], counters["zero_bytes"]) == (2, 12 * KIB)
    assert (counters["discards"], counters["discard_bytes"]) == (2, 16 * KIB)


@pytest.mark.parametrize("kept", ["fua", "flush", "no cache"])
def test_a_cut_leaves_what_was_promised(tmp_path, kept):
    with NvmeTwin(tmp_path, ["write_cache=4M"]) as twin:
        with twin.host() as host:
            host.write(0, b"a" * 512)
            if kept == "no cache":
                host.set_feature(0x06, 0)
            host.write(4096, b"b" * 512, fua=kept == "fua")
            if kept == "flush":
                host.flush()
            twin.ask("power off 1 all")
        twin.ask("power on")
        with twin.host() as host:
            found = host.read(0, 512)[:1], host.read(4096, 512)[:1]
    assert found == (b"a" if kept == "flush" else b"\0", b"b")


def test_a_drive_that_loses_its_power_takes_no_leave(twin):
    with twin.host() as host:
        host.write(0, bytes(512))
        twin.ask("power off 1 none")
        for queue in (host.admin, host.io):
            assert wait_for_end(queue) is None
    with pytest.raises(Ended):
        twin.host()
    twin.ask("power on")
    with twin.host() as host:
        host.read(0, 512)


def test_a_host_from_before_a_power_cycle_has_no_controller(twin):
    with twin.host() as host:
        twin.ask("power off 1 none")
        twin.ask("power on")
        with pytest.raises((Ended, BrokenPipeError)):
            host.read(0, 512)


def test_many_commands_are_under_way_on_several_queues(twin):
    with twin.host(io_queues=4) as host:
        blocks = {n: os.urandom(4 * KIB) for n in range(256)}
        for n, data in blocks.items():
            queue = host.queues[n % 4]
            queue.submit(
                0x01, nsid=1, data=data, capsule=n % 3 > 0, **block_fields(n * 4 * KIB, 4 * KIB), cid=n
            )
        assert all(host.queues[n % 4].wait(n).status == 0 for n in blocks)
        for n in blocks:
            host.queues[(n + 1) % 4].submit(
                0x02, nsid=1, length=4 * KIB, **block_fields(n * 4 * KIB, 4 * KIB), cid=n
            )
        assert all(host.queues[(n + 1) % 4].wait(n).data == data for n, data in blocks.items())


def test_completions_have_the_queues_head_unless_the_host_needs_none(twin):
    with twin.host(io_queues=1, no_flow=False, entries=8) as host:
        replies = [host.io.do(0x02, nsid=1, length=512, **block_fields(0, 512)) for _ in range(10)]
    assert [reply.head for reply in replies] == [2, 3, 4, 5, 6, 7, 0, 1, 2, 3]  # after the Connect
    assert not replies[0].bare
    with twin.host() as host:
        assert host.io.do(0x02, nsid=1, length=512, **block_fields(0, 512)).bare


def test_the_health_log_is_the_twins_life(tmp_path):
    options = ["write_cache=4M", "ambient_celsius=40", "kelvin_per_watt=0"]
    twin = NvmeTwin(tmp_path, options)
    for run in (1, 2):
        with twin, twin.host() as host:
            host.write(0, bytes(512 * KIB), capsule=False)
            host.read(0, 512 * KIB)
            page = host.log(2, 512)
        assert struct.unpack_from("<H", page, 1)[0] == 313
        read, written = (struct.unpack_from("<Q", page, n)[0] for n in (32, 48))
        assert read == written == -(-run * 512 * KIB // 512000)
        assert [struct.unpack_from("<Q", page, n)[0] for n in (64, 80)] == [run, run]
        assert struct.unpack_from("<Q", page, 112)[0] == run  # power cycles
        assert struct.unpack_from("<Q", page, 144)[0] == 0


def test_wear_is_a_fraction_of_the_rated_erases(tmp_path):
    with NvmeTwin(tmp_path, [*FLASH, "rated_erases=10"]) as twin, twin.host() as host:
        for n in range(128):  # all of its 64 MiB once, of 80 MiB of flash that take ten times that
            host.write(n * 512 * KIB, bytes(512 * KIB), capsule=False)
        host.flush()
        assert host.log(2, 512)[5] == 8


def test_a_shutdown_by_the_host_makes_the_next_cut_a_safe_one(twin):
    with twin.host() as host:
        host.write(0, b"x" * 512)
        host.admin.set_property(0x14, nvme_client.CC_ENABLE | 1 << 14)
        assert host.admin.get_property(0x1C) >> 2 & 3 == 2
    twin.ask("power off 1 all")
    twin.ask("power on")
    assert twin.state()["unsafe_shutdowns"] == 0
    with twin.host() as host:
        assert host.read(0, 512) == b"x" * 512
    twin.ask("power off 1 all")
    twin.ask("power on")
    assert twin.state()["unsafe_shutdowns"] == 1


def watts(twin):
    """What the drive draws now."""
    [rail] = twin.state()["rails"]
    return rail["volts"] * rail["amps"]


def test_a_state_that_the_host_sets_is_what_the_drive_draws(twin):
    with twin.host() as host:
        host.set_feature(0x0C, 0, data=bytes(256))  # nothing by itself
        for state, expected in ((1, 0.20), (0, 0.35), (2, 0.04), (3, 0.005), (0, 0.35)):
            host.set_feature(0x02, state)
            wait_for(lambda want=expected: watts(twin) == pytest.approx(want, rel=0.01), 5, f"{expected} W")
            assert host.get_feature(0x02).result == state


def test_a_limit_changes_the_state_that_the_drive_works_in(twin):
    with twin.host() as host:
        host.set_feature(0x0C, 0, data=bytes(256))  # nothing by itself
        host.set_feature(0x23, features.limit_value(5.0))
        wait_for(lambda: watts(twin) == pytest.approx(0.20, rel=0.01), 5, "state 1")
        assert features.limit_watts(host.get_feature(0x23).result) == 5.0
        assert features.limits_power(host.identify())
        with pytest.raises(Failed) as refused:
            host.set_feature(0x23, features.limit_value(4.0))
        assert refused.value.status & 0x7FF == INVALID_LIMIT
        host.set_feature(0x23, 0)
        wait_for(lambda: watts(twin) == pytest.approx(0.35, rel=0.01), 5, "state 0")


def test_a_state_can_declare_another_power_than_it_draws(tmp_path):
    with (
        NvmeTwin(tmp_path, ["write_cache=4M", *STATES, "declared_watts=3,0.002"]) as twin,
        twin.host() as host,
    ):
        states = features.power_states(host.identify())
        assert [one["max_watts"] for one in states] == [8.49, 4.48, 0.04, 0.002]
        host.set_feature(0x02, 3)
        wait_for(lambda: watts(twin) == pytest.approx(0.005, rel=0.01), 5, "the drive rests")


def test_an_operation_ends_a_rest_by_command(twin):
    with twin.host() as host:
        host.set_feature(0x0C, 0, data=bytes(256))
        host.set_feature(0x02, 3)
        wait_for(lambda: host.get_feature(0x02).result == 3, 5, "the state is entered")
        host.read(0, 512)
        assert host.get_feature(0x02).result == 0
        wait_for(lambda: watts(twin) == pytest.approx(0.35, rel=0.01), 5, "the drive is awake")


def seconds_of_a_read(host):
    begin = time.monotonic()
    host.read(0, 512)
    return time.monotonic() - begin


def test_leaving_a_state_takes_its_time(tmp_path):
    slow = ["operational=0,80000000", "operational=120000000,0", "operational_watts=3v3,8,4"]
    slow += ["doze=60000000000,0,90000000", "doze_watts=3v3,0.04"]
    with NvmeTwin(tmp_path, [*FLASH, *slow]) as twin, twin.host() as host:
        awake = seconds_of_a_read(host)
        host.set_feature(0x02, 2)
        rested = seconds_of_a_read(host)
        again = seconds_of_a_read(host)
        host.set_feature(0x02, 1)
        switched = seconds_of_a_read(host)
    assert rested >= 0.09 > max(awake, again)
    assert switched > 0.15  # 80 ms out of the one, 120 ms into the other, less what passed since


def test_the_drive_goes_by_the_table_of_its_host(twin):
    table = bytearray(256)
    struct.pack_into("<Q", table, 0, 3 << 3 | 30 << 8)  # from 0 to 3 after 30 ms
    with twin.host() as host:
        assert host.get_feature(0x0C, length=256).data[:8] == struct.pack("<Q", 2 << 3 | 160 << 8)
        host.set_feature(0x0C, 1, data=bytes(table))
        reply = host.get_feature(0x0C, length=256)
        assert (reply.result, reply.data) == (1, bytes(table))
        wait_for(lambda: watts(twin) == pytest.approx(0.005, rel=0.01), 5, "state 3")
        assert host.get_feature(0x02).result == 3
    with twin.host() as host:  # another connection finds what the drive does without a host
        host.admin.set_property(0x14, 0)
        host.enable()
        assert host.get_feature(0x0C, length=256).data[:8] == struct.pack("<Q", 2 << 3 | 160 << 8)


def test_a_state_with_less_power_makes_the_drive_wait(tmp_path):
    """A write of 128 KiB costs 1.3 J here: so many a second as the state's watts allow."""
    rail = "3v3,3.3,0,0.5,0,1e-5,0,0,100"
    options = [*STATES[:2], "operational_watts=3v3,100,20", "activity=1000"]
    with NvmeTwin(tmp_path, options, rails=[rail]) as twin, twin.host() as host:
        seconds = []
        for state in (0, 1):
            host.set_feature(0x02, state)
            begin = time.monotonic()
            for _ in range(4):
                host.write(0, bytes(128 * KIB))
            host.read(0, 512)
            seconds.append(time.monotonic() - begin)
    assert seconds[1] > 3 * 1.31 / 19.5 - 0.02  # three of 1.31 J had to end first
    assert seconds[0] < seconds[1]


def test_another_host_waits_until_the_drive_is_free(twin):
    with twin.host(), pytest.raises(Failed) as refused:
        twin.host(host=OTHER_HOST)
    assert refused.value.status == CONNECT_BUSY

    def connected():
        try:
            return twin.host(host=OTHER_HOST)
        except Failed:
            return None

    wait_for(connected, 5, "the drive is free").close()


def test_a_host_that_comes_back_takes_the_place_of_its_former_self(twin):
    with twin.host() as former, twin.host() as again:
        assert wait_for_end(former.io) is None
        again.read(0, 512)


def test_a_host_that_falls_silent_is_dropped(twin):
    with twin.host(keep_alive_ms=300) as host:
        end = time.monotonic() + 0.9
        while time.monotonic() < end:
            host.admin.do(0x18)
            time.sleep(0.1)  # a third of what it promised
        assert wait_for_end(host.admin) is None
        assert wait_for_end(host.io) is None


def test_heat_is_an_event(tmp_path):
    options = ["ambient_celsius=20", "kelvin_per_watt=100", "thermal_seconds=0.05", "write_cache=4M"]
    with NvmeTwin(tmp_path, options) as twin, twin.host() as host:  # 35 K by 0.35 W
        waiting = host.admin.submit(0x0C)
        host.set_feature(0x0B, 0x2)
        host.set_feature(0x04, 273 + 40)
        result = host.admin.wait(waiting).result
        assert (result & 7, result >> 8 & 0xFF, result >> 16) == (1, 1, 2)
        assert host.log(2, 512)[0] == 2


@pytest.mark.parametrize(
    ("what", "change", "status"),
    [
        ("no such subsystem", {"name": "nqn.2026-11.test:nothing"}, CONNECT_INVALID),
        ("no such controller", {"number": 1, "controller": 77}, CONNECT_INVALID),
        ("a number for a new controller", {"controller": 1}, CONNECT_INVALID),
        ("too many entries", {"entries": 4096}, CONNECT_INVALID),
        ("no host name", {"host": ""}, CONNECT_INVALID),
        ("another format", {"format": 1}, 0x180),
    ],
)
def test_a_wrong_connect_is_refused(twin, what, change, status):
    queue = Queue(twin.address)
    with pytest.raises(Failed) as refused:
        queue.connect(**{"name": NAME, **change})
    assert refused.value.status == status, what
    assert queue.connect(NAME) > 0  # and the next one is not


def test_commands_have_their_order(twin):
    queue = Queue(twin.address)
    for opcode in (0x06, 0x02, 0x00):
        with pytest.raises(Failed) as refused:
            queue.do(opcode, nsid=1, length=4096 if opcode else 0)
        assert refused.value.status == SEQUENCE
    queue.connect(NAME)
    for fields in (
        {"opcode": 0x06, "length": 4096, "cdw10": 1},
        {"opcode": 0x7F, "nsid": 1, "data": bytes(1024)},
    ):
        with pytest.raises(Failed) as refused:
            queue.do(**fields)
        assert refused.value.status == SEQUENCE


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"opcode": 0x01, "data": bytes(512), **block_fields(0, 4096)}, DATA_LENGTH),
        ({"opcode": 0x02, "length": 512, **block_fields(0, 4096)}, DATA_LENGTH),
        ({"opcode": 0x02, "length": MIB, **block_fields(0, MIB)}, INVALID_FIELD),
        ({"opcode": 0x02, "length": 512, **block_fields(64 * MIB, 512)}, 0x080),
        ({"opcode": 0x05, "data": bytes(512)}, INVALID_OPCODE),
        ({"opcode": 0x93, "length": 512}, INVALID_OPCODE),
        ({"opcode": 0x00, "data": bytes(512)}, DATA_LENGTH),
        ({"opcode": 0x7F, "nsid": 4, "cdw11": 0}, SEQUENCE),
    ],
)
def test_a_command_that_cannot_be_done_costs_nothing_but_itself(twin, fields, status):
    with twin.host() as host:
        with pytest.raises(Failed) as refused:
            host.io.do(**{"nsid": 1, **fields})
        assert refused.value.status == status
        host.read(0, 512)
    assert twin.counters()["writes"] == 0


def test_a_descriptor_of_another_kind_is_refused(twin):
    with twin.host() as host:
        sqe = nvme_client.command(0x01, nsid=1, sgl=(0, 512, 0x00), cid=900)
        host.io.send(nvme_client.COMMAND, 0, 72, 0, sqe)
        assert host.io.wait(900).status == SGL_TYPE


HEADER = struct.Struct("<BBBBI")


@pytest.mark.parametrize(
    ("what", "sent", "why"),
    [
        ("no PDU of a host", HEADER.pack(5, 0, 24, 0, 24), (1, 0)),
        ("no PDU at all", b"\xff" * 64, (1, 0)),
        ("digests", HEADER.pack(4, 3, 72, 0, 72), (1, 1)),
        ("a header of another length", HEADER.pack(4, 0, 64, 0, 72), (1, 2)),
        ("data that lie elsewhere", HEADER.pack(4, 0, 72, 96, 1024), (1, 3)),
        ("a capsule of 4 GiB", HEADER.pack(4, 0, 72, 72, 0xFFFFFFFF), (1, 4)),
        ("less than a header", HEADER.pack(4, 0, 72, 0, 8), (1, 4)),
        ("a second greeting", HEADER.pack(0, 0, 128, 0, 128), (2, 0)),
        (
            "data of no command",
            HEADER.pack(6, 4, 24, 24, 536) + struct.pack("<HHII4x", 0, 7, 0, 512),
            (1, 10),
        ),
        (
            "data of no such tag",
            HEADER.pack(6, 4, 24, 24, 536) + struct.pack("<HHII4x", 0, 65535, 0, 512),
            (1, 10),
        ),
    ],
)
def test_what_breaks_the_protocol_ends_its_connection_alone(twin, what, sent, why):
    with twin.host() as host:
        broken = Queue(twin.address)
        broken.socket.sendall(sent)
        assert wait_for_end(broken) == why, what
        host.read(0, 512)


@pytest.mark.parametrize(
    ("what", "change", "why"),
    [
        ("out of order", {"offset": 512}, (4, 12)),
        ("of another command", {"cid": 3}, (1, 8)),
        ("more than asked for", {"length": 8192}, (4, 12)),
        ("last too early", {"length": 512}, (1, 1)),
    ],
)
def test_data_that_were_not_asked_for_end_the_connection(twin, what, change, why):
    with twin.host() as host:
        cid = host.io.submit(0x01, nsid=1, data=bytes(4096), capsule=False, **block_fields(0, 4096))
        kind, header, _ = host.io.receive()
        assert kind == nvme_client.R2T
        tag = struct.unpack_from("<H", header, 10)[0]
        length = change.get("length", 4096)
        fields = struct.pack("<HHII4x", change.get("cid", cid), tag, change.get("offset", 0), length)
        host.io.send(nvme_client.H2C_DATA, nvme_client.LAST, 24, 24, fields, bytes(length))
        assert wait_for_end(host.io) == why, what
    assert twin.counters()["writes"] == 0


def test_before_the_greeting_there_is_nothing(twin):
    for sent, why in ((HEADER.pack(4, 0, 72, 0, 72), (2, 0)), (HEADER.pack(0, 0, 128, 0, 200), (1, 4))):
        queue = Queue(twin.address, greet=False)
        queue.socket.sendall(sent)
        assert wait_for_end(queue) == why
    queue = Queue(twin.address, greet=False)
    with pytest.raises(Ended):
        queue.greet(version=1)


def test_a_host_may_want_its_data_aligned(twin):
    queue = Queue(twin.address, greet=False)
    queue.greet(align=31)
    queue.connect(NAME)
    queue.set_property(0x14, nvme_client.CC_ENABLE)
    queue.submit(0x06, cdw10=1, length=4096)
    kind, header, data = queue.receive()
    assert (kind, header[3], len(data)) == (nvme_client.C2H_DATA, 128, 4096)


def test_random_bytes_end_their_connections_and_no_more(twin):
    for seed in range(200):
        noise = random.Random(seed)
        queue = Queue(twin.address, greet=seed % 2 == 1)
        sent = bytearray(noise.randbytes(noise.randrange(1, 400)))
        if seed % 4 > 1:  # that begins well
            sent[:8] = HEADER.pack(
                *((4, 0, 72, 72, 72 + noise.randrange(2048)) if seed % 2 else (0, 0, 128, 0, 128))
            )
        with contextlib.suppress(ConnectionError):  # it may have ended before all of it was sent
            queue.socket.sendall(sent)
        queue.close()
    with twin.host() as host:
        host.write(0, b"z" * 512)
        assert host.read(0, 512) == b"z" * 512


class Recorder(Queue):
    """A connection that keeps what it sends."""

    def __init__(self, address):
        self.sent = b""
        super().__init__(address)

    def send(self, kind, flags, header_bytes, data_at, rest, data=b""):
        self.sent += HEADER.pack(kind, flags, header_bytes, data_at, 8 + len(rest) + len(data)) + rest + data
        super().send(kind, flags, header_bytes, data_at, rest, data)


def test_sessions_with_wrong_bytes_end_and_no_more(twin):
    """What a host sends in a session, with a few bytes of it changed, again and again."""
    recorder = Recorder(twin.address)
    recorder.connect(NAME)
    recorder.set_property(0x14, nvme_client.CC_ENABLE)
    recorder.do(0x06, cdw10=1, length=4096)
    recorder.do(0x09, cdw10=0x0C, cdw11=1, data=bytes(256))
    recorder.do(0x02, nsid=0xFFFFFFFF, cdw10=2 | 127 << 16, length=512)
    recorder.do(0x09, cdw10=2, cdw11=3)
    recorder.submit(0x0C)
    recorder.do(0x80, nsid=1)
    recorder.close()
    for seed in range(300):
        noise = random.Random(seed)
        session = bytearray(recorder.sent)
        for _ in range(noise.randrange(1, 6)):
            session[noise.randrange(len(session))] = noise.choice([0, 1, 4, 128, 255, noise.randrange(256)])
        queue = Queue(twin.address, greet=False)
        with contextlib.suppress(ConnectionError):
            queue.socket.sendall(session)
        queue.close()

    def served():
        try:
            with twin.host() as host:
                return host.read(0, 512) == bytes(512)
        except (Failed, Ended):  # another session's controller has not ended yet
            return None

    wait_for(served, 10, "a host is served")


def test_connections_that_hang_do_not_keep_the_twin_from_ending(tmp_path):
    with NvmeTwin(tmp_path, ["write_cache=4M"]) as twin:
        idle = Queue(twin.address)
        host = twin.host()
        host.write(0, b"k" * 512)
        host.io.submit(
            0x01, nsid=1, data=bytes(4096), capsule=False, **block_fields(8192, 4096)
        )  # never sent
    assert twin.process.returncode == 0
    assert (tmp_path / "drive.img").read_bytes()[:512] == b"k" * 512
    idle.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["nvme=localhost:1", "nvme_name=n"], "nvme=localhost:1: allowed is ADDRESS:PORT"),
        (["nvme=127.0.0.1:0", "nvme_name=n"], "nvme=127.0.0.1:0: allowed is ADDRESS:PORT"),
        (["nvme=127.0.0.1:4420"], "nvme_name= is missing"),
        (["nvme_eui64=12"], "nvme_eui64=12: allowed are 16 hexadecimal digits"),
        (["operational=1"], "operational=1: allowed is ENTRY_NS,EXIT_NS[,RATE]"),
        (["operational=1,2,3"], "operational=1,2,3: allowed is ENTRY_NS,EXIT_NS[,RATE]"),
        (["operational=0,0"], "operational_watts: state 0, rail 12v"),
        (["operational=0,0", "operational_watts=9v,1"], "operational_watts=9v,1: allowed is RAIL,WATTS"),
        (["operating=1"], "operating=1: there are 1 operational power states"),
        (["rated_erases=0"], "rated_erases=0: allowed are numbers"),
        (["throttle=70,75,1,1"], "throttle=70,75,1,1: allowed is ENTER,LEAVE,RATE,WATTS"),
        (["reports=flaw,lies"], "reports=flaw,lies: allowed are energy,FACTOR"),
    ],
)
def test_a_wrong_parameter_is_named(tmp_path, options, message):
    with pytest.raises(AssertionError, match=re.escape(message)):
        Twin(tmp_path, options=options).start()
