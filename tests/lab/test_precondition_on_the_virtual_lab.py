# SPDX-License-Identifier: GPL-3.0-or-later
"""A real kernel preconditions a twin until it is steady; the twin reports the result."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from joulerig.rig.campaign.drive_record import DriveRecord
from tests.support.lab_driver import Lab

pytestmark = [
    pytest.mark.lab,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif("JOULERIG_WORKLOADS" not in os.environ, reason="make test-workloads runs these"),
]

DRIVE, SERIAL, SIZE = "nvme-plp", "JRNVP0001", 4 << 30
FILESYSTEMS = ["ext4", "f2fs", "xfs", "btrfs"]
NO_DISCARD = {"ext4": "-K", "f2fs": "-t 0", "xfs": "-K", "btrfs": "-K"}
ASKED = {"passes": 1, "round_seconds": 2, "max_rounds": 7, "reuse_within": 1}


def campaign(lab: Lab, name: str, filesystems: list[str], **asked: Any) -> dict[str, Any]:
    """Return a preconditioned campaign's results, and what the drive's twin counted."""
    before = lab.twins()[DRIVE]
    playbook = lab.playbook(
        name=name,
        drives=[DRIVE],
        factors={"filesystem": filesystems, "scheduler": ["none"], "workload": ["randwrite-fsync"]},
        phases={"rest_seconds": 0, "idle_seconds": 1, "workload_seconds": 2, "tail_seconds": 1},
        order="as-written",
        precondition={**ASKED, **asked},
    )
    done = lab.rig("run", str(playbook))
    assert done.returncode == 0, done.stdout + done.stderr
    after = lab.twins()[DRIVE]
    counters = {key: after["counters"][key] - before["counters"][key] for key in after["counters"]}
    found = lab.results_of()
    events = events_of(lab)
    kept = {
        run["factors"]["filesystem"]: json.loads(
            (lab.results / found["campaign"] / "runs" / run["id"] / "precondition.json").read_text()
        )
        for run in found["runs"]
    }
    return {
        **found,
        "output": done.stdout,
        "twin": counters,
        "health": after["health"],
        "events": events,
        "kept": kept,
    }


def events_of(lab: Lab) -> list[dict[str, Any]]:
    with DriveRecord(lab.folder / "var" / "drives.sqlite") as record:
        return record.events(SERIAL)


@pytest.fixture(scope="module")
def settled(lab: Lab) -> dict[str, Any]:
    return campaign(lab, "settled", FILESYSTEMS)


def campaign_events(settled: dict[str, Any], event: str) -> list[dict[str, Any]]:
    runs = {run["id"] for run in settled["runs"]}
    return [one for one in settled["events"] if one["event"] == event and one["by"] in runs]


def test_every_run_is_ok(settled):
    assert [(run["status"], run["factors"]["filesystem"]) for run in settled["runs"]] == [
        ("ok", name) for name in FILESYSTEMS
    ]


def test_the_purge_reached_the_drive(settled):
    """blkdiscard of the whole drive: the block layer counts it once, and the twin got all of it."""
    [first, *_] = campaign_events(settled, "ended")
    assert first["discard_bytes"] == SIZE
    assert [one["method"] for one in campaign_events(settled, "purged")] == ["discard"]
    counted = sum(one["discard_bytes"] for one in campaign_events(settled, "ended"))
    assert settled["twin"]["discard_bytes"] == counted


def test_the_drive_was_filled_from_end_to_end_and_loaded(settled):
    [first, *_] = campaign_events(settled, "ended")
    assert first["write_bytes"] > SIZE
    rounds = settled["kept"]["ext4"]["stretches"]
    loaded = sum(ASKED["round_seconds"] * one["iops"] * 4096 for stretch in rounds for one in stretch)
    assert first["write_bytes"] == pytest.approx(SIZE + loaded, rel=0.02)
    # What the block layer counted over passes, rounds and runs is what the twin was given.
    counted = sum(one["write_bytes"] for one in campaign_events(settled, "ended"))
    assert settled["twin"]["write_bytes"] == pytest.approx(counted, rel=0.01)


def test_it_is_judged_on_operations_and_on_watts(settled):
    found = settled["kept"]["ext4"]
    assert found["verdict"]["judged_on"] == ["iops", "watts"]
    assert 5 <= found["verdict"]["rounds"] + found["verdict"]["rounds_before"] <= ASKED["max_rounds"]
    for stretch in found["stretches"]:
        for one in stretch:
            assert one["iops"] > 0
            assert 3 < one["watts"] < 15  # the twin draws 5 W idle, 9 W at most by its profile
    for window in found["verdict"]["windows"]:
        assert window["steady"] == (window["range_fraction"] <= 0.2 and window["slope_fraction"] <= 0.1)


def test_later_runs_reuse_it(settled):
    first, *later = (settled["kept"][name] for name in FILESYSTEMS)
    assert (first["reused"], [one["reused"] for one in later]) == (False, [True] * len(later))
    assert all(one["by"] == first["by"] == settled["runs"][0]["id"] for one in later)
    assert len(campaign_events(settled, "preconditioned")) == 1


@pytest.mark.parametrize("filesystem", FILESYSTEMS)
def test_mkfs_does_not_discard_the_drive(settled, filesystem):
    """The module fails a run whose mkfs discarded; here its words are seen to take effect."""
    [command] = [
        one["command"] for one in campaign_events(settled, "made") if f"mkfs.{filesystem}" in one["command"]
    ]
    assert f" {NO_DISCARD[filesystem]} " in command
    number = FILESYSTEMS.index(filesystem)
    discarded = campaign_events(settled, "ended")[1 + number]["discard_bytes"]
    assert discarded < 0.1 * SIZE
    if filesystem in ("ext4", "xfs"):  # these discard nothing of their own accord
        assert discarded == 0


def test_it_is_in_results_in_the_report_and_shown_for_the_drive(lab: Lab, settled):
    assert f"drive vhost1/{DRIVE}: preconditioned 1 time" in settled["output"]
    assert lab.rig("report", settled["campaign"], "--format", "html").returncode == 0
    report = (lab.results / settled["campaign"] / "report" / "report.html").read_text()
    assert "Steady state of the drives" in report
    state = lab.rig("drives", "state").stdout
    assert f"vhost1/{DRIVE}: {settled['kept']['ext4']['verdict']['reason']}" in state


def test_the_dashboard_can_follow_it(lab: Lab, settled):
    """Steps as phases of the first run, one point a round; the run's own phases come after."""
    run = settled["runs"][0]["id"]
    with lab.database() as database:
        phases = database.query(f"SELECT start_ns, end_ns FROM phase WHERE run = '{run}' GROUP BY phase")
        rounds = database.query(f"SELECT number, at_most, ops FROM precondition WHERE run = '{run}'")
    phases = phases.drop_nulls("end_ns").sort("start_ns")
    assert phases["phase"].to_list()[:4] == ["purge", "passes", "rounds", "prepare"]
    made = [one for stretch in settled["kept"]["ext4"]["stretches"] for one in stretch]
    assert rounds["number"].to_list() == list(range(1, len(made) + 1))


def test_a_format_makes_an_nvme_drive_forget(lab: Lab):
    found = campaign(lab, "formatted", ["ext4"], purge="format", passes=0, max_rounds=5, reuse_within=0)
    assert found["runs"][0]["status"] == "ok"
    assert found["kept"]["ext4"]["why"].startswith("preconditioned otherwise: passes was 1, 0 is wanted")
    assert [one["method"] for one in campaign_events(found, "purged")] == ["format"]
    # The drive was full before; since then it holds what rounds and run wrote.
    assert found["health"]["mapped_bytes"] < SIZE / 2
