# SPDX-License-Identifier: GPL-3.0-or-later
"""Postmark by its real program."""

from __future__ import annotations

import os

import pytest

from tests.support.program_script import SCRIPTS, Script
from tests.support.programs import installed

SMALL = {"files": 20, "transactions": 40, "most_bytes": 2000}


@pytest.fixture(autouse=True)
def postmark():
    return installed("postmark", "postmark")


@pytest.fixture
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    monkeypatch.syspath_prepend(str(SCRIPTS / "postmark"))
    import postmark

    return postmark


def test_a_load_is_whole_passes_and_leaves_no_file(tmp_path):
    script = Script("postmark", tmp_path / "load", **SMALL)
    script.lay_out()
    report = script.load(0.5)
    lengths = report["details"]["transaction_seconds"]
    assert report["ended"] == "completed"
    assert (report["unit"], report["ops"]) == ("transaction", 40 * len(lengths))
    assert report["figure"] == {
        "name": "transactions",
        "unit": "1/s",
        "value": pytest.approx(report["ops"] / sum(lengths)),
        "better": "higher",
    }
    assert report["read_bytes"] > 0 < report["write_bytes"]
    assert report["details"]["postmark"].startswith("PostMark v1.5")
    assert (
        0.5
        <= report["seconds"]
        == pytest.approx((report["end_realtime_ns"] - report["begin_realtime_ns"]) / 1e9, abs=0.1)
    )
    assert [path for path in script.folder.rglob("*") if path.is_file()] == []


def test_a_seed_gives_the_same_work_again_and_another_other_work(tmp_path):
    moved = []
    for seed in (5, 5, 6):
        report = Script("postmark", tmp_path / "load", **SMALL).load(0, seed=seed)
        moved.append((report["ops"], report["read_bytes"], report["write_bytes"]))
    assert moved[0] == moved[1] != moved[2]


def test_every_setting_is_reported(scripts):
    settings = {**scripts.DEFAULTS, "subdirectories": 7, "buffered": False}
    assert scripts.commands(settings, 9).splitlines() == [
        "set location .",
        "set number 500",
        "set transactions 500",
        "set size 500 9770",
        "set subdirectories 7",
        "set read 512",
        "set write 512",
        "set buffering false",
        "set bias read 5",
        "set bias create 5",
        "set seed 9",
        "set report verbose",
        "run",
        "quit",
    ]


def test_bytes_are_read_with_their_unit(scripts):
    said = (
        "Data:\n"
        "\t1.50 megabytes read (1.50 megabytes per second)\n"
        "\t12.25 kilobytes written (1.0 kilobytes per second)\n"
    )
    assert scripts.moved(said) == (3 << 19, 12544)


@pytest.mark.parametrize("verb", ["layout", "load"])
def test_sizes_the_wrong_way_round_are_refused(tmp_path, verb):
    done = Script("postmark", tmp_path / "load", **{**SMALL, "least_bytes": 3000}).run(verb, 1)
    assert done.returncode == 1
    assert done.stderr == "postmark: --settings: least_bytes: 3000; allowed: at most most_bytes (2000)\n"


@pytest.mark.parametrize(
    ("says", "complaint"),
    [
        ("echo 'pm>Error: cannot open file'; exec sleep 60", "postmark: Error: cannot open file"),
        ("echo 'pm>out of memory'; exit 3", "postmark: exit 3: out of memory"),
        ("echo 'Performing transactions..Done'", "postmark: its report has no bytes read: "),
    ],
)
def test_what_postmark_complains_of_is_the_error(tmp_path, monkeypatch, says, complaint):
    fake = tmp_path / "bin" / "postmark"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\ncat > commands\n{says}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    script = Script("postmark", tmp_path / "load", **SMALL)
    done = script.run("load", 1)
    assert done.returncode == 1
    assert done.stderr.startswith(f"postmark: {complaint}")
    assert done.stderr.count("\n") == 1
    assert script.report()["ended"] == "failed"
