# SPDX-License-Identifier: GPL-3.0-or-later
"""Recordings of a run: every meter of its drive, always ended, never failing the run."""

import contextlib
import json
import os
from types import SimpleNamespace

import pytest

from joulerig.rig.campaign.definition import Waveforms
from joulerig.rig.campaign.execution import waveforms
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.campaign.opening import OpenCampaign
from joulerig.rig.common import process
from joulerig.rig.common.errors import UserError
from joulerig.rig.controller import services
from tests.support.planned_runs import CAMPAIGN, row


class Powerd:
    """`refuses`: meters that cannot be recorded. `recordings`: those that go on, by meter."""

    def __init__(self, refuses=(), **recordings):
        self.refuses, self.requests, self.recordings = refuses, [], recordings

    def __call__(self, method, path, body=None):
        if path == "/status":
            names = ("tap-a", "tap-b")
            meters = [
                {"name": one, "recording": self.recordings.get(one.replace("-", "_"), "")} for one in names
            ]
            return {"meters": meters}
        self.requests.append((method, path, body))
        meter = body["meter"] if body else path.rsplit("/", 1)[1]
        if meter in self.refuses:
            raise UserError(f"powerd: meter {meter} is polled")
        return {"path": "/somewhere", "recorded": 1000, "dropped": 0, "cut": 0} if method == "DELETE" else {}


@pytest.fixture
def run(tmp_path):
    rails = [("d", "5v", SimpleNamespace(meter="tap-a")), ("d", "12v", SimpleNamespace(meter="tap-b"))]
    lab = SimpleNamespace(drive_rails=lambda host, *drives: rails)

    def with_waveforms(asked):
        definition = SimpleNamespace(waveforms=asked and Waveforms(**asked))
        campaign = OpenCampaign(SimpleNamespace(folder=tmp_path), lab, definition)
        return campaign, {"id": "r1", "host": "h", "drive": "d", "factors": {}}

    return with_waveforms


def kept(folder):
    return json.loads((folder / "runs" / "r1" / "waveforms.json").read_text())


def test_each_meter_of_the_drive_is_recorded_within_the_bound(run, tmp_path, monkeypatch):
    powerd = Powerd()
    monkeypatch.setattr(services, "powerd", powerd)
    with waveforms.recorded(*run({"max_megabytes": 2})):
        assert [r[0] for r in powerd.requests] == ["POST", "POST"]
    assert [r[:2] for r in powerd.requests[2:]] == [
        ("DELETE", "/recordings/tap-a"),
        ("DELETE", "/recordings/tap-b"),
    ]
    assert powerd.requests[0][2]["max_bytes"] == 2_000_000
    assert powerd.requests[0][2]["path"].endswith("runs/r1/waveform-tap-a.parquet")
    assert kept(tmp_path)["tap-b"]["recorded"] == 1000


def test_a_recording_ends_when_the_run_fails(run, tmp_path, monkeypatch):
    powerd = Powerd()
    monkeypatch.setattr(services, "powerd", powerd)
    with pytest.raises(RuntimeError), waveforms.recorded(*run({"max_megabytes": 2})):
        raise RuntimeError("host gone")
    assert sum(r[0] == "DELETE" for r in powerd.requests) == 2


def test_a_meter_that_cannot_be_recorded_is_said_and_stops_nothing(run, tmp_path, monkeypatch):
    powerd = Powerd(refuses=("tap-a",))
    monkeypatch.setattr(services, "powerd", powerd)
    with waveforms.recorded(*run({"max_megabytes": 2})):
        pass
    assert "polled" in kept(tmp_path)["tap-a"]["error"]
    assert ("DELETE", "/recordings/tap-a", None) not in powerd.requests


def test_nothing_is_asked_where_the_campaign_does_not(run, tmp_path, monkeypatch):
    powerd = Powerd()
    monkeypatch.setattr(services, "powerd", powerd)
    with waveforms.recorded(*run(None)):
        pass
    assert not powerd.requests
    assert not (tmp_path / "runs").exists()


def begin(folder, *, executed):
    """Begin a run, r9, of a campaign that this process executes, or none does."""
    with contextlib.closing(Journal.create(folder, CAMPAIGN, [{**row(1, "h"), "id": "r9"}])) as journal:
        journal.take("h")
        if executed:
            journal.claim(process.identity(os.getpid()))


@pytest.mark.parametrize(
    ("left", "ended"),
    [
        ("killed/runs/r9", True),
        ("executed/runs/r9", False),
        ("executed/runs/r8", True),
        ("removed/runs/r9", True),
    ],
)
def test_a_recording_is_ended_that_no_process_waits_for(run, tmp_path, monkeypatch, left, ended):
    begin(tmp_path / "killed", executed=False)
    begin(tmp_path / "executed", executed=True)
    powerd = Powerd(tap_a=str(tmp_path / left / "waveform-tap-a.parquet"))
    monkeypatch.setattr(services, "powerd", powerd)
    with waveforms.recorded(*run({"max_megabytes": 2})):
        assert (powerd.requests[0][0] == "DELETE") is ended


def test_a_run_that_its_host_never_began_is_recorded_again(run, tmp_path, monkeypatch):
    own = tmp_path / "runs" / "r1" / "waveform-tap-a.parquet"
    own.parent.mkdir(parents=True)
    own.write_bytes(b"of the attempt before")
    powerd = Powerd(tap_a=str(own))
    monkeypatch.setattr(services, "powerd", powerd)
    with waveforms.recorded(*run({"max_megabytes": 2})):
        assert [r[0] for r in powerd.requests[:2]] == ["DELETE", "POST"]
        assert not own.exists()
