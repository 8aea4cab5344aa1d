# SPDX-License-Identifier: GPL-3.0-or-later
"""The report of power cuts without a journal says what their verdicts say, and is one file."""

from __future__ import annotations

import io
import json
import re

import pytest
from pypdf import PdfReader

from joulerig.analysis import report
from joulerig.analysis.powercut import folder
from joulerig.analysis.report.chapters import power_cuts
from tests.support.powercut_story import Story
from tests.unit.analysis.powercut.test_powercut_folder import SECTORS, CutFolder, kept


@pytest.fixture
def campaign(tmp_path):
    made = CutFolder(tmp_path / "c")
    manifest = json.loads((made.place / "powercut.json").read_text())
    manifest |= {
        "created_ns": 1_700_000_000_000_000_000,
        "definition": {"name": "cuts", "question": "Does it keep <its> word?", "cuts": 2},
    }
    (made.place / "powercut.json").write_text(json.dumps(manifest))
    return made


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html.split("</style>")[1]).split())


def test_a_drive_that_kept_its_word(campaign):
    held = {"sata/5v": {"state": "DONE", "seconds": 0.02, "volts": 5.0, "joules": 0.04}}
    campaign.cut(1, *kept(), joules=0.5, hold_up=held)
    html, pdf, *tables = report.write(campaign.place)
    said = words(html.read_text())
    assert "no promise broken 0 of 1" in said
    statement = folder.load(campaign.place).verdicts()["drive"].statement
    assert statement.removeprefix("sata: no promise") in said
    assert "Broken promises None." in said
    assert "sata 500 20.0 40.0 –" in said  # 0.5 J over the one write promised after the first; the hold-up
    assert "Does it keep &lt;its&gt; word?" in said
    assert [path.name for path in tables] == ["subjects.csv", "cuts.csv", "violations.csv"]
    assert tables[-1].read_text().startswith("subject,cut,what,target,sequence,")
    page = PdfReader(io.BytesIO(pdf.read_bytes())).pages[0].extract_text()
    assert "no promise broken" in page
    assert "VIRTUAL LAB" in page.upper()


def test_the_chapters_figures_are_in_their_units(campaign):
    held = {"sata/5v": {"state": "DONE", "seconds": 0.02, "volts": 5.0, "joules": 0.04}}
    campaign.cut(1, *kept(), joules=0.5, hold_up=held)
    found = power_cuts.content(folder.load(campaign.place))
    [one] = found.subjects
    assert (one.hold_up_milliseconds, one.hold_up_millijoules) == ((20.0, 20.0), (40.0, 40.0))
    assert (one.mount_seconds, one.checked, one.verdict.cuts) == (None, 0, 1)
    assert one.statement.startswith("No promise was broken")
    assert (found.alone, found.violations, found.more_violations) == (False, [], 0)


def test_broken_promises_are_named_by_their_numbers(campaign):
    story = Story()
    lost = story.write(3)
    flush = story.flush()
    campaign.cut(1, story, story.drive(SECTORS))
    said = words(report.write(campaign.place)[0].read_text())
    assert "breaks its promise 1 of 1" in said
    assert f"sata 1 {lost} (512 bytes of the drive at 1536), promised by {flush}: lost" in said


def test_cuts_that_could_not_be_checked_are_reported(campaign):
    campaign.cut(1, *kept(), failed="vhost1: does not answer")
    said = words(report.write(campaign.place)[0].read_text())
    assert "nothing can be said 0 of 0" in said
    assert "sata: cut 1: vhost1: does not answer. It could not be checked" in said


def test_nothing_of_the_document_lies_outside_it(campaign):
    campaign.cut(1, *kept())
    html = report.write(campaign.place)[0].read_text()
    assert not re.findall(r"(?:src|href)=\"(?!data:)|url\((?!data:)", html)
