# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig workloads`: list, show, and a trial with a flowop that records its calls."""

import contextlib
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from joulerig.rig import workloads
from joulerig.rig.cli import main
from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.workloads import place, trial
from tests.support.programs import wait_for

REPORT = {
    "begin_realtime_ns": 10_000_000_000, "end_realtime_ns": 12_000_000_000, "ended": "completed", "error": "",
    "ops": 300, "read_bytes": 2_000_000, "write_bytes": 4_000_000, "syncs": 100,
    "classes": [
        {"name": "append", "kind": "write", "ops": 200, "histogram": {"1000": 200}},
        {"name": "fsync", "kind": "sync", "ops": 100, "histogram": {"2000000": 60, "9000000": 40}},
    ],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "folder"
    path.mkdir()
    return path


@pytest.fixture
def fake_flowop(tmp_path, monkeypatch):
    """fake_flowop(REPORT, SHELL) is the engine from then on; gives the file of its calls."""
    monkeypatch.setenv("JOULERIG_INVENTORY", str(paths.ROOT / "inventory.ini"))
    program, calls = tmp_path / "flowop", tmp_path / "flowop.calls"
    monkeypatch.setattr(place, "flowop", lambda: program)

    def make(report=REPORT, end="exit 0"):
        program.write_text(
            f"""#!/bin/sh
echo "$@" >> {calls}
while [ $# -gt 0 ]; do case "$1" in --output) output=$2 ;; --directory) cd "$2" ;; --keep) keep=1 ;; esac; shift; done
touch left-behind
[ $keep ] || exit 0
report() {{ cat > $output <<'EOF'
{json.dumps(report)}
EOF
}}
{end if "report" in end else f"report; {end}"}
"""
        )
        program.chmod(0o755)
        return calls

    return make


def rig(*words):
    done = CliRunner().invoke(main.app, ["workloads", *words])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def test_a_trial_lays_out_loads_and_leaves_the_folder_as_it_was(fake_flowop, folder):
    calls = fake_flowop()
    done = rig("run", "overwrite-fsync", "--directory", str(folder), "--seconds", "2", "--seed", "7")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "300 operations in 2.00 s: 150.0 a second",
        "3.00 MB/s; read 2.0 MB, written 4.0 MB",
        "100 syncs",
        "latency of a sync: p50 2.000 ms, p99 9.000 ms",
    ]
    layout, load = calls.read_text().splitlines()
    assert layout.startswith("sync --seconds 2 --seed 7 --mode overwrite")
    assert "--layout-only" in layout
    assert "--keep" in load
    assert "--points" not in load
    assert list(folder.iterdir()) == []


def test_a_trial_as_json(fake_flowop, folder):
    fake_flowop()
    shown = json.loads(rig("run", "overwrite-fsync", "--directory", str(folder), "--json").stdout)
    assert shown["performance"]["ops_per_second"] == 150.0
    assert shown["report"] == REPORT
    assert shown["problem"] == ""


def test_a_load_that_failed_shows_what_it_did_and_why(fake_flowop, folder, capsys):
    fake_flowop({**REPORT, "ended": "failed", "error": "no space"}, "echo 'write a: no space' >&2; exit 1")
    done = rig("run", "overwrite-fsync", "--directory", str(folder))
    assert done.exit_code == 1
    assert "300 operations" in done.stdout
    assert done.stderr == "rig: flowop: exit 1: write a: no space; these are the figures so far\n"
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        ({**REPORT, "end_realtime_ns": REPORT["begin_realtime_ns"]}, "overwrite-fsync: the report cannot be read: ZeroDivisionError"),
        ({key: value for key, value in REPORT.items() if key != "classes"}, "the report cannot be read: KeyError"),
    ],
)  # fmt: skip
def test_a_report_that_cannot_be_read(fake_flowop, folder, report, expected):
    fake_flowop(report)
    with pytest.raises(UserError, match=expected):
        rig("run", "overwrite-fsync", "--directory", str(folder))


