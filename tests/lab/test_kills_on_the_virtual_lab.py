# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign has exactly its plan in the end, whatever was killed on its way, and when.

JOULERIG_KILLS moments, of each kind in turn (tests/support/kills.py); `make test-kills` has 100 of
them and writes results/bench/durability.json. `make test-long-load` has one load of half an hour.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from joulerig.analysis import results
from joulerig.analysis.compare import races
from joulerig.analysis.results import power_points
from joulerig.analysis.results.schema import EventKind, Status
from joulerig.rig.common import supervisor
from joulerig.rig.controller import services
from tests.support import ROOT
from tests.support.kept_campaign import KeptCampaign, planned
from tests.support.kills import LEFT, SETTINGS, Kills, controllers
from tests.support.lab_driver import FACTORS, WHOLE_LAB, Lab
from tests.support.programs import wait_for
from tests.support.ssh_proxy import SshProxy

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(6 * 3600)]

MOMENTS = int(os.environ.get("JOULERIG_KILLS", "0"))
LOAD_SECONDS = int(os.environ.get("JOULERIG_LOAD_SECONDS", "0"))
SHORT = ("controller's machine", "call", "SSH reset", "host")  # where no number is asked for
SEED = int(os.environ.get("JOULERIG_KILLS_SEED", "22"))
REPLICATES = 4 if MOMENTS else 1
COUNTED = (
    "lost", "doubled", "orphans", "settings_left", "outside", "campaigns", "runs", "attempts", "starts",
)  # fmt: skip


@pytest.fixture
def killed(lab: Lab, tmp_path: Path) -> Iterator[tuple[Lab, Kills]]:
    """The lab with its results on a small disk of their own, and its host behind a proxy."""
    small = lab.with_results(tmp_path / "results")
    small.results.mkdir()
    config = lab.folder / "var" / "lab" / "ssh_config"
    direct = Path(shutil.copy(config, tmp_path / "direct"))
    mount = ["mount", "-t", "tmpfs", "-o", "size=400m", "joulerig-kills", str(small.results)]
    subprocess.run(mount, check=True)
    proxy = SshProxy.before(config)
    try:
        yield small, Kills(small, proxy, direct, random.Random(SEED))
    finally:
        proxy.close()
        shutil.copy(direct, config)
        shutil.copytree(small.results, lab.results, dirs_exist_ok=True)
        subprocess.run(["umount", "--lazy", str(small.results)], check=True)


def _short_runs(lab: Lab, number: int) -> KeptCampaign:
    """A campaign of short runs on two drives."""
    playbook = lab.playbook(
        name=f"kills-{number}",
        drives=["nvme-consumer", "sata-consumer"],
        replicates=REPLICATES,
        factors={"filesystem": ["ext4", "f2fs"], "scheduler": ["bfq"], "workload": ["randwrite-fsync"]},
        waveforms={"max_megabytes": 2},
        phases={"rest_seconds": 0, "idle_seconds": 1, "workload_seconds": 3, "tail_seconds": 1},
    )
    return KeptCampaign(lab, playbook)


def _record(lab: Lab, campaign: KeptCampaign) -> Counter[str]:
    """Count what is wrong with a campaign's record: runs lost, doubled, outside of their bounds."""
    loaded = results.load(campaign.folder)
    found = Counter(runs=len(loaded.runs), starts=campaign.starts)
    found["lost"] = 4 * REPLICATES - sum(run.status == Status.OK for run in loaded.runs)
    spans = []
    for run in loaded.runs:
        found["attempts"] += len(run.attempts)
        found["doubled"] += sum(one.status == Status.OK for one in run.attempts) > 1
        if phases := run.phases.values():
            spans.append((min(one.start_ns for one in phases), max(one.end_ns for one in phases)))
    spans.sort()  # of a host: it does one at a time
    found["doubled"] += sum(after[0] < before[1] for before, after in itertools.pairwise(spans))
    found["outside"] = sum(not run["truth_within"] for run in lab.results_of(campaign.id)["runs"])
    return found


def _orphans(lab: Lab, kills: Kills) -> list[str]:
    """What is left of a campaign that is over: processes, calls, mounts, recordings."""
    found = [" ".join(one.cmdline()) for one in controllers(lab) if "ControlPersist" not in one.cmdline()]
    found += kills.on_host(LEFT).splitlines()
    with lab.state():
        meters = services.powerd_status()["meters"]
    return found + [f"{one['meter']} is recorded" for one in meters if one["recording"]]


