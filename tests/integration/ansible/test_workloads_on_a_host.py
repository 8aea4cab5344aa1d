# SPDX-License-Identifier: GPL-3.0-or-later
"""A workload on a test host: what fio, flowop and external programs get, and what is kept of it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from ansible.module_utils.joulerig import pagecache, phases
from ansible.module_utils.joulerig.loads import fio, load, workload
from ansible.module_utils.joulerig.tools import Failed
from tests.support import FIXTURES, ROOT
from tests.support.programs import wait_for

NOTHING = {"total_ios": 0, "io_bytes": 0}
S = 1_000_000_000


class Points:
    """Stands for a run's Phases: keeps what is reported to it."""

    socket = "/run/iod.sock"

    def __init__(self):
        self.reported = []

    def work(self, counts, end):
        self.reported.append((counts, end))

    def words(self):
        return ["--points", "unix:/run/iod.sock", "--run", "r1", "--host", "h1", "--drive", "d1"]


@pytest.fixture
def points():
    return Points()


@pytest.fixture
def surroundings(tmp_path, points):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return load.Surroundings(str(tmp_path / "load"), 6, 42, str(scratch), points)


# --- fio

JOB = "[j]\ndirectory=${JOULERIG_DIRECTORY}\nrandseed=${JOULERIG_SEED}\nruntime=${JOULERIG_SECONDS}\n"
REPORT = {
    "fio version": "fio-3.33",
    "jobs": [{"jobname": "j", "error": 0, "read": NOTHING, "write": NOTHING}],
}


@pytest.fixture
def fio_workload(surroundings, tool):
    """Return a fio workload that uses the tools of the test's PATH."""
    return workload.create({"name": "job", "tool": "fio", "job": JOB}, surroundings)


def fake_fio(tool, *reports, before="", stamps=True, code=0):
    """fio as seen from outside: reads a job file, writes reports, runs the stamps' commands."""
    texts = [one if isinstance(one, str) else json.dumps(one, indent=1) for one in reports or [REPORT]]
    text = before + "\n".join(texts)
    run = 'for way in prerun postrun; do sed -n "s/^exec_$way=//p" "$job" | sh > /dev/null; done'
    return tool(
        "fio",
        f"""for word in "$@"; do job=$word; done
{run if stamps else ""}
cat <<'EOF'
{text}
EOF
echo "$JOULERIG_SECONDS $JOULERIG_SEED $JOULERIG_DIRECTORY" >&2
exit {code}""",
    )


def test_load_gives_fios_report_and_the_times_of_its_io(fio_workload, tool):
    fake_fio(tool)
    before = time.time_ns()
    done = fio_workload.load()
    assert before <= done.start <= done.end <= time.time_ns()
    assert (done.report, done.problem) == (REPORT, "")


def test_jobs_learn_their_surroundings_from_the_environment(fio_workload, tool, tmp_path):
    fake_fio(tool, code=1)
    assert fio_workload.load().problem == f"fio: exit 1: 6 42 {tmp_path}/load"


def test_laying_out_makes_no_load(fio_workload, tool):
    calls = fake_fio(tool, stamps=False)
    fio_workload.lay_out()
    job = calls.read_text().split()[-1]
    with open(job) as file:
        assert file.read() == "[global]\ncreate_only=1\n" + JOB


def test_a_layout_that_fails(fio_workload, tool):
    fake_fio(tool, code=1)
    with pytest.raises(Failed, match=r"^fio: exit 1: 6 42"):
        fio_workload.lay_out()


def test_the_report_so_far_of_a_failed_fio_is_kept(fio_workload, tool):
    fake_fio(tool, code=3)
    done = fio_workload.load()
    assert done.problem.startswith("fio: exit 3: ")
    assert done.report == REPORT


def test_of_a_fio_that_failed_before_its_load_there_is_nothing_to_keep(fio_workload, tool):
    fake_fio(tool, "", code=3, stamps=False)
    with pytest.raises(Failed, match=r"^fio: exit 3: 6 42"):
        fio_workload.load()


@pytest.mark.parametrize(
    "before",
    [
        "fio: this platform does not support something\nnote: both iodepth...\n",
        "j : Saving output of prerun in j.prerun.txt\n",
    ],
)
def test_words_before_the_report_are_passed_over(fio_workload, tool, before):
    fake_fio(tool, before=before)
    assert fio_workload.load().report == REPORT


