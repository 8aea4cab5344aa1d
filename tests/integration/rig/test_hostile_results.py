# SPDX-License-Identifier: GPL-3.0-or-later
"""Hostile text in every text column of a journal, and what each command makes of it.

The columns are the schema's, the commands the command line's: a new one is in the table, or fails.
"""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import typer

from joulerig.analysis.results import load, schema
from joulerig.errors import JoulerigError
from joulerig.rig.campaign.forecast import earlier
from joulerig.rig.cli import main
from joulerig.rig.common import bounded
from joulerig.rig.dashboard.api import campaign, campaigns
from joulerig.rig.dashboard.notifications import webhook
from joulerig.rig.dashboard.notifications.watcher import Watcher
from joulerig.rig.dashboard.supervision import Supervisor
from tests.support import hostile_bundles, hostile_text, verifiable_campaign
from tests.support.simulated_campaign import T0

ROOT_COMMAND = typer.main.get_command(main.app)
ID = "demo-1"
# What each command that reads a results folder is given.
READS: dict[str, tuple[tuple[str, ...], ...]] = {
    "results": ((ID,), ("--json", ID), ("--baseline", ID)),
    "status": ((), ("--json",)),
    "export": ((ID,),),
    "verify": ((ID,),),
    "compare": ((ID, ID), (ID, ID, "--gate", "5"), (ID, "demo-2", "demo-2", ID)),
    "merge": ((ID, "demo-2", "--into", "merged"),),
    "drives audit": ((ID,),),
    "drives obey": ((ID,),),
    "meters agree": ((ID,),),
    "twin fit": ((ID,),),
    "retry": ((ID, "--status", "failed"),),
    "settle": ((ID,),),
    "pause": ((ID,),),
    "stop": ((ID,),),
    "registry build": ((".", "--output", "site"),),
}
SLOW = {"report": ((ID,),)}  # with one text: it draws
OTHERS = {
    "bisect", "crash-states", "doctor", "drives adopt", "drives look", "drives show", "drives state",
    "hosts discover", "hosts free", "hosts release", "hosts reserve", "hosts show", "measure",
    "meters calibrate", "meters check", "meters list", "meters scan", "meters show", "plan", "run",
    "workloads list", "workloads run", "workloads show",
    "up", "down", "watch", "lab up", "lab down", "lab images", "lab ssh", "lab status", "meters watch",
}  # fmt: skip
# They have a form, or names from a list, which is checked wherever a journal is opened.
FORMS = {"id", "run", "phase", "source"}


def names(command: Any, words: tuple[str, ...] = ()) -> list[str]:
    if not hasattr(command, "commands"):
        return [" ".join(words)]
    return [name for key, one in command.commands.items() for name in names(one, (*words, key))]


def test_every_command_reads_hostile_results_or_reads_none():
    assert sorted([*READS, *SLOW, *OTHERS]) == sorted(names(ROOT_COMMAND))


def columns() -> list[tuple[str, str, bool]]:
    """Return (table, column, whether it has JSON) of each text column."""
    return [
        (table.name, one.name, one.kind.startswith("dict"))
        for table in schema.TABLES.values()
        for one in table.columns.values()
        if one.sql_type == "TEXT" and not one.values and one.name not in FORMS
    ]


def replaced(value: Any, text: str) -> Any:
    """Return JSON with `text` for each text but a status, and for one more key of each object."""
    if isinstance(value, dict):
        return {key: replaced(one, text) for key, one in value.items()} | {text: text}
    if isinstance(value, list):
        return [replaced(one, text) for one in value]
    return text if isinstance(value, str) and value not in list(schema.Status) else value


def plant(folder: Path, text: str) -> int:
    """Put the text into all rows; return the number of columns that have it."""
    planted = 0
    with closing(sqlite3.connect(folder / "journal.sqlite", isolation_level=None)) as database:
        for table, column, has_json in columns():
            for row, value in database.execute(f"SELECT rowid, {column} FROM {table}").fetchall():
                new = json.dumps(replaced(json.loads(value), text)) if has_json else text
                database.execute(f"UPDATE OR IGNORE {table} SET {column} = ? WHERE rowid = ?", (new, row))
            like = f"%{json.dumps(text)[1:-1] if has_json else text}%"
            found = database.execute(f"SELECT count(*) FROM {table} WHERE instr({column}, ?)", (like[1:-1],))
            planted += bool(found.fetchone()[0])
    return planted


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return verifiable_campaign.build(tmp_path_factory.mktemp("good") / ID, outcome=verifiable_campaign.mixed)


