# SPDX-License-Identifier: GPL-3.0-or-later
"""The phases that `rig run` shows of the runs under way, as their hosts announced them."""

from __future__ import annotations

import pytest

from joulerig.analysis.results.influxdb.client import Databases
from joulerig.rig.campaign import measure, playbook

S = 1_000_000_000


@pytest.fixture
def asked(influxd, monkeypatch, services_up):
    """The queries that were made."""
    influxd.empty()
    queries = []

    class Counting(Databases):
        def query(self, influxql):
            queries.append(influxql)
            return super().query(influxql)

    monkeypatch.setattr(
        measure,
        "client",
        lambda lab: Counting(influxd.url, influxd.database, *influxd.reader, hosts=["bench1", "bench2"]),
    )
    return queries


def test_the_last_announced_phase_of_each_run_is_found_by_one_query(asked, influxd, lab_files):
    for run, phases in {"a-1": ("prepare", "workload", "idle"), "b-1": ("setup",), "old": ("tail",)}.items():
        for at, phase in enumerate(phases, 1):
            influxd.write(f"phase,run={run},host=bench1,phase={phase} start_ns={at * S}i {at * S}")
    current = playbook._current_phases(lab_files.write())
    assert current(["a-1", "b-1", "c'1"]) == {"a-1": "(idle)", "b-1": "(setup)", "c'1": "(starting)"}
    assert len(asked) == 1


def test_nothing_is_asked_where_nothing_runs(asked, lab_files):
    assert playbook._current_phases(lab_files.write())([]) == {}
    assert asked == []


def test_without_influxdb_no_phase_is_shown(asked, influxd, lab_files):
    current = playbook._current_phases(lab_files.write())
    for host in ("bench1", "bench2"):
        influxd.statement(f"DROP DATABASE {influxd.database_of('phase', host)}")
    assert current(["a-1"]) == {}
    influxd.empty()
