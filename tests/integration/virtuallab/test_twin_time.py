# SPDX-License-Identifier: GPL-3.0-or-later
"""A twin's time as an NBD client (fio) sees it: the profile's latencies and bandwidth.

How late this machine hands operations back, the twin itself reports; what is measured here is held
against the model with that taken off, so that a busy machine does not fail a drive.
"""

import math
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from joulerig.virtuallab import profile
from tests.support.drive_figures import alone_us, outermost_bytes_per_second, random_read_us
from tests.support.nbd_load import load
from tests.support.programs import processor_seconds, wait_for
from tests.support.slow_motion import slow_motion
from tests.support.twins import Twin, twin_of

MIB = 1 << 20
SSDS = [name for name in profile.names() if profile.load(name).flash]


class Watch:
    """What a twin's own books say of the time since the watch began."""

    def __init__(self, twin):
        self.twin = twin
        self.state, self.latency = twin.state(), twin.ask("latency")

    def stop(self):
        state, latency = self.twin.state(), self.twin.ask("latency")
        time_before, time_after = self.state["time"], state["time"]
        self.time = {key: time_after[key] - time_before[key] for key in time_after}
        # Of the time that anything was to do, the part in which the device had it.
        self.device_bound = self.time["device_bound_ns"] / max(1, self.time["busy_ns"])
        # The time in which the device had at least one operation: rates over it do not depend on
        # how late this machine woke the client or the twin. Rates over the clock are for `make
        # bench-drives`.
        self.device_seconds = self.time["device_bound_ns"] / 1e9
        self.model_ns, self.model_us = {}, {}
        for kind, after in latency.items():
            before = self.latency[kind]
            count = sum(after["model_counts"]) - sum(before["model_counts"])
            if count:
                model = after["model_ns_total"] - before["model_ns_total"]
                self.model_ns[kind] = model
                self.model_us[kind] = model / count / 1e3
        return self


def watched(twin, *arguments, **options):
    watch = Watch(twin)
    result = load(twin, *arguments, **options)
    return result, watch.stop()


@pytest.fixture(scope="module")
def transport_us(tmp_path_factory):
    """Return the median round trip of 4 KiB through nbdkit, socket and client, without a model."""
    with Twin(tmp_path_factory.mktemp("null"), size="64M") as twin:
        return load(twin, "randread").median_us


@pytest.mark.timed
@pytest.mark.parametrize("name", SSDS)
def test_operations_one_at_a_time_take_the_profiles_latency(tmp_path, name, transport_us):
    with twin_of(tmp_path, name, doze=None, doze_watts=None) as twin:
        for kind, expected_us in alone_us(profile.load(name).flash).items():
            seen, watch = watched(twin, f"rand{kind}", seconds=0.7)
            assert watch.model_us[kind] == pytest.approx(expected_us, rel=0.02)
            assert seen.least_us >= expected_us * 0.999  # never before its time
            # All take the same time: the one that the machine delayed least shows it, and the
            # transport's.
            assert seen.least_us < expected_us * 1.1 + transport_us


def test_a_wait_in_slow_motion_takes_no_more_of_the_processor(tmp_path):
    """What a twin spends awake at a wait's end is the machine's time, however slow the lab is."""
    slowness, awake_at_least_us = 200, 3
    with ExitStack() as stack:
        with slow_motion(tmp_path / "clock", slowness):
            twin = stack.enter_context(twin_of(tmp_path, "nvme-enterprise"))
        before = processor_seconds(twin.process.pid)
        seen = load(twin, "randread", depth=8, seconds=2)
        taken_us = 1e6 * (processor_seconds(twin.process.pid) - before) / seen.count
    assert seen.least_us > 0.9 * slowness * alone_us(profile.load("nvme-enterprise").flash)["read"]
    assert taken_us < slowness * awake_at_least_us / 2


def test_the_datasheets_figures_follow_from_the_profiles():
    """The figures that the profiles' sources name and that they do not state, but lead to."""
    random_reads = {
        "sata-enterprise": 72e3,
        "sata-consumer": 68e3,
        "nvme-enterprise": 450e3,
        "nvme-consumer": 330e3,
    }
    for name, rate in random_reads.items():
        flash = profile.load(name).flash
        assert flash.channels / (flash.latency_us.page_read * 1e-6) == pytest.approx(rate, rel=0.01)
    for name, rate in {"sata-enterprise": 33e3, "sata-consumer": 8.4e3, "nvme-enterprise": 56e3}.items():
        assert sustained_random_writes(profile.load(name).flash) == pytest.approx(rate, rel=0.02)
    writes = {
        "sata-enterprise": 490e6,
        "sata-consumer": 135e6,
        "nvme-enterprise": 1.6e9,
        "nvme-consumer": 3e8,
    }
    for name, rate in writes.items():
        flash = profile.load(name).flash
        programs = 4096 * sustained_random_writes(flash, amplification=1)
        assert min(programs, flash.write_bytes_per_second) == pytest.approx(rate, rel=0.01)
    read_and_write = {
        "sata-enterprise": (110, 52),
        "nvme-enterprise": (85, 20),
        "nvme-consumer": (1e6 / 14e3, 20),
    }
    for name, (read_us, write_us) in read_and_write.items():
        assert alone_us(profile.load(name).flash) == pytest.approx(
            {"read": read_us, "write": write_us}, rel=0.01
        )


