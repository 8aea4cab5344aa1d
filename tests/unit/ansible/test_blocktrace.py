# SPDX-License-Identifier: GPL-3.0-or-later
"""Seeks out of the kernel's trace of issued requests; lines as Linux 6.1 and 6.9 write them."""

import os

import pytest

from ansible.module_utils.joulerig.tools import Refused
from ansible.module_utils.joulerig.tracing import blocktrace

LINE = "  fio-871  [001] ..... 57.034: block_rq_issue: {device} {what} {bytes} () {first} + {sectors} {more}[fio]"


def line(first, sectors, device="8,16", what="WS", more=""):
    return LINE.format(device=device, what=what, bytes=512 * sectors, first=first, sectors=sectors, more=more)


def counted(*lines, names=None):
    counter = blocktrace.Counter(names or {"8:16": "hdd-1", "8:32": "hdd-2"})
    for one in lines:
        counter.take(one)
    return counter


def test_requests_one_after_the_other_are_no_seeks():
    found = counted(line(2048, 8), line(2056, 16), line(2072, 8))
    assert found.drives["hdd-1"] == {"requests": 3, "seeks": 0, "distance_bytes": 0}


def test_a_way_to_the_journal_and_back_is_two_seeks():
    found = counted(line(2048, 8), line(100_000, 8), line(2056, 8))
    there, back = 100_000 - 2056, 100_008 - 2056
    assert found.drives["hdd-1"] == {"requests": 3, "seeks": 2, "distance_bytes": 512 * (there + back)}


def test_the_first_request_is_not_a_seek_and_each_drive_has_its_own_head():
    found = counted(line(9_000, 8), line(5, 8, device="8,32"), line(9_008, 8), line(13, 8, device="8,32"))
    assert {name: drive["seeks"] for name, drive in found.drives.items()} == {"hdd-1": 0, "hdd-2": 0}


@pytest.mark.parametrize(
    "between",
    [
        line(0, 0, what="FF"),
        line(77, 800, what="DS"),
        line(77, 8, device="8,48"),
        "  kworker [000] 57.1: block_rq_complete: 8,16 WS () 77 + 8 [0]",
        "",
    ],
    ids=["flush", "discard", "another device", "another event", "nothing"],
)
def test_what_moves_no_head_is_let_pass(between):
    found = counted(line(2048, 8), between, line(2056, 8))
    assert found.drives["hdd-1"] == {"requests": 2, "seeks": 0, "distance_bytes": 0}


def test_lines_of_newer_kernels_have_a_priority_more():
    assert counted(line(1, 8, more="none,0,0 "), line(9, 8, more="be,0,4 ")).drives["hdd-1"]["requests"] == 2


@pytest.fixture
def tracing(tmp_path):
    """Return a killed run's tracing folder, with what a kernel would write in its pipe."""
    instance = tmp_path / "tracing/instances/joulerig"
    (instance / blocktrace.EVENT).mkdir(parents=True)
    (tmp_path / "sys/block/sdb").mkdir(parents=True)
    (tmp_path / "sys/block/sdb/dev").write_text("8:16\n")
    os.mkfifo(instance / "trace_pipe")
    return tmp_path


def test_what_the_kernel_traced_while_the_load_ran_is_counted(tracing, monkeypatch):
    instance = tracing / "tracing/instances/joulerig"
    removed = []
    monkeypatch.setattr(blocktrace.kerneltrace.os, "rmdir", lambda path: removed.append(str(path)))
    seeks = blocktrace.Seeks({"hdd-1": "sdb"}, f"{tracing}/tracing", f"{tracing}/sys")
    with seeks:
        assert (instance / blocktrace.EVENT / "enable").read_text() == "1"
        assert (instance / blocktrace.EVENT / "filter").read_text() == f"dev == {8 << 20 | 16}"
        with (instance / "trace_pipe").open("w") as pipe:
            pipe.write(line(2048, 8) + "\nCPU:1 [LOST 318 EVENTS]\n" + line(4096, 8) + "\n")
            pipe.write("CPU:0 [LOST 2 EVENTS]\n" + line(2056, 8))
    assert (instance / blocktrace.EVENT / "enable").read_text() == "0"
    assert removed == [str(instance)]
    assert seeks.found["drives"]["hdd-1"]["seeks"] == 2
    assert seeks.found["lost"] == 320


def test_a_kernel_without_the_trace_refuses(tmp_path):
    (tmp_path / "block/sdb").mkdir(parents=True)
    (tmp_path / "block/sdb/dev").write_text("8:16\n")
    with pytest.raises(Refused, match="this kernel cannot trace requests"):
        blocktrace.Seeks({"hdd-1": "sdb"}, str(tmp_path / "tracing"), str(tmp_path)).__enter__()
