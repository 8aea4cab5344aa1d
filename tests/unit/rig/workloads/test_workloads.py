# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads by name: shipped ones, a lab's own, what goes to a host, what is refused."""

import json
from pathlib import Path

import pytest
import yaml

from ansible.module_utils.joulerig.loads import workload
from joulerig.rig import workloads
from joulerig.rig.campaign import opening
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import programs
from joulerig.rig.workloads import engines, place, synthetic_trace

HEAD = "# Reads.\n[global]\ndirectory=${JOULERIG_DIRECTORY}\nbs=4k\n"
JOB = HEAD + "[a]\nrw=read\n[b]\nrw=write\n"


@pytest.fixture
def flowop(tmp_path, monkeypatch):
    """Path of build/flowop, which finds nothing wrong with a trace."""
    path = tmp_path / "flowop"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    monkeypatch.setattr(place, "flowop", lambda: path)
    return path


@pytest.fixture
def own(lab_files):
    """own(ENTRIES) puts a workloads.yml next to the inventory; gives the workloads of that lab."""
    (lab_files.folder / "my.fio").write_text(JOB)
    (lab_files.folder / "my.f").write_text("# Mine.\nrun 60\n")
    (lab_files.folder / "my.trace").write_text("0 1 write a 0 4096\n")
    (lab_files.folder / "load.py").touch()
    described = lab_files.load()

    def write(entries):
        text = entries if isinstance(entries, str) else yaml.safe_dump(entries)
        (lab_files.folder / "workloads.yml").write_text(text)
        return workloads.load(described)

    return write


def test_shipped_workloads_keep_their_names():
    known = workloads.shipped()
    assert {name for name, one in known.items() if one.engine == "fio"} == {
        "pauses", "pauses-30s", "randread", "randread-one", "randread-32", "randread-32-uring", "randread-one-polled",
        "randwrite-fsync", "randwrite-fsync-paced", "seqwrite", "seqwrite-fsync", "seqwrite-fsync-16",
    }  # fmt: skip
    assert {"varmail", "fileserver", "webserver", "webproxy"} <= set(known)
    assert known["overwrite-fdatasync"].call == "fdatasync"
    assert all(one.about() for one in known.values())


def test_a_lab_without_its_own_file_has_the_shipped_ones(bench):
    assert workloads.load(bench) == workloads.shipped()


@pytest.mark.parametrize(
    ("entry", "words", "texts"),
    [
        (
            {
                "engine": "flowop",
                "personality": "my.f",
                "set": {"nfiles": 50, "dir": "x", "cached": True},
                "rate": 100,
            },
            "run my.f --seconds {seconds} --seed {seed} --set cached=true --set dir=x --set nfiles=50 --rate 100",
            {"my.f": "# Mine.\nrun 60\n"},
        ),
        (
            {"engine": "sync", "pace_seconds": 0.0001, "direct": True, "threads": 2, "block_bytes": 8192},
            "sync --seconds {seconds} --seed {seed} --mode overwrite --call fsync --block 8192 --pace-seconds 0.0001"
            " --threads 2 --direct",
            {},
        ),
        (
            {"engine": "sync", "mode": "append", "call": "none", "rate": 12.5, "file_bytes": 1048576},
            "sync --seconds {seconds} --seed {seed} --mode append --call none --file-bytes 1048576 --rate 12.5",
            {},
        ),
    ],
)
def test_what_flowop_gets(own, flowop, entry, words, texts):
    mine = own({"mine": entry})["mine"]
    assert mine.delivered(place.on_host) == {
        "tool": "flowop", "program": "/usr/local/sbin/flowop", "words": words.split(), "texts": texts
    }  # fmt: skip
    assert mine.files() == [flowop]


@pytest.mark.parametrize(
    ("pace", "words"), [({}, []), ({"timed": True}, ["--timed"]), ({"speed": 2}, ["--speed", "2"])]
)
def test_a_trace_is_copied_and_one_of_other_content_is_another_file(own, flowop, lab_files, pace, words):
    mine = own({"mine": {"engine": "replay", "trace": "my.trace", **pace}})["mine"]
    reported = mine.delivered(place.on_host)["words"]
    assert reported[0] == "replay"
    assert reported[1].startswith("/usr/local/share/joulerig/files/")
    assert reported[2:] == words
    assert mine.files() == [flowop, lab_files.folder / "my.trace"]
    (lab_files.folder / "my.trace").write_text("0 1 write a 0 8192\n")
    assert mine.delivered(place.on_host)["words"][1] != reported[1]


