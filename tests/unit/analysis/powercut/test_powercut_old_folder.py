# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder made before power cuts had a journal gives the same verdicts.

tests/fixtures/powercut-of-a-lying-drive is two cuts of a twin with lie=flush, made by the revision
before; the figures here are those that it printed.
"""

from __future__ import annotations

import shutil

import polars as pl
import pytest

from joulerig.analysis import report
from joulerig.analysis.bundle import environment, verify
from joulerig.analysis.powercut import folder, tables
from joulerig.rig.campaign import journal, provenance
from joulerig.rig.cli import results
from joulerig.rig.common import paths
from tests.support import FIXTURES

NAME = "powercut-of-a-lying-drive"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("JOULERIG_RESULTS", str(tmp_path))
    return shutil.copytree(FIXTURES / NAME, tmp_path / NAME)


def test_its_verdict_is_what_it_was(place):
    loaded = folder.load(place)
    verdict = loaded.verdicts()["sata-consumer"]
    assert (verdict.cuts, verdict.void_cuts, verdict.broken_cuts) == (2, 0, 1)
    assert (verdict.flushes, verdict.promised_writes, verdict.broken_promises) == (37, 76, 16)
    assert verdict.phases == {"idle": 2}
    assert verdict.loss_probability_low == pytest.approx(0.01257911709342506, rel=1e-12)
    cuts = loaded.cuts["sata-consumer"]
    assert [(cut.durable.writes, cut.durable.bytes) for cut in cuts] == [(45, 783872), (26, 437248)]
    assert tables.joules_per_durable_write(cuts) == pytest.approx(0.0009842168162112674, rel=1e-12)


def test_it_is_found_by_its_name_and_shown(place):
    assert journal.find(paths.results(), NAME, former=True) == place
    assert "sata-consumer: breaks its promise: 1 of 2 power cuts" in results.summary_text(place)
    (shown,) = results.as_json(place)["power_cuts"]
    assert shown["verdict"]["broken_promises"] == 16


def test_its_report_is_written_and_verified(place):
    assert [path.name for path in report.write(place, ["html"])] == [
        "report.html", "subjects.csv", "cuts.csv", "violations.csv",
    ]  # fmt: skip
    checks = {check.name: check for check in verify.verify(place, environment.here(provenance.revision()))}
    assert not verify.failed(list(checks.values()))
    assert checks["power cuts"].detail == "2 cuts of 1 subject, 1 broke a promise"
    subjects = place / "report" / "subjects.csv"
    pl.read_csv(subjects).with_columns(broken_cuts=pl.lit(0)).write_csv(subjects)
    checks = {check.name: check for check in verify.verify(place, environment.here(provenance.revision()))}
    assert verify.failed([checks["tables"]])
