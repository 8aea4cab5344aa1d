# SPDX-License-Identifier: GPL-3.0-or-later
"""Campaigns that failed or have little to say: the report says so, and every section stands."""

from __future__ import annotations

import html
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pypdf
import pytest

from joulerig.analysis import report
from tests.support import simulated_campaign
from tests.support.simulated_campaign import Outcome

SECTIONS = (
    "Work per joule by file system and scheduler",
    "Cells",
    "Other figures per joule and per watt",
    "What matters, and what limits the precision",
    "Power over a run",
    "Power and performance over the runs' loads",
    "Drift, and outliers",
    "Measured against true joules",
    "What was lost",
    "How sure the joules are",
    "Idle baseline",
    "What did not run, and why",
    "Provenance",
    "How to repeat it",
    "Runs",
)
METER, HOST = "meter tap1a: no samples for 2 s", "host vhost1 did not answer for 60 s"


def meter_failed(_: dict) -> Outcome:
    return Outcome("partial", METER, joules=False)


def meter_failed_halfway(levels: dict) -> Outcome:
    return meter_failed(levels) if levels["ordinal"] > 5 else Outcome()


def host_lost(_: dict) -> Outcome:
    return Outcome("lost", HOST)


def host_lost_halfway(levels: dict) -> Outcome:
    return (
        Outcome() if levels["ordinal"] < 5 else Outcome("lost" if levels["ordinal"] == 5 else "not-run", HOST)
    )


def no_xfs(levels: dict) -> Outcome:
    return Outcome("failed", "mkfs.xfs: exit code 1") if levels["filesystem"] == "xfs" else Outcome()


def no_bfq_run(levels: dict) -> Outcome:
    return Outcome("planned") if levels["scheduler"] == "bfq" else Outcome()


def alike(folder: Path) -> None:
    """All runs to the last bit."""
    _execute(
        folder,
        "UPDATE result SET joules = 20, corrected_joules = 20, mean_watts = 2, ai_ops_per_joule = 50",
        "UPDATE performance SET ops = 1000, ops_per_second = 100",
    )


def nothing_done(folder: Path) -> None:
    """Runs that are ok and did no operation at all."""
    _execute(
        folder,
        "UPDATE performance SET ops = 0, write_bytes = 0, syncs = 0, ops_per_second = 0, mb_per_second = 0",
        "UPDATE result SET ai_ops_per_joule = 0, ai_mb_per_joule = 0",
        "UPDATE io SET writes = 0, write_bytes = 0, reads = 0, read_bytes = 0, flushes = 0",
    )


def no_energy(folder: Path) -> None:
    """Joules of 0, as of a rail that was never on."""
    _execute(
        folder,
        "UPDATE result SET joules = 0, corrected_joules = 0, ai_ops_per_joule = NULL, ai_mb_per_joule = NULL,"
        " mean_watts = 0",
        "UPDATE energy SET joules = 0, joules_low = 0, joules_high = 0",
    )


def no_phases(folder: Path) -> None:
    """A journal that lost its instants and counters."""
    _execute(folder, "DELETE FROM phase", "DELETE FROM io", "UPDATE run SET started_ns = NULL")


def torn_traces(folder: Path) -> None:
    """Make power.csv of the first run empty, the second's without rows, the third's foreign."""
    first, second, third, *_ = sorted((folder / "runs").iterdir())
    (first / "power.csv").write_text("")
    (second / "power.csv").write_text("time_ns,rail,watts\n")
    (third / "power.csv").write_text("a,b\n1,2\n")


def traces_of_nothing(folder: Path) -> None:
    """Points without watts."""
    for path in folder.glob("runs/*/power.csv"):
        pl.read_csv(path).with_columns(pl.lit(None).alias("watts")).write_csv(path)


def _execute(folder: Path, *statements: str) -> None:
    database = sqlite3.connect(folder / "journal.sqlite", isolation_level=None)
    for statement in statements:
        database.execute(statement)
    database.close()