def test_a_synthetic_trace_is_drawn_once_and_again_the_same(own, tmp_path, monkeypatch):
    """The real flowop: fsyncs after half of the writes, and the same options each time."""
    monkeypatch.setattr(paths, "cache", lambda: tmp_path / "cache")
    synthetic_trace.made.cache_clear()
    entry = {"engine": "replay", "synthetic": {"ops": 1000, "sync_share": 0.5, "files": 20}}
    mine = own({"mine": entry})["mine"]
    _, trace = mine.files()
    calls = [line.split()[2] for line in trace.read_text().splitlines() if line[0].isdigit()]
    assert calls.count("fsync") == 250
    first = mine.delivered(place.on_host)["words"]
    synthetic_trace.made.cache_clear()
    assert mine.delivered(place.on_host)["words"] == first
    assert first[1].startswith("/usr/local/share/joulerig/files/")
    other = own({"mine": {**entry, "synthetic": {**entry["synthetic"], "seed": 2}}})["mine"]
    assert other.delivered(place.on_host)["words"][1] != first[1]


def test_what_flowop_refuses_of_a_synthetic_trace_is_reported(own):
    shares = {"write_share": 0.8, "unlink_share": 0.3}
    mine = own({"mine": {"engine": "replay", "synthetic": shares}})["mine"]
    with pytest.raises(UserError, match=r"--write-share, --unlink-share: 0\.8, 0\.3"):
        mine.files()


def test_options_of_a_job_are_put_where_they_override(own):
    mine = own({"mine": {"engine": "fio", "job": "my.fio", "options": {"bs": "8k", "direct": True}}})["mine"]
    assert mine.delivered(place.on_host) == {
        "tool": "fio",
        "job": HEAD + "[a]\nrw=read\nbs=8k\ndirect=1\n[b]\nrw=write\nbs=8k\ndirect=1\n",
    }
    assert mine.files() == []


def test_a_job_without_options_is_unchanged(own):
    assert own({"mine": {"engine": "fio", "job": "my.fio"}})["mine"].delivered(place.on_host)["job"] == JOB
    shipped = own({"mine": {"engine": "fio", "job": "seqwrite"}})["mine"]
    assert shipped.delivered(place.on_host)["job"] == (paths.ROOT / "workloads/fio/seqwrite.fio").read_text()


