# SPDX-License-Identifier: GPL-3.0-or-later
"""The checklist of a results folder, up to the tables: what holds, and what is found."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from joulerig.analysis.bundle import verify
from joulerig.analysis.bundle.check import FAILED, OK, UNCHECKABLE, Check
from tests.support import verifiable_campaign

RUN = "demo-20261113-082640-0001"


def check(folder: Path, name: str) -> Check:
    return next(one for one in verify.verify(folder, {}) if one.name == name)


def change_points(folder: Path, row: int, **more: int) -> None:
    """Add to counts of one of a run's power points."""
    path = folder / "runs" / RUN / "power.csv"
    later = ("over_range", "impossible")
    frame = pl.read_csv(path, schema_overrides=dict.fromkeys(later, pl.Int64))
    frame = frame.with_columns(pl.col(*later).fill_null(0))
    of_row = pl.int_range(pl.len()) == row
    frame.with_columns(
        pl.when(of_row).then(pl.col(name) + count).otherwise(name).alias(name) for name, count in more.items()
    ).write_csv(path)


def test_the_events_may_end_with_a_run_that_was_planned_again(folder):
    edit = verifiable_campaign.edit
    edit(folder, f"UPDATE run SET status = 'planned' WHERE id = '{RUN}'")
    edit(folder, "UPDATE campaign SET finished_ns = NULL")
    assert check(folder, "events").state == FAILED
    again = f"1, '{RUN}', 'resumed', '{{\"was\": \"lost\"}}'"
    edit(folder, f"INSERT INTO event (time_ns, run, event, detail) VALUES ({again})")
    assert check(folder, "events").state == OK


@pytest.mark.parametrize("count", ["lost", "duplicate", "repeated", "over_range", "impossible"])
def test_a_power_points_sample_is_in_one_column_of_the_ledger(folder, count):
    change_points(folder, 7, samples=-1, **{count: 1})
    assert check(folder, "ledger").state == OK
    change_points(folder, 9, samples=-1)
    assert "1 point off" in check(folder, "ledger").offenders[0]


def test_a_power_point_whose_ledger_is_known_in_part_is_not_judged(folder):
    """As of powerd's before it counted duplicates."""
    change_points(folder, 7, samples=-1)
    path = folder / "runs" / RUN / "power.csv"
    pl.read_csv(path).drop("duplicate", "repeated").write_csv(path)
    assert check(folder, "ledger").state == OK


@pytest.mark.parametrize("count", ["lost", "duplicate", "repeated", "over_range", "impossible"])
def test_a_phases_sample_is_in_one_column_of_the_ledger(folder, count):
    of_phase = f"WHERE run = '{RUN}' AND phase = 'idle'"
    verifiable_campaign.edit(
        folder, f"UPDATE energy SET samples = samples - 1, {count} = {count} + 1 {of_phase}"
    )
    assert check(folder, "ledger").state == OK
    verifiable_campaign.edit(folder, f"UPDATE energy SET samples = samples - 1 {of_phase}")
    (offender,) = check(folder, "ledger").offenders
    assert offender.startswith(f"{RUN}: idle: nvme-plp 12v on tap1a: ")


@pytest.mark.parametrize(
    ("column", "name"), [("joules", "power.csv"), ("true_joules", "truth.json")], ids=["power", "truth"]
)
def test_a_file_is_expected_where_any_phase_has_its_figure(folder, column, name):
    verifiable_campaign.edit(folder, f"UPDATE energy SET {column} = NULL WHERE phase != 'workload'")
    (folder / "runs" / RUN / name).unlink()
    assert check(folder, "completeness").offenders == (f"runs/{RUN}/{name}: missing",)
    verifiable_campaign.edit(folder, f"UPDATE energy SET {column} = NULL")
    assert check(folder, "completeness").state == OK


def test_a_run_that_did_not_work_need_not_have_its_files(folder):
    for status in ("failed", "lost"):
        verifiable_campaign.edit(folder, f"UPDATE run SET status = '{status}'")
        for name in ("load.json", "power.csv"):
            (folder / "runs" / RUN / name).unlink(missing_ok=True)
        assert check(folder, "completeness").state == OK


def test_a_campaign_that_is_not_over_is_not_complete(folder):
    verifiable_campaign.edit(folder, "UPDATE campaign SET finished_ns = NULL")
    verifiable_campaign.edit(folder, "UPDATE run SET status = 'running'")
    found = check(folder, "completeness")
    assert (found.state, found.offenders) == (UNCHECKABLE, ())
    assert "1 of 1 run to come" in found.detail


def test_a_campaign_that_measured_nothing_has_no_ledger(folder):
    verifiable_campaign.edit(folder, "DELETE FROM energy")
    (folder / "runs" / RUN / "power.csv").unlink()
    assert check(folder, "ledger").state == UNCHECKABLE


def test_a_precondition_and_waveforms_are_expected_where_they_were_planned(folder):
    plan = json.dumps({"precondition": {"state": "full"}, "waveforms": True})
    verifiable_campaign.edit(folder, f"UPDATE campaign SET definition = json_patch(definition, '{plan}')")
    assert check(folder, "completeness").offenders == (
        f"runs/{RUN}/precondition.json: missing",
        f"runs/{RUN}/waveforms.json: missing",
    )
