# SPDX-License-Identifier: GPL-3.0-or-later
"""What was written is there after the power failed: content, then name, then the folder's own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from joulerig import atomic
from joulerig.analysis import export
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common import cache, files
from joulerig.rig.powercut.witness import WitnessLog
from tests.support.disk_calls import DiskCalls


@pytest.fixture
def disk(tmp_path, monkeypatch) -> DiskCalls:
    return DiskCalls(tmp_path, monkeypatch)


def named(seen: list[str]) -> list[str]:
    """Return the calls, the random end of a temporary file's name cut off."""
    return [re.sub(r"(/|^|\s)(\.[\w.-]+)\.\w{8}$", r"\1\2", one) for one in seen]


def test_a_files_content_is_on_disk_before_its_name_and_its_name_at_the_end(tmp_path, disk):
    files.replace(tmp_path / "result.json", "{}")
    assert named(disk.seen) == ["sync .result.json", "rename result.json", "sync ."]


def test_the_folders_that_a_file_needed_are_on_disk_too(tmp_path, disk):
    (tmp_path / "results").mkdir()
    files.replace(tmp_path / "results" / "runs" / "a-0001" / "result.json", "{}")
    made = [one for one in disk.seen if "result.json" not in one]
    assert made == ["sync results/runs", "sync results", "sync results/runs/a-0001"]


def test_a_folder_that_is_there_costs_nothing(tmp_path, disk):
    assert atomic.make_folder(tmp_path) == tmp_path
    assert disk.seen == []


def test_the_permissions_are_on_disk_with_the_content(tmp_path, monkeypatch):
    modes = []
    monkeypatch.setattr(
        "os.fsync", lambda fd: modes.append(Path(f"/proc/self/fd/{fd}").stat().st_mode & 0o777)
    )
    files.replace(tmp_path / "secret", "x", 0o640)
    assert modes[0] == 0o640


def test_a_folder_is_moved_with_all_that_is_in_it_on_disk(tmp_path, disk):
    made = tmp_path / "work" / "done"
    (made / "lib").mkdir(parents=True)
    (made / "lib" / "a.ko").write_text("module")
    (made / "vmlinuz").write_text("kernel")
    (made / "link").symlink_to("nowhere")
    atomic.move(made, tmp_path / "kernel")
    *before, rename, after = disk.seen
    assert set(before) == {f"sync work/done{name}" for name in ("", "/lib", "/lib/a.ko", "/vmlinuz")}
    assert (rename, after) == ("rename kernel", "sync .")
    assert (tmp_path / "kernel" / "lib" / "a.ko").read_text() == "module"


def test_what_the_cache_holds_is_on_disk(tmp_path, disk):
    def make(work: Path, done: Path) -> None:
        done.mkdir()
        (done / "image").write_text("of a guest")

    target = tmp_path / "images"
    cache.build_once(target, lambda: target.is_dir() or None, make)
    assert disk.seen[-2:] == ["rename images", "sync ."]
    assert any(one.endswith("done/image") for one in disk.seen)


def test_an_exported_file_is_on_disk(tmp_path, disk):
    (tmp_path / "stage").mkdir()
    (tmp_path / "stage" / "runs.csv").write_text("run")
    export._moved(tmp_path / "stage" / "runs.csv", tmp_path / "export" / "runs.csv")
    assert disk.seen == ["sync .", "sync stage/runs.csv", "rename export/runs.csv", "sync export"]


def test_a_new_campaign_is_on_disk_with_its_folder(tmp_path, disk):
    row = {
        "id": "a", "name": "a", "question": "?", "created_ns": 1, "definition": "{}", "lab": "{}",
        "virtual": 0, "provenance": "{}",
    }  # fmt: skip
    Journal.create(tmp_path / "results" / "a", row, []).close()
    assert disk.seen == [
        "sync .", "sync results/a/journal.sqlite.new", "rename results/a/journal.sqlite",
        "sync results/a", "sync results",
    ]  # fmt: skip


def test_a_witness_log_is_on_disk_before_its_first_line(tmp_path, disk):
    WitnessLog(tmp_path / "runs" / "a-0001" / "witness.log").close()
    assert disk.seen == ["sync runs", "sync .", "sync runs/a-0001"]
