# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of runs in InfluxDB: as the journal has them, also after an outage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from joulerig.rig.campaign.execution.executor import Executor
from joulerig.rig.campaign.execution.result_points import RETRY_SECONDS, ResultPoints, send
from joulerig.rig.campaign.opening import OpenCampaign
from joulerig.rig.lab.model import Lab
from tests.support.fake_channel import Channel
from tests.support.influxd import Influxd
from tests.support.lab_files import LabFiles

DONE = {
    "seconds": 10.0, "ops": 9000, "read_bytes": 0, "write_bytes": 36_864_000, "syncs": 9000,
    "ops_per_second": 900.0, "mb_per_second": 3.6864,
}  # fmt: skip
RESULTS = {
    "joules": 40.0,
    "joules_low": 39.5,
    "joules_high": 40.5,
    "mean_watts": 4.0,
    "ai_ops_per_joule": 225.0,
}


@pytest.fixture
def bench(lab_files: LabFiles, influxd: Influxd, tmp_path: Path) -> Lab:
    token = tmp_path / "token"
    token.write_text(Influxd.writer[1])
    lab_files.controller["influxdb"] = {
        "url": influxd.url, "database": Influxd.database, "username": Influxd.writer[0],
        "token_file": str(token), "host_token_file": str(token),
    }  # fmt: skip
    return lab_files.load()


@pytest.fixture
def campaign(
    state: Path, bench: Lab, mapping: dict[str, Any], services_up: None, open_campaign: Callable[..., Any]
) -> OpenCampaign:
    factors = {"filesystem": ["ext4"], "scheduler": ["none"], "workload": ["randread"]}
    opened: OpenCampaign = open_campaign({**mapping, "factors": factors, "replicates": 3}, bench)
    return opened


def end_run(campaign: OpenCampaign, status: str = "ok", reason: str = "", **results: Any) -> str:
    """Take a run and end it with results; return its id."""
    run = campaign.journal.take("bench1")
    assert run
    tables = (
        {"performance": [DONE], "result": [{**RESULTS, **results}]} if status in ("ok", "partial") else {}
    )
    campaign.journal.finish(run["id"], status, reason, tables)
    return str(run["id"])


def test_a_result_is_in_influxdb_as_it_is_in_the_journal(campaign: OpenCampaign, influxd: Influxd) -> None:
    run = end_run(campaign)
    assert send(campaign, [run]) == ""
    [row] = influxd.rows("SELECT * FROM result")
    journaled = campaign.journal.run(run)
    assert row["time"] == row["start_ns"] == journaled["started_ns"]
    assert row["end_ns"] == journaled["ended_ns"]
    assert {key: row[key] for key in RESULTS} == RESULTS
    assert (row["campaign"], row["run"], row["cell"]) == (
        campaign.journal.campaign["id"],
        run,
        "fast/ext4/none/randread",
    )
    assert "ai_mb_per_joule" not in row, "the journal has none"
    assert (row["ops"], row["status"], row["reason"]) == (9000, "ok", "")


def test_a_run_that_is_completed_later_replaces_its_point(campaign: OpenCampaign, influxd: Influxd) -> None:
    run = end_run(campaign, "partial", "no energy: InfluxDB is away", joules=None, ai_ops_per_joule=None)
    send(campaign, [run])
    tables = {"performance": [DONE], "result": [RESULTS]}
    campaign.journal.settle(run, "ok", "", tables)
    send(campaign, [run])
    [row] = influxd.rows("SELECT * FROM result")
    assert (row["status"], row["joules"], row["reason"]) == ("ok", 40.0, "")


def test_a_failed_run_has_its_reason_and_no_figures(campaign: OpenCampaign, influxd: Influxd) -> None:
    run = end_run(campaign, "failed", 'fio: "no space"\non \\dev')
    send(campaign, [run])
    [row] = influxd.rows("SELECT * FROM result")
    assert row["reason"] == 'fio: "no space" on \\dev'
    assert "joules" not in row


def test_what_an_outage_kept_back_is_sent_with_the_next(campaign: OpenCampaign, influxd: Influxd) -> None:
    said: list[str] = []
    now = [0.0]
    points = ResultPoints(campaign, "bench1", said.append, lambda: now[0])
    influxd.stop()
    points.send(end_run(campaign))
    points.send(end_run(campaign))
    influxd.start()
    assert len(said) == 1, "once for an outage"
    assert said[0].startswith("dashboards of InfluxDB lack the results for now: ")
    now[0] = RETRY_SECONDS
    points.send(end_run(campaign))
    assert len(influxd.rows("SELECT run, status FROM result")) == 3


def test_a_server_that_fails_is_not_asked_at_each_run(campaign: OpenCampaign, influxd: Influxd) -> None:
    points = ResultPoints(campaign, "bench1", lambda text: None, lambda: 0.0)
    influxd.stop()
    points.send(end_run(campaign))
    influxd.start()
    points.send(end_run(campaign))
    assert influxd.rows("SELECT run, status FROM result") == []


def test_a_resumed_campaign_sends_what_was_not_taken(campaign: OpenCampaign, influxd: Influxd) -> None:
    end_run(campaign)
    points = ResultPoints(campaign, "bench1", lambda text: None)
    points.send(end_run(campaign))
    assert len(influxd.rows("SELECT run, status FROM result")) == 2


def test_a_user_without_the_right_to_write_is_reported(
    campaign: OpenCampaign, influxd: Influxd, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("another")
    assert send(campaign, [end_run(campaign)]).startswith(f"InfluxDB at {influxd.url}: HTTP 401: ")


def test_a_run_that_waits_to_be_executed_again_has_no_point(campaign: OpenCampaign, influxd: Influxd) -> None:
    send(campaign, [run["id"] for run in campaign.journal.runs()])
    assert influxd.rows("SELECT run, status FROM result") == []


def test_the_executor_publishes_each_run_that_has_ended(campaign: OpenCampaign) -> None:
    channel, published = Channel(), list[str]()

    def publish(run: str) -> None:
        assert campaign.journal.run(run)["ended_ns"]
        published.append(run)

    Executor(
        campaign, "bench1", channel, {}, publish=publish, clock=channel.clock, sleep=channel.sleep
    ).execute()
    assert published == [run["id"] for run in campaign.journal.runs()]
