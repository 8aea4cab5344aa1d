# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab report of a campaign: one self-contained HTML, which WeasyPrint turns into the PDF."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from joulerig import atomic
from joulerig.analysis import results
from joulerig.analysis.drawing.second_process import SecondProcess
from joulerig.analysis.powercut import tables
from joulerig.analysis.powercut.folder import PowerCuts, is_former, load
from joulerig.analysis.report import document
from joulerig.analysis.report.chapters import power_cuts
from joulerig.analysis.report.chapters.runs import MOST_RUNS
from joulerig.analysis.results.campaign import Campaign
from joulerig.analysis.tables import runs_and_cells

FORMATS = ("html", "pdf", "csv")


def write(folder: Path | str, formats: Sequence[str] = ("html", "pdf")) -> list[Path]:
    """Write the report of the campaign in `folder` into `folder`/report/.

    The files are written atomically, also while the campaign runs. With a PDF a second process
    draws some of the figures, and makes it.

    Parameters
    ----------
    folder : path
        `results/<campaign-id>`.
    formats : sequence of "html", "pdf", "csv"
        report.html, report.pdf, and the tables of analysis.tables.runs_and_cells.write. With either
        of the first two also runs.csv, where the report has too many runs to list them all.

    Returns
    -------
    list of Path
        What was written, in the order asked for, runs.csv last.

    Raises
    ------
    joulerig.analysis.results.campaign.ResultsError
        The folder is no campaign's, or a file in it is damaged.
    joulerig.analysis.drawing.second_process.SecondProcessError
        The second process was ended from outside.
    ValueError
        A format that there is not.
    """
    for name in formats:
        if name not in FORMATS:
            raise ValueError(f"report format {name!r}: allowed are {', '.join(FORMATS)}")
    if is_former(Path(folder)):
        return _write_former(Path(folder), formats)
    campaign = results.load(folder)
    place = campaign.folder / "report"
    written: dict[str, list[Path]] = {}
    if "pdf" in formats:
        with SecondProcess() as second:
            html = document.html(campaign, second.map)
            pdf = second.begin(document.pdf, html)
            written |= _write_others(campaign, place, formats, html)
            written["pdf"] = [atomic.write(place / "report.pdf", pdf.result())]
    else:
        html = document.html(campaign) if "html" in formats else ""
        written |= _write_others(campaign, place, formats, html)
    return [path for name in dict.fromkeys([*formats, *written]) for path in written[name]]


def _write_others(
    campaign: Campaign, place: Path, formats: Sequence[str], html: str
) -> dict[str, list[Path]]:
    """Write what is not the PDF; return the paths by format, those of no format last."""
    written: dict[str, list[Path]] = {}
    if "html" in formats:
        written["html"] = [atomic.write(place / "report.html", html.encode())]
    if "csv" in formats:
        written["csv"] = runs_and_cells.write(campaign, place)
    elif html and len(campaign.runs) > MOST_RUNS:
        table = runs_and_cells.write_table(place, "runs", runs_and_cells.runs(campaign))
        written["all runs"] = [table]
    return written


def former_html(campaign: PowerCuts) -> str:
    """Return the report of power cuts from before these had a journal."""
    content = {"content": power_cuts.content(campaign, alone=True)}
    return document.rendered("power_cuts_former.html.j2", content)


def _write_former(folder: Path, formats: Sequence[str]) -> list[Path]:
    """Write the report and the tables of power cuts from before these had a journal."""
    campaign = load(folder)
    place = folder / "report"
    html = former_html(campaign)
    written: list[Path] = []
    if "html" in formats:
        written.append(atomic.write(place / "report.html", html.encode()))
    if "pdf" in formats:
        written.append(atomic.write(place / "report.pdf", document.pdf(html)))
    return [*written, *tables.write(campaign, place)]
