# SPDX-License-Identifier: GPL-3.0-or-later
"""One new file in analysis/studies/ is a study: key, verdicts, report, table, page, `make studies`."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from joulerig.analysis import studies
from tests.support import ROOT

STUDY = '''"""Judge whether f2fs does more operations than ext4.

**Question.** Is f2fs faster than ext4?
"""

from joulerig.analysis.drawing import canvas, to_svg
from joulerig.analysis.studies import claims
from joulerig.analysis.studies.claims import Claim
from joulerig.analysis.studies.study import Study, StudyFigure

FASTER = Claim("faster", "f2fs does more operations a second than ext4.", from_the_io_path=True)


def rate(run):
    return run.performance.ops_per_second if run.performance else None


def verdicts(campaign):
    by_name = {name: [run for run in campaign.runs if run.filesystem == name] for name in ("f2fs", "ext4")}
    effect = claims.ratio(by_name["f2fs"], by_name["ext4"], rate)
    return [claims.greater(FASTER, "all drives", effect, "above 1: ops/s, f2fs over ext4")]


def rates(campaign):
    with canvas(2) as figure:
        figure.subplots().plot([rate(run) for run in campaign.runs])
        return to_svg(figure, campaign.virtual)


STUDY = Study(
    title="f2fs against ext4",
    reference="Doe 2026, doi 10.0000/none",
    factors=("drive", "filesystem", "scheduler", "workload"),
    claims=(FASTER,),
    verdicts=verdicts,
    figures=(StudyFigure(rates, "Operations a second, run by run."),),
)
'''

USE = """
import json, sys
from pathlib import Path
from joulerig.analysis import studies
from joulerig.analysis.report import document
from joulerig.analysis import results
from joulerig.analysis.tables import comparisons
from joulerig.rig.campaign import definition
from tests.bench import studies as make_studies
from tests.support import simulated_campaign

levels = {"filesystems": ("ext4", "f2fs"), "schedulers": ("none",)}
folder = simulated_campaign.build(Path(sys.argv[1]), replicates=3, **levels)
campaign = results.load(folder)
campaign.definition["study"] = "f2fs_speed"
try:
    definition.Campaign.model_validate({"study": "unknown"})
except ValueError as error:
    allowed = str(error)
html = document.html(campaign)
shown = ("f2fs against ext4", "Operations a second, run by run.", "10.0000/none")
study = studies.find_study(campaign)
studies.write_pages(Path(sys.argv[1]) / "pages")
print(json.dumps({
    "table": comparisons.claims(campaign, ()).select("study", "claim", "verdict").to_dicts(),
    "report": [text in html for text in shown],
    "allowed": "f2fs_speed" in allowed,
    "page": (Path(sys.argv[1]) / "pages" / "f2fs_speed.md").read_text(),
    "index": "f2fs_speed.md" in studies.index(),
    "must_hold": [claim.key for claim in study.claims_from_the_io_path],
    "make_studies": "f2fs_speed" in make_studies.studies.STUDIES,
}))
"""


@pytest.fixture(scope="module")
def used(tmp_path_factory):
    """What a copy of the project does with the study above as its only new file."""
    copy = tmp_path_factory.mktemp("copy")
    for name in ("analysis", "joulerig", "rig", "virtuallab", "tests", "ansible", "workloads", "docs"):
        ignored = shutil.ignore_patterns("__pycache__", "node_modules")
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=ignored)
    (copy / "analysis" / "studies" / "f2fs_speed.py").write_text(STUDY)
    command = [sys.executable, "-c", USE, str(copy / "campaign")]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_campaign_can_name_it(used):
    assert used["allowed"]


def test_its_claims_are_judged_in_the_table(used):
    assert used["table"] == [{"study": "f2fs_speed", "claim": "faster", "verdict": "holds"}]


def test_the_report_shows_its_section_and_figure(used):
    assert used["report"] == [True, True, True]


def test_its_page_is_generated(used):
    assert used["page"].startswith("# f2fs against ext4\n\nDoe 2026")
    assert "**Question.** Is f2fs faster than ext4?" in used["page"]
    assert "| `faster` | f2fs does more operations a second than ext4. | published | yes |" in used["page"]
    assert used["index"]


def test_make_studies_runs_it_and_knows_what_must_hold(used):
    assert used["make_studies"]
    assert used["must_hold"] == ["faster"]


@pytest.mark.parametrize("name", studies.STUDIES)
def test_the_page_in_the_repository_is_the_generated_one(name):
    """`python -m joulerig.analysis.studies docs/studies` writes it."""
    page = (ROOT / "docs" / "studies" / f"{name}.md").read_text()
    assert page == studies.STUDIES[name].page()


def test_the_index_in_the_repository_is_the_generated_one():
    assert studies.index() in (ROOT / "docs" / "studies" / "README.md").read_text()


def test_claims_are_judged_and_campaigns_checked_without_matplotlib():
    code = "import sys, joulerig.analysis.tables.comparisons as _; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)