@pytest.fixture
def results(good: Path, tmp_path: Path, lab_files, monkeypatch) -> Callable[[str], Path]:
    """results(TEXT) makes a results folder with a campaign of it, in the working directory."""
    monkeypatch.setenv("JOULERIG_INVENTORY", str(lab_files.write()))
    monkeypatch.setenv("JOULERIG_VAR", str(tmp_path / "var"))
    monkeypatch.setenv("JOULERIG_RESULTS", str(tmp_path / "results"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(main, "app", ROOT_COMMAND)
    monkeypatch.setattr("sys.stdin", io.StringIO())

    def made(text: str) -> Path:
        for name in (ID, "demo-2"):
            shutil.copytree(good, tmp_path / "results" / name)
        assert plant(tmp_path / "results" / ID, text) >= len(columns()) - 2  # of `performance.figure_*`
        return tmp_path / "results"

    return made


def found_in(folder: Path) -> list[tuple[str, str]]:
    """Return what was evaluated in the files that commands wrote, and executed."""
    found = [("executed", name) for name in hostile_text.executed(folder)]
    for path in folder.rglob("*.*"):
        kind = path.suffix[1:]
        if path.is_file() and kind in ("html", "csv", "json", "xml"):
            found += [(path.name, one) for one in hostile_text.evaluated(path.read_text(), kind)]
    return found


def run(words: str, given: tuple[str, ...], monkeypatch, capsys) -> str:
    monkeypatch.setattr("sys.argv", ["rig", *words.split(), *given])
    with pytest.raises(SystemExit):
        main.main()
    output, errors = capsys.readouterr()
    assert bounded.printable(output + errors, keep="\n") == output + errors, words
    assert hostile_text.evaluated(output + errors) == [], words
    return str(output)


@pytest.mark.parametrize("kind", hostile_text.NAMES)
def test_no_command_evaluates_a_text_of_a_journal(kind, results, tmp_path, monkeypatch, capsys):
    text = hostile_text.NAMES[kind]
    results(text)
    shown = "".join(run(words, one, monkeypatch, capsys) for words, given in READS.items() for one in given)
    assert bounded.printable(text, keep="\n")[:6] in shown
    assert found_in(tmp_path) == []


def test_no_report_does(results, tmp_path, monkeypatch, capsys):
    folder = results(hostile_text.NAMES["template and markup"])
    run("report", SLOW["report"][0], monkeypatch, capsys)
    page = (folder / ID / "report" / "report.html").read_text()
    assert "&lt;hostile-x&gt;" in page
    assert hostile_text.evaluated(page.replace("&lt;", "<").replace("&gt;", ">"), "html")  # it would be seen
    assert found_in(tmp_path) == []


@pytest.mark.parametrize("kind", hostile_text.NAMES)
def test_a_page_and_a_notification_get_the_text_as_a_value_of_json(kind, results, tmp_path):
    text = hostile_text.NAMES[kind]
    folder = results(text)
    (tmp_path / "kept.json").write_text("{}")
    happenings = Watcher(folder, tmp_path / "kept.json", lambda: T0, Supervisor()).look()
    said = [webhook.body_of(one, virtual=True)["text"] for one in happenings]
    assert any(text in one for one in said)
    assert hostile_text.evaluated("".join(said)) == []
    replies: list[Any] = []
    for read in (
        lambda: campaign.read(folder / ID, None, has_log=False),
        lambda: campaigns.Campaigns(folder).list(),
    ):
        try:
            replies.append(read())
        except (JoulerigError, KeyError) as error:
            replies.append(str(error))
    assert hostile_text.evaluated(json.dumps(replies)) == []
    assert found_in(tmp_path) == []


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", hostile_bundles.JOURNALS)
def test_a_strangers_journal_among_others_hides_none_of_them(good, tmp_path, name):
    """`rig plan` reads all journals, and so do the page of campaigns and notifications."""
    folder = tmp_path / "results"
    for one in (ID, "demo-2"):
        shutil.copytree(good, folder / one)
    hostile_bundles.JOURNALS[name](folder / ID, tmp_path / "x.zip")
    (tmp_path / "kept.json").write_text("{}")
    known = Watcher(folder, tmp_path / "kept.json", lambda: T0, Supervisor()).look()
    assert "demo-2" in json.dumps(campaigns.Campaigns(folder).list())
    assert known
    runs = load(folder / "demo-2").runs
    assert earlier.read(folder, {run.drive for run in runs}, {run.workload for run in runs}).samples