def analytic_amplification(flash_per_logical):
    x = 0.5
    for _ in range(10000):
        x = math.exp(-flash_per_logical * (1 - x))
    return 1 / (1 - x)


def sustained_random_writes(flash, amplification=None, block_pages=256):
    """4 KiB writes a second on a full drive (virtuallab/twin/flash.h)."""
    latency = flash.latency_us
    a = amplification or analytic_amplification(1 + flash.overprovisioning)
    programs_of_a_block = block_pages * 4096 / flash.page_bytes
    page_us = a * latency.program + (a - 1) * latency.page_read + a * latency.erase / programs_of_a_block
    return flash.channels * flash.page_bytes / 4096 / (page_us * 1e-6)


def test_channels_bound_what_goes_on_at_once(tmp_path):
    slow = {"channels": 4, "page_read_ns": 2_000_000, "read_command_ns": 0}
    with twin_of(tmp_path, "sata-enterprise", **slow) as twin:
        for depth, most in {1: 500, 2: 1000, 4: 2000, 16: 2000}.items():
            seen, watch = watched(twin, "randread", depth=depth, seconds=0.6)
            assert seen.iops <= most * 1.03
            assert seen.count / watch.device_seconds >= 500 * 0.97
            if depth <= 4:
                assert watch.model_us["read"] == pytest.approx(2000, rel=0.02)


@pytest.mark.parametrize("name", ["sata-enterprise", "sata-consumer"])
def test_sequential_bandwidth_is_the_links(tmp_path, name):
    flash = profile.load(name).flash
    with twin_of(tmp_path, name, write_cache=16 * MIB, slc_fraction=1, slc_program_ns=10_000) as twin:
        bounds = {"read": flash.read_bytes_per_second, "write": flash.write_bytes_per_second}
        for pattern, bytes_per_second in bounds.items():
            seen, watch = watched(twin, pattern, depth=8, block=128 << 10, seconds=0.4)
            assert seen.bytes_per_second <= bytes_per_second * 1.03
            # One at a time has the link for two thirds of the time, more of them for all of it.
            assert seen.count * (128 << 10) / watch.device_seconds >= bytes_per_second * 0.65


def test_sustained_random_writes_on_a_full_drive_fall_to_what_its_map_says(tmp_path):
    # A small drive whose flash is ten times as slow: full and steady in seconds.
    flash = profile.load("sata-enterprise").flash
    slow = flash.model_copy(
        update={
            "latency_us": flash.latency_us.model_copy(
                update={"program": 1950.0, "page_read": 833.0, "erase": 7500.0}
            )
        }
    )
    changed = {
        "program_ns": 1_950_000,
        "page_read_ns": 833_000,
        "erase_ns": 7_500_000,
        "write_cache": 1 * MIB,
    }
    with twin_of(tmp_path, "sata-enterprise", size="16M", **changed) as twin:
        fresh, _ = watched(twin, "write", depth=4, block=64 << 10, seconds=0.6)
        load(twin, "randwrite", depth=8, seconds=6)
        before = twin.state()
        seen, watch = watched(twin, "randwrite", depth=8, seconds=2, seed=2)
        after = twin.state()
    host = after["health"]["host_bytes_written"] - before["health"]["host_bytes_written"]
    nand = after["health"]["nand_bytes_written"] - before["health"]["nand_bytes_written"]
    amplification = nand / host
    # 16 MiB have blocks of 16 pages, which differ more than large ones: below the analysis' limit.
    limit = analytic_amplification(1 + flash.overprovisioning)
    assert limit * 0.7 < amplification < limit * 1.02
    expected = sustained_random_writes(slow, amplification, block_pages=16)
    assert seen.iops <= expected * 1.1
    assert seen.count / watch.device_seconds >= expected * 0.9
    assert seen.iops * 4096 < fresh.bytes_per_second / 2.5
    gc = [rail["cause_joules"]["gc"] for rail in after["rails"]]
    assert gc[0] > 0


