# SPDX-License-Identifier: GPL-3.0-or-later
"""What set the pace of a campaign's loads, in words."""

from dataclasses import replace

import pytest

from joulerig.analysis.runs import pace
from joulerig.analysis.runs.pace import Pace
from tests.bench import studies
from tests.support import simulated_campaign

PROCESSORS = {"processors": {"h1": {"accelerator": "tcg", "slowness": 32.6}}}


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    from joulerig.analysis import results

    folder = tmp_path_factory.mktemp("pace")
    simulated_campaign.build(folder / "c")
    return results.load(folder / "c")


def with_pace(campaign, shares, slow=1.0, provenance=None):
    """Return the campaign with as many runs as shares, of so slow a lab."""
    runs = [
        replace(
            run,
            result=replace(run.result, device_bound_fraction=share),
            phases={**run.phases, "workload": replace(run.phases["workload"], slowness=slow)},
        )
        for run, share in zip((run for run in campaign.runs if run.counts), shares, strict=False)
    ]
    return replace(campaign, runs=tuple(runs), provenance=provenance or {})


def test_nothing_is_said_where_no_run_knows(campaign):
    assert pace.of_campaign(with_pace(campaign, [None, None])) is None


def test_the_least_and_the_greatest_share_are_named(campaign):
    found = pace.of_campaign(with_pace(campaign, [0.24, None, 0.39]))
    assert found == Pace((0.24, 0.39), (1.0, 1.0), None)
    assert found.sentence == (
        "the drive models set the pace for 24 to 39 % of a run's load, the test host's processor for the rest"
    )


def test_the_slow_motion_that_it_would_take_is_named(campaign):
    found = pace.of_campaign(with_pace(campaign, [0.24, 0.39], provenance=PROCESSORS))
    assert found.sentence.endswith("; with slow motion 32.6 it would be as fast as the machine")


def test_slow_motion_is_named_with_what_it_would_still_take(campaign):
    found = pace.of_campaign(with_pace(campaign, [0.79], slow=10.0, provenance=PROCESSORS))
    assert found.sentence == (
        "the drive models set the pace for 79 % of a run's load, the test host's processor for the rest"
        "; slow motion 10; with slow motion 32.6 it would be as fast as the machine"
    )


def test_a_host_as_fast_as_the_machine_needs_nothing_more(campaign):
    found = pace.of_campaign(with_pace(campaign, [0.95], slow=32.6, provenance=PROCESSORS))
    assert found.sentence.endswith("for the rest; slow motion 32.6")


def test_what_is_not_known_of_slow_motion_is_not_said(campaign):
    found = pace.of_campaign(with_pace(campaign, [0.5], slow=None, provenance=PROCESSORS))
    assert found.sentence.endswith("for the rest")


def test_slow_motion_is_known_where_no_drive_sets_the_pace_as_on_an_nvdimm(campaign):
    without = with_pace(campaign, [None, None], slow=37.0)
    assert pace.slowness(without) == (37.0, 37.0)
    drive = without.runs[0].drive
    assert studies.paced(without, f"{drive}, tpcc, ext4") == {
        "k": (37.0, 37.0),
        "device_bound_fraction": None,
        "accelerator": None,
    }