def test_a_job_that_speaks_in_the_midst_of_the_report_is_passed_over(fio_workload, tool):
    text = json.dumps(REPORT, indent=1).replace("\n", "\nj : Saving output of postrun in j.postrun.txt\n", 1)
    fake_fio(tool, text)
    assert fio_workload.load().report == REPORT


@pytest.mark.parametrize("text", ["", "no braces here", "{\n half of a rep", "{\n not JSON\n}"])
def test_output_that_is_not_a_report(fio_workload, tool, text):
    fake_fio(tool, text)
    with pytest.raises(Failed, match=r"^fio: job: its output is not JSON"):
        fio_workload.load()


def test_a_last_report_that_is_damaged_is_not_replaced_by_an_earlier_one(fio_workload, tool):
    fake_fio(tool, REPORT, "{\n damaged\n}")
    with pytest.raises(Failed, match=r"^fio: job: its output is not JSON"):
        fio_workload.load()


def test_a_job_that_failed_within_a_good_exit(fio_workload, tool):
    jobs = [{**REPORT["jobs"][0], "jobname": name, "error": error} for name, error in (("a", 0), ("b", 28))]
    fake_fio(tool, {"jobs": jobs})
    assert fio_workload.load().problem == "fio: job: job b: No space left on device"


def test_a_report_without_a_job(fio_workload, tool):
    fake_fio(tool, {"jobs": []})
    with pytest.raises(Failed, match="its report has no job"):
        fio_workload.load()


def test_no_time_stamps(fio_workload, tool):
    fake_fio(tool, stamps=False)
    with pytest.raises(Failed, match=r"^fio: job: left no time stamp of its load"):
        fio_workload.load()


