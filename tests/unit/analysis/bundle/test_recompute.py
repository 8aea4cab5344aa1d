# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign recomputed from its runs' files, and how it is compared with the journal."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

from joulerig.analysis import results
from joulerig.analysis.bundle import recompute
from joulerig.analysis.results.campaign import Campaign
from tests.support import verifiable_campaign

RUN = "demo-20261113-082640-0001"


def offenders(campaign: Campaign) -> dict[str, list[str]]:
    _, tallies = recompute.recompute(campaign)
    return {kind: tally.offenders for kind, tally in tallies.items() if tally.offenders}


def test_what_the_files_give_is_the_journals(folder):
    campaign = results.load(folder)
    again, tallies = recompute.recompute(campaign)
    assert offenders(campaign) == {}
    assert all(tally.compared for tally in tallies.values())
    assert again.runs[0].result == campaign.runs[0].result


def test_joules_of_a_part_of_the_drives_are_not_the_runs(folder):
    """The array has a second member, whose energy nothing has measured."""
    campaign = results.load(folder)
    lab = copy.deepcopy(campaign.lab)
    host = lab["hosts"][campaign.runs[0].host]
    host["arrays"] = {"nvme-plp": {"members": ["nvme-plp", "other"]}}
    host["drives"]["other"] = {"rails": {}}
    found = offenders(replace(campaign, lab=lab))["joules and AI of runs"]
    stored = campaign.runs[0].result.joules
    assert f"{RUN}: workload: joules: {stored!r} is stored, nothing comes out" in found


def test_how_slow_the_lab_was_is_the_journals_word(folder):
    verifiable_campaign.edit(folder, "UPDATE phase SET slowness = 40 WHERE phase = 'idle'")
    campaign = results.load(folder)
    again, _ = recompute.recompute(campaign)
    assert offenders(campaign) == {}
    assert (again.runs[0].phases["idle"].slowness, again.runs[0].phases["tail"].slowness) == (40, 1)


def test_counts_that_an_older_journal_has_not_are_not_compared(folder):
    verifiable_campaign.edit(folder, "UPDATE energy SET duplicate = NULL, repeated = NULL, joules_low = NULL")
    assert offenders(results.load(folder)) == {}
    verifiable_campaign.edit(folder, "UPDATE energy SET lost = lost + 1 WHERE phase = 'idle'")
    assert len(offenders(results.load(folder))["energy"]) == 1


def test_a_computed_column_that_is_older_than_itself_is_not_compared(folder):
    verifiable_campaign.edit(folder, "UPDATE result SET cpu_joules = NULL")
    found = offenders(results.load(folder))
    assert list(found) == ["joules and AI of runs"]  # the file of the processor is there


def test_energy_stays_in_the_journals_order(folder):
    campaign = results.load(folder)
    turned = replace(campaign.runs[0], energy=campaign.runs[0].energy[::-1])
    again, _ = recompute.recompute(replace(campaign, runs=(turned,)))
    assert [one.phase for one in again.runs[0].energy] == [one.phase for one in turned.energy]


def test_a_rail_that_the_journal_has_too_many_is_found(folder):
    campaign = results.load(folder)
    run = campaign.runs[0]
    more = (*run.energy, replace(run.energy[0], rail="5v"))
    found = offenders(replace(campaign, runs=(replace(run, energy=more),)))["energy"]
    assert (
        f"{RUN}: prepare nvme-plp tap1a 5v: joules: {run.energy[0].joules!r} is stored, nothing comes out"
        in found
    )


def test_an_io_count_of_a_source_without_a_file_stands(folder):
    """No file of the run has a count of `iod`."""
    campaign = results.load(folder)
    counts = replace(campaign.runs[0].io["host"], source="iod", writes=1)
    run = replace(campaign.runs[0], io={**campaign.runs[0].io, "iod": counts})
    again, tallies = recompute.recompute(replace(campaign, runs=(run,)))
    assert again.runs[0].io["iod"] == counts
    assert tallies["I/O counts"].offenders == []


def test_a_run_that_failed_without_phases_has_none_that_are_missing(folder):
    verifiable_campaign.edit(folder, "UPDATE run SET status = 'failed'")
    for table in ("phase", "performance", "energy", "result", "io"):
        verifiable_campaign.edit(folder, f"DELETE FROM {table}")
    assert offenders(results.load(folder)) == {}


def test_a_run_whose_host_recorded_no_clock_has_no_phases(folder):
    path = folder / "runs" / RUN / "result.json"
    answer = json.loads(path.read_text())
    path.write_text(json.dumps({**answer, "clock": []}))
    found = offenders(results.load(folder))["phases"]
    assert any("phase workload: start_ns" in one and "nothing comes out" in one for one in found)
