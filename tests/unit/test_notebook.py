# SPDX-License-Identifier: GPL-3.0-or-later
"""`joulerig.open`: a results folder or bundle as polars frames, and the docs' ten lines."""

import contextlib
import gc
import inspect
import io
import json
import re
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import joulerig
from joulerig.analysis import results
from joulerig.analysis.bundle.archive import BundleError
from joulerig.analysis.export import frames
from joulerig.analysis.tables import runs_and_cells
from tests.support import ROOT, simulated_campaign
from tests.support.simulated_campaign import Outcome, always_ok

NOTEBOOK = ROOT / "docs" / "notebook" / "work_per_joule.ipynb"
NOT_NEEDED = ("ansible", "matplotlib", "jinja2", "pydantic", "yaml", "joulerig.rig")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """A folder with results/demo-...: two drives, three file systems, five replicates."""
    folder = tmp_path_factory.mktemp("checkout")
    simulated_campaign.build(
        folder / "results" / "demo-20261113-082640", schedulers=["none"], replicates=5, traces=True
    )
    return folder


@pytest.fixture(scope="module")
def folder(checkout) -> Path:
    return checkout / "results" / "demo-20261113-082640"


@pytest.fixture
def bundle(folder, tmp_path) -> Path:
    return Path(shutil.make_archive(str(tmp_path / "demo"), "zip", folder))


def lines_of(page: str) -> str:
    found = re.findall(r"```python\n(.*?import joulerig\n.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert len(found) == 1
    return found[0]


def notebook_cells() -> list[str]:
    return [
        "".join(c["source"]) for c in json.loads(NOTEBOOK.read_text())["cells"] if c["cell_type"] == "code"
    ]


def run_lines(*cells: str) -> str:
    out, names = io.StringIO(), {"__name__": "__main__"}
    with contextlib.redirect_stdout(out), pl.Config(tbl_width_chars=200):
        for cell in cells:
            exec(compile(cell, "cell", "exec"), names)
    return out.getvalue()


def test_the_readmes_ten_lines_show_work_per_joule(checkout, monkeypatch):
    monkeypatch.chdir(checkout)
    lines = lines_of("README.md")
    shown = run_lines(lines)
    assert len([line for line in lines.splitlines() if line]) == 10
    assert "on a virtual lab" in shown
    assert "ai_ops_per_joule_interval_low" in shown
    assert "letters" in shown
    assert "watts" in shown


def test_the_notebook_runs_from_its_own_folder(checkout, monkeypatch):
    place = checkout / "docs" / "notebook"
    place.mkdir(parents=True)
    monkeypatch.chdir(place)
    assert "ai_ops_per_joule_interval_low" in run_lines(*notebook_cells())


def test_readme_page_notebook_and_docstring_have_the_same_lines():
    lines = lines_of("README.md")
    example = inspect.cleandoc(joulerig.open.__doc__).split("::\n\n")[1]
    assert lines_of("docs/how-to/notebook.md") == lines
    assert "\n".join(notebook_cells()[1:]) + "\n" == lines
    assert textwrap.dedent(example).strip() + "\n" == lines


def test_the_notebook_is_kept_without_outputs():
    code = [one for one in json.loads(NOTEBOOK.read_text())["cells"] if one["cell_type"] == "code"]
    assert all(one["outputs"] == [] and one["execution_count"] is None for one in code)


def test_importing_joulerig_loads_no_library():
    heavy = ("polars", "numpy", "scipy", "httpx", *NOT_NEEDED)
    program = f"import sys, joulerig; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_ten_lines_need_neither_ansible_nor_matplotlib(checkout):
    blocked = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\nsys.modules.update(dict.fromkeys({NOT_NEEDED}))\n"
    )
    subprocess.run([sys.executable, "-c", blocked + lines_of("README.md")], cwd=checkout, check=True)


def test_frames_are_those_of_the_export(folder):
    opened, campaign = joulerig.open(folder), results.load(folder)
    tables = runs_and_cells.frames(campaign)
    assert_frame_equal(opened.runs, tables["runs"])
    assert_frame_equal(opened.cells(), tables["cells"])
    assert_frame_equal(opened.pairs(), tables["pairs"])
    assert_frame_equal(opened.phases(), frames.phases(campaign))
    assert_frame_equal(opened.energy(), frames.energy(campaign))
    assert (opened.id, opened.virtual, opened.unreadable) == (campaign.id, True, [])


