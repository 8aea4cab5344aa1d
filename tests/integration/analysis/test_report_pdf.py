# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab report as a PDF, by WeasyPrint: its pages, and that they say what the HTML says."""

from __future__ import annotations

import io
import time
from pathlib import Path

import polars as pl
import pypdf
import pytest
import weasyprint
from weasyprint.urls import FatalURLFetchingError

from joulerig import text
from joulerig.analysis import report, results
from joulerig.analysis.report import document
from joulerig.analysis.tables import runs_and_cells
from tests.support import simulated_campaign
from tests.support.programs import wait_for
from tests.support.report_pages import page, pdf_pages, text_of_pages
from tests.support.simulated_campaign import Outcome


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulated_campaign.build(tmp_path_factory.mktemp("demo") / "c", traces=True)


@pytest.fixture(scope="module")
def written(demo) -> dict[str, bytes]:
    """Its report's files, by suffix."""
    return {path.suffix: path.read_bytes() for path in report.write(demo)}


@pytest.fixture(scope="module")
def pdf(written) -> pypdf.PdfReader:
    return pypdf.PdfReader(io.BytesIO(written[".pdf"]))


@pytest.fixture(scope="module")
def pages(pdf) -> list[str]:
    return text_of_pages(pdf)


def test_every_page_of_the_pdf_of_a_virtual_lab_says_so(pages):
    assert all("VIRTUAL LAB" in page.upper() for page in pages)


@pytest.mark.long
def test_the_same_campaign_gives_the_same_bytes(demo, written):
    finished = int(time.time())
    wait_for(lambda: int(time.time()) > finished, 2, "the next second, so that a date anywhere differs")
    assert {path.suffix: path.read_bytes() for path in report.write(demo)} == written


@pytest.mark.long
def test_both_files_are_written_into_the_report_folder_and_nothing_else(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c")
    assert report.write(folder) == [folder / "report" / "report.html", folder / "report" / "report.pdf"]
    assert sorted(path.name for path in (folder / "report").iterdir()) == ["report.html", "report.pdf"]


def test_the_pdf_is_a4_with_page_numbers_and_a_title(pdf):
    assert pdf.metadata.title == "demo: lab report demo-20261113-082640"
    for number, sheet in enumerate(pdf.pages, start=1):
        sides = sorted((round(float(sheet.mediabox.width)), round(float(sheet.mediabox.height))))
        assert sides == [595, 842]
        assert f"page {number} of {len(pdf.pages)}" in sheet.extract_text()


def test_the_pdf_says_what_the_html_says(demo, pages):
    assert "f2fs with none" in pages[0]
    assert "nothing can be separated" in pages[0]
    whole = " ".join(pages)
    for run in results.load(demo).runs:
        assert text.number(run.result.ai_ops_per_joule) in whole
    for part in ("6.1.0-38-amd64", "JRNVP0001", "rig run playbooks/demo.yml", "What did not run, and why"):
        assert part in whole


@pytest.mark.long
def test_a_table_over_several_pages_repeats_its_header(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c", replicates=4)
    pages = [page for page in pdf_pages(folder) if "repl. status" in page]
    assert len(pages) >= 2


@pytest.mark.long
def test_nothing_in_the_pdf_runs_over_the_margin(tmp_path):
    def long_reasons(levels):
        return (
            Outcome("failed", "x" * 400 + " /dev/disk/by-id/" + "y" * 300)
            if levels["ordinal"] % 3
            else Outcome()
        )

    folder = simulated_campaign.build(
        tmp_path / "c", drives=("nvme-consumer", "nvme-plp", "sata-plp"), replicates=2, outcome=long_reasons
    )
    html_text = page(folder)
    for sheet in weasyprint.HTML(string=html_text).render().pages:
        box = sheet._page_box
        right = box.position_x + box.margin_left + box.width
        for child in box.all_children():
            if child.element_tag != "html":
                continue
            for descendant in child.descendants():
                if descendant.element_tag in ("td", "th", "table", "img", "pre"):
                    assert descendant.position_x + descendant.margin_width() <= right + 1, descendant


# Of a drive that draws little more under load than idle.
LITTLE_MORE = {"dynamic_joules_per_op_low": 3.771e-05, "dynamic_joules_per_op_high": 4.634e-04}


@pytest.mark.long
def test_no_words_of_the_pdf_run_into_the_next_cell(tmp_path, monkeypatch):
    folder = simulated_campaign.build(tmp_path / "c", drives=("nvme-plp",), traces=True)
    rows = runs_and_cells.cells
    monkeypatch.setattr(
        runs_and_cells, "cells",
        lambda *given: rows(*given).with_columns(**{name: pl.lit(one) for name, one in LITTLE_MORE.items()}),
    )  # fmt: skip
    html_text = page(folder)
    assert "0.03771 to 0.4634" in html_text
    for sheet in weasyprint.HTML(string=html_text).render().pages:
        for cell in sheet._page_box.descendants():
            if cell.element_tag in ("td", "th") and hasattr(cell, "colspan"):
                right = cell.position_x + cell.margin_width()
                for words in cell.descendants():
                    if hasattr(words, "text"):
                        assert words.position_x + words.width <= right + 1, words.text


def test_the_pdf_needs_no_network(demo):
    outside = page(demo).replace("</body>", '<img src="http://127.0.0.1:9/x.png"></body>')
    with pytest.raises(FatalURLFetchingError, match=r"127\.0\.0\.1"):
        document.pdf(outside)


@pytest.mark.long
def test_the_pdf_of_a_physical_lab_is_never_called_virtual(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c", replicates=3, virtual=False, noise=0.002, traces=True)
    assert all("virtual" not in sheet.lower() for sheet in pdf_pages(folder))


@pytest.mark.long
@pytest.mark.parametrize(
    "outcome",
    [
        Outcome("not-run", "InfluxDB is down"),
        Outcome("failed", "mkfs: exit code 1"),
        Outcome("failed", ""),
        Outcome("lost", "vhost1 is gone"),
        Outcome("planned"),
        Outcome("running"),
    ],
)
def test_the_pdf_of_a_campaign_in_which_no_run_finished_says_so(tmp_path, outcome):
    folder = simulated_campaign.build(tmp_path / "c", outcome=lambda _: outcome, finished=False)
    assert "no answer" in pdf_pages(folder)[0]


def test_the_pdf_of_a_campaign_without_a_run_says_so(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c", drives=())
    assert "The campaign has no runs." in pdf_pages(folder)[0]
