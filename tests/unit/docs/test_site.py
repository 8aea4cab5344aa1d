# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks, extras and campaigns that the documentation shows exist."""

import re
import tomllib

import pytest

from joulerig.rig.campaign import playbook as playbooks
from joulerig.rig.campaign.plan import make_plan
from joulerig.rig.lab import model
from tests.support import ROOT

FOLDERS = ("analysis", "ansible", "collectors", "docs", "firmware", "playbooks", "rig", "tests")
FOLDERS += ("virtuallab", "workloads")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
PAGES += [page for folder in FOLDERS for page in sorted((ROOT / folder).rglob("*.md"))]
PAGES = [page for page in PAGES if not {"decisions", "node_modules"} & set(page.parts)]
TEXT = "\n".join(page.read_text() for page in PAGES)


def test_every_playbook_that_the_docs_show_exists():
    shown = set(re.findall(r"playbooks/([a-z_0-9]+\.yml)", TEXT)) - {"my_first.yml", "my_campaign.yml"}
    assert all((ROOT / "playbooks" / name).is_file() for name in shown), shown


def test_every_extra_that_the_docs_show_exists_and_comes_from_the_checkout():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    shown = re.findall(r"pip install '?([\w.]+)\[([a-z,]+)\]", TEXT)
    assert shown
    for package, names in shown:
        assert package == ".", f"pip install {package}[{names}]: no registry has it"
        assert set(names.split(",")) <= set(extras)


def campaign_shown(page: str) -> str:
    """Return the one playbook of a campaign that a page shows whole."""
    blocks = re.findall(r"^```yaml\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    [playbook] = [block for block in blocks if "import_playbook: campaign.yml" in block]
    return playbook


def test_the_tutorials_campaign_is_the_readmes():
    assert campaign_shown("docs/tutorial/first-campaign.md") == campaign_shown("README.md")


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial/first-campaign.md", "docs/how-to/campaigns.md"])
def test_the_campaign_that_a_page_shows_whole_can_be_planned_on_the_virtual_lab(page, tmp_path, monkeypatch):
    monkeypatch.delenv("JOULERIG_INVENTORY", raising=False)
    (tmp_path / "shown.yml").write_text(campaign_shown(page))
    described = model.load(ROOT / "inventory.ini")
    assert make_plan(playbooks.mapping(tmp_path / "shown.yml"), described, page, short=False).runs
