# SPDX-License-Identifier: GPL-3.0-or-later
"""Bundles of strangers: every reader takes each, or refuses it in a line."""

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from joulerig import notebook, sqlite
from joulerig.analysis import export, merge
from joulerig.analysis.bundle import archive, environment, reports, verify, writer
from joulerig.analysis.registry import entries
from joulerig.errors import JoulerigError
from joulerig.rig.common import paths
from tests.support import hostile_bundles, verifiable_campaign

HERE = environment.here("0123456789ab")


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Path:
    """A bundle, unpacked, next to the campaign that it is of."""
    folder = tmp_path_factory.mktemp("good")
    writer.write(verifiable_campaign.build(folder / "c", filesystems=("ext4",)), folder / "b.zip", HERE)
    (folder / "good").mkdir()
    archive.extract(folder / "b.zip", folder / "good")
    return folder / "good"


def opened(path: Path, _: Path) -> None:
    found = notebook.open_results(path)
    for frame in (found.runs, found.cells(), found.ranking(), found.pairs(), found.phases(), found.energy()):
        assert frame is not None
    for run in found.campaign.runs:
        found.power(run.id)
    assert repr(found)


def exported(path: Path, place: Path) -> None:
    found = notebook.open_results(path)  # its folder goes with it
    export.write(found.campaign, place / "out", ("csv",))


def reported(path: Path, _: Path) -> None:
    found = notebook.open_results(path)
    assert reports.html(found.campaign)


def merged(path: Path, place: Path) -> None:
    found = notebook.open_results(path)
    merge.merge([found.folder, place / "c"], place / "merged")


def verified(path: Path, _: Path) -> None:
    for one in verify.verify(path, HERE):
        if one.name == "tables":  # the report is `reported`'s
            return


def listed(path: Path, place: Path) -> None:
    (place / "bundles").mkdir()
    shutil.copy(path, place / "bundles")

    def zip_only(bundle: Path):
        yield next(iter(verify.verify(bundle, HERE)))

    found, refused = entries.gather(place / "bundles", HERE, zip_only)
    assert len(found) + len(refused) == 1
    assert all("\n" not in reason for one in refused for reason in one.reasons)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    "readers",
    [
        pytest.param((opened,), id="opened"),
        pytest.param((verified, listed), id="verified", marks=pytest.mark.long),
        pytest.param((opened, exported, reported, merged), id="written", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("name", hostile_bundles.TABLE)
def test_each_is_read_or_refused_in_a_line(good, tmp_path, name, readers):
    shutil.copytree(good, tmp_path / "work")
    shutil.copytree(good.parent / "c", tmp_path / "c")
    path = tmp_path / "hostile.zip"
    hostile_bundles.TABLE[name](tmp_path / "work", path)
    before, said = sorted(tmp_path.parent.iterdir()), []
    for read in readers:
        try:
            read(path, tmp_path)
        except JoulerigError as error:
            said.append(str(error))
            if read is opened:
                break  # as the others would be
    assert not [one for one in said if "\n" in one or len(one) > 2000]
    assert sorted(tmp_path.parent.iterdir()) == before  # nothing was written elsewhere
    assert not Path("/etc/joulerig-absolute").exists()


HARMLESS = (
    "a byte before it", "a month of 15", "needs version 99", "larger than declared",
    "a folder that is a file",
)  # fmt: skip
MUST_REFUSE = (
    *(name for name in hostile_bundles.ZIPS if name not in HARMLESS),
    "a generated column for a declared one", "a view for a table", "a trigger", "a virtual table",
    "an index on an expression", "another table", "statistics", "an empty journal",
    "a run's id is '../../x'", "a name of 4 kB", "definition is deep",
)  # fmt: skip


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", MUST_REFUSE)
def test_these_are_opened_by_no_reader(good, tmp_path, name):
    shutil.copytree(good, tmp_path / "work")
    hostile_bundles.TABLE[name](tmp_path / "work", tmp_path / "hostile.zip")
    with pytest.raises(JoulerigError):
        notebook.open_results(tmp_path / "hostile.zip")


def test_a_small_bundle_takes_little_memory(good, tmp_path):
    """A column of 200 MB, that SQLite computes when it is read, took 232 MB and more."""
    shutil.copytree(good, tmp_path / "work")
    hostile_bundles.TABLE["a generated column for a declared one"](tmp_path / "work", tmp_path / "b.zip")
    script = (
        "import resource, sys\n"
        "from joulerig import notebook\n"
        "from joulerig.errors import JoulerigError\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n    notebook.open_results(sys.argv[1])\n"
        "except JoulerigError as error:\n    print(error)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "b.zip"], capture_output=True, text=True, check=True
    )
    said, grown = done.stdout.splitlines()
    assert "campaign.question is a generated column" in said
    assert int(grown) < 30_000  # KiB


def test_a_statement_ends(monkeypatch):
    monkeypatch.setattr(sqlite, "MOST_SECONDS", 0.05)
    database = sqlite.connect(":memory:")
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    with pytest.raises(sqlite3.DatabaseError, match="interrupted"):
        database.execute(endless)
    assert database.execute("SELECT 1").fetchone() == (1,)  # each has its own time


def test_a_pipe_in_a_folder_is_not_waited_for(good, tmp_path):
    folder = Path(shutil.copytree(good, tmp_path / "work"))
    [run, *_] = (folder / "runs").iterdir()
    (run / "load.json").unlink()
    os.mkfifo(run / "load.json")
    with pytest.raises(JoulerigError, match="neither a file nor a folder"):
        list(verify.verify(folder, HERE))
    with pytest.raises(JoulerigError, match="is not a file"):
        _ = notebook.open_results(folder).campaign.runs[0].load


def test_a_journal_without_runs_verifies_nothing(good, tmp_path):
    folder = Path(shutil.copytree(good, tmp_path / "work"))
    path = tmp_path / "bundles" / "empty.zip"
    path.parent.mkdir()
    hostile_bundles.TABLE["no runs"](folder, path)
    checks = {one.name: one for one in verify.verify(path, HERE)}
    assert verify.failed([checks["recomputation"]])
    shutil.rmtree(folder / "runs")
    for name in ("manifest-sha256.txt", "ro-crate-metadata.json"):
        (folder / name).unlink()
    shutil.rmtree(folder / "export")
    shutil.rmtree(folder / "report")
    path.unlink()
    hostile_bundles.pack(folder, path)
    found, [refused] = entries.gather(path.parent, HERE)
    assert not found
    assert refused.reasons == ("recomputation: nothing was recomputed: no number follows from a run's file",)


def test_one_function_opens_every_database():
    """A gate: what is opened otherwise has no bounds."""
    tops = ("rig", "analysis", "virtuallab", "collectors", "joulerig", "ansible")
    files = [path for top in tops for path in (paths.ROOT / top).rglob("*.py")]
    found = [str(path.relative_to(paths.ROOT)) for path in files if "sqlite3.connect(" in path.read_text()]
    assert [name for name in found if not name.startswith("joulerig/")] == []
    assert "sqlite3.connect(" in (paths.ROOT / "joulerig" / "sqlite.py").read_text()