def test_single_level_cells_are_fast_until_they_are_full_and_fold_when_left_alone(tmp_path):
    # 16 of 64 MiB at 131 MB/s, the rest at 33 MB/s.
    changed = {
        "slc_fraction": 0.25,
        "slc_program_ns": 500_000,
        "program_ns": 2_000_000,
        "write_cache": 256 << 10,
        "fold_delay_ns": 2_000_000_000,
    }
    with twin_of(tmp_path, "sata-consumer", size="64M", **changed) as twin:
        before = twin.state()
        burst, in_burst = watched(twin, "write", depth=4, block=64 << 10, seconds=0.1)
        load(twin, "write", depth=4, block=64 << 10, seconds=0.2)
        tail, in_tail = watched(twin, "write", depth=4, block=64 << 10, seconds=0.5)
        full = twin.state()["health"]["slc_bytes"]
        wait_for(lambda: twin.state()["health"]["slc_bytes"] == 0, 10, "the cells are folded")
        time.sleep(0.2)  # the last programs of it are under way
        after = twin.state()
    assert full == 16 * MIB
    fast, slow = 4 * 16384 / 500e-6, 4 * 16384 / 2000e-6
    assert burst.count * (64 << 10) / in_burst.device_seconds > fast * 0.9
    assert tail.count * (64 << 10) / in_tail.device_seconds > slow * 0.9
    assert tail.bytes_per_second < slow * 1.1
    fold = after["rails"][0]["cause_joules"]["fold"] - before["rails"][0]["cause_joules"]["fold"]
    folded_at_least = full * profile.load("sata-consumer").rails["5v"].work["fold"].joules_per_byte
    assert fold >= folded_at_least * 0.999


def test_a_hard_disk_seeks_and_turns(tmp_path):
    disk = profile.load("hdd-7200").disk
    with twin_of(tmp_path, "hdd-7200", size="1G") as twin:
        alone, watch = watched(twin, "randread", seconds=4)
        queued, _ = watched(twin, "randread", depth=16, seconds=3)
        sequential, in_sequential = watched(twin, "read", depth=2, block=256 << 10, seconds=1.5)
        joules = twin.state()["rails"][1]["cause_joules"]
    assert watch.model_us["read"] == pytest.approx(random_read_us(disk), rel=0.1)
    assert alone.mean_us >= watch.model_us["read"]
    assert queued.iops > 1.4 * alone.iops
    outer = outermost_bytes_per_second(disk)
    assert sequential.bytes_per_second <= outer * 1.1
    assert sequential.count * (256 << 10) / in_sequential.device_seconds >= outer * 0.9
    assert joules["seek"] > 0


@pytest.mark.timed
def test_a_left_alone_drive_dozes_off_and_takes_its_time_to_wake(tmp_path):
    states = [state for state in profile.load("nvme-consumer").power_states if state.idle_seconds]
    with twin_of(tmp_path, "nvme-consumer") as twin:
        twin.io("read 0 4k")
        watts = {}
        began = time.monotonic()
        while (since := time.monotonic() - began) < 0.9:
            rail = twin.state()["rails"][0]
            watts[since] = rail["volts"] * rail["amps"]
            time.sleep(0.01)  # samples of the watts
        in_ps3 = [w for t, w in watts.items() if 0.2 < t < 0.45]
        in_ps4 = [w for t, w in watts.items() if t > 0.6]
        assert in_ps3 == pytest.approx([states[0].watts["3v3"]] * len(in_ps3), rel=1e-6)
        assert in_ps4 == pytest.approx([states[1].watts["3v3"]] * len(in_ps4), rel=1e-6)
        before = twin.state()
        woken = load(twin, "randread", seconds=0.05)
        after = twin.state()
        assert woken.count > 10
        assert twin.ask("latency")["read"]["model_ns_total"] > states[1].exit_us * 1e3
        used = [rail["cause_joules"]["power_state"] for rail in (before["rails"][0], after["rails"][0])]
        assert used[1] - used[0] == pytest.approx(1.0 * states[1].exit_us * 1e-6, rel=0.01)


def test_joules_by_cause_add_up_to_the_true_joules(tmp_path):
    with twin_of(tmp_path, "sata-consumer", size="16M", slc_fraction=0.1, fold_delay_ns=10_000_000) as twin:
        load(twin, "randwrite", depth=8, seconds=1.5)
        twin.io("flush", "read 0 1M", "discard 0 1M")
        wait_for(lambda: twin.state()["rails"][0]["cause_joules"]["fold"] > 0, 10, "the cells are folded")
        rail = twin.state()["rails"][0]
    causes = rail["cause_joules"]
    assert min(causes[cause] for cause in ("idle", "read", "write", "flush", "discard", "gc", "fold")) > 0
    assert math.fsum(causes.values()) == pytest.approx(rail["joules"], rel=1e-9, abs=1e-8)


