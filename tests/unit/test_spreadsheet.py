# SPDX-License-Identifier: GPL-3.0-or-later
"""CSV for people: a spreadsheet computes nothing in it, and it reads back."""

import csv
import io

import polars as pl
import pytest

from joulerig import spreadsheet

TEXTS = [
    "=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "'=1", "'", "''", "=cmd|' /C'!A0",
    "\uff1d1",
    "-", "+", "-5", "+5.5e3", "5", "plain", "", "a=b", "x,y", 'x"y', "two\nlines", None,
]  # fmt: skip


def test_text_is_marked_and_reads_back(tmp_path):
    frame = pl.DataFrame({"text": TEXTS, "number": [-1.5] * len(TEXTS)})
    path = tmp_path / "t.csv"
    path.write_bytes(spreadsheet.csv(frame))
    assert spreadsheet.read(path)["text"].to_list() == TEXTS
    cells = [row["text"] for row in csv.DictReader(io.StringIO(path.read_bytes().decode(), newline=""))]
    assert {cell for cell in cells if cell[:1] in tuple("=+-@\t\r\n\uff1d")} == {"-5", "+5.5e3"}


def test_numbers_stay_numbers(tmp_path):
    frame = pl.DataFrame({"watts": [-1.5, 2.0, None], "count": [-3, 4, None], "ok": [True, False, None]})
    assert spreadsheet.csv(frame) == frame.write_csv().encode()


@pytest.mark.parametrize("table", ["runs", "cells"])
def test_a_campaign_of_formulas_exports_none(tmp_path, table):
    from joulerig.analysis import export, results
    from joulerig.analysis.bundle import tables
    from joulerig.analysis.export import frames
    from tests.support import verifiable_campaign

    folder = verifiable_campaign.build(tmp_path / "c")
    verifiable_campaign.edit(folder, "UPDATE run SET drive = '=1+1', reason = '@SUM(A1)', workload = '-x'")
    campaign = results.load(folder)
    export.write(campaign, folder / "export")
    text = (folder / "export" / f"{table}.csv").read_text()
    cells = [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]
    assert "'=1+1" in cells
    assert not [cell for cell in cells if cell[:1] in ("=", "@")]
    assert pl.read_parquet(folder / "export" / f"{table}.parquet")["drive"][0] == "=1+1"
    assert tables.compare(folder / "export" / f"{table}.csv", frames.small(campaign)[table])[1] == []
