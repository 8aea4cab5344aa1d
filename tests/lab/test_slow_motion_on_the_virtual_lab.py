# SPDX-License-Identifier: GPL-3.0-or-later
"""Slow motion changes what depends on time, and nothing else.

`make test` has one run in slow motion. `make test-slow-motion` does one campaign at a second of the
machine for one of the lab, at five and at twenty: paced overwrites on a drive of flash, and a
number of reads that is always the same on a hard disk, of which it sets the pace at any slowness.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import yaml

from tests.support.lab_driver import FACTORS, Lab, copied_inventory

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(5400)]
long = pytest.mark.skipif("JOULERIG_SLOW_MOTION" not in os.environ, reason="make test-slow-motion does it")

SLOWNESS = (1.0, 5.0, 20.0)
# Which take the disk 49 seconds: start and end of a load, in which the disk spins and waits, take
# an emulated host 0.3 s more at a slowness of one than at twenty: 0.6 % of them.
READS = 3072
# Sixteen at a time, so that the disk never waits for its host; one after the other on the disk, so
# that the wait for a sector, which is random, is in few of them.
WORKLOADS = {
    "fixed-reads": {
        "engine": "fio",
        "job": "randread",
        "description": f"{READS} sequential 1 MiB reads past the page cache, 16 at a time",
        "options": {"rw": "read", "bs": "1m", "iodepth": 16, "io_size": f"{READS}m", "time_based": 0},
    }
}
PER_OPERATION = ("writes", "write_bytes", "flushes")
MOST_APART = 0.02  # of what an operation takes of the I/O path
MOST_JOULES_APART = 0.01  # of a fixed piece of work


@pytest.fixture(scope="module")
def inventory(lab: Lab) -> Path:
    """The shipped inventory, with an own workload next to it."""
    copy = copied_inventory(lab.folder / "inventory-slow")
    copy.with_name("workloads.yml").write_text(yaml.safe_dump(WORKLOADS))
    return copy


def campaign(
    lab: Lab, inventory: Path, name: str, seconds: float, **keys: Any
) -> dict[float, list[dict[str, Any]]]:
    """Run a campaign at each slowness; return its runs, which are ok, by slowness."""
    found = {}
    for slowness in SLOWNESS:
        playbook = lab.playbook(
            name=f"{name}-{slowness:.0f}",
            slow_motion=slowness,
            phases={"rest_seconds": 2, "idle_seconds": 2, "workload_seconds": seconds, "tail_seconds": 1},
            **keys,
        )
        done = lab.rig("run", str(playbook), inventory=inventory, timeout=3000)
        assert done.returncode == 0, done.stdout + done.stderr
        found[slowness] = lab.results_of()["runs"]
        assert {run["status"] for run in found[slowness]} == {"ok"}
    return found


@pytest.fixture(scope="module")
def overwrites(lab: Lab, inventory: Path) -> dict[float, list[dict[str, Any]]]:
    factors = {**FACTORS, "workload": ["overwrite-fsync-paced"]}
    return campaign(lab, inventory, "overwrites", 6, replicates=2, drives=["nvme-plp"], factors=factors)


@pytest.fixture(scope="module")
def reads(lab: Lab, inventory: Path) -> dict[float, list[dict[str, Any]]]:
    factors = {**FACTORS, "workload": ["fixed-reads"]}
    return campaign(lab, inventory, "reads", 90, replicates=1, drives=["hdd-1"], factors=factors)


def went_from_idle_to_tail(run: dict[str, Any], slowness: float) -> bool:
    """Whether the lab went so slowly from idle to tail, and as the machine does before rest."""
    found = {phase["phase"]: phase["slowness"] for phase in run["phases"]}
    measured = [found[name] for name in ("idle", "workload", "tail")]
    return measured == pytest.approx([slowness] * 3, rel=1e-6) and found["prepare"] == 1.0


def goes_as_the_machine_does(lab: Lab) -> bool:
    return json.loads(lab.rig("status", "--json").stdout)["slowness"] == 1.0


def test_a_run_is_measured_in_slow_motion_and_prepared_without(lab: Lab):
    playbook = lab.playbook(name="slow", factors=FACTORS, slow_motion=3)
    done = lab.rig("run", str(playbook))
    assert done.returncode == 0, done.stdout + done.stderr
    [run] = lab.results_of()["runs"]
    assert went_from_idle_to_tail(run, 3.0)
    assert run["joules_low"] <= run["true_joules"] <= run["joules_high"]
    assert "slow motion 3" in done.stdout
    assert goes_as_the_machine_does(lab)


@long
def test_each_phase_from_idle_to_tail_went_as_slowly_as_was_asked(lab, overwrites, reads):
    for runs in (overwrites, reads):
        for slowness, of_it in runs.items():
            assert all(went_from_idle_to_tail(run, slowness) for run in of_it)
    assert goes_as_the_machine_does(lab)


@long
@pytest.mark.parametrize("figure", PER_OPERATION)
def test_an_operation_takes_the_same_of_the_io_path(overwrites, figure):
    per_operation = {
        slowness: fmean(
            next(io for io in run["io"] if io["source"] == "host")[figure] / run["performance"]["ops"]
            for run in runs
        )
        for slowness, runs in overwrites.items()
    }
    print(figure, per_operation)
    assert max(per_operation.values()) <= (1 + MOST_APART) * min(per_operation.values())


@long
def test_fixed_work_on_a_hard_disk_takes_the_same_joules(reads):
    joules = {slowness: fmean(run["joules"] for run in runs) for slowness, runs in reads.items()}
    print(joules)
    assert {run["performance"]["ops"] for runs in reads.values() for run in runs} == {READS}
    assert max(joules.values()) <= (1 + MOST_JOULES_APART) * min(joules.values())


@long
def test_the_truth_lies_between_low_and_high_in_every_run(overwrites, reads):
    rows = [
        row
        for runs in (overwrites, reads)
        for of_it in runs.values()
        for run in of_it
        for row in run["energy"]
    ]
    assert not [row for row in rows if not row["joules_low"] <= row["true_joules"] <= row["joules_high"]]


@long
def test_the_drive_of_flash_sets_the_pace_for_more_of_the_time_the_slower_the_lab(overwrites):
    shares = [fmean(run["device_bound_fraction"] for run in runs) for runs in overwrites.values()]
    print(shares)
    assert shares == sorted(shares)
