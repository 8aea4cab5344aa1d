# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run is made of on a test host: clock, queue settings, phases, file systems, tools."""

import contextlib
import re
import socket
import struct
import threading
import time
import uuid

import pytest

from ansible.module_utils.joulerig import leftovers, phases, tools
from ansible.module_utils.joulerig.clocks import offset as clock
from ansible.module_utils.joulerig.drives import blockqueue, dax, filesystem, memory_drives
from ansible.module_utils.joulerig.drives.commands import nvme
from ansible.module_utils.joulerig.tools import Failed, Refused, Unable

MS = 1_000_000
CACHE = nvme.VOLATILE_WRITE_CACHE


# --- the offset between two clocks


class Sntp(threading.Thread):
    """A server whose clock is `ahead_ns` ahead; it waits before it takes the time and after it."""

    def __init__(
        self,
        ahead_ns=0,
        before=0.0,
        after=0.0,
        first=lambda sock, peer, answer: None,
        drop=0,
        family=socket.AF_INET,
        host="127.0.0.1",
    ):
        super().__init__(daemon=True)
        self.ahead_ns, self.before, self.after, self.first, self.drop = ahead_ns, before, after, first, drop
        self.sock = socket.socket(family, socket.SOCK_DGRAM)
        self.sock.bind((host, 0))
        self.address = f"{host}:{self.sock.getsockname()[1]}"
        self.requests = 0
        self.start()

    def stamp(self):
        seconds, rest = divmod(time.time_ns() + self.ahead_ns, 1_000_000_000)
        return struct.pack("!II", seconds + clock.NTP_EPOCH_SECONDS, (rest << 32) // 1_000_000_000)

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                request, peer = self.sock.recvfrom(256)
                self.requests += 1
                if self.requests <= self.drop:
                    continue
                time.sleep(self.before)
                stamp = self.stamp()
                answer = struct.pack("!B23x", 0x24) + request[40:48] + stamp + stamp
                self.first(self.sock, peer, answer)
                time.sleep(self.after)
                self.sock.sendto(answer, peer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()


@pytest.mark.parametrize("ahead_seconds", [0, 1.25, -3600])
def test_offset_is_server_minus_host(ahead_seconds):
    with Sntp(ahead_ns=int(ahead_seconds * 1e9)) as server:
        found = clock.measure(server.address, exchanges=8)
    assert abs(found["offset_ns"] - ahead_seconds * 1e9) <= found["error_ns"]
    assert found["exchanges"] == 8


def test_a_server_with_an_ipv6_address():
    with Sntp(ahead_ns=500 * MS, family=socket.AF_INET6, host="::1") as server:
        port = server.address.rpartition(":")[2]
        found = clock.measure(f"[::1]:{port}", exchanges=3)
    assert abs(found["offset_ns"] - 500 * MS) <= found["error_ns"]


@pytest.mark.parametrize(("before", "after"), [(0.02, 0.0), (0.0, 0.02)])
def test_the_error_covers_a_delay_of_one_way(before, after):
    """A round trip spent on one way shifts the offset by half of it, which the error covers."""
    with Sntp(ahead_ns=500 * MS, before=before, after=after) as server:
        found = clock.measure(server.address, exchanges=3)
    assert abs(found["offset_ns"] - 500 * MS) <= found["error_ns"]
    assert found["error_ns"] >= 10 * MS


def test_the_least_round_trip_counts():
    delays = iter([0.2, 0.0, 0.2])
    with Sntp(first=lambda *_: time.sleep(next(delays))) as server:
        found = clock.measure(server.address, exchanges=3)
    assert found["error_ns"] < 100 * MS


def test_offset_and_time_are_those_of_the_exchange_that_counts(monkeypatch):
    exchanges = iter([(1, 900), (2, 10), (3, 900)])
    ended = []

    def exchange(sock):
        ended.append(time.time_ns())
        return next(exchanges)

    monkeypatch.setattr(clock, "exchange", exchange)
    found = clock.measure("127.0.0.1:1", exchanges=3)
    assert (found["offset_ns"], found["error_ns"], found["exchanges"]) == (2, 6, 3)
    assert ended[1] <= found["at_ns"] <= ended[2]


def stale(sock, peer, answer):
    """Send an apparent reply to an earlier question, and a broken one, before the reply."""
    sock.sendto(answer[:24] + bytes(8) + answer[32:], peer)
    sock.sendto(answer[:20], peer)
    sock.sendto(b"\x23" + answer[1:], peer)


def test_a_late_answer_to_an_earlier_question_is_not_taken():
    with (
        Sntp(ahead_ns=7 * MS, first=stale) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
    ):
        sock.settimeout(2)
        host, port = server.address.split(":")
        sock.connect((host, int(port)))
        offset, round_trip = clock.exchange(sock)
    assert abs(offset - 7 * MS) <= round_trip / 2 + 1


def test_lost_packets_are_borne():
    with Sntp(drop=2) as server:
        found = clock.measure(server.address, exchanges=5, timeout=0.1)
    assert found["exchanges"] == 3


def test_a_silent_server_is_reported_on_one_line():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as deaf:
        deaf.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        with pytest.raises(Failed, match=rf"^clock: {address} \(UDP\) does not answer; is powerd running"):
            clock.measure(address, timeout=0.05)


@pytest.mark.parametrize("address", ["no.such.host.invalid:123", "127.0.0.1:clock", "127.0.0.1"])
def test_an_address_that_leads_nowhere(address):
    with pytest.raises(Failed, match=r"^clock: "):
        clock.measure(address, timeout=0.05)


# --- scheduler and write cache


@pytest.fixture
def sda(fake):
    """A disk's queue, as it reads before a run."""
    fake.disk("sda", "HDD-1", vpd=True)
    fake.put(fake.sys / "block/sda/queue/scheduler", "none [mq-deadline] bfq\n")
    fake.put(fake.sys / "block/sda/queue/write_cache", "write back\n")
    return fake.sys / "block/sda/queue"


def read(path):
    return path.read_text().strip()


def test_settings_are_put_back(fake, sda):
    """A plain file keeps what was written, where the kernel would mark it among the others."""
    (sda / "scheduler").write_text("mq-deadline\n")
    with contextlib.ExitStack() as undo:
        blockqueue.put("sda", "scheduler", "bfq", fake.system())
        undo.callback(blockqueue.put, "sda", "scheduler", "mq-deadline", fake.system())
        assert read(sda / "scheduler") == "bfq"
    assert read(sda / "scheduler") == "mq-deadline"


def test_settings_are_put_back_after_an_error(fake, sda):
    def cut_off():
        with contextlib.ExitStack() as undo:
            settings = blockqueue.apply(undo, "sda", "bfq", None, fake.system())
            assert settings["scheduler"] == {"before": "mq-deadline", "in_effect": "bfq"}
            assert settings["write_cache"] == {"before": "write back", "in_effect": "write back"}
            raise RuntimeError

    with pytest.raises(RuntimeError):
        cut_off()
    assert read(sda / "scheduler") == "mq-deadline"


def test_what_is_so_already_is_not_written(fake, sda):
    before = read(sda / "scheduler")
    with contextlib.ExitStack() as undo:
        settings = blockqueue.apply(undo, "sda", "mq-deadline", "write back", fake.system())
    assert settings["scheduler"] == {"before": "mq-deadline", "in_effect": "mq-deadline"}
    assert read(sda / "scheduler") == before


def test_a_scheduler_the_kernel_lacks_cannot_be_done_and_those_it_has_are_named(fake, sda, tool):
    asked = tool("modprobe", "exit 1")
    undo = contextlib.ExitStack()
    with pytest.raises(Unable, match="'cfq' is not available; allowed: none, mq-deadline, bfq"):
        blockqueue.apply(undo, "sda", "cfq", None, fake.system())
    assert read(sda / "scheduler") == "none [mq-deadline] bfq"
    assert read(asked) == "--quiet cfq-iosched"


def test_a_scheduler_is_loaded_where_the_kernel_has_it_as_a_module(fake, sda, tool):
    tool("modprobe", f"echo 'none [mq-deadline] bfq adios' > {sda}/scheduler")
    with contextlib.ExitStack() as undo:
        settings = blockqueue.apply(undo, "sda", "adios", None, fake.system())
        assert settings["scheduler"] == {"before": "mq-deadline", "in_effect": "adios"}


def test_polled_io_is_refused_where_no_queue_is_polled(fake, sda):
    (sda / "io_poll").write_text("0\n")
    with pytest.raises(Unable, match=r"/dev/sda: has no queue that is polled .*nvme.poll_queues=N"):
        blockqueue.check_polled("sda", fake.system())
    (sda / "io_poll").write_text("1\n")
    blockqueue.check_polled("sda", fake.system())


def test_a_setting_that_does_not_take_is_an_error(fake, sda, monkeypatch):
    monkeypatch.setattr(blockqueue, "get", lambda *_: "mq-deadline")
    with pytest.raises(Failed, match="scheduler: set to 'bfq', reads back as 'mq-deadline'"):
        blockqueue.put("sda", "scheduler", "bfq", fake.system())


def test_a_setting_the_kernel_refuses_is_an_error(fake):
    with pytest.raises(Failed, match=r"queue/scheduler: 'bfq' was refused by the kernel"):
        blockqueue.put("sdz", "scheduler", "bfq", fake.system())


def test_the_scheduler_is_left_where_the_cache_cannot_be_set(fake, sda):
    with pytest.raises(Refused, match="no write cache that can be set"), contextlib.ExitStack() as undo:
        blockqueue.apply(undo, "sda", "bfq", "write through", fake.system())
    assert read(sda / "scheduler") == "none [mq-deadline] bfq"
    assert read(sda / "write_cache") == "write back"


@pytest.mark.parametrize(
    ("asked", "of_drive"), [("write through", "write through"), ("no flush", "write back")]
)
def test_a_scsi_drives_own_cache_goes_with_the_kernels_view_but_where_flushes_alone_are_left_out(
    fake, sda, asked, of_drive
):
    page = (fake.sys / "block/sda").resolve() / "device/scsi_disk/0:0:0:0/cache_type"
    fake.put(page, "write back\n")
    with contextlib.ExitStack() as undo:
        settings = blockqueue.apply(undo, "sda", "mq-deadline", asked, fake.system())
        assert (read(page), read(sda / "write_cache")) == (of_drive, "write through")
    assert settings["write_cache"] == {"before": "write back", "in_effect": "write through"}
    assert (read(page), read(sda / "write_cache")) == ("write back", "write back")


def test_a_drive_without_a_cache_needs_no_change_to_go_without_flushes(fake, sda):
    fake.put(sda / "write_cache", "write through\n")
    with contextlib.ExitStack() as undo:
        settings = blockqueue.apply(undo, "sda", "mq-deadline", "no flush", fake.system())
    assert settings["write_cache"] == {"before": "write through", "in_effect": "write through"}
    assert read(sda / "write_cache") == "write through"


def nvme_queue(fake):
    fake.disk("nvme0n1", "SERIAL-A")
    fake.calls.features["nvme0n1"] = {CACHE: 1}
    fake.put(fake.sys / "block/nvme0n1/queue/scheduler", "[none]\n")
    fake.put(fake.sys / "block/nvme0n1/queue/write_cache", "write back\n")
    return fake.sys / "block/nvme0n1/queue/write_cache"


def test_an_nvme_drives_own_cache_is_set_with_the_kernels_view(fake):
    cache = nvme_queue(fake)
    with contextlib.ExitStack() as undo:
        blockqueue.apply(undo, "nvme0n1", "none", "write through", fake.system())
        assert (fake.calls.features["nvme0n1"][CACHE], read(cache)) == (0, "write through")
    assert (fake.calls.features["nvme0n1"][CACHE], read(cache)) == (1, "write back")


def test_an_nvme_drive_that_keeps_its_cache_is_an_error(fake):
    cache = nvme_queue(fake)
    fake.calls.deaf.add("nvme0n1")
    with pytest.raises(Failed, match="set to 'write through', the drive says 'write back'"):
        blockqueue.put_write_cache("nvme0n1", "write through", fake.system())
    assert read(cache) == "write back"


@pytest.mark.parametrize(
    ("status", "error"), [(0x002, Unable), (0x4002, Unable), (0x10E, Unable), (0x006, Failed)]
)
def test_a_cache_that_a_controller_does_not_let_be_set_is_no_level_of_it(fake, status, error):
    """0x2: invalid field, as Linux's target has it; 0x10e: not changeable; 0x6: internal error."""
    cache = nvme_queue(fake)
    fake.calls.refusal = status
    with pytest.raises(error, match="NVMe status") as caught, contextlib.ExitStack() as undo:
        blockqueue.apply(undo, "nvme0n1", "none", "write through", fake.system())
    assert type(caught.value) is error
    assert read(cache) == "write back"


@pytest.mark.parametrize("scsi", [False, True])
def test_a_drive_without_a_volatile_cache_has_no_level_write_back_and_is_put_back(fake, sda, scsi):
    name = "sda" if scsi else "nvme0n1"
    cache = sda / "write_cache" if scsi else nvme_queue(fake)
    if scsi:
        fake.put(
            (fake.sys / "block/sda").resolve() / "device/scsi_disk/0:0:0:0/cache_type", "write through\n"
        )
    fake.put(cache, "write through\n")
    fake.calls.cacheless.add(name)
    fake.calls.refusal = 0x002
    scheduler = "mq-deadline" if scsi else "none"
    with pytest.raises(Unable, match="no volatile write cache: 'write back' is no level of it"):
        blockqueue.check(name, scheduler, "write back", fake.system())
    with contextlib.ExitStack() as undo:
        for level in ("write through", "no flush", None):
            settings = blockqueue.apply(undo, name, scheduler, level, fake.system())
            assert settings["write_cache"]["in_effect"] == "write through"
        blockqueue.put_write_cache(name, "write through", fake.system())  # as undo would
    assert read(cache) == "write through"


def test_a_killed_runs_cache_of_an_nvme_drive_is_put_back(fake, monkeypatch):
    cache = nvme_queue(fake)
    fake.stand_in(monkeypatch)
    left = leftovers.Leftovers()
    blockqueue.apply(contextlib.ExitStack(), "nvme0n1", "none", "write through", leftovers=left)
    assert (fake.calls.features["nvme0n1"][CACHE], read(cache)) == (0, "write through")
    assert any("write_cache put back" in words for words in leftovers.take_down())
    assert (fake.calls.features["nvme0n1"][CACHE], read(cache)) == (1, "write back")


# --- devices without a queue, and NVMe drives with paths


def test_a_device_that_hands_its_io_on_has_the_scheduler_none_which_need_not_be_set(fake):
    """Since Linux 6.5 it has no file of schedulers."""
    fake.device("pmem0")
    queue = fake.sys / "block/pmem0/queue"
    fake.put(queue / "write_cache", "write back\n")
    with contextlib.ExitStack() as undo:
        settings = blockqueue.apply(undo, "pmem0", "none", None, fake.system())
    assert settings["scheduler"] == {"before": "none", "in_effect": "none"}
    assert not (queue / "scheduler").exists()
    with pytest.raises(Unable, match="'bfq' is not available; allowed: none"):
        blockqueue.check("pmem0", "bfq", None, fake.system())


@pytest.fixture
def head(fake):
    """An NVMe drive with native multipath, of Linux 6.5 or later, without its paths."""
    fake.disk("nvme0n1", "SERIAL-A")
    fake.calls.features["nvme0n1"] = {CACHE: 1}
    fake.disk("nvme0n2", "SERIAL-A")
    fake.path_of("nvme0n2", "nvme0c0n2")
    fake.path_of("nvme1n1", "nvme1c0n1")
    fake.put(fake.sys / "block/nvme0n1/queue/write_cache", "write back\n")
    fake.put(fake.sys / "block/nvme0n1/stat", " ".join(["0"] * 17))
    return fake


STAT = "100 1 800 5 200 2 1600 6 0 7 8 9 0 72 1 30 4\n"


def test_a_drive_with_one_path_is_scheduled_and_counted_by_its_path(head):
    path = head.path_of("nvme0n1", "nvme0c3n1", scheduler="[none] mq-deadline bfq", iostats="0")
    head.put(path / "stat", STAT)
    host = head.system()
    assert blockqueue.queues("nvme0n1", host) == ["nvme0c3n1"]
    blockqueue.check("nvme0n1", "bfq", None, host)
    with contextlib.ExitStack() as undo:
        blockqueue.count(undo, "nvme0n1", host)
        head.put(path / "queue/scheduler", "none mq-deadline [bfq]\n")
        assert blockqueue.scheduler("nvme0n1", host) == "bfq"
        settings = blockqueue.apply(undo, "nvme0n1", "bfq", "write through", host)
        assert settings["scheduler"] == {"before": "bfq", "in_effect": "bfq"}
        assert read(path / "queue/iostats") == "1"
        assert read(path / "queue/write_cache") == "write through"
    assert (read(path / "queue/iostats"), read(path / "queue/write_cache")) == ("0", "write back")
    assert blockqueue.written("nvme0n1", host) == {"write_bytes": 1600 * 512, "discard_bytes": 72 * 512}


def test_several_paths_are_counted_together_and_have_no_scheduler_of_their_own(head):
    paths = [head.path_of("nvme0n1", f"nvme0c{one}n1", scheduler="none [mq-deadline]") for one in (0, 1)]
    for path in paths:
        head.put(path / "stat", STAT)
    host = head.system()
    with pytest.raises(Unable, match="on each of the paths nvme0c0n1, nvme0c1n1; allowed: none, or one path"):
        blockqueue.check("nvme0n1", "mq-deadline", None, host)
    with contextlib.ExitStack() as undo:
        settings = blockqueue.apply(undo, "nvme0n1", "none", None, host)
        assert settings["scheduler"] == {"before": "mq-deadline", "in_effect": "none"}
        assert [read(path / "queue/scheduler") for path in paths] == ["none", "none"]
    assert [read(path / "queue/scheduler") for path in paths] == ["mq-deadline", "mq-deadline"]
    assert blockqueue.stat("nvme0n1", host)["write_bytes"] == 2 * 1600 * 512


def test_counters_of_the_block_layer(fake, sda):
    stat = "   100  1  800  5  200  2  1600  6  0  7  8  9  0  72  1  30  4\n"
    fake.put(fake.sys / "block/sda/stat", stat)
    assert blockqueue.stat("sda", fake.system()) == {
        "reads": 100, "read_bytes": 800 * 512, "writes": 200, "write_bytes": 1600 * 512,
        "flushes": 30, "discards": 9,
    }  # fmt: skip


def test_counters_of_a_kernel_that_counts_no_flushes(fake, sda):
    fake.put(fake.sys / "block/sda/stat", "100 1 800 5 200 2 1600 6 0 7 8\n")
    assert blockqueue.stat("sda", fake.system())["flushes"] == 0


# --- phases


@pytest.fixture
def agent(tmp_path):
    """The host agent's socket; gives (path, received lines)."""
    path = str(tmp_path / "iod.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(path)
        sock.settimeout(2)
        yield path, lambda count: [sock.recv(65536).decode() for _ in range(count)]


CLOCK = {"offset_ns": 1000, "error_ns": 7}


def parse(line):
    head, fields, at = line.rstrip("\n").rsplit(" ", 2)
    return head, dict(field.split("=") for field in fields.split(",")), int(at)


def test_a_phase_is_announced_and_completed_in_controller_time(agent):
    path, received = agent
    recorder = phases.Phases(path, {"run": "r1", "host": "h1"}, CLOCK)
    with recorder.phase("idle"):
        pass
    [first, second] = map(parse, received(2))
    [own] = recorder.recorded
    assert first[0] == second[0] == "phase,host=h1,phase=idle,run=r1"
    assert first[1] == {
        "start_ns": f"{own['start_ns'] + 1000}i", "clock_offset_ns": "1000i", "clock_error_ns": "7i"
    }  # fmt: skip
    assert second[1] == {**first[1], "end_ns": f"{own['end_ns'] + 1000}i"}


def test_the_end_completes_the_point_of_the_beginning(agent):
    """Same tags and same time: one point, though the exact start is known only at the end."""
    path, received = agent
    recorder = phases.Phases(path, {"run": "r1"}, CLOCK)
    began = recorder.begin("workload")
    recorder.add("workload", began + 5000, began + 9000)
    [first, second] = map(parse, received(2))
    assert first[2] == second[2] == began + 1000
    assert second[1]["start_ns"] == f"{began + 6000}i"
    assert recorder.recorded == [{"phase": "workload", "start_ns": began + 5000, "end_ns": began + 9000}]


def test_a_phase_that_fails_is_recorded_all_the_same(agent):
    recorder = phases.Phases(agent[0], {}, CLOCK)
    with pytest.raises(Failed), recorder.phase("prepare"):
        raise Failed("mkfs")
    assert [phase["phase"] for phase in recorder.recorded] == ["prepare"]


def test_tags_are_escaped(agent):
    path, received = agent
    phases.Phases(path, {"run": "a b,c=d"}, CLOCK).begin("idle")
    assert received(1)[0].startswith("phase,phase=idle,run=a\\ b\\,c\\=d start_ns=")


def test_escaped_tags_read_back_as_they_were(agent, influxd):
    path, received = agent
    odd = "a b,c=d\\e'\"ü"
    phases.Phases(path, {"run": odd}, CLOCK).begin("idle")
    influxd.write(received(1)[0].rstrip("\n"))
    database = influxd.database_of("phase", influxd.hosts[0])
    found = influxd.statement("SHOW TAG VALUES FROM phase WITH KEY = run", database=database)
    assert found["series"][0]["values"] == [["run", odd]]


def test_without_an_agent_a_run_goes_on(tmp_path):
    recorder = phases.Phases(str(tmp_path / "no-listener.sock"), {}, CLOCK)
    with recorder.phase("idle"):
        pass
    assert len(recorder.recorded) == 1


def test_an_agent_that_does_not_read_holds_no_caller_up(agent):
    recorder = phases.Phases(agent[0], {}, CLOCK)
    for _ in range(2000):
        recorder.begin("idle")


# --- file systems and tools


def test_a_file_system_the_kernel_lacks_is_refused(tool):
    tool("modprobe", "exit 1")
    with pytest.raises(Refused, match=r"^odd: this kernel has no file system 'nofs'"):
        filesystem.check({"name": "odd", "type": "nofs", "mkfs": ["mkfs.nofs"]})


def test_a_file_system_whose_mkfs_is_not_there_is_refused():
    with pytest.raises(Refused, match=r"mkfs\.nothing: not found on this host"):
        filesystem.check({"name": "odd", "type": "proc", "mkfs": ["mkfs.nothing"]})


def test_mkfs_gets_the_leased_device_last(tool, tmp_path):
    calls = tool("mkfs.odd", "")

    commands = filesystem.make(On("/dev/leased"), {"type": "odd", "mkfs": ["mkfs.odd", "-q"]})
    assert commands == {"mkfs": ["mkfs.odd", "-q", "/dev/leased"]}
    assert calls.read_text() == "-q /dev/leased\n"


def test_mkfs_gets_all_devices_of_a_pool_last(tool):
    tool("mkfs.odd", "")
    definition = {"name": "odd", "type": "odd", "mkfs": ["mkfs.odd"], "mkfs_bounded": ["{device}"]}
    pool = [On("/dev/second"), On("/dev/third")]
    made = filesystem.make(On("/dev/first"), definition, pool=pool)
    assert made == {"mkfs": ["mkfs.odd", "/dev/first", "/dev/second", "/dev/third"]}
    with pytest.raises(Unable, match="odd: cannot be made smaller than its drive"):
        filesystem.make(On("/dev/first"), definition, use_bytes=1 << 30, pool=pool)
    with pytest.raises(Refused):
        filesystem.make(On("/dev/first"), definition, pool=[On("/dev/second", holds=False)])


def test_mkfs_does_nothing_without_a_lease_that_holds(tool):
    calls = tool("mkfs.odd", "")

    with pytest.raises(Refused):
        filesystem.make(On("/dev/leased", holds=False), {"type": "odd", "mkfs": ["mkfs.odd"]})
    assert not calls.exists()


class On:
    """A lease of a device, or of none any more."""

    def __init__(self, device, holds=True):
        self.path, self._holds = device, holds
        self.steps = []

    def check(self):
        if not self._holds:
            raise Refused(f"{self.path} is mounted")

    def begin(self, *to):
        self.identifiers = to
        self.steps.append("begun")

    @contextlib.contextmanager
    def lent(self):
        self.steps.append("lent")
        yield self.path
        self.steps.append("back")


ODD_WITH_JOURNAL = {
    "name": "odd", "type": "odd", "mkfs": ["mkfs.odd", "uuid={uuid}"], "mount_options": ["noatime"],
    "external_journal": {
        "make": ["mkjournal.odd", "-L", "{label}", "{journal}", "128M"], "mkfs": ["-J", "device={journal}"],
        "mount_options": ["logdev={journal}"],
    },
}  # fmt: skip


def test_an_external_journal_is_made_first_and_named_to_mkfs(tool):
    """Each with an identifier that is recorded before; the journal may carry its file system's."""
    journal, mkfs = tool("mkjournal.odd", ""), tool("mkfs.odd", "")
    data, log = On("/dev/data"), On("/dev/log")
    made = filesystem.make(data, ODD_WITH_JOURNAL, log)
    assert data.steps == log.steps == ["begun", "lent", "back"]
    [own] = data.identifiers
    assert log.identifiers[0] == own
    chosen = str(uuid.UUID(own))
    assert journal.read_text() == f"-L {log.identifiers[1]} /dev/log 128M\n"
    assert mkfs.read_text() == f"uuid={chosen} -J device=/dev/log /dev/data\n"
    assert made == {
        "make_journal": ["mkjournal.odd", "-L", log.identifiers[1], "/dev/log", "128M"],
        "mkfs": ["mkfs.odd", f"uuid={chosen}", "-J", "device=/dev/log", "/dev/data"],
    }


@pytest.mark.parametrize(("name", "digits"), [("{uuid}", 32), ("{label}", 16), ("{volume_id}", 8)])
def test_the_identifier_has_the_form_that_its_tool_takes(tool, name, digits):
    mkfs = tool("mkfs.odd", "")
    first, second = On("/dev/first"), On("/dev/second")
    for data in (first, second):
        filesystem.make(data, {"name": "odd", "type": "odd", "mkfs": ["mkfs.odd", f"id={name}"]})
    given = [line.split()[0].replace("-", "") for line in mkfs.read_text().splitlines()]
    assert given == [f"id={one.identifiers[0]}" for one in (first, second)]
    assert re.fullmatch(f"[0-9a-f]{{{digits}}}", first.identifiers[0])
    assert first.identifiers != second.identifiers


@pytest.mark.parametrize("held", ["data", "log"])
def test_without_both_leases_no_file_system_with_an_external_journal(tool, held):
    journal, mkfs = tool("mkjournal.odd", ""), tool("mkfs.odd", "")
    with pytest.raises(Refused):
        filesystem.make(On("/dev/data", held == "log"), ODD_WITH_JOURNAL, On("/dev/log", held == "data"))
    assert not mkfs.exists()
    assert not journal.exists()


def test_a_file_system_without_external_journals_is_refused_one(tool):
    mkfs = tool("mkfs.odd", "")
    with pytest.raises(Refused, match="odd: has no external journal"):
        filesystem.check_journal({"name": "odd", "mkfs": ["mkfs.odd"]}, On("/dev/log"))
    assert not mkfs.exists()


def test_a_tool_for_the_journal_that_is_not_there_is_refused():
    definition = {"name": "odd", "type": "proc", "mkfs": [], "external_journal": {"make": ["mkjournal.no"]}}
    with pytest.raises(Refused, match=r"mkjournal\.no: not found on this host"):
        filesystem.check(definition)


def test_a_file_system_that_mounting_makes_needs_its_lease_all_the_same():
    assert filesystem.make(On("/dev/data"), {"type": "odd", "mkfs": []}) == {"mkfs": []}
    with pytest.raises(Refused):
        filesystem.make(On("/dev/data", holds=False), {"type": "odd", "mkfs": []})


def test_a_module_of_another_name_is_loaded_for_a_file_system(tool):
    calls = tool("modprobe", "exit 1")
    with pytest.raises(Refused, match="this kernel has no file system 'pmfs'"):
        filesystem.check({"name": "pmfs", "type": "pmfs", "module": "pmfs_old", "mkfs": []})
    assert calls.read_text() == "--quiet pmfs_old\n"


# --- DAX


@pytest.mark.parametrize("reported", ["0\n", None])
def test_a_device_that_cannot_do_dax_is_refused_a_file_system_that_asks(fake, reported):
    real = fake.device("ram0")
    if reported:
        fake.put(real / "queue/dax", reported)
    with pytest.raises(Refused, match="ext4-dax: /dev/ram0 cannot do DAX"):
        dax.check_device({"name": "ext4-dax", "dax": True}, "ram0", str(fake.sys))
    dax.check_device({"name": "ext4"}, "ram0", str(fake.sys))


def test_a_device_that_can_do_dax(fake):
    fake.put(fake.device("pmem0") / "queue/dax", "1\n")
    dax.check_device({"name": "ext4-dax", "dax": True}, "pmem0", str(fake.sys))


def test_a_silent_fall_back_to_the_page_cache_fails(tmp_path):
    """The kernel's own word, of a file system that surely has no DAX."""
    with pytest.raises(Failed, match="ext4-dax: mounted, but without DAX"):
        dax.verify({"name": "ext4-dax", "dax": True}, str(tmp_path))
    assert dax.verify({"name": "ext4"}, str(tmp_path)) == {"asked": False, "in_effect": False}


def test_dax_that_is_in_effect_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(dax, "_attributes", lambda path: dax.STATX_ATTR_DAX | 0x10)
    assert dax.verify({"name": "ext4-dax", "dax": True}, str(tmp_path)) == {"asked": True, "in_effect": True}


def test_a_folder_whose_dax_cannot_be_asked_fails(tmp_path):
    with pytest.raises(Failed, match=r"statx: .*No such file"):
        dax._attributes(str(tmp_path / "nothing"))


# --- drives that the kernel makes of memory

RAM = {"ram": {"interface": "ram", "serial": "ram0", "size_bytes": 64 << 20}}
DISKS = {
    f"ehdd-{n}": {"interface": "hdd", "serial": f"scsi_debug-{n}", "size_bytes": 64 << 20} for n in (0, 1)
}
REAL = {"hdd-1": {"interface": "hdd", "serial": "HDD-1", "size_bytes": 1 << 30}}


def test_what_the_kernel_is_to_make_follows_from_the_drives():
    found = memory_drives.wanted({**RAM, **DISKS, **REAL}, {"access_milliseconds": 8.0})
    assert found["brd"][0] == {"rd_nr": 1, "rd_size": 65536}
    assert found["scsi_debug"][0] == {
        "add_host": 2, "per_host_store": "Y", "dev_size_mb": 64, "ndelay": 8_000_000
    }  # fmt: skip
    assert [spec["name"] for spec in found["scsi_debug"][1]] == ["ehdd-0", "ehdd-1"]


def test_a_lab_without_such_drives_loads_nothing():
    assert memory_drives.wanted(REAL, None) == {}


@pytest.fixture
def brd(fake):
    """The host before brd is loaded; `parameters, specs` are what the inventory asks of it."""
    fake.put(fake.proc / "meminfo", "MemTotal: 999999 kB\nMemAvailable: 524288 kB\n")
    [(_, (parameters, specs))] = memory_drives.wanted(RAM, None).items()
    return fake, parameters, specs


def ram0(fake, size=64 << 20, major=1):
    fake._numbers["ram0"] = f"{major}:0"
    fake.device("ram0", bytes_=size)


def test_a_ram_block_device_is_made_and_found(brd, tool):
    fake, parameters, specs = brd
    ram0(fake)
    calls = tool("modprobe", "")
    tool("udevadm", "")
    memory_drives.load("brd", parameters, specs, fake.system())
    assert calls.read_text() == "brd rd_nr=1 rd_size=65536\n"


def test_emulated_disks_take_one_request_at_a_time(fake, tool):
    fake.put(fake.proc / "meminfo", "MemAvailable: 524288 kB\n")
    [(_, (parameters, specs))] = memory_drives.wanted(DISKS, {"access_milliseconds": 8}).items()
    depths = []
    for number, name in enumerate(("sda", "sdb")):
        place = f"devices/pseudo_0/adapter{number}/host7/target7:0:0/7:0:0:0/block/{name}"
        depths.append(fake.device(name, bytes_=64 << 20, place=place) / "device/queue_depth")
        fake.put(depths[-1], "192\n")
    tool("modprobe", "")
    tool("udevadm", "")
    memory_drives.load("scsi_debug", parameters, specs, fake.system())
    assert [depth.read_text() for depth in depths] == ["1", "1"]


def test_a_disk_whose_size_comes_later_is_waited_for(brd, tool, monkeypatch):
    fake, parameters, specs = brd
    ram0(fake, size=0)
    tool("modprobe", "")
    tool("udevadm", "")
    size = (fake.sys / "block/ram0").resolve() / "size"
    monkeypatch.setattr(memory_drives.time, "sleep", lambda seconds: fake.put(size, "131072\n"))
    memory_drives.load("brd", parameters, specs, fake.system())


def test_one_that_did_not_come_is_an_error(brd, tool, monkeypatch):
    monkeypatch.setattr(memory_drives, "APPEAR_SECONDS", 0.0)
    fake, parameters, specs = brd
    tool("modprobe", "")
    tool("udevadm", "")
    with pytest.raises(Refused, match="ram: no RAM block device 'ram0' on this host"):
        memory_drives.load("brd", parameters, specs, fake.system())


def test_memory_that_the_host_needs_itself_is_not_taken(brd, tool):
    fake, parameters, specs = brd
    fake.put(fake.proc / "meminfo", "MemAvailable: 327679 kB\n")  # 1 KiB less than the drive and the spare
    calls = tool("modprobe", "")
    with pytest.raises(Refused, match=r"brd would take 64 MiB; this host has 319 MiB available"):
        memory_drives.load("brd", parameters, specs, fake.system())
    assert not calls.exists()


def test_a_module_that_is_loaded_as_declared_is_left(brd):
    fake, parameters, specs = brd
    ram0(fake)
    assert memory_drives.is_loaded("brd", parameters, specs, fake.system()) is False
    fake.put(fake.sys / "module/brd/parameters/rd_nr", "1\n")
    fake.put(fake.sys / "module/brd/parameters/rd_size", "65536\n")
    assert memory_drives.is_loaded("brd", parameters, specs, fake.system()) is True


def test_a_module_that_is_loaded_otherwise_is_not_ours(brd):
    fake, parameters, specs = brd
    fake.put(fake.sys / "module/brd/parameters/rd_size", "16384\n")
    with pytest.raises(Refused, match=r"brd is loaded with rd_size=16384, the inventory says 65536"):
        memory_drives.is_loaded("brd", parameters, specs, fake.system())


def test_a_module_that_is_loaded_as_declared_without_its_drive(brd):
    fake, parameters, specs = brd
    (fake.sys / "module/brd/parameters").mkdir(parents=True)
    with pytest.raises(Refused, match="ram: no RAM block device 'ram0'"):
        memory_drives.is_loaded("brd", parameters, specs, fake.system())


def test_scsi_debug_is_recognized_by_its_disks_as_it_reads_back_no_number_of_them(fake):
    for number in (0, 1):
        name = f"sd{'ab'[number]}"
        place = f"devices/pseudo_0/adapter{number}/host7/target7:0:0/7:0:0:0/block/{name}"
        fake.put(fake.device(name, bytes_=64 << 20, place=place) / "device/vpd_pg80", b"\x00\x80\x00\x00")
    fake.put(fake.sys / "module/scsi_debug/parameters/add_host", "0\n")
    fake.put(fake.sys / "module/scsi_debug/parameters/ndelay", "8000000\n")
    [(_, (parameters, specs))] = memory_drives.wanted(DISKS, {"access_milliseconds": 8}).items()
    assert memory_drives.is_loaded("scsi_debug", parameters, specs, fake.system()) is True
    more = [*specs, {**specs[0], "name": "ehdd-2", "serial": "scsi_debug-2"}]
    with pytest.raises(Refused, match="ehdd-2: no drive with serial 'scsi_debug-2'"):
        memory_drives.is_loaded("scsi_debug", parameters, more, fake.system())


def test_a_drive_of_memory_in_use_is_not_taken_away(brd, tool):
    fake, _, specs = brd
    ram0(fake)
    fake.mount("/dev/ram0", "/srv", fake.number("ram0"))
    calls = tool("modprobe", "")
    with pytest.raises(Refused, match="ram: /dev/ram0 is mounted at /srv"):
        memory_drives.unload("brd", specs, fake.system())
    assert not calls.exists()


def test_nothing_is_mounted_over_another_mount():
    with (
        contextlib.ExitStack() as undo,
        pytest.raises(Refused, match="/proc: something is mounted there already"),
    ):
        filesystem.mount(undo, "/dev/null", {"type": "ext4", "mount_options": []}, "/proc")


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (["{device}", "{blocks}"], ["/dev/leased", "262144"]),
        (["-d", "size={bytes}", "{device}"], ["-d", "size=1073741824", "/dev/leased"]),
        (["-w", "512", "{device}", "{sectors}"], ["-w", "512", "/dev/leased", "2097152"]),
    ],
)
def test_a_file_system_on_the_first_bytes_of_a_drive(tool, end, expected):
    tool("mkfs.odd", "")
    definition = {"type": "odd", "mkfs": ["mkfs.odd", "-q"], "mkfs_bounded": end}
    made = filesystem.make(On("/dev/leased"), definition, use_bytes=1 << 30)
    assert made["mkfs"] == ["mkfs.odd", "-q", *expected]
    assert filesystem.make(On("/dev/leased"), definition)["mkfs"] == ["mkfs.odd", "-q", "/dev/leased"]


def test_one_that_is_always_as_large_as_its_drive_is_not_made_smaller(tool):
    calls = tool("mkfs.odd", "")
    definition = {"name": "odd", "type": "odd", "mkfs": ["mkfs.odd"]}
    with pytest.raises(Refused, match=r"^odd: cannot be made smaller than its drive$"):
        filesystem.make(On("/dev/leased"), definition, use_bytes=1 << 30)
    assert not calls.exists()


def test_a_tools_error_is_its_first_line(tool):
    tool("odd", "echo first >&2; echo second >&2; exit 4")
    with pytest.raises(Failed, match=r"^odd: exit 4: first$"):
        tools.run(["odd"])


def test_a_tool_that_says_nothing(tool):
    tool("odd", "exit 1")
    with pytest.raises(Failed, match=r"^odd: exit 1: no output$"):
        tools.run(["odd"])


def test_a_tool_that_does_not_end(tool):
    tool("odd", "exec sleep 30")
    with pytest.raises(Failed, match=r"^odd: still running after 0 s$"):
        tools.run(["odd"], timeout=0.2)


@pytest.mark.parametrize("script", ["exit 1", "echo not json", "echo"])
def test_a_query_that_gets_no_json(tool, script):
    tool("odd", script)
    assert tools.run_json(["odd"]) is None


def test_the_json_of_a_tool_that_complains_is_kept(tool):
    """smartctl's exit code has bits for the drive's state: its report counts all the same."""
    tool("smartctl", "echo '{\"a\": 1}'; exit 64")
    assert tools.run_json(["smartctl"]) == {"a": 1}


def test_the_work_of_a_load_is_announced_at_its_end_in_controller_time(agent):
    path, received = agent
    recorder = phases.Phases(path, {"campaign": "c1", "run": "r1", "host": "h1", "drive": "d1"}, CLOCK)
    recorder.work({"ops": 7, "read_bytes": 0, "write_bytes": 28672}, 5000)
    assert received(1) == ["workload,drive=d1,host=h1,run=r1 ops=7i,read_bytes=0i,write_bytes=28672i 6000\n"]


@pytest.mark.parametrize("seconds", [1.5, -1.5, 30, -30])
def test_a_clock_that_is_set_moves_when_the_host_booted_and_time_does_not(monkeypatch, seconds):
    before, real = clock.booted_ns(), time.time_ns
    time.sleep(0.02)  # time has to pass
    assert abs(clock.booted_ns() - before) < 5_000_000
    monkeypatch.setattr(clock.time, "time_ns", lambda: real() + int(seconds * 1e9))
    assert abs(clock.booted_ns() - before - seconds * 1e9) < 5_000_000