def test_a_load_without_a_report(fake_flowop, folder):
    fake_flowop(end="echo 'open: no such folder' >&2; exit 1 # no report")
    with pytest.raises(UserError, match=r"^flowop: exit 1: open: no such folder$"):
        rig("run", "overwrite-fsync", "--directory", str(folder))
    assert list(folder.iterdir()) == []


def test_a_folder_with_something_in_it_is_refused_unless_asked_for(fake_flowop, folder):
    fake_flowop()
    (folder / "mine").touch()
    with pytest.raises(UserError, match="is not empty; allowed: an empty folder, or --among-others"):
        rig("run", "overwrite-fsync", "--directory", str(folder))
    assert rig("run", "overwrite-fsync", "--directory", str(folder), "--among-others").exit_code == 0
    assert [path.name for path in folder.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run", "overwrite-fsync", "--directory", "/nonexistent"], "'/nonexistent': no such folder"),
        (["run", "overwrite-fsin", "--directory", "/tmp"], "'overwrite-fsin' is unknown; nearest is 'overwrite-fsync'; allowed:"),
        (["show", "postmrk"], "'postmrk' is unknown"),
    ],
)  # fmt: skip
def test_what_is_refused(fake_flowop, words, expected):
    fake_flowop()
    with pytest.raises(UserError) as caught:
        rig(*words)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def processes_of(program: Path) -> list[str]:
    """List the processes that execute a script; a load has other numbers for its own."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            words = path.read_text().split("\0")
            found += [" ".join(words)] if str(program) in words else []
    return found


def test_an_interrupted_trial_prints_the_result_so_far_and_leaves_no_files(fake_flowop, folder, tmp_path):
    """As by Ctrl-C: SIGINT to rig, which ends the load and shows what it did."""
    fake_flowop(
        {**REPORT, "ended": "interrupted"},
        f"trap 'report; exit 130' TERM; touch {tmp_path}/begun; sleep 60 & wait",
    )
    code = (
        "import sys; from pathlib import Path; from joulerig.rig.workloads import place\n"
        f"place.flowop = lambda: Path({str(tmp_path / 'flowop')!r})\n"
        "from joulerig.rig.cli import main; sys.argv = ['rig', *sys.argv[1:]]; main.main()\n"
    )
    words = ["workloads", "run", "overwrite-fsync", "--directory", str(folder), "--seconds", "60"]
    running = subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    wait_for(lambda: running.poll() is not None or (tmp_path / "begun").exists(), 60, "the load")
    assert running.poll() is None, running.communicate()
    assert processes_of(tmp_path / "flowop")
    running.send_signal(signal.SIGINT)
    shown, reported = running.communicate(timeout=60)
    assert running.returncode == 1
    assert shown.startswith("300 operations in 2.00 s")
    assert reported == "rig: flowop: interrupted; these are the figures so far\n"
    assert processes_of(tmp_path / "flowop") == []
    assert list(folder.iterdir()) == []


def test_real_fio_on_a_folder(folder):
    if shutil.which("fio") is None:
        pytest.fail("fio is not installed: apt-get install -y fio", pytrace=False)
    done = trial.run("randwrite-fsync", workloads.shipped()["randwrite-fsync"], folder, 1, 1)
    assert done.problem == ""
    unsynced = done.performance["ops"] - done.performance["syncs"]
    assert unsynced in (0, 1)  # the time may end between the last write and its sync
    assert done.performance["syncs"] > 0
    assert list(folder.iterdir()) == []


def test_the_list_and_what_is_shown(fake_flowop):
    calls = fake_flowop()
    listed = rig("list").stdout
    assert "varmail" in listed
    assert "fsync after each" in listed
    assert json.loads(rig("list", "--json").stdout)["overwrite-fsync-paced"]["pace_seconds"] == 0.01
    shown = json.loads(rig("show", "varmail", "--json").stdout)
    assert shown["delivered"]["texts"]["varmail.f"].startswith("#")
    assert [one["dest"] for one in shown["campaign_programs"]] == ["/usr/local/sbin/flowop"]
    assert "define fileset" in rig("show", "varmail").stdout
    assert not calls.exists()
