# SPDX-License-Identifier: GPL-3.0-or-later
"""One new file is a factor: here a lab's own, next to its inventory, as a shipped one would be."""

import pytest

from joulerig.rig.campaign import factors
from joulerig.rig.campaign.execution.request import make_request
from joulerig.rig.campaign.plan import make_plan
from joulerig.rig.common.errors import UserError
from tests.support.additions import READ_AHEAD


@pytest.fixture
def own(lab_files):
    """The lab with `factors/read_ahead_kb.py` next to its inventory."""
    folder = lab_files.folder / "factors"
    folder.mkdir()
    (folder / "read_ahead_kb.py").write_text(READ_AHEAD)
    return lab_files.load()


@pytest.fixture
def asking(mapping):
    mapping["factors"]["read_ahead_kb"] = [0, 128]
    return mapping


def test_a_campaign_varies_it(own, asking):
    plan = make_plan(asking, own, "playbooks/study.yml")
    assert plan.further_factors == ["read_ahead_kb"]
    assert {run.levels["read_ahead_kb"] for run in plan.runs} == {"0", "128"}
    assert {run.cell.rpartition("/")[2] for run in plan.runs} == {"read_ahead_kb=0", "read_ahead_kb=128"}


def test_the_host_is_asked_to_set_its_file(own, asking):
    plan = make_plan(asking, own, "playbooks/study.yml")
    run = next(run for run in plan.runs if run.levels["read_ahead_kb"] == "128")
    [file] = make_request(plan.campaign, own, run, run_id="r", campaign_id="c").kernel_files
    assert (file.factor, file.value) == ("read_ahead_kb", "128")
    assert file.path == "/sys/block/{device}/queue/read_ahead_kb"


def test_a_level_that_is_not_allowed_is_one_line(own, asking):
    asking["factors"]["read_ahead_kb"] = [99999]
    with pytest.raises(UserError, match=r"^playbooks/study.yml: .*read_ahead_kb.*allowed: 0 to 16384$"):
        make_plan(asking, own, "playbooks/study.yml")


def test_its_levels_can_be_excluded(own, asking):
    asking["exclude"] = [{"read_ahead_kb": 0, "scheduler": "bfq", "reason": "not of interest"}]
    plan = make_plan(asking, own, "playbooks/study.yml")
    excluded = {(run.levels["read_ahead_kb"], run.levels["scheduler"]) for run in plan.runs if run.excluded}
    assert excluded == {("0", "bfq")}


def test_a_lab_without_it_names_what_is_allowed(bench, asking):
    with pytest.raises(UserError, match=r"campaign\.factors: unknown key 'read_ahead_kb'; allowed: .*fill"):
        make_plan(asking, bench, "playbooks/study.yml")


def test_it_is_in_the_documentation(own):
    assert "`read_ahead_kb` | Read ahead. KiB that the kernel reads ahead." in factors.reference(
        factors.load(own)
    )


def test_a_shipped_name_is_refused(lab_files):
    (lab_files.folder / "factors").mkdir()
    (lab_files.folder / "factors/fill.py").write_text(READ_AHEAD)
    with pytest.raises(UserError, match=r"factors/fill.py: fill: is a shipped factor; give another name"):
        factors.load(lab_files.load())


@pytest.mark.parametrize("text", ["FACTOR = 3", "import nothing_of_that_name", "FACTOR ="])
def test_a_file_that_declares_none_is_one_line(lab_files, text):
    (lab_files.folder / "factors").mkdir()
    (lab_files.folder / "factors/odd.py").write_text(text)
    with pytest.raises(UserError, match=r"factors/odd.py: \w+: ") as caught:
        factors.load(lab_files.load())
    assert "\n" not in str(caught.value)
