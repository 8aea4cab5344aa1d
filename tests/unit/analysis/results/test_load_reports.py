# SPDX-License-Identifier: GPL-3.0-or-later
"""A load's fio report: over all jobs, latency as histograms. The reports are real (fio 3.33)."""

import copy
import json
import math

import pytest

from joulerig.analysis.results import load_reports
from joulerig.analysis.results.load_reports.histograms import quantiles
from tests.support import FIXTURES


@pytest.fixture
def fsync():
    """Two jobs of random 4 KiB writes, an fsync after each: 40 and 24 of them."""
    return json.loads((FIXTURES / "fio-fsync-two-jobs.json").read_text())


@pytest.fixture
def mixed():
    """One job of 32 reads of 4 KiB, one of 8 writes of 64 KiB, no fsync."""
    return json.loads((FIXTURES / "fio-read-write.json").read_text())


def test_all_jobs_count(fsync):
    done = load_reports.performance("fio", fsync, 2.0)
    assert (done["ops"], done["write_bytes"], done["read_bytes"]) == (40 + 24, (40 + 24) * 4096, 0)


def test_reads_and_writes_count(mixed):
    done = load_reports.performance("fio", mixed, 1.0)
    assert (done["ops"], done["read_bytes"], done["write_bytes"]) == (32 + 8, 32 * 4096, 8 * 65536)


def test_syncs_are_no_operations_of_their_own(fsync):
    done = load_reports.performance("fio", fsync, 1.0)
    assert done["syncs"] == sum(job["sync"]["total_ios"] for job in fsync["jobs"]) == 39 + 23
    assert done["ops"] == 64


def test_rates_are_over_the_phase_not_over_fios_own_run_time(mixed):
    done = load_reports.performance("fio", mixed, 4.0)
    assert done["seconds"] == 4.0
    assert done["ops_per_second"] == 10.0
    assert done["mb_per_second"] == pytest.approx((32 * 4096 + 8 * 65536) / 1e6 / 4)


def spread(histograms):
    return sorted(int(v) for h in histograms for v, count in h.items() for _ in range(count))


def test_latency_is_that_of_the_fsync_where_there_is_one(fsync):
    values = spread(job["sync"]["lat_ns"]["bins"] for job in fsync["jobs"])
    done = load_reports.performance("fio", fsync, 1.0)
    assert done["latency_p50_seconds"] == values[math.ceil(len(values) * 0.50) - 1] / 1e9
    assert done["latency_p99_seconds"] == values[math.ceil(len(values) * 0.99) - 1] / 1e9


def test_latency_of_operations_is_over_reads_and_writes_of_all_jobs(mixed):
    values = spread(job[way]["clat_ns"].get("bins", {}) for job in mixed["jobs"] for way in ("read", "write"))
    assert len(values) == 40
    assert load_reports.performance("fio", mixed, 1.0)["latency_p99_seconds"] == values[39] / 1e9


def test_quantiles_are_of_the_merged_histogram_not_means_of_quantiles():
    fast, slow = {"1000": 99}, {"1000000": 1}
    assert quantiles([fast, slow], (0.5, 0.99, 1.0)) == [1e-6, 1e-6, 1e-3]


def test_equal_bins_of_several_histograms_add_up():
    assert quantiles([{"1": 1, "9": 2}, {"1": 2, "9": 1}], (0.5, 0.51)) == [1e-9, 9e-9]


def test_bins_are_ordered_as_numbers():
    assert quantiles([{"900": 1, "1000": 1, "20": 1}], (1.0,)) == [1e-6]


def test_no_histogram_gives_no_latency(mixed):
    report = copy.deepcopy(mixed)
    for job in report["jobs"]:
        for way in ("read", "write"):
            job[way]["clat_ns"].pop("bins", None)
    done = load_reports.performance("fio", report, 1.0)
    assert (done["latency_p50_seconds"], done["latency_p99_seconds"]) == (None, None)
    assert done["ops"] == 40


@pytest.mark.parametrize("report", [{}, {"jobs": []}, {"jobs": None}])
def test_a_report_without_a_job_is_refused(report):
    with pytest.raises(ValueError, match="no job"):
        load_reports.performance("fio", report, 1.0)


# --- flowop and external programs

FLOWOP = {
    "ops": 7,
    "read_bytes": 4096,
    "write_bytes": 8192,
    "syncs": 0,
    "classes": [
        {"name": "read", "kind": "read", "ops": 4, "histogram": {"1000": 4}},
        {"name": "write", "kind": "write", "ops": 2, "histogram": {"3000": 1, "9000": 1}},
        {"name": "stat", "kind": "other", "ops": 1, "histogram": {"2000": 1}},
    ],
}


def test_of_flowop_every_operation_counts_and_latency_is_over_all_classes():
    done = load_reports.performance("flowop", FLOWOP, 2.0)
    assert (done["ops"], done["ops_per_second"], done["mb_per_second"]) == (7, 3.5, 12288 / 2e6)
    assert (done["latency_p50_seconds"], done["latency_p99_seconds"]) == (1e-6, 9e-6)
    assert (done["unit"], done["figure"]) == ("operation", None)


def test_of_flowop_latency_is_the_syncs_where_there_are_any():
    sync = {"name": "fsync", "kind": "sync", "ops": 2, "histogram": {"50000": 2}}
    done = load_reports.performance(
        "flowop", {**FLOWOP, "syncs": 2, "classes": [*FLOWOP["classes"], sync]}, 1.0
    )
    assert (done["syncs"], done["latency_p50_seconds"]) == (2, 5e-5)


def test_a_flowop_without_operations_has_no_latency():
    report = {"ops": 0, "read_bytes": 0, "write_bytes": 0, "syncs": 0, "classes": []}
    done = load_reports.performance("flowop", report, 1.0)
    assert (done["ops"], done["latency_p50_seconds"]) == (0, None)


PROGRAM = {
    "ops": 500,
    "unit": "transaction",
    "read_bytes": None,
    "write_bytes": 10**6,
    "syncs": None,
    "latency_p50_seconds": None,
    "latency_p99_seconds": None,
    "figure": {"name": "transactions", "unit": "1/s", "value": 120.5, "better": "higher"},
}


def test_of_a_program_what_it_does_not_report_is_not_known():
    done = load_reports.performance("program", PROGRAM, 4.0)
    assert (done["ops_per_second"], done["mb_per_second"], done["syncs"]) == (125.0, None, None)
    assert done["unit"] == "transaction"


@pytest.mark.parametrize(
    ("figure", "kept"),
    [(PROGRAM["figure"], ("transactions", "1/s", 120.5, "higher")), (None, (None, None, None, None))],
)
def test_a_programs_figure_of_merit_is_kept(figure, kept):
    done = load_reports.performance("program", {**PROGRAM, "figure": figure}, 4.0)
    names = ("figure_name", "figure_unit", "figure", "figure_better")
    assert tuple(done[name] for name in names) == kept


@pytest.mark.parametrize("tool", ["flowop", "program"])
def test_a_report_of_another_kind(tool):
    with pytest.raises(KeyError):
        load_reports.performance(tool, {"jobs": []}, 1.0)