ONE = {"drives": ("nvme-plp",)}
HARD = {
    "the meter failed from the first run on": (
        {**ONE, "replicates": 2, "outcome": meter_failed},
        None,
        (
            "no answer: no run ended with joules cells are partial",
            "No run ended with both performance and joules, so there is no AI to compare.",
            METER,
            "nothing is per joule or per watt",
            "No run is ok, so there is no power over a run to look at.",
            "No cell has a result, so there is no drift to look for.",
        ),
    ),
    "the meter failed halfway": (
        {**ONE, "replicates": 2, "outcome": meter_failed_halfway, "traces": True},
        None,
        (
            "cells of 9 without a result",
            METER,
            "Of 5 runs with a power trace",
            "drift cannot be judged: no cell has two",
        ),
    ),
    "the host was lost at once": (
        {**ONE, "outcome": host_lost},
        None,
        (
            "no answer: no run ended with joules cells are lost",
            HOST,
            "so there is no ledger of samples",
            "no run ended with joules",
        ),
    ),
    "the host was lost halfway": (
        {**ONE, "replicates": 2, "outcome": host_lost_halfway, "finished": False},
        None,
        ("not finished: this report is of what there is so far", HOST, "cells of 9 without a result"),
    ),
    "cells are missing": (
        {**ONE, "replicates": 3, "outcome": no_xfs},
        None,
        ("3 cells of 9 without a result", "mkfs.xfs: exit code 1", "no figure: failed"),
    ),
    "a factor's level has not run yet": (
        {**ONE, "replicates": 2, "outcome": no_bfq_run, "finished": False},
        None,
        ("3 cells of 9 without a result", "not finished", "no figure: planned"),
    ),
    "one run a cell": (
        ONE,
        None,
        (
            "one run a cell: nothing can be separated",
            "drift cannot be judged: no cell has two runs",
            "No run can be called an outlier",
        ),
    ),
    "no spread": (
        {**ONE, "replicates": 3},
        alike,
        (
            "the runs of each cell are all alike: there is no spread to test by",
            "drift cannot be judged: the runs of each cell are all alike",
            "Nothing varies among the runs with a result",
        ),
    ),
    "a single level": (
        {**ONE, "replicates": 4, "filesystems": ("f2fs",), "schedulers": ("none",)},
        None,
        (
            "the only cell with a result, so nothing to compare it with",
            "so nothing can be said of a factor's effect",
            "No run can be called an outlier",
        ),
    ),
    "a single run": (
        {**ONE, "filesystems": ("f2fs",), "schedulers": ("none",)},
        None,
        ("the only cell with a result", "drift cannot be judged: no cell has two runs"),
    ),
    "no run at all": (
        {"drives": ()},
        None,
        (
            "The campaign has no runs.",
            "No cell has a result, so there is no drift to look for.",
            "No run is ok",
        ),
    ),
    "nothing was done": (
        {**ONE, "replicates": 3, "filesystems": ("ext4", "xfs"), "schedulers": ("none",)},
        nothing_done,
        ("nothing can be separated: nothing to compare with", "no cell has two runs"),
    ),
    "no energy was drawn": (
        {**ONE, "replicates": 3, "filesystems": ("ext4", "xfs"), "schedulers": ("none",)},
        no_energy,
        ("no answer: no run ended with joules", "nothing is per joule or per watt"),
    ),
    "no rail is measured": (
        {**ONE, "replicates": 3, "outcome": lambda _: Outcome("ok", "no rail", joules=False)},
        None,
        ("no AI, as no rail is measured; fastest:", "performance changed by", "no rail"),
    ),
    "the journal lost instants and counters": (
        {**ONE, "replicates": 3, "filesystems": ("ext4", "xfs"), "schedulers": ("none",), "traces": True},
        no_phases,
        ("No run that is ok kept its power.csv", "No run has an idle phase with energy."),
    ),
    "traces are torn": (
        {**ONE, "filesystems": ("ext4", "xfs"), "schedulers": ("none", "bfq"), "traces": True},
        torn_traces,
        ("no column 'time_ns'", "3 runs that are ok kept no trace", "Of 1 run with a power trace"),
    ),
    "traces hold nothing": (
        {**ONE, "filesystems": ("ext4",), "schedulers": ("none", "bfq"), "traces": True},
        traces_of_nothing,
        (
            "No power trace: no finished run kept its power.csv (",
            ": no watts in it)",
            "Of 2 runs with a power trace, 0 are long enough to be judged",
        ),
    ),
}


def built(folder: Path, name: str) -> Path:
    given, spoil, _ = HARD[name]
    made = simulated_campaign.build(folder / "c", **given)
    if spoil:
        spoil(made)
    return made


def words(source: str) -> str:
    body = re.sub(r"<(style|head)>.*?</\1>", " ", source, flags=re.S)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


def missing(found: str, expected: Sequence[str]) -> list[str]:
    return [each for each in expected if each not in found]


@pytest.mark.parametrize("name", HARD)
def test_the_html_says_what_happened_and_leaves_no_section_out_or_blank(tmp_path, name):
    source = report.write(built(tmp_path, name), ["html"])[0].read_text(encoding="utf-8")
    assert missing(words(source), HARD[name][2]) == []
    sections = re.findall(r"<section[^>]*>\s*<h2>(.*?)</h2>(.*?)</section>", source, flags=re.S)
    titles = [html.unescape(title) for title, _ in sections]
    # A ranking is there where two cells can be ranked, figures of merit where a program has them.
    assert missing(titles, SECTIONS) == []
    for title, body in sections:
        assert words(body) or "<img" in body, title
    assert not re.search(r"\b(nan|inf|None|Undefined)\b", words(source))


@pytest.mark.parametrize("name", ["the meter failed halfway", "no run at all"])
def test_the_pdf_says_the_same(tmp_path, name):
    (path,) = report.write(built(tmp_path, name), ["pdf"])
    found = " ".join(" ".join(sheet.extract_text().split()) for sheet in pypdf.PdfReader(path).pages)
    assert (
        missing(re.sub(r"- ", "-", found), [re.sub(r"- ", "-", expected) for expected in HARD[name][2]]) == []
    )


@pytest.mark.parametrize("name", HARD)
def test_its_tables_have_their_columns_and_no_figure_that_is_none(tmp_path, name):
    for path in report.write(built(tmp_path, name), ["csv"]):
        frame = pl.read_csv(path, infer_schema=False)
        assert frame.columns, path.name
        for column in frame.columns:
            assert not frame[column].is_in(["NaN", "inf", "-inf"]).any(), (path.name, column)
