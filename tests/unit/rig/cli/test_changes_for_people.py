# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig compare`: what changed from one campaign to another."""

import json

import pytest

from joulerig.analysis import results
from joulerig.rig.cli.compare import command as compare
from tests.support import simulated_campaign


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    given = {"drives": ("nvme-plp",), "filesystems": ("f2fs",), "replicates": 3, "noise": 0.002}
    before = simulated_campaign.build(folder / "before", **given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(simulated_campaign.SCHEDULER_SPEED, "bfq", 0.95)
        return before, simulated_campaign.build(folder / "after", **given, seed=2)


def test_the_first_line_sums_up_and_the_changed_cell_is_marked(folders):
    text = compare.text(*map(results.load, folders))
    first = text.splitlines()[0]
    assert first.endswith("1 cell more work per joule, 0 less, 2 without a significant change")
    assert first.count("VIRTUAL LAB") == 2
    marked = [line for line in text.splitlines() if line.endswith("* │")]
    assert ["bfq" in line for line in marked] == [True]
    assert "differs: definition seed: 1, then 2" in text


def test_json_has_the_same(folders):
    found = json.loads(json.dumps(compare.as_json(*map(results.load, folders))))
    assert [cell["cell"].split("/")[2] for cell in found["cells"] if cell["significant"]] == ["bfq"]
    assert {"name": "definition seed", "before": "1", "after": "2"} in found["settings"]


def test_campaigns_without_a_common_cell_say_so(folders, tmp_path):
    other = simulated_campaign.build(tmp_path / "c", drives=("sata-plp",), filesystems=("xfs",))
    text = compare.text(results.load(folders[0]), results.load(other))
    assert "no cell has an AI in both" in text
    assert "sata-plp/xfs/none/randwrite-fsync, " in text
