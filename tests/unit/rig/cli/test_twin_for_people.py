# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig twin fit`: parameters, residuals, rows left out; the profile's file; a campaign's runs."""

import json
import sqlite3

import pytest
from typer.testing import CliRunner

from joulerig.errors import JoulerigError
from joulerig.rig.cli.main import app
from joulerig.virtuallab import profile
from joulerig.virtuallab.fit.rows import read_table
from tests.support import simulated_campaign

TABLE = profile.FOLDER / "fitted" / "nvme-powersensor3.csv"


def rig(*words):
    done = CliRunner().invoke(app, ["twin", "fit", *map(str, words)])
    if done.exception and isinstance(done.exception, JoulerigError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_report_has_parameters_rows_and_what_was_left_out(tmp_path):
    into = tmp_path / "like-that.yml"
    text = rig(TABLE, "--into", str(into), "--description", "a drive", "--base", "nvme-powersensor3")
    assert "of the base: the data leave it open" in text
    assert "each third of them, by number modulo 3, predicted by a fit to the others" in text
    rows = [line for line in text.splitlines() if line.startswith(("│ read ", "│ write ")) and "│ 1 " in line]
    assert len(rows) == len(read_table(TABLE, ["3v3"]))
    assert sum(line.startswith("worst: rate, % ") for line in text.splitlines()) == 1
    assert text.splitlines()[-1] == f"{into}: written"
    assert profile.read(into).description == "a drive"


def test_as_json_it_has_the_errors_of_every_row():
    found = json.loads(rig(TABLE, "--json", "--base", "nvme-powersensor3"))
    rows = found["rows"]
    assert found["worst"]["watts_error"] == max(abs(row["watts_error"]) for row in rows)
    assert {row["operation"] for row in rows} == {"read", "write"}
    assert all(row["held_out_rate_error"] is not None for row in rows)


def test_a_file_that_is_there_is_not_replaced(tmp_path):
    into = tmp_path / "mine.yml"
    into.write_text("mine")
    with pytest.raises(JoulerigError, match=r"mine.yml: is there already; it is not replaced"):
        rig(TABLE, "--into", str(into))
    with pytest.raises(JoulerigError, match=r"--into: profile.json: allowed: a file NAME.yml"):
        rig(TABLE, "--into", "profile.json")
    assert into.read_text() == "mine"


@pytest.fixture
def campaign(tmp_path, monkeypatch):
    """A campaign of reads of three sizes, each drawing 0.5 W and 1 nJ a byte."""
    folder = simulated_campaign.build(
        tmp_path / "c", filesystems=("ext4", "xfs", "f2fs"), schedulers=("none",), noise=0.0
    )
    with sqlite3.connect(folder / "journal.sqlite") as database:
        for size, filesystem in ((4096, "ext4"), (65536, "xfs"), (1048576, "f2fs")):
            runs = f"(SELECT id FROM run WHERE filesystem = '{filesystem}')"
            total = 4000 * size
            database.execute(
                "UPDATE io SET reads = 4000, read_bytes = ?, writes = 0, write_bytes = 0, flushes = 0"
                f" WHERE run IN {runs}",
                (total,),
            )
            seconds = simulated_campaign.PHASES["workload"]
            database.execute(
                "UPDATE energy SET joules = ?, gap_low_joules = 0, gap_high_joules = 0, product_joules = 0"
                f" WHERE phase = 'workload' AND run IN {runs}",
                (0.5 * seconds + 1e-9 * total,),
            )
    return folder


def test_a_campaigns_runs_tell_watts(campaign):
    found = json.loads(rig(str(campaign), "--drive", "nvme-consumer", "--json"))
    values = {one["key"]: one["value"] for one in found["parameters"]}
    # Three rows cannot tell three energies: that of a command, 400 a second, is the base's.
    command = profile.load("nvme-consumer").rails["3v3"].command_joules
    assert values["3v3.command_joules"] == command
    assert values["3v3.idle_watts"] + 400 * command == pytest.approx(0.5, rel=1e-3)
    assert values["3v3.read_joules_per_byte"] == pytest.approx(1e-9, rel=1e-3)
    assert [row["queue_depth"] for row in found["rows"]] == [None] * 3


def test_the_drive_of_a_campaign_is_named_where_there_are_several(campaign):
    with pytest.raises(
        JoulerigError, match=r"--drive: '' is no drive of .*; allowed: nvme-consumer, nvme-plp"
    ):
        rig(str(campaign))


def test_runs_that_are_left_out_are_named_apart_from_the_result(campaign):
    with sqlite3.connect(campaign / "journal.sqlite") as database:
        runs = "SELECT id FROM run WHERE drive = 'nvme-consumer' LIMIT 1"
        database.execute(f"UPDATE io SET flushes = 4000 WHERE run IN ({runs})")
    done = CliRunner().invoke(app, ["twin", "fit", str(campaign), "--drive", "nvme-consumer", "--json"])
    assert "left out: 1 run: its flushes cost energy too" in done.stderr
    assert "rows: 2; a fit needs at least 3" in str(done.exception)
    assert done.stdout == ""
