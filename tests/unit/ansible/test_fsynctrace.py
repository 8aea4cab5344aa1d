# SPDX-License-Identifier: GPL-3.0-or-later
"""f2fs's search for free node numbers in fsync, from Linux 6.1's trace lines."""

import os

import pytest

from ansible.module_utils.joulerig.tracing import fsynctrace

FUNCTION = {"sync": "f2fs_sync_file", "scan": "f2fs_build_free_nids"}


def line(instant, event, thread=871, task="flowop"):
    what = event.removesuffix("_end")
    at = f"{FUNCTION[what]}+0x0/0x90 [f2fs]"
    where = f"(f2fs_ioctl+0x5/0x9 [f2fs] <- {FUNCTION[what]})" if event.endswith("_end") else f"({at})"
    return f"          {task}-{thread}     [001] ..... {instant:12.6f}: {event}: {where}"


def shares_of(*lines):
    shares = fsynctrace.Shares()
    for one in lines:
        shares.take(one)
    return shares


def test_a_search_within_a_sync_is_a_part_of_it():
    found = shares_of(line(10.0, "sync"), line(10.1, "scan"), line(10.3, "scan_end"), line(11.0, "sync_end"))
    assert (found.syncs, found.scans) == (1, 1)
    assert found.sync_seconds == pytest.approx(1.0)
    assert found.scan_seconds == found.scan_in_sync_seconds == pytest.approx(0.2)


def test_a_search_of_another_thread_is_none_of_the_syncs():
    found = shares_of(
        line(10.0, "sync"),
        line(10.1, "scan", thread=5, task="f2fs_ckpt-8:16"),
        line(10.4, "scan_end", thread=5, task="f2fs_ckpt-8:16"),
        line(11.0, "sync_end"),
    )
    assert (found.scans, found.scan_in_sync_seconds) == (1, 0.0)
    assert found.scan_seconds == pytest.approx(0.3)


def test_threads_at_once_are_distinguished():
    found = shares_of(
        line(10.0, "sync", 1),
        line(10.0, "sync", 2),
        line(10.2, "scan", 2),
        line(10.5, "sync_end", 1),
        line(10.6, "scan_end", 2),
        line(12.0, "sync_end", 2),
    )
    assert found.sync_seconds == pytest.approx(2.5)
    assert found.scan_in_sync_seconds == pytest.approx(0.4)


def test_windows_of_a_second_add_up_to_the_whole():
    lines = []
    for number in range(5):
        start = 10 + 0.7 * number
        lines += [line(start, "sync"), line(start + 0.1, "scan"), line(start + 0.15, "scan_end")]
        lines += [line(start + 0.3, "sync_end")]
    found = shares_of(*lines)
    assert [len(found.windows), len(found.windows[0])] == [4, 2]
    assert sum(one for one, _ in found.windows) == pytest.approx(found.sync_seconds)
    assert sum(one for _, one in found.windows) == pytest.approx(found.scan_in_sync_seconds)


def test_an_end_without_a_begin_and_other_lines_are_let_pass():
    found = shares_of(line(10.0, "sync_end"), "CPU:0 [LOST 3 EVENTS]", "", line(11.0, "scan"))
    assert (found.syncs, found.scans, found.windows) == (0, 0, [])


@pytest.fixture
def tracing(tmp_path):
    """Return a killed run's tracing folder, with what a kernel would write in its pipe."""
    group = fsynctrace.GROUP
    for name in ("sync", "sync_end", "scan", "scan_end"):
        (tmp_path / "instances" / group / "events" / group / name).mkdir(parents=True)
    (tmp_path / "kprobe_events").write_text(f"p:{group}/sync f2fs_sync_file\np:other/mine vfs_read\n")
    os.mkfifo(tmp_path / "instances" / group / "trace_pipe")
    return tmp_path


def test_probes_are_put_and_taken_away(tracing, monkeypatch):
    monkeypatch.setattr(fsynctrace.kerneltrace.os, "rmdir", lambda path: None)
    instance = tracing / "instances" / fsynctrace.GROUP
    with fsynctrace.FreeNids(str(tracing)) as timed:
        asked = (tracing / "kprobe_events").read_text()
        assert (instance / "events/joulerig_f2fs/scan_end/enable").read_text() == "1"
        with (instance / "trace_pipe").open("w") as pipe:
            pipe.write(
                "\n".join(
                    [line(1.0, "sync"), line(1.1, "scan"), line(1.2, "scan_end"), line(1.4, "sync_end")]
                )
            )
    assert "-:joulerig_f2fs/sync\n" in asked
    assert "p:joulerig_f2fs/scan f2fs_build_free_nids\n" in asked
    assert "r256:joulerig_f2fs/sync_end f2fs_sync_file\n" in asked
    assert "-:other/mine" not in (tracing / "kprobe_events").read_text()
    assert timed.found["syncs"] == timed.found["scans"] == 1
    assert timed.found["scan_in_sync_seconds"] / timed.found["sync_seconds"] == pytest.approx(0.25)
    assert timed.found["lost"] == 0
    assert timed.found["windows"] == [[0.4, 0.1]]


def test_a_kernel_without_probes_says_so_and_the_load_goes_on(tmp_path):
    with fsynctrace.FreeNids(str(tmp_path)) as timed:
        pass
    assert list(timed.found) == ["why"]
    assert "no probes on f2fs's functions" in timed.found["why"]
