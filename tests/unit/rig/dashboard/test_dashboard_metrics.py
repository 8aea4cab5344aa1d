# SPDX-License-Identifier: GPL-3.0-or-later
"""The rig's state as OpenMetrics, read back by Prometheus' own parser."""

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from joulerig.rig.dashboard.metrics import Metrics
from tests.support.dashboard_journal import WritableJournal
from tests.support.dashboard_powerd import Powerd, meter

SECOND = 1_000_000_000
T0 = 1_794_600_000 * SECOND
SAMPLES = "joulerig_meter_samples_total"
NAME = "demo-20261113-120000"


@pytest.fixture
def journal(tmp_path):
    (tmp_path / "results").mkdir()
    journal = WritableJournal(tmp_path / "results", NAME, T0)
    yield journal
    journal.close()


def samples(tmp_path, **changed):
    """{(name, labels in order): value} of what is scraped."""
    options = {
        "version": "0.1", "virtual": True, "pages": lambda: 3, "clock": lambda: T0 + 60 * SECOND,
        "slowness": lambda: 20.0, **changed,
    }  # fmt: skip
    text = Metrics(tmp_path / "results", tmp_path / "powerd.sock", **options).text().decode()
    return {
        (one.name, *one.labels.values()): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def test_a_lab_without_services_and_campaigns(tmp_path):
    (tmp_path / "results").mkdir()
    found = samples(tmp_path)
    assert found["joulerig_build_info", "0.1"] == 1
    assert found["joulerig_virtual_lab",] == 1
    assert found["joulerig_slow_motion_ratio",] == 20
    assert found["joulerig_dashboard_pages",] == 3
    assert found["joulerig_powerd_up",] == 0
    assert len(found) == 5


def test_meters_have_their_ledgers(tmp_path):
    (tmp_path / "results").mkdir()
    silent = meter("tap2", state="silent", samples=90, lost=10, expected=100, gap_seconds=0.5, restarts=2)
    powerd = Powerd(tmp_path / "powerd.sock", [meter("tap1"), silent])
    try:
        found = samples(tmp_path)
    finally:
        powerd.stop()
    assert found["joulerig_powerd_up",] == 1
    states = {key[1:]: value for key, value in found.items() if key[0] == "joulerig_meter_state"}
    assert {key for key, value in states.items() if value} == {("streaming", "tap1"), ("silent", "tap2")}
    assert len(states) == 8
    booked = {key[1]: value for key, value in found.items() if key[::2] == (SAMPLES, "tap2")}
    assert booked == {
        "samples": 90,
        "lost": 10,
        "duplicate": 0,
        "repeated": 0,
        "over_range": 0,
        "impossible": 0,
    }
    assert sum(booked.values()) == found["joulerig_meter_expected_samples_total", "tap2"]
    assert found["joulerig_meter_gap_seconds_total", "tap2"] == 0.5
    assert found["joulerig_meter_restarts_total", "tap2"] == 2
    assert found["joulerig_meter_rate_hertz", "tap1"] == 1000.02
    assert found["joulerig_meter_clock_residual_seconds", "tap1"] == 0.000143


def test_the_newest_campaign(tmp_path, journal):
    runs = journal.plan()
    journal.begin(runs[0], T0 + SECOND)
    journal.end(runs[0], T0 + 21 * SECOND, ops=1000, joules=25.0)
    journal.begin(runs[1], T0 + 22 * SECOND)
    found = samples(tmp_path)
    assert found["joulerig_campaign_info", NAME, "demo", "running"] == 1
    counts = {key[2]: value for key, value in found.items() if key[0] == "joulerig_campaign_runs" and value}
    assert counts == {"ok": 1, "running": 1, "planned": 2}
    assert found["joulerig_campaign_joules", NAME] == 25
    assert found["joulerig_campaign_created_timestamp_seconds", NAME] == T0 / SECOND
    assert found["joulerig_campaign_eta_timestamp_seconds", NAME] > T0 / SECOND + 60
    assert ("joulerig_campaign_finished_timestamp_seconds", NAME) not in found


def test_a_campaign_that_cannot_be_read_hides_nothing_else(tmp_path):
    (tmp_path / "results" / NAME).mkdir(parents=True)
    (tmp_path / "results" / NAME / "journal.sqlite").write_bytes(b"no database")
    assert len(samples(tmp_path)) == 5


def test_who_scrapes_often_costs_no_more(tmp_path):
    (tmp_path / "results").mkdir()
    asked = []
    metrics = Metrics(
        tmp_path / "results", tmp_path / "powerd.sock", version="0.1", virtual=False,
        pages=lambda: len(asked), clock=lambda: T0, slowness=lambda: asked.append(1) or 1.0,
    )  # fmt: skip
    assert metrics.text() == metrics.text()
    assert len(asked) == 1
