# SPDX-License-Identifier: GPL-3.0-or-later
"""Recordings of a run: every meter of its drive, always ended, never failing the run."""

import json
from types import SimpleNamespace

import pytest

from joulerig.rig.campaign.definition import Waveforms
from joulerig.rig.campaign.execution import waveforms
from joulerig.rig.campaign.opening import OpenCampaign
from joulerig.rig.common.errors import UserError
from joulerig.rig.controller import services


class Powerd:
    def __init__(self, refuses=()):
        self.refuses, self.requests = refuses, []

    def __call__(self, method, path, body=None):
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