@pytest.mark.skipif(not (MOMENTS or WHOLE_LAB), reason="make test-lab does it")
def test_a_campaign_has_exactly_its_plan_whatever_was_killed(killed):
    lab, kills = killed
    moments = MOMENTS or len(SHORT)
    kinds = kills.kinds if MOMENTS else list(SHORT)
    chance = random.Random(SEED)
    before = kills.on_host(SETTINGS)
    began, totals, remarks, of_kind = time.time(), Counter[str](), [], Counter[str]()
    number = 0

    def settle(campaign: KeptCampaign) -> None:
        campaign.complete()
        totals.update(_record(lab, campaign))
        orphans = _orphans(lab, kills)
        changed = {*kills.on_host(SETTINGS).splitlines()} ^ {*before.splitlines()}
        totals.update(campaigns=1, orphans=len(orphans), settings_left=len(changed))
        remarks.extend([*orphans, *sorted(changed)])

    campaign = _short_runs(lab, number)
    campaign.keep_going()
    wait_for(lambda: campaign.finished() >= 1, 600, "a run, without a kill")
    longest = time.time() - began  # from a kill's end to the next kill: a start and a run, or less
    for moment in range(moments):
        if moment % len(kinds) == 0:
            chance.shuffle(kinds)
        if campaign.is_whole():
            settle(campaign)
            number += 1
            campaign = _short_runs(lab, number)
        campaign.keep_going()
        time.sleep(chance.uniform(0, longest))  # the random moment
        print(f"{time.time() - began:.0f} s, {campaign.id}: {kinds[moment % len(kinds)]}", flush=True)
        kills.kill(kinds[moment % len(kinds)])
        of_kind[kinds[moment % len(kinds)]] += 1
    settle(campaign)
    figures: dict[str, Any] = {"moments": moments, **{name: totals[name] for name in COUNTED}}
    figures |= {"seconds": round(time.time() - began), "killed": dict(of_kind), "seed": SEED}
    print(json.dumps(figures), *remarks, sep="\n")
    if MOMENTS >= 100:
        place = ROOT / "results" / "bench" / "durability.json"
        place.write_text(json.dumps(figures, indent=1) + "\n")
    assert {name: figures[name] for name in ("lost", "doubled", "orphans", "settings_left", "outside")} == {
        "lost": 0, "doubled": 0, "orphans": 0, "settings_left": 0, "outside": 0,
    }, remarks  # fmt: skip


# ---------------------------------------------------------------- what goes on for long

long = pytest.mark.skipif(not MOMENTS, reason="make test-kills")


