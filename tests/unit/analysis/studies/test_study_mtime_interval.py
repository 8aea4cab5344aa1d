# SPDX-License-Identifier: GPL-3.0-or-later
"""The timer-interval study, on campaigns that do what the model says, and on some that do not."""

import dataclasses
import json
import math

import pytest

from joulerig.analysis import results, studies
from joulerig.analysis.report import document
from joulerig.analysis.studies import mtime_interval
from joulerig.analysis.studies.claims import DOES_NOT, HOLDS, OPEN, Measured
from joulerig.analysis.tables import runs_and_cells
from tests.support import simulated_campaign

PACED, NEVER = "overwrite-fsync-paced", "overwrite-fdatasync"
SETTINGS = {
    "ext4": ["mkfs.ext4", "-q", "-b", "4096"],
    "ext4-inode128": ["mkfs.ext4", "-q", "-b", "4096", "-I", "128"],
}


@pytest.fixture
def campaign(tmp_path):
    """Both sizes of inode, 3 blocks of 10 s; `changed` makes of it what a kernel does."""
    folder = simulated_campaign.build(
        tmp_path / "c",
        drives=("nvme-consumer",),
        filesystems=tuple(SETTINGS),
        schedulers=("none",),
        workloads=(PACED, NEVER),
        replicates=3,
    )
    return results.load(folder)


def changed(campaign, rate=None, hertz=250, off=1.0, bound=0.9, even=1.0, counts=False, **definition):
    """Return the campaign with I/O by the model at `rate(run)` syncs a second.

    Volumes are `off` by a factor. `even`: of the syncs that would find a new tick at an even pace,
    those that do; `counts`: whether the load reports them.
    """
    found = []
    for run in campaign.runs:
        never = run.workload == NEVER
        interval = math.inf if never else 1.0 if run.filesystem == "ext4-inode128" else 1 / hertz
        per_second = rate(run) if rate else 95.0 + run.block
        part = 0.0 if math.isinf(interval) else min(1.0, 1 / (interval * per_second))
        part *= even if interval < 1 else 1
        syncs = round(per_second * 10)
        host = dataclasses.replace(
            run.io["host"],
            write_bytes=round(1024 * (4 + 12 * part) * syncs * off * (1 + 0.001 * run.block)),
            flushes=round((1 + part) * syncs),
        )
        run.folder.mkdir(parents=True, exist_ok=True)
        stamps = {"stamps": dict.fromkeys(("new_tick", "new_second"), round(part * syncs))} if counts else {}
        (run.folder / "load.json").write_text(
            json.dumps({"parameters": {"call": "fdatasync" if never else "fsync"}, **stamps})
        )
        (run.folder / "settings.json").write_text(
            json.dumps({"mkfs": SETTINGS[run.filesystem], "host": {"tick_hertz": hertz}})
        )
        found.append(
            dataclasses.replace(
                run,
                performance=dataclasses.replace(
                    run.performance, seconds=10.0, syncs=syncs, write_bytes=4096 * syncs
                ),
                result=dataclasses.replace(run.result, device_bound_fraction=bound),
                io={**run.io, "host": host},
            )
        )
    definition = {**campaign.definition, "study": "mtime_interval", **definition}
    return dataclasses.replace(campaign, runs=tuple(found), definition=definition)


def verdicts_of(campaign):
    return {one.claim.key: one for one in map(Measured.judged, mtime_interval.measure(campaign))}


def test_where_every_sync_finds_a_new_tick_a_second_long_mtime_writes_75_percent_less(campaign):
    found = verdicts_of(changed(campaign))
    volume = found["volume_1s"]
    assert volume.verdict == HOLDS
    assert volume.effect.value == pytest.approx((4 + 12 / 97) / 16, rel=0.01)
    assert volume.effect.low < volume.effect.value < volume.effect.high
    assert found["model"].verdict == HOLDS
    assert volume.where == f"nvme-consumer, {PACED}"