def test_what_a_drive_holds_is_mapped_again_when_its_twin_starts(tmp_path):
    twin = twin_of(tmp_path, "sata-enterprise", size="64M")
    with twin:
        twin.io("write -P 7 0 8M", "write -P 8 32M 4M", "flush", "discard 4M 2M")
        assert twin.state()["health"]["mapped_bytes"] == 10 * MIB
    with twin:
        health = twin.state()["health"]
        assert health["mapped_bytes"] == 10 * MIB
        assert health["host_bytes_written"] == 12 * MIB  # kept, and nothing added by the mapping


def test_latencies_are_reported_as_histograms(tmp_path):
    with twin_of(tmp_path, "sata-enterprise") as twin:
        seen = load(twin, "randread", seconds=0.3)
        latency = twin.ask("latency")["read"]
    assert len(latency["edges_ns"]) == len(latency["model_counts"]) == len(latency["served_counts"])
    assert sum(latency["model_counts"]) == sum(latency["served_counts"]) == pytest.approx(seen.count, abs=32)
    longest = max(range(len(latency["model_counts"])), key=latency["model_counts"].__getitem__)
    assert latency["edges_ns"][longest] <= 110e3 < latency["edges_ns"][longest + 1]


def test_a_full_device_time_is_reported_where_the_device_is_what_holds_up(tmp_path):
    with twin_of(tmp_path, "hdd-7200") as twin:
        _, watch = watched(twin, "randread", seconds=0.5)
        idle = Watch(twin)
        time.sleep(0.2)  # with nothing to do
        idle.stop()
    # One at a time: the device has each for as long as the model says, and the rest is this
    # machine's.
    assert watch.time["device_bound_ns"] == watch.model_ns["read"]
    assert watch.time["device_bound_ns"] <= watch.time["busy_ns"]
    assert watch.time["operations"] > 10
    assert idle.time["busy_ns"] == idle.time["device_bound_ns"] == 0


def test_without_a_model_nothing_is_the_devices(tmp_path):
    with Twin(tmp_path) as twin:
        _, watch = watched(twin, "randread", seconds=0.2)
    assert watch.time["device_bound_ns"] == 0
    assert watch.time["busy_ns"] > 0


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"model": "tape"}, "model=tape: allowed are null, flash, disk"),
        ({"channels": "0"}, "channels=0: allowed are whole numbers from 1 to 128"),
        ({"write_cache": "16384"}, "write_cache=16384: allowed are 0 and at least four pages"),
        ({"work": "9v,gc,0,0"}, "work=9v,gc,0,0: allowed is RAIL,gc|fold|seek|spin_up|wake"),
        ({"doze_watts": "5v,x"}, "doze_watts=5v,x: allowed is RAIL,WATTS"),
        ({"declared_watts": "10,1"}, "declared_watts=10,1: allowed is STATE,WATTS"),
        ({"doze": "1,2"}, "doze=1,2: allowed is idle_ns,entry_ns,exit_ns"),
    ],
)
def test_a_wrong_parameter_of_the_models_is_named(tmp_path, changed, reason):
    twin = twin_of(tmp_path, "sata-enterprise", **changed)
    done = subprocess.run([*twin.command, "--run", "true"], capture_output=True, text=True, timeout=10)
    assert done.returncode != 0
    assert reason in done.stderr


def test_a_power_cut_ends_what_waits_for_the_actuator_and_the_disk_spins_up_again(tmp_path):
    with twin_of(tmp_path, "hdd-7200", ready=1_500_000_000) as twin:
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(load, twin, "randread", depth=8, seconds=30)
            wait_for(lambda: twin.counters()["reads"] > 10, 10, "reads go on")
            assert "error" not in twin.ask("power off 1 all")
            with pytest.raises(AssertionError, match="Input/output error"):
                running.result(timeout=20)
        before = twin.state()["rails"][1]["cause_joules"]["spin_up"]
        twin.ask("power on")
        wait_for(lambda: twin.state()["ready"], 10, "the disk is ready")
        seen = load(twin, "randread", depth=8, seconds=0.5)
        spent = twin.state()["rails"][1]["cause_joules"]["spin_up"] - before
    assert seen.count > 10
    spin_up = profile.load("hdd-7200").rails["12v"].work["spin_up"]
    assert spent == pytest.approx(spin_up.watts * 1.5, rel=0.01)