@long
def test_a_campaign_without_influxdb_is_whole_once_it_is_settled(lab: Lab):
    playbook = lab.playbook(name="no-influxdb", hold_minutes=0, replicates=3, factors=FACTORS)
    running = lab.start_rig("run", str(playbook), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        [campaign] = wait_for(lambda: planned(lab, "no-influxdb-"), 120, "a campaign")
        with lab.state():
            supervisor.halt("influxd")
        output, _ = running.communicate(timeout=900)
    finally:
        running.kill()
        running.wait()
        with lab.state():
            supervisor.restart("influxd")
    assert running.returncode == 2, output
    assert _statuses(lab, campaign) == ["partial"] * 3, output
    done = wait_for(lambda: _settled(lab, campaign), 120, "every run is ok")
    assert done.stdout.count("partial -> ok") <= 3
    for run in lab.results_of(campaign)["runs"]:
        assert abs(run["error_percent"]) <= 0.1, "as without the outage"
        assert run["truth_within"]
        assert all(one["lost"] == 0 for one in run["energy"])
        assert {one["source"] for one in run["io"]} == {"host", "iod", "twin"}


@long
def test_a_race_that_is_killed_twice_drops_the_same_cells(killed):
    """The look at which a cell is out follows the spread of the runs, which no two races share."""
    lab, kills = killed
    dropped = _race(lab, kills, "race", ())
    assert dropped, "a cell is out"
    assert _race(lab, kills, "race-killed", ("ansible-playbook", "controller's machine")) == dropped


def _race(lab: Lab, kills: Kills, name: str, kinds: Sequence[str]) -> dict[str, str]:
    """Race ext4, xfs and f2fs, which write less and less for an fsync; kill something of each kind.

    Return the cells whose runs were ended, and why. The looks in the journal have to be those that
    follow from all runs: a kill loses none, and doubles none.
    """
    playbook = lab.playbook(
        name=name,
        drives=["sata-consumer"],
        factors={
            "filesystem": ["ext4", "xfs", "f2fs"],
            "scheduler": ["none"],
            "workload": ["randwrite-fsync"],
        },
        replicates=8,
        order="racing",
        margin_percent=10,
    )
    campaign = KeptCampaign(lab, playbook)
    campaign.keep_going()
    for number, kind in enumerate(kinds):
        least = 2 + 3 * number
        wait_for(lambda least=least: campaign.finished() >= least, 900, "that many runs ended")
        kills.kill(kind)
        wait_for(campaign.is_left, 60, "no process goes on with it")
        campaign.keep_going()
    campaign.complete()
    raced = results.load(campaign.folder)
    events = raced.tables["event"].filter(pl.col("event") == EventKind.LOOK).sort("seq")
    looks = [json.loads(detail) for detail in events["detail"]]
    print(*(f"{name}: look {one['look']}: {one['verdict']}" for one in looks), sep="\n")
    [replayed] = races.races(raced).values()
    assert [(one["look"], [out["cell"] for out in one["dropped"]]) for one in looks] == [
        (one.look, [out.cell for out in one.dropped]) for one in replayed.looks
    ]
    ended = {run.cell: run.reason for run in raced.runs if run.status == Status.NOT_RUN}
    return {cell: re.sub(r" at look \d+,.*", "", reason) for cell, reason in ended.items()}


@pytest.mark.skipif(not LOAD_SECONDS, reason="make test-long-load")
def test_a_long_load_outlives_controller_network_and_reboot(killed):
    lab, kills = killed
    playbook = lab.playbook(
        name="long",
        factors={**FACTORS, "workload": ["randwrite-fsync-paced"]},
        phases={"rest_seconds": 0, "idle_seconds": 1, "workload_seconds": LOAD_SECONDS, "tail_seconds": 1},
    )
    campaign = KeptCampaign(lab, playbook)
    campaign.keep_going()
    wait_for(lambda: kills.on_host("pgrep -x fio"), 300, "a load")
    time.sleep(LOAD_SECONDS / 10)  # into the load
    early = _drawn(lab)
    kills.kill("ansible-playbook")
    wait_for(campaign.is_left, 60, "no process goes on with it")
    campaign.keep_going()
    time.sleep(LOAD_SECONDS / 10)  # for the new one to wait for it
    kills.silence(LOAD_SECONDS / 3, same=False)
    kills.kill("controller's machine")
    for service in ("powerd", "InfluxDB"):
        kills.kill(service)
    late = _drawn(lab)  # still in the load
    campaign.complete()
    [run] = results.load(campaign.folder).runs
    [attempt] = run.attempts
    assert (run.status, attempt.cause) == ("ok", "completed")
    assert run.phases["workload"].seconds == pytest.approx(LOAD_SECONDS, abs=5)
    assert run.performance.seconds == pytest.approx(LOAD_SECONDS, rel=0.01)
    trace = power_points.read(run.folder / "power.csv")
    rails = list(power_points.energy_by_rail(trace, early[0], late[0]).values())
    low, high = sum(rail.joules_low for rail in rails), sum(rail.joules_high for rail in rails)
    gaps, seconds, drawn = (
        max(rail.gap_seconds for rail in rails),
        (late[0] - early[0]) / 1e9,
        late[1] - early[1],
    )
    print(f"{low:.3f} to {high:.3f} J, {drawn:.3f} J drawn in {seconds:.0f} s of the load; gaps {gaps:.2f} s")
    assert low <= drawn <= high
    assert gaps < 5, "powerd was killed once"
    assert _orphans(lab, kills) == []


def _drawn(lab: Lab) -> tuple[int, float]:
    """The time (UTC ns), and joules drawn by then: a twin's history is shorter than the load."""
    twin = lab.twins()["nvme-consumer"]
    return twin["realtime_ns"], sum(rail["joules"] for rail in twin["rails"])


def _statuses(lab: Lab, campaign: str) -> list[str]:
    return [run["status"] for run in lab.results_of(campaign)["runs"]]


def _settled(lab: Lab, campaign: str) -> subprocess.CompletedProcess[str] | None:
    """Settle a campaign; powerd delivers what it kept within a minute of InfluxDB's return."""
    done = lab.rig("settle", campaign)
    return done if _statuses(lab, campaign) == ["ok"] * 3 else None