def test_a_campaign_that_writes_as_much_either_way_denies_it(campaign):
    same = changed(campaign, hertz=1)
    runs = [
        dataclasses.replace(run, io={"host": dataclasses.replace(run.io["host"], write_bytes=16384 * 960)})
        for run in same.runs
    ]
    for run in runs:
        (run.folder / "settings.json").write_text(
            json.dumps({"mkfs": SETTINGS[run.filesystem], "host": {"tick_hertz": 1000}})
        )
    found = verdicts_of(dataclasses.replace(same, runs=tuple(runs)))
    assert found["volume_1s"].verdict == DOES_NOT
    assert found["model"].verdict == DOES_NOT
    assert found["model"].effect.high > 3


def test_an_uneven_pace_breaks_the_model_of_an_even_one_and_not_what_was_counted(campaign):
    found = verdicts_of(changed(campaign, even=0.7, counts=True))
    assert found["model"].verdict == DOES_NOT
    assert found["model"].why.endswith("the pace is uneven: f is 1.00 modelled and 0.70 counted at worst")
    assert found["counted"].verdict == HOLDS
    assert 0.95 < found["counted"].effect.low <= found["counted"].effect.high < 1.05


@pytest.mark.parametrize("rate", [95.0, 5000.0])
def test_what_follows_from_the_io_path_alone_holds_at_any_rate(campaign, rate):
    found = verdicts_of(changed(campaign, rate=lambda run: rate + run.block, hertz=1000, counts=True))
    assert found["volume_1s"].verdict == (HOLDS if rate < 1000 else DOES_NOT)
    [of_the_path] = studies.STUDIES["mtime_interval"].claims_from_the_io_path
    assert found[of_the_path.key].verdict == HOLDS


def test_at_other_rates_than_the_studys_the_model_says_what_is_expected_of_10_ms(campaign):
    found = verdicts_of(changed(campaign, rate=lambda run: 70.0 + run.block, hertz=100))["volume_10ms"]
    assert (found.verdict, found.effect.value) == (DOES_NOT, pytest.approx((4 + 12 / 71.5) / 16, rel=0.01))
    assert found.why == "0.26 by the model, at 71 to 73 syncs a second"


def test_what_is_counted_can_be_denied_and_may_be_missing(campaign):
    assert verdicts_of(changed(campaign, off=1.2, counts=True))["counted"].verdict == DOES_NOT
    missing = verdicts_of(changed(campaign))["counted"]
    assert (missing.verdict, missing.why) == (OPEN, "no load counted its stamps")


def test_syncs_faster_than_the_tick_cannot_stand_for_a_shorter_one(campaign):
    found = verdicts_of(changed(campaign, rate=lambda run: 2000.0 + run.block))
    assert found["volume_1s"].verdict == OPEN
    assert "at most 12 % of the syncs found a new mtime" in found["volume_1s"].why
    assert found["model"].verdict == HOLDS


def test_a_kernel_of_1000_hertz_stands_for_itself(campaign):
    found = verdicts_of(changed(campaign, rate=lambda run: 500.0 + run.block, hertz=1000))
    assert found["volume_1s"].verdict == HOLDS
    assert found["volume_10ms"].verdict == OPEN
    assert "tick of 10 ms" in found["volume_10ms"].why


def test_a_kernel_of_100_hertz_answers_the_claim_of_10_ms(campaign):
    """At R syncs a second, (4 + 12 / R) / (4 + 1200 / R) is 0.72 for R = 760 or so."""
    found = verdicts_of(changed(campaign, rate=lambda run: 760.0 + run.block, hertz=100))
    assert found["volume_10ms"].verdict == HOLDS
    assert found["volume_1s"].verdict == OPEN


