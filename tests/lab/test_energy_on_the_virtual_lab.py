# SPDX-License-Identifier: GPL-3.0-or-later
"""Measured energy against the twins' truth, for both kinds of drives and for a lossy tap.

The four runs of the small campaign in `make test`; `make test-energy` does twenty, and more with
that tap.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from joulerig.analysis.results import waveform
from tests.support.lab_driver import FACTORS, WHOLE_LAB, Lab, copied_inventory

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(1200)]

LONG = "JOULERIG_ENERGY_RUNS" in os.environ
RUNS = int(os.environ.get("JOULERIG_ENERGY_RUNS", "4"))  # a multiple of 4
ERROR_BAR_PERCENT = 0.2
DROPPED = 0.05


@pytest.fixture(scope="module")
def measured(lab: Lab, request: pytest.FixtureRequest) -> dict[str, Any]:
    """Runs over drives of different kinds, their waveforms kept."""
    if not LONG:
        campaign = request.getfixturevalue("campaign")
        return {**campaign, "runs": [run for run in campaign["runs"] if run["status"] != "excluded"]}
    playbook = lab.playbook(
        name="energy",
        drives=["nvme-consumer", "sata-consumer"],
        factors={**FACTORS, "filesystem": ["ext4", "f2fs"]},
        replicates=RUNS // 4,
        waveforms={"max_megabytes": 4},
    )
    done = lab.rig("run", str(playbook))
    assert done.returncode == 0, done.stdout + done.stderr
    return lab.results_of()


def test_every_run_is_within_a_fifth_of_a_percent_of_the_truth(measured):
    errors = [run["error_percent"] for run in measured["runs"]]
    assert len(errors) == RUNS
    assert max(map(abs, errors)) <= ERROR_BAR_PERCENT, errors


def test_the_truth_lies_between_low_and_high_in_every_phase_of_every_run(measured):
    rows = [row for run in measured["runs"] for row in run["energy"]]
    assert len(rows) >= RUNS * 4  # prepare, idle, workload, tail, of one rail
    outside = [row for row in rows if not row["joules_low"] <= row["true_joules"] <= row["joules_high"]]
    assert not outside
    # An interval that holds everything would say nothing. What loads within a sample leave open is
    # the declared supply's: less than ohms x amps of its volts, 0.8 % for the M.2 drive.
    for row in rows:
        if row["phase"] == "workload":
            width = row["joules_high"] - row["joules_low"] - row["product_joules"]
            assert width < 0.01 * row["joules"]
            assert row["product_joules"] < 0.008 * row["joules"]


def test_nothing_was_lost_and_the_ledger_balances(measured):
    for run in measured["runs"]:
        for row in run["energy"]:
            assert row["lost"] == 0
            assert row["expected"] == row["samples"] + row["lost"] + row["duplicate"] + row["repeated"]


def test_a_runs_waveform_holds_the_joules_of_its_load(lab: Lab, measured):
    run = measured["runs"][0]
    load = next(row for row in run["energy"] if row["phase"] == "workload")
    phase = next(phase for phase in run["phases"] if phase["phase"] == "workload")
    kept = waveform.read(
        lab.results / measured["campaign"] / "runs" / run["id"] / f"waveform-{load['meter']}.parquet",
        start_ns=phase["start_ns"],
        end_ns=phase["end_ns"],
    )
    joules = waveform.energy_by_rail(kept)[run["host"], load["drive"], load["rail"]]
    assert joules == pytest.approx(load["joules"], rel=1e-3)


@pytest.fixture(scope="module")
def broken(lab: Lab) -> Iterator[Path]:
    """The lab with a power tap that loses every twentieth block of samples without a word."""

    def lose_blocks(controller: dict[str, Any]) -> None:
        for name in ("tap1a", "tap1b"):
            controller["meters"][name]["virtual"]["drop_blocks"] = DROPPED

    inventory = copied_inventory(lab.folder / "inventory-broken", lose_blocks, of="localhost")
    try:
        done = lab.rig("lab", "up", inventory=inventory)
        assert done.returncode == 0, done.stderr
        yield inventory
    finally:
        done = lab.rig("lab", "up")
        assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not (LONG or WHOLE_LAB), reason="make test-lab does it")
def test_what_an_instrument_loses_is_in_the_ledger_and_the_bounds_and_makes_the_run_partial(
    lab: Lab, broken: Path
):
    playbook = lab.playbook(
        name="broken",
        drives=["nvme-consumer"],
        factors=FACTORS,
        replicates=2 if LONG else 1,
        phases={"rest_seconds": 0, "idle_seconds": 10, "workload_seconds": 20, "tail_seconds": 1},
    )
    done = lab.rig("run", str(playbook), inventory=broken)
    assert done.returncode != 0
    for run in lab.results_of()["runs"]:
        load = next(row for row in run["energy"] if row["phase"] == "workload")
        assert run["status"] == "partial"
        assert "lost" in run["reason"]
        assert load["meter"] in run["reason"]
        assert load["lost"] / load["expected"] == pytest.approx(DROPPED, abs=0.005)
        assert load["expected"] == load["samples"] + load["lost"] + load["duplicate"] + load["repeated"]
        assert load["joules_low"] <= load["true_joules"] <= load["joules_high"]


@pytest.mark.skipif(not LONG, reason="make test-energy does it")
def test_a_campaign_may_allow_such_a_loss(lab: Lab, broken: Path):
    playbook = lab.playbook(name="lenient", factors=FACTORS, loss_limit_percent=10)
    done = lab.rig("run", str(playbook), inventory=broken)
    run = lab.results_of()["runs"][0]
    assert done.returncode == 0, done.stdout + done.stderr
    assert run["status"] == "ok"
