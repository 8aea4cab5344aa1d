# SPDX-License-Identifier: GPL-3.0-or-later
"""Common to all external programs: commands, settings, report, no process left behind."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.support.program_script import SCRIPTS, Script, packed, processes_of
from tests.support.programs import installed, wait_for

NAMES = sorted(path.parent.name for path in SCRIPTS.glob("*/program.yml"))
STUCK = "tinyconfig:\n\ttouch $(O)/.config\nstuck:\n\tsleep 100\n"

REPORT = {
    "begin_realtime_ns", "end_realtime_ns", "seconds", "ended", "error", "ops", "unit", "read_bytes",
    "write_bytes", "syncs", "latency_p50_seconds", "latency_p99_seconds", "figure", "details",
}  # fmt: skip


def test_the_programs_are_the_studies_own():
    assert NAMES == ["kernel_grep", "kernel_make", "postmark", "tpcc"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("verb", ["layout", "load"])
def test_an_unknown_setting_is_refused_with_those_that_are_known(tmp_path, name, verb):
    done = Script(name, tmp_path / "load", filez=1).run(verb, 1)
    assert done.returncode == 1
    assert done.stderr.startswith(f"{name.replace('_', '-')}: --settings: 'filez' is unknown; allowed: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "settings", "complaint"),
    [
        ("postmark", {"files": "many"}, "files: 'many'; allowed: a value such as 500"),
        ("postmark", {"files": True}, "files: True; allowed: a value such as 500"),
        ("postmark", {"files": 0}, "files: 0; allowed: at least 1"),
        ("postmark", {"read_bias": -2}, "read_bias: -2; allowed: at least -1"),
        ("postmark", {"buffered": 1}, "buffered: 1; allowed: a value such as true"),
        ("tpcc", {"clients": 1.5}, "clients: 1.5; allowed: a value such as 10"),
        ("kernel_make", {"jobs": 0}, "jobs: 0; allowed: at least 1"),
        ("kernel_grep", {}, "source: missing; allowed: a tar of a kernel's source"),
        ("kernel_make", {"target": "O=/"}, "target: 'O=/'; allowed: a target such as lib/"),
        ("kernel_make", {"target": "-f/tmp/x"}, "target: '-f/tmp/x'; allowed: a target such as lib/"),
        ("kernel_make", {"target": "../x/"}, "target: '../x/'; allowed: a target such as lib/"),
        ("kernel_make", {"config": "/etc/"}, "config: '/etc/'; allowed: a target such as lib/"),
        ("kernel_make", {"config": "a b"}, "config: 'a b'; allowed: a target such as lib/"),
    ],
)
def test_a_wrong_setting_is_refused_with_what_is_allowed(tmp_path, name, settings, complaint):
    done = Script(name, tmp_path / "load", **settings).run("layout")
    assert done.returncode == 1
    assert done.stderr == f"{name.replace('_', '-')}: --settings: {complaint}\n"


@pytest.mark.parametrize(
    "words", [[], ["load"], ["layout"], ["sweep"], ["layout", "--directory", "x", "--settings", "{"]]
)
def test_an_unknown_command_exits_with_2(tmp_path, words):
    script = Script("postmark", tmp_path)
    command = script.command("load")
    script.command = lambda *_: [*command[: command.index("load")], *words]
    assert script.run("load").returncode == 2


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("kernel_grep", "joulerig-kernel-grep: holds no file; allowed: a folder after `layout`"),
        ("kernel_make", "joulerig-kernel-make: holds no configured source; allowed: a folder after `layout`"),
        ("tpcc", "joulerig-tpcc: holds no database; allowed: a folder after `layout`"),
    ],
)
def test_a_load_of_nothing_fails_and_leaves_its_report(place, name, missing):
    script = Script(name, place / f"nothing-{name}")
    done = script.run("load", 1)
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith(missing)
    report = script.report()
    assert set(report) == REPORT
    assert report["ended"] == "failed"
    assert report["error"].endswith(missing)
    assert report["ops"] == 0


def test_a_report_to_something_other_than_a_file_replaces_nothing(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    script = Script("kernel_grep", tmp_path / "load")
    script.output = pipe
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert script.run("load", 1).returncode == 1
    assert set(json.loads(os.read(reader, 1 << 16))) == REPORT
    os.close(reader)
    assert pipe.is_fifo()


def test_a_source_that_is_not_there(tmp_path):
    done = Script("kernel_grep", tmp_path / "load", source=str(tmp_path / "none.tar")).run("layout")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert f"{tmp_path}/none.tar: no such file" in done.stderr


def test_a_source_that_is_not_a_tar(tmp_path):
    (tmp_path / "text.tar").write_text("no tar")
    done = Script("kernel_grep", tmp_path / "load", source=str(tmp_path / "text.tar")).run("layout")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert f"{tmp_path}/text.tar: " in done.stderr


def endless(name, place) -> tuple[Script, str]:
    """A program whose load goes on, and the process that shows that it does."""
    if name == "postmark":
        installed("postmark", "postmark")
        return Script(name, place / name, files=20000, transactions=1_000_000), "postmark"
    if name == "kernel_make":
        source = packed(place / "stuck.tar.gz", Makefile=STUCK)
        return Script(name, place / name, source=source, target="stuck", cold=False), "sleep"
    return Script(name, place / name, items=100, customers=10, clients=2), "pgbench"


@pytest.fixture(scope="module", params=["postmark", "kernel_make", "tpcc"])
def laid_out(request, place):
    script, working = endless(request.param, place)
    script.lay_out()
    return script, working


def begun(script, working):
    process = script.start(seconds=100)
    wait_for(
        lambda: working in processes_of(script.folder) or process.poll() is not None, 60, f"{working} runs"
    )
    assert process.poll() is None
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_load_has_a_report_and_leaves_no_process(laid_out, number):
    script, working = laid_out
    script.output.unlink(missing_ok=True)
    process = begun(script, working)
    process.send_signal(number)
    assert process.wait(60) == 0
    report = script.report()
    assert set(report) == REPORT
    assert (report["ended"], report["error"]) == ("interrupted", "")
    assert 0 < report["seconds"] < 100
    assert processes_of(script.folder) == set()


def test_a_killed_load_leaves_no_process(laid_out):
    script, working = laid_out
    process = begun(script, working)
    process.kill()
    process.wait()
    wait_for(lambda: not processes_of(script.folder), 60, "all its processes are gone")
