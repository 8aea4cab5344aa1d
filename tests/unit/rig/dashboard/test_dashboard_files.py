# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files of a results folder a page may open."""

from __future__ import annotations

from pathlib import Path

import pytest

from joulerig.rig.dashboard.api import files

NAME = "demo-20261113-120000"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results" / NAME
    for name in ("report/report.html", "report/report.pdf", "report/cells.csv", "demo.zip", "journal.sqlite"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (tmp_path / "results" / "bench").mkdir()
    (tmp_path / "results" / "bench" / "power.json").write_text("{}")
    (tmp_path / "secret.html").write_text("secret")
    return tmp_path / "results"


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        (NAME, "report/report.html"), (NAME, "report/report.pdf"), (NAME, "report/cells.csv"),
        (NAME, "demo.zip"), ("bench", "power.json"),
    ],
)  # fmt: skip
def test_reports_tables_bundles_and_measurements_are_served(results, folder, name):
    assert files.find(results, folder, name) == results / folder / name


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        (NAME, "journal.sqlite"), (NAME, "report"), (NAME, "report/"), (NAME, ""), (NAME, "report/none.html"),
        (NAME, "../secret.html"), (NAME, "../../secret.html"), (NAME, "report/../../../secret.html"),
        (NAME, "/etc/passwd"), (NAME, "report//report.html"), (NAME, "./report/report.html"),
        ("..", "secret.html"), (".", f"{NAME}/demo.zip"), ("", "secret.html"), ("none", "report/report.html"),
        (f"{NAME}/report", "report.html"), (NAME, "report/report.html\0"), (NAME, "x" * 5000),
    ],
)  # fmt: skip
def test_nothing_else_is(results, folder, name):
    assert files.find(results, folder, name) is None


def test_a_link_leads_nowhere(results):
    elsewhere = results.parent / "elsewhere"
    for name in ("report/secret.html", "export/secret.csv", "secret.json"):
        (elsewhere / name).parent.mkdir(parents=True, exist_ok=True)
        (elsewhere / name).write_text("secret")
    (results / NAME / "report" / "linked.html").symlink_to(elsewhere / "report" / "secret.html")
    (results / NAME / "export").symlink_to(elsewhere / "export")
    (results / "linked").symlink_to(elsewhere)
    assert files.find(results, NAME, "report/linked.html") is None
    assert files.find(results, NAME, "export/secret.csv") is None
    for name in ("report/secret.html", "secret.json"):
        assert files.find(results, "linked", name) is None


def test_a_results_folder_that_is_not_there_has_no_files(tmp_path):
    assert files.find(tmp_path / "none", NAME, "report/report.html") is None


def test_a_list_of_campaigns_names_reports_and_bundles_with_their_sizes(results):
    assert files.reports(results / NAME) == [
        {"name": "report.html", "path": "report/report.html", "bytes": 18},
        {"name": "report.pdf", "path": "report/report.pdf", "bytes": 17},
        {"name": "demo.zip", "path": "demo.zip", "bytes": 8},
    ]


def test_a_folder_with_very_many_files_gives_some(results):
    for number in range(files.MOST_FILES + 50):
        (results / NAME / "report" / f"{number}.csv").touch()
    assert len(files.of_campaign(results / NAME)) == files.MOST_FILES


def test_every_file_that_is_served_has_a_type():
    assert {pattern.rpartition("*")[2] for pattern in files.PATTERNS} <= files.TYPES.keys()