def test_a_program_with_its_settings_files_and_packages(own, lab_files):
    mine = own(
        {
            "mail": {
                "engine": "program", "program": "postmark", "settings": {"files": 10},
                "setting_files": {"source": "my.trace"}, "packages": ["postmark"],
            }
        }
    )["mail"]  # fmt: skip
    reported = mine.delivered(place.on_host)
    assert reported["program"] == "/usr/local/share/joulerig/programs/postmark/postmark.py"
    assert reported["settings"]["files"] == 10
    assert reported["settings"]["source"].endswith("-my.trace")
    shipped = [programs.SHIPPED / name for name in ("postmark/postmark.py", "program.py")]
    assert mine.files() == [*shipped, lab_files.folder / "my.trace"]
    assert mine.needed_packages() == ["postmark"]
    assert mine.delivered(place.here)["settings"]["source"] == str(lab_files.folder / "my.trace")


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ({"mine": {"engine": "fi"}}, "mine.engine: 'fi' is unknown; nearest is 'fio'; allowed: fio, flowop, sync"),
        ({"mine": {"engine": ["fio"]}}, "mine.engine: ['fio'] is unknown"),
        ({"mine": {"job": "seqwrite"}}, "mine.engine: required; allowed: fio, flowop, sync, replay, program"),
        ({"mine": None}, "mine.engine: required"),
        ({"mine": {"engine": "fio"}}, "mine.job: Field required"),
        ({"mine": {"engine": "fio", "job": "seqwrit"}}, "mine: 'seqwrit' is unknown; nearest is 'seqwrite'; allowed: pauses, randread"),
        ({"mine": {"engine": "fio", "job": "no.fio"}}, "mine: 'no.fio': no such file; allowed: a file, relative to"),
        ({"mine": {"engine": "fio", "job": "my.fio", "options": {"a b": 1}}}, "mine.options: 'a b' is no key of a job here; allowed: "),
        ({"mine": {"engine": "fio", "job": "my.fio", "options": {"bs": "4k\n[c]"}}}, "mine.options.bs: '4k\\n[c]'; allowed: letters, digits"),
        ({"mine": {"engine": "fio", "job": "my.fio", "options": {"filename": "/dev/sda"}}}, "mine.options.filename: '/dev/sda'; allowed: one name"),
        ({"mine": {"engine": "fio", "job": "randread", "options": {"directory": "/"}}}, "mine.options.directory: '/'; allowed: ${JOULERIG_DIRECTORY}"),
        ({"mine": {"engine": "fio", "job": "randread", "options": {"ioengine": "sg"}}}, "mine.options.ioengine: 'sg'; allowed: falloc, "),
        ({"mine": {"engine": "fio", "job": "randread", "options": {"exec_prerun": "reboot"}}}, "mine.options: 'exec_prerun' is no key of a job here"),
        ({"mine": {"engine": "fio", "job": "../my.fio"}}, "mine: '../my.fio': leaves its folder; allowed: a file, relative to"),
        ({"mine": {"engine": "fio", "job": "/etc/my.fio"}}, "mine: '/etc/my.fio': leaves its folder"),
        ({"mine": {"engine": "flowop", "personality": "../my.f"}}, "mine: '../my.f': leaves its folder"),
        ({"mine": {"engine": "replay", "trace": "/dev/sda"}}, "mine: '/dev/sda': leaves its folder"),
        ({"mine": {"engine": "replay", "trace": "a/../../my.trace"}}, "mine: 'a/../../my.trace': leaves its folder"),
        ({"mine": {"engine": "program", "program": "../load.py"}}, "mine: '../load.py': leaves its folder"),
        ({"mine": {"engine": "program", "program": "load.py", "setting_files": {"a": "/etc/shadow"}}}, "mine: '/etc/shadow': leaves its folder"),
        ({"mine": {"engine": "program", "program": "load.py", "settings": {"to": "/dev/sda"}}}, "mine: settings.to: '/dev/sda'; allowed: no absolute path, no '..'; setting_files"),
        ({"mine": {"engine": "program", "program": "load.py", "settings": {"to": ["x", "../y"]}}}, "mine: settings.to.1: '../y'; allowed: no absolute path"),
        ({"mine": {"engine": "program", "program": "load.py", "settings": {"in": {"to": "/"}}}}, "mine: settings.in.to: '/'; allowed: no absolute path"),
        ({"mine": {"engine": "flowop", "personality": "varmai"}}, "nearest is 'varmail'; allowed: fileserver"),
        ({"mine": {"engine": "flowop", "personality": "my.f", "rate": 0}}, "mine.rate: 0; allowed: greater than 0"),
        ({"mine": {"engine": "sync", "call": "sync"}}, "mine.call: 'sync'; allowed: 'fsync', 'fdatasync' or 'none'"),
        ({"mine": {"engine": "sync", "pace_seconds": 1, "rate": 1}}, "mine: pace_seconds and rate; allowed: one of them"),
        ({"mine": {"engine": "sync", "threat": 2}}, "mine: unknown key 'threat'; allowed: block_bytes, call"),
        ({"mine": {"engine": "replay", "trace": "my.trace", "timed": True, "speed": 2}}, "mine: timed and speed"),
        ({"mine": {"engine": "replay"}}, "mine: neither of trace and synthetic; allowed: one of them"),
        ({"mine": {"engine": "replay", "trace": "my.trace", "synthetic": {"ops": 5}}}, "mine: both of trace and synthetic"),
        ({"mine": {"engine": "replay", "synthetic": {"sync_share": 2}}}, "mine.synthetic.sync_share"),
        ({"mine": {"engine": "replay", "synthetic": {"file_bytes": "many"}}}, "mine.synthetic.file_bytes"),
        ({"mine": {"engine": "replay", "trace": "none.trace"}}, "mine: 'none.trace': no such file"),
        ({"mine": {"engine": "program", "program": "postmar"}}, "mine: 'postmar' is unknown; nearest is 'postmark'"),
        ({"mine": {"engine": "program", "program": "program"}}, "mine: 'program' is unknown"),
        ({"mine": {"engine": "program", "program": "load.py", "packages": ["rm -rf"]}}, "mine.packages.0: 'rm -rf'"),
        ({"mine": {"engine": "program", "program": "load.py", "setting_files": {"a": "no"}}}, "mine: 'no': no such file"),
        ({"two words": {"engine": "sync"}}, "name: 'two words': String should match"),
        ({"seqwrite": {"engine": "sync"}}, "seqwrite: is a shipped workload; give another name"),
        (["mine"], "a list; allowed: a mapping of names to workloads"),
        ("mine: {", "while parsing"),
    ],
)  # fmt: skip
def test_a_definition_that_cannot_be(own, entries, expected):
    with pytest.raises(UserError) as caught:
        own(entries)
    message = str(caught.value)
    assert "\n" not in message
    assert "workloads.yml: " in message
    assert expected in message


def test_a_lab_with_a_job_that_reaches_beyond_the_directory_is_refused_with_the_jobs_line(own, lab_files):
    (lab_files.folder / "my.fio").write_text("[a]\nrw=write\nfilename=/dev/sda\n")
    with pytest.raises(UserError, match=r"my\.fio:3: filename: '/dev/sda'; allowed: one name"):
        own({"mine": {"engine": "fio", "job": "my.fio"}})