def test_both_kernels_answer_and_each_is_compared_with_itself(campaign):
    """One kernel writes more for 128-byte inodes, which must not affect the other's ratio."""
    both = []
    for level, hertz in (("hz100", 100), ("hz1000", 1000)):
        for run in changed(campaign, rate=lambda run: 760.0 + run.block, hertz=hertz).runs:
            odd = 1.04 if (run.filesystem, level) == ("ext4-inode128", "hz100") else 1.0
            folder = run.folder / level
            folder.mkdir()
            for name in ("load.json", "settings.json"):
                (folder / name).write_text((run.folder / name).read_text())
            host = run.io["host"]
            both.append(
                dataclasses.replace(
                    run,
                    id=f"{run.id}-{level}",
                    folder=folder,
                    factors={**run.factors, "kernel": level},
                    io={
                        **run.io,
                        "host": dataclasses.replace(host, write_bytes=round(host.write_bytes * odd)),
                    },
                )
            )
    found = verdicts_of(dataclasses.replace(changed(campaign), runs=tuple(both)))
    volume = (4 + 12 / 762) / (4 + 12 * 100 / 762)
    assert found["volume_10ms"].verdict == HOLDS
    assert found["volume_10ms"].effect.value == pytest.approx(1.04 * volume, rel=0.002)
    assert found["volume_1s"].verdict == HOLDS
    assert found["volume_1s"].effect.value == pytest.approx((4 + 12 / 762) / 16, rel=0.002)


def test_speed_is_judged_where_the_drive_sets_the_pace_and_volume_everywhere(campaign):
    fast = {"ext4": 100.0, "ext4-inode128": 310.0}

    def rate(run):
        return fast[run.filesystem] * (1 + 0.002 * run.block * (1 + (run.filesystem == "ext4")))

    assert verdicts_of(changed(campaign, rate))["rate_1s"].verdict == HOLDS
    found = verdicts_of(changed(campaign, rate, bound=0.04))
    assert found["rate_1s"].verdict == found["energy_1s"].verdict == OPEN
    assert "the drive set the pace for 4 % of the time" in found["rate_1s"].why
    assert found["volume_1s"].verdict == HOLDS
    slow = verdicts_of(changed(campaign, lambda run: 100.0 + run.block))
    assert slow["rate_1s"].verdict == DOES_NOT


def test_runs_that_do_not_report_their_tick_are_left_out(campaign):
    without = changed(campaign)
    for run in without.runs:
        (run.folder / "settings.json").write_text(json.dumps({"mkfs": ["mkfs.ext4"]}))
    assert {point.interval for point in mtime_interval.points(without)} == {math.inf}
    found = verdicts_of(without)
    assert set(found) == {"model", "counted"}
    nothing = dataclasses.replace(without, runs=())
    assert verdicts_of(nothing) == {}


def test_without_small_inodes_the_claims_are_open(campaign):
    whole = changed(campaign)
    large = tuple(run for run in whole.runs if run.filesystem == "ext4")
    found = verdicts_of(dataclasses.replace(whole, runs=large))
    assert found["volume_1s"].verdict == OPEN
    assert found["volume_1s"].why == "no file system with 128-byte inodes ran"


def test_report_and_tables_show_the_verdicts(campaign):
    claims = {"counted": {"cells": {"filesystem": [*SETTINGS]}}}
    fixed = {"ladder": [20, 40], "hours": 1, "greatest_width": 2, "claims": claims}
    whole = changed(campaign, counts=True, registered=fixed, replicates=3, slow_motion=20)
    page = document.html(whole)
    assert "Timer interval and fsync" in page
    assert "An mtime interval of 1 s writes 75 % less than one of 1 ms." in page
    assert "<b>holds</b>" in page
    table = runs_and_cells.frames(whole)["claims"]
    assert table.filter(table["verdict"] == "holds")["claim"].to_list() == ["counted"]
    [volume] = table.filter(table["claim"] == "volume_1s").to_dicts()
    assert (volume["verdict"], volume["effect"]) == (OPEN, pytest.approx(0.258, rel=0.01))
    assert volume["why"].startswith("slow motion 1 alone")


def test_a_campaign_that_repeats_no_study_has_no_claims(campaign):
    assert runs_and_cells.frames(campaign)["claims"].is_empty()
    assert "Timer interval" not in document.html(campaign)


@pytest.mark.parametrize("name", ["load.json", "settings.json"])
def test_a_run_whose_files_are_damaged_is_left_out(campaign, name):
    damaged = changed(campaign)
    (damaged.runs[0].folder / name).write_text("{")
    left = {point.run.id for point in mtime_interval.points(damaged)}
    assert left == {run.id for run in damaged.runs[1:]}
