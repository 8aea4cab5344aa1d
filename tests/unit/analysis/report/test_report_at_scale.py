# SPDX-License-Identifier: GPL-3.0-or-later
"""The report of many runs: what it lists, what only its tables have, small figures."""

from __future__ import annotations

import base64
import gc
import io
import re
import xml.etree.ElementTree as ET

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure
from weasyprint.urls import FatalURLFetchingError

from joulerig.analysis import report, results
from joulerig.analysis.drawing import STYLE, outlines
from joulerig.analysis.report import document
from joulerig.analysis.report.chapters import runs as runs_chapter
from joulerig.analysis.tables import runs_and_cells
from tests.support import simulated_campaign

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """204 runs: one failed, two partial."""

    def outcome(levels):
        if levels["ordinal"] == 7:
            return simulated_campaign.Outcome("failed", "fio: exit code 1")
        if levels["ordinal"] in (50, 203):
            return simulated_campaign.Outcome("partial", "meter tap1a fell silent", joules=False)
        return simulated_campaign.Outcome()

    return simulated_campaign.build(
        tmp_path_factory.mktemp("many") / "c",
        drives=["nvme-plp"],
        filesystems=["ext4", "xfs"],
        schedulers=["none"],
        replicates=102,
        virtual=False,
        outcome=outcome,
    )


@pytest.fixture(scope="module")
def written(many):
    return report.write(many, ["html"])


def listed(page):
    """Ordinals of the runs of the report's last table, and its caption."""
    _, _, last = page.rpartition("<h2>Runs</h2>")
    caption = re.search(r"<caption>(.*?)</caption>", last, flags=re.S)[1]
    return [int(number) for number in re.findall(r'<tr>\n<td class="n">(\d+)</td>', last)], caption


def test_of_many_runs_those_that_are_not_ok_are_listed(written):
    found, caption = listed(written[0].read_text())
    assert found == [7, 50, 203]
    assert caption.startswith("3 of 204 runs: of so many, those that are not ok")
    assert "all are in runs.csv next to this report" in caption


def test_the_table_that_has_them_all_is_written_with_it(many, written):
    assert [path.name for path in written] == ["report.html", "runs.csv"]
    back = pl.read_csv(written[1], schema_overrides=runs_and_cells.RUN_COLUMNS)
    assert back.height == 204
    assert back["joules"].to_list() == runs_and_cells.runs(results.load(many))["joules"].to_list()


def test_every_cell_is_in_it_with_all_its_runs(many, written):
    cells = runs_and_cells.cells(results.load(many))
    assert sorted(cells["runs_counted"]) == [99, 102]
    table = written[0].read_text().partition("<h2>Cells</h2>")[2].partition("</table>")[0]
    assert table.count('<td class="n">99 of 102</td>') == 1
    assert table.count('<td class="n">102</td>') == 1


def test_few_runs_are_all_listed_and_no_table_is_written(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c", drives=["nvme-plp"])
    paths = report.write(folder, ["html"])
    assert [path.name for path in paths] == ["report.html"]
    found, caption = listed(paths[0].read_text())
    assert found == list(range(1, 10))
    assert "All runs in order of execution" in caption


@pytest.mark.parametrize("truth_within", [True, False, None])
def test_a_run_whose_true_joules_lie_outside_is_listed(truth_within):
    runs = [{"status": "ok", "truth_within": True}] * runs_chapter.MOST_RUNS
    odd = {"status": "ok", "truth_within": truth_within}
    assert runs_chapter.to_list([*runs, odd]) == ([odd] if truth_within is False else [])
    assert runs_chapter.to_list(runs) == runs


def test_where_all_runs_failed_no_more_are_listed_than_of_few():
    runs = [{"status": "lost", "truth_within": None, "n": n} for n in range(1000)]
    assert runs_chapter.to_list(runs) == runs[: runs_chapter.MOST_RUNS]


def test_python_collects_its_garbage_again_after_a_pdf_also_one_that_fails():
    assert gc.isenabled()
    document.pdf("<html><body>a</body></html>")
    assert gc.isenabled()
    with pytest.raises(FatalURLFetchingError):
        document.pdf('<html><body><img src="http://127.0.0.1:9/x.png"></body></html>')
    assert gc.isenabled()


def drawn():
    """A figure with words, marks and a minus, as matplotlib gives it."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3, 2))
        axes = figure.add_axes((0.2, 0.2, 0.7, 0.7))
        axes.plot([0, 1, 2], [-1, 0, 1], marker="o")
        axes.set_xlabel("mean power (W)")
        axes.set_title("black words", color="black", style="italic")
        with io.StringIO() as file:
            figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
            return file.getvalue()


def test_the_words_of_a_figure_have_no_letters_left_to_look_up():
    before, after = drawn(), outlines.merged(drawn())
    letters = 'xlink:href="#STIX'
    assert before.count(letters) > 20
    assert letters not in after
    marks = re.findall(r'<use xlink:href="(#m[^"]+)"', before)
    assert marks
    assert re.findall(r'<use xlink:href="(#m[^"]+)"', after) == marks
    assert set(re.findall(r'xlink:href="#([^"]+)"', after)) <= set(re.findall(r'id="([^"]+)"', after))


def outline_of(svg, word):
    """All points of a word's outline, on the page's scale before the word's own transform."""
    comment = f"<!-- {word} -->"
    at = svg.index(comment) + len(comment)
    merged = svg[at:].lstrip().startswith("<path")
    end = svg.index("/>", at) + 2 if merged else svg.index("</g>", at) + 4
    group = ET.fromstring(
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
        + svg[at:end]
        + "</svg>"
    )
    known = {
        path.get("id"): path.get("d", "")
        for path in ET.fromstring(svg).iter(f"{SVG}path")
        if path.get("id", "").startswith("STIX")
    }
    points = []
    uses = list(group.iter(f"{SVG}use"))
    if not uses:
        parts = [(next(group.iter(f"{SVG}path")).get("d"), 0.0, 0.0)]
    else:
        parts = []
        for use in uses:
            name = use.get("{http://www.w3.org/1999/xlink}href").removeprefix("#")
            moved = re.search(r"translate\((\S+) (\S+)\)", use.get("transform", "translate(0 0)"))
            parts.append((known[name], float(moved[1]), float(moved[2])))
    for path, x, y in parts:
        numbers = np.array(re.findall(r"-?[\d.]+", path), dtype=float).reshape(-1, 2)
        points.append(numbers * 0.015625 + [x, y])
    return np.concatenate(points)


@pytest.mark.parametrize("word", ["mean power (W)", "black words", "−1.0"])
def test_each_point_of_a_word_stays_where_it_was(word):
    before, after = drawn(), outlines.merged(drawn())
    was, became = outline_of(before, word), outline_of(after, word)
    assert was.shape == became.shape
    assert len(was) > 20
    np.testing.assert_allclose(became, was, atol=0.5 * 0.015625 + 1e-9)  # rounded to a font's unit


def test_an_external_svg_is_unchanged():
    defined = '<defs><path id="a" d="M 0 0" transform="scale(2)"/></defs>'
    svg = f'<svg>{defined}<g transform="x"><use xlink:href="#a"/></g></svg>'
    assert outlines.merged(svg) == svg


def test_the_reports_figures_are_made_so(written):
    figures_of = re.findall(r"data:image/svg\+xml;base64,([^\"]+)", written[0].read_text())
    assert len(figures_of) >= 2
    assert not any(b"#STIX" in base64.b64decode(one) for one in figures_of)