def test_a_job_that_was_changed_since_does_not_go_to_a_host(own, lab_files):
    mine = own({"mine": {"engine": "fio", "job": "my.fio"}})["mine"]
    (lab_files.folder / "my.fio").write_text("[/dev/sda]\nrw=write\n")
    with pytest.raises(UserError, match=r"my\.fio:1: '\[/dev/sda\]' is no name of a job here"):
        mine.delivered(place.on_host)


def test_a_trace_whose_paths_leave_the_directory_does_not_go_to_a_host(own, lab_files):
    """The real flowop."""
    (lab_files.folder / "my.trace").write_text("0 1 write a 0 4096\n1 1 write /dev/sda 0 4096\n")
    mine = own({"mine": {"engine": "replay", "trace": "my.trace"}})["mine"]
    with pytest.raises(UserError, match=r'my\.trace:2: path "/dev/sda": expected a path below the directory'):
        mine.files()
    (lab_files.folder / "my.trace").write_text("0 1 write a 0 4096\n1 1 write b 0 4096\n")
    assert mine.files()[1] == lab_files.folder / "my.trace"


def test_a_program_of_the_labs_own_cannot_take_a_shipped_ones_place(own, lab_files):
    (lab_files.folder / "postmark.py").touch()
    with pytest.raises(UserError, match=r"'postmark\.py' is the name of a shipped program"):
        own({"mine": {"engine": "program", "program": "postmark.py"}})


# --- what hosts need


def test_hosts_get_what_a_campaigns_workloads_need_and_nothing_else(own, flowop, bench):
    own({"mail": {"engine": "program", "program": "postmark", "packages": ["postmark"]}})
    assert workloads.deployment(["seqwrite"], bench) == {"campaign_programs": [], "campaign_packages": []}
    needed = workloads.deployment(["seqwrite", "varmail", "overwrite-fsync", "mail"], bench)
    assert needed["campaign_packages"] == ["postmark"]
    assert needed["campaign_programs"] == [
        {"src": str(flowop), "dest": "/usr/local/sbin/flowop", "mode": "0755"},
        *(
            {
                "src": str(programs.SHIPPED / name),
                "dest": f"/usr/local/share/joulerig/programs/{name}",
                "mode": "0644",
            }
            for name in ("postmark/postmark.py", "program.py")
        ),
    ]


def test_what_is_not_built_is_reported_before_anything_begins(monkeypatch, tmp_path, bench):
    monkeypatch.setattr(place, "flowop", lambda: tmp_path / "flowop")
    with pytest.raises(UserError, match=r"flowop: not built; 'make build' builds it"):
        workloads.deployment(["varmail"], bench)


def test_a_run_gets_its_workload_as_delivered(state, bench, mapping, monkeypatch):
    monkeypatch.setattr(opening.services, "check", lambda lab: None)
    monkeypatch.setattr(opening.services, "deployment", lambda lab, host: {"rig_clock_server": "192.0.2.1:1"})
    monkeypatch.setattr(opening.provenance, "controller", lambda lab: {})
    mapping["factors"]["workload"] = ["overwrite-fsync"]
    journal: Journal = opening.open_campaign(mapping, bench, "playbooks/study.yml")
    request = opening.OpenCampaign.load(journal, bench).request(journal.runs()[0])
    given = request.arguments()["workload"]
    journal.close()
    assert (given["name"], given["tool"], given["words"][0]) == ("overwrite-fsync", "flowop", "sync")
    json.dumps(given)


def test_shipped_files_are_where_the_definitions_say(monkeypatch):
    # It takes a minute to make: tests/integration/workloads/test_kernel_source.py does.
    monkeypatch.setattr(engines.kernel_source, "archive", lambda choice: Path(__file__))
    for one in workloads.shipped().values():
        for path in one.files() if one.tool == "program" else []:
            assert Path(path).is_file()


@pytest.mark.parametrize(
    ("job", "polled"),
    [
        ("[a]\nhipri\n", True),
        ("[a]\nhipri=1\nbs=4k\n", True),
        ("[a]\n hipri = true\n", True),
        ("[a]\nhipri=0\n", False),
        ("[a]\nhipri_percentage=50\n", False),
        ("[a]\nbs=4k\n# hipri\n", False),
    ],
)
def test_polled_io_is_found_in_a_job(job, polled):
    assert workload.polls({"tool": "fio", "job": job}) == polled
    assert not workload.polls({"tool": "flowop", "words": ["hipri"]})