def test_the_ranking_has_each_cell_once_best_first_with_its_interval(folder):
    opened = joulerig.open(str(folder))
    ranking = opened.ranking()
    assert sorted(ranking["cell"]) == sorted(opened.cells()["cell"])
    for _, rows in ranking.group_by("drive", "workload"):
        assert rows["place"].to_list() == [1, 2, 3]
        assert rows["ai_ops_per_joule"].is_sorted(descending=True)
        assert (rows["ai_ops_per_joule_interval_low"] < rows["ai_ops_per_joule"]).all()
        assert rows["letters"].null_count() == 0
    assert ranking.filter("winner")["place"].unique().to_list() == [1]


def test_a_ranking_of_single_runs_has_no_letters(tmp_path):
    opened = joulerig.open(simulated_campaign.build(tmp_path / "one", drives=["nvme-plp"]))
    assert opened.ranking()["letters"].null_count() == 9
    assert not opened.ranking()["winner"].any()


def test_a_campaign_without_a_run_that_counts_has_an_empty_ranking(tmp_path):
    made = simulated_campaign.build(tmp_path / "none", outcome=lambda _: Outcome("failed", "fio: exit 1"))
    opened = joulerig.open(made)
    assert opened.ranking().height == 0
    assert opened.cells().height == 18


def test_power_is_of_one_run_by_id_or_ordinal(folder):
    opened = joulerig.open(folder)
    run = opened.runs["run"][2]
    power = opened.power(run)
    assert power["run"].unique().to_list() == [run]
    assert power.schema == pl.Schema(frames.POWER_COLUMNS)
    assert power.height > 1000
    assert_frame_equal(opened.power(3), power)


def test_power_of_a_run_that_kept_no_trace_has_no_rows(tmp_path):
    opened = joulerig.open(simulated_campaign.build(tmp_path / "bare", drives=["nvme-plp"]))
    assert opened.power(1).is_empty()
    assert opened.power(1).columns == list(frames.POWER_COLUMNS)


def test_a_run_that_is_not_there_is_an_error_of_one_line(folder):
    with pytest.raises(joulerig.JoulerigError, match=r"demo-.*: no run 99; .* ordinal from 1 to 30$"):
        joulerig.open(folder).power(99)


def test_an_unreadable_trace_is_named(tmp_path):
    made = simulated_campaign.build(
        tmp_path / "bad", drives=["nvme-plp"], filesystems=["ext4"], schedulers=["none"], traces=True,
        outcome=always_ok,
    )  # fmt: skip
    trace = next(made.glob("runs/*/power.csv"))
    trace.write_text("time_ns\n1\n")
    opened = joulerig.open(made)
    assert opened.runs["peak_watts"].to_list() == [None]
    assert [line.startswith(str(trace)) for line in opened.unreadable] == [True]


def test_a_bundle_gives_the_frames_of_its_folder_and_leaves_nothing_behind(folder, bundle):
    opened = joulerig.open(bundle)
    unpacked = opened.folder
    assert_frame_equal(opened.cells(), joulerig.open(folder).cells())
    assert opened.power(1).height > 1000
    del opened
    gc.collect()
    assert not unpacked.exists()


def test_opening_writes_nothing_to_a_bundle(bundle):
    before = bundle.read_bytes()
    joulerig.open(bundle).ranking()
    assert bundle.read_bytes() == before


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "no such folder or file; results/<campaign-id> or a bundle.zip is meant"),
        (lambda path: path.mkdir(), "no journal.sqlite in it: not the results folder of a campaign"),
        (lambda path: path.write_text("text"), "cannot be read as a zip: File is not a zip file"),
        (
            lambda path: zipfile.ZipFile(path, "w").close(),
            "no journal.sqlite in it: not the results folder of a campaign",
        ),
    ],
    ids=["nothing", "empty folder", "text", "empty zip"],
)
def test_a_path_that_is_not_a_campaign_is_named_in_an_error_of_one_line(tmp_path, monkeypatch, make, message):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    path = tmp_path / "demo.zip"
    make(path)
    with pytest.raises(joulerig.JoulerigError) as raised:
        joulerig.open(path)
    assert str(raised.value) == f"{path}: {message}"
    assert list(temporary.iterdir()) == []


def test_a_damaged_bundle_is_refused(bundle):
    content = bytearray(bundle.read_bytes())
    with zipfile.ZipFile(bundle) as archive:
        member = max(archive.infolist(), key=lambda one: one.compress_size)
    middle = member.header_offset + 100 + member.compress_size // 2
    content[middle : middle + 16] = bytes(16)
    bundle.write_bytes(content)
    with pytest.raises(BundleError, match=f"1 damaged file in it, first {member.filename}: "):
        joulerig.open(bundle)
