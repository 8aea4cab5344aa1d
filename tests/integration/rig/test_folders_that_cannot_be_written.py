# SPDX-License-Identifier: GPL-3.0-or-later
"""Results on a file system that is read-only or full: what only reads works, the rest is a line."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import joulerig
from tests.support import verifiable_campaign

ID = "demo-20261113-082640"
RIG = Path(sys.executable).with_name("rig")
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
LEAVE_A_LOG = """
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute("PRAGMA journal_mode = WAL")
database.execute("UPDATE campaign SET question = 'Is the log read?'")
database.commit()
os._exit(0)  # as an executor that was killed
"""


@pytest.fixture(params=["full", pytest.param("read-only", marks=pytest.mark.long)])
def results(request, tmp_path):
    """A results folder on a file system that takes nothing, its journal with a write-ahead log."""
    place = tmp_path / "mnt"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", place], check=True)
    try:
        verifiable_campaign.build(place / ID, filesystems=("ext4",))
        journal = place / ID / "journal.sqlite"
        subprocess.run([sys.executable, "-c", LEAVE_A_LOG, journal], check=True)
        assert Path(f"{journal}-wal").stat().st_size
        Path(f"{journal}-shm").unlink()
        if request.param == "read-only":
            subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        else:
            subprocess.run(["dd", "if=/dev/zero", f"of={place / 'all'}", "bs=4k"], capture_output=True)
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def rig(results, tmp_path, *words):
    places = {"JOULERIG_RESULTS": str(results), "JOULERIG_VAR": str(tmp_path / "var")}
    return subprocess.run([RIG, *words], env={**os.environ, **places}, capture_output=True, text=True)


@pytest.mark.parametrize(
    "words", [("results",), ("results", ID), ("verify", ID), ("compare", ID, ID)], ids=" ".join
)
def test_what_only_reads_works(results, tmp_path, words):
    done = rig(results, tmp_path, *words)
    assert "Traceback" not in done.stderr
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_the_log_is_read_too_and_a_bundle_goes_elsewhere(results, tmp_path):
    assert joulerig.open(results / ID).question == "Is the log read?"
    assert rig(results, tmp_path, "export", "--bundle", str(tmp_path / "b.zip")).returncode == 0


@pytest.mark.parametrize("words", [("report",), ("export",)], ids=" ".join)
def test_what_writes_there_is_a_line(results, tmp_path, words):
    done = rig(results, tmp_path, *words)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.startswith(f"rig: {results / ID}")
    assert line.endswith(("Read-only file system", "No space left on device"))


def test_looking_for_the_newest_campaign_changes_no_journal(tmp_path):
    folder = verifiable_campaign.build(tmp_path / ID, filesystems=("ext4",))
    with sqlite3.connect(folder / "journal.sqlite") as database:
        database.execute("PRAGMA user_version = 8")
    before = (folder / "journal.sqlite").read_bytes()
    assert rig(tmp_path, tmp_path, "results").returncode == 0
    assert (folder / "journal.sqlite").read_bytes() == before