def test_no_fio(surroundings, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(Failed, match=r"^fio: not found on this host"):
        workload.create({"name": "job", "tool": "fio", "job": JOB}, surroundings).load()


def so_far(ops, seconds):
    job = {"jobname": "j", "error": 0, "read": NOTHING, "write": {"total_ios": ops, "io_bytes": 4096 * ops}}
    return {"timestamp_ms": 1000 * seconds, "jobs": [job, job]}


def test_what_came_since_the_report_before_is_reported(fio_workload, tool, points):
    fake_fio(tool, so_far(10, 1), so_far(25, 2), so_far(27, 3))
    assert fio_workload.load().report == so_far(27, 3)
    assert points.reported == [
        ({"ops": 2 * ops, "read_bytes": 0, "write_bytes": 2 * ops * 4096}, at * S)
        for ops, at in ((10, 1), (15, 2), (2, 3))
    ]


def test_the_work_of_a_load_is_that_of_all_its_jobs():
    report = json.loads((FIXTURES / "fio-fsync-two-jobs.json").read_text())
    one, two = (job["write"] for job in report["jobs"])
    assert fio.counts(report) == {
        "ops": one["total_ios"] + two["total_ios"],
        "read_bytes": 0,
        "write_bytes": one["io_bytes"] + two["io_bytes"],
    }


def test_real_fio_stamps_its_io_and_reports_every_second(surroundings, points):
    job = "[j]\ndirectory=${JOULERIG_DIRECTORY}\nioengine=psync\nrw=write\nbs=4k\nsize=64k\ntime_based=1\nruntime=2\n"
    loading = workload.create({"name": "job", "tool": "fio", "job": job}, surroundings)
    loading.lay_out()
    assert os.path.getsize(f"{surroundings.directory}/j.0.0") == 65536
    before = time.time_ns()
    done = loading.load()
    assert before < done.start < done.end < time.time_ns()
    assert len(points.reported) >= 2
    assert (
        sum(counts["write_bytes"] for counts, _ in points.reported) == fio.counts(done.report)["write_bytes"]
    )
    assert all(before < at < time.time_ns() for _, at in points.reported)


def blocks_written(surroundings, seed):
    """The offsets that the shipped job writes, in order."""
    job = (ROOT / "workloads" / "fio" / "randwrite-fsync.fio").read_text()
    job += "size=1m\nnumber_ios=40\ntime_based=0\nwrite_iolog=offsets.log\n"
    offsets = Path(surroundings.scratch) / "offsets.log"
    loading = workload.create(
        {"name": "j", "tool": "fio", "job": job}, surroundings._replace(seed=seed, seconds=1)
    )
    loading.lay_out()
    offsets.unlink(missing_ok=True)
    loading.load()
    lines = offsets.read_text().splitlines()
    return [line.split()[-2] for line in lines if " write " in line]


def test_another_seed_writes_other_blocks_and_the_same_one_the_same(surroundings):
    first, again, other = (blocks_written(surroundings, seed) for seed in (1001, 1001, 1002))
    assert len(first) == 40
    assert first == again != other


@pytest.mark.parametrize(
    "path", sorted((ROOT / "workloads" / "fio").glob("*.fio")), ids=lambda path: path.stem
)
def test_every_shipped_job_that_draws_at_random_draws_by_the_seed(path):
    text = path.read_text()
    assert ("rw=rand" not in text) or ("randseed=${JOULERIG_SEED}\nrandrepeat=0\n" in text)


# --- flowop

TIMES = {"begin_realtime_ns": 5 * S, "end_realtime_ns": 11 * S, "ended": "completed", "error": ""}
OUTPUT = 'while [ $# -gt 0 ]; do case "$1" in --output) output=$2 ;; esac; shift; done'


def flowop_workload(tool, surroundings, report=TIMES, end="exit 0"):
    """A workload, and the calls of a flowop that leaves `report` and ends so."""
    text = f"cat > $output <<'EOF'\n{json.dumps(report)}\nEOF\n" if report is not None else ""
    calls = tool("flowop", f"{OUTPUT}\n{text}{end}")
    definition = {
        "name": "varmail", "tool": "flowop", "program": "flowop", "texts": {"varmail.f": "run 60\n"},
        "words": ["run", "varmail.f", "--seconds", "{seconds}", "--seed", "{seed}", "--set", "nfiles=5"],
    }  # fmt: skip
    return workload.create(definition, surroundings), calls


def test_flowop_lays_out_and_loads_what_is_there(tool, surroundings):
    loading, calls = flowop_workload(tool, surroundings)
    loading.lay_out()
    done = loading.load()
    personality = f"{surroundings.scratch}/varmail.f"
    given = f"run {personality} --seconds 6 --seed 42 --set nfiles=5 --directory {surroundings.directory}"
    points = "--points unix:/run/iod.sock --run r1 --host h1 --drive d1"
    assert calls.read_text().splitlines() == [
        f"{given} --layout-only --output {surroundings.scratch}/layout.json",
        f"{given} --keep --output {surroundings.scratch}/load.json {points}",
    ]
    assert Path(personality).read_text() == "run 60\n"
    assert (done.start, done.end, done.problem, done.report) == (5 * S, 11 * S, "", TIMES)


def test_a_layout_of_flowop_that_fails(tool, surroundings):
    loading, _ = flowop_workload(tool, surroundings, end="echo 'varmail.f:1: \"rum\": unknown' >&2; exit 2")
    with pytest.raises(Failed, match=r'^flowop: exit 2: varmail.f:1: "rum": unknown$'):
        loading.lay_out()


def test_the_result_so_far_of_a_failed_flowop_is_kept(tool, surroundings):
    report = {**TIMES, "ended": "failed", "error": "no space"}
    loading, _ = flowop_workload(tool, surroundings, report, end="echo 'write f: no space' >&2; exit 1")
    done = loading.load()
    assert (done.report, done.problem) == (report, "flowop: exit 1: write f: no space")


def test_a_load_that_did_not_complete_is_a_problem_even_with_a_good_exit(tool, surroundings):
    loading, _ = flowop_workload(tool, surroundings, {**TIMES, "ended": "interrupted"})
    assert loading.load().problem == "flowop: varmail: interrupted: it does not say why"


@pytest.mark.parametrize(
    ("report", "end", "expected"),
    [
        (None, "exit 0", "flowop: varmail: left no report: FileNotFoundError"),
        (None, "exit 1", "flowop: exit 1: no output"),
        ({}, "exit 0", "flowop: varmail: left no report: KeyError"),
        ([], "exit 0", "flowop: varmail: left no report: TypeError"),
    ],
)
def test_a_flowop_without_a_report(tool, surroundings, report, end, expected):
    loading, _ = flowop_workload(tool, surroundings, report, end)
    with pytest.raises(Failed) as caught:
        loading.load()
    assert str(caught.value).startswith(expected)


def test_flowop_learns_where_points_go_from_the_run():
    tags = {"campaign": "c1", "run": "r1", "host": "h1", "drive": "d1"}
    recorder = phases.Phases("/run/iod.sock", tags, {"offset_ns": 0, "error_ns": 0})
    assert recorder.words() == [
        "--points", "unix:/run/iod.sock", "--run", "r1", "--host", "h1", "--drive", "d1"
    ]  # fmt: skip


# --- external programs

SCRIPT = """import json, pathlib, sys
words = sys.argv[1:]
given = dict(zip(words[1::2], words[2::2]))
with open(__file__ + ".calls", "a") as calls:
    print(json.dumps(words), file=calls)
if json.loads(given["--settings"])["fails"]:
    sys.exit("postmark: no space")
if words[0] == "load":
    report = {"begin_realtime_ns": 5, "end_realtime_ns": 9, "ended": "completed", "error": "", "ops": 3,
              "read_bytes": None, "write_bytes": 70}
    pathlib.Path(given["--output"]).write_text(json.dumps(report))
"""


def program_workload(tmp_path, surroundings, fails=False):
    script = tmp_path / "postmark.py"
    script.write_text(SCRIPT)
    definition = {"name": "mail", "tool": "program", "program": str(script), "common_code": str(script)}
    definition["settings"] = {"fails": fails}
    return workload.create(definition, surroundings), Path(f"{script}.calls")


def test_a_program_lays_out_and_loads(tmp_path, surroundings, points):
    loading, calls = program_workload(tmp_path, surroundings)
    loading.lay_out()
    done = loading.load()
    given = ["--directory", surroundings.directory, "--seed", "42", "--settings", '{"fails": false}']
    assert [json.loads(line) for line in calls.read_text().splitlines()] == [
        ["layout", *given],
        ["load", *given, "--seconds", "6", "--output", f"{surroundings.scratch}/load.json"],
    ]
    assert (done.start, done.end, done.problem) == (5, 9, "")
    assert points.reported == [({"ops": 3, "read_bytes": None, "write_bytes": 70}, 9)]
    assert not list(tmp_path.glob("**/__pycache__"))


def test_a_program_that_fails_is_named_as_the_workload(tmp_path, surroundings):
    loading, _ = program_workload(tmp_path, surroundings, fails=True)
    with pytest.raises(Failed, match=r"^mail: exit 1: postmark: no space$"):
        loading.load()


# --- how a load ends


def test_a_load_that_is_ended_can_write_its_report_and_its_children_end_with_it(tmp_path):
    script = "trap 'echo so far > report; exit 9' TERM; sleep 61.25 & setsid sleep 61.25 & touch began; wait"
    seen = set()

    def look():
        if (tmp_path / "began").exists():  # setsid becomes the second of them in its own time
            seen.update(pids_of("sleep 61.25"))

    problem = load.attend("load", ["sh", "-c", script], 2, look, cwd=tmp_path)
    assert problem == "load: still running after its time"
    assert (tmp_path / "report").read_text() == "so far\n"
    assert len(seen) == 2
    assert pids_of("sleep 61.25") == []


def test_a_load_that_does_not_end_is_ended():
    assert load.attend("load", ["sleep", "60"], 0) == "load: still running after its time"


@pytest.fixture
def interruptible():
    """SIGINT does what it does in a terminal; who was started in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_ends_the_load_and_what_it_did_is_kept(tmp_path, interruptible):
    (tmp_path / "report").touch()
    interrupt = threading.Event()

    def look():
        if not interrupt.is_set():
            interrupt.set()
            os.kill(os.getpid(), signal.SIGINT)

    script = "trap 'echo so far > report; exit 130' TERM; sleep 60 & wait"
    assert load.attend("load", ["sh", "-c", script], 60, look, cwd=tmp_path) == "load: interrupted"
    assert (tmp_path / "report").read_text() == "so far\n"


IMPORT_LOAD = (
    "import ansible.module_utils\n"
    f"ansible.module_utils.__path__.append({str(ROOT / 'ansible' / 'module_utils')!r})\n"
    "from ansible.module_utils.joulerig.loads import load\n"
)


def test_an_interrupt_while_the_load_starts_is_not_lost(tmp_path):
    """Python ignores errors of functions that it calls after a fork, also a KeyboardInterrupt."""
    code = (
        f"{IMPORT_LOAD}"
        "import os, signal\n"
        "os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGINT))\n"
        "print(load.attend('load', ['sleep', '61.5'], 60))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=50
    )
    assert (done.stdout, done.stderr) == ("load: interrupted\n", "")
    assert pids_of("sleep 61.5") == []


def test_a_load_dies_with_what_attends_it(tmp_path):
    code = f"{IMPORT_LOAD}load.attend('load', ['sh', '-c', 'setsid sleep 61.75 & sleep 61.75'], 60)\n"
    attending = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
    wait_for(lambda: len(pids_of("sleep 61.75")) == 2, 20, "the load has begun")
    attending.kill()
    attending.wait()
    wait_for(lambda: not pids_of("sleep 61.75"), 20, "the load is dead")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 0", ""),
        ("exit 7", "load: exit 7: no output"),
        ("echo why >&2; exit 130", "load: exit 130: why"),
        ("kill -SEGV $$", "load: exit -11: no output"),
        ("kill -KILL $$", "load: exit -9: no output"),
        ("(sleep 0.1; exit 3) & exit 0", ""),
    ],
)
def test_the_way_a_load_ends_is_reported(script, why):
    assert load.attend("load", ["sh", "-c", script], 60) == why


def pids_of(command):
    """The processes that execute `command`, by the numbers that they have here."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        if process.info["cmdline"] == command.split() and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return found


# --- caches


@pytest.fixture
def on_a_drive(tmp_path):
    """A folder with a file of eight pages, written back."""
    if shutil.disk_usage(tmp_path).total == 0 or os.geteuid() != 0:
        pytest.skip("needs root, and a folder whose pages can be written back")
    folder = tmp_path / "load" / "below"
    folder.mkdir(parents=True)
    (folder / "file").write_bytes(b"x" * 8 * pagecache.mmap.PAGESIZE)
    (folder / "empty").touch()
    (folder / "link").symlink_to("/nonexistent")
    with open(folder / "file") as file:
        os.fsync(file.fileno())
    return folder


def test_pages_that_are_cached_are_seen(on_a_drive):
    (on_a_drive / "file").read_bytes()
    assert pagecache.cached(str(on_a_drive / "file")) == (8, 8)
    assert pagecache.cached(str(on_a_drive / "empty")) == (0, 0)


@pytest.fixture
def kernel_says(monkeypatch, tmp_path):
    """The kernel's interface is a file, and mincore says that `still` of eight pages are there."""

    def says(still):
        monkeypatch.setattr(pagecache, "DROP", str(tmp_path / "drop_caches"))
        monkeypatch.setattr(pagecache, "cached", lambda path: (8, still))

    return says


def test_caches_are_dropped_and_seen_to_be(on_a_drive, kernel_says, tmp_path):
    kernel_says(0)
    found = pagecache.drop(str(on_a_drive.parent))
    assert found == {"files": 2, "files_asked": 2, "pages_asked": 16, "pages_cached": 0}
    assert (tmp_path / "drop_caches").read_text() == "3"


def test_caches_that_stay_fail_the_run(on_a_drive, kernel_says):
    kernel_says(1)
    with pytest.raises(Failed, match=r"load: 2 of 16 pages are still cached; 1% may be$"):
        pagecache.drop(str(on_a_drive.parent))


def test_of_many_files_some_are_asked_evenly(on_a_drive, kernel_says, monkeypatch):
    kernel_says(0)
    monkeypatch.setattr(pagecache, "FILES_ASKED", 4)
    for number in range(8):
        (on_a_drive / f"more-{number}").touch()
    assert pagecache.drop(str(on_a_drive))["files_asked"] == 4


def test_a_folder_without_files(tmp_path, kernel_says):
    kernel_says(0)
    (tmp_path / "load").mkdir()
    assert pagecache.drop(str(tmp_path / "load"))["pages_asked"] == 0
