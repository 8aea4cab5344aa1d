# SPDX-License-Identifier: GPL-3.0-or-later
"""Which runs are a steady load of their drive, and what is known of it."""

import json
import sqlite3

import pytest

from joulerig.analysis import results
from joulerig.analysis.runs import loads
from tests.support import simulated_campaign

SECONDS = simulated_campaign.PHASES["workload"]
READS = (
    "UPDATE io SET reads = 40000, read_bytes = 40000 * 16384, writes = 3, write_bytes = 12288, flushes = 0"
)
FIO = {"jobs": [{"job options": {"ioengine": "libaio", "iodepth": "4"}}]}


@pytest.fixture
def folder(tmp_path):
    made = simulated_campaign.build(
        tmp_path / "c", drives=("nvme-consumer",), filesystems=("ext4",), schedulers=("none",)
    )
    edit(made, READS)
    return made


def edit(folder, statement):
    with sqlite3.connect(folder / "journal.sqlite") as database:
        database.execute(statement)


def reported(folder, report):
    [run] = results.load(folder).runs
    run.folder.mkdir(parents=True, exist_ok=True)
    (run.folder / "load.json").write_text(json.dumps(report))


def found(folder, drive="nvme-consumer"):
    return loads.loads(results.load(folder), drive)


def test_a_run_of_reads_is_a_load(folder):
    reported(folder, FIO)
    [one], left_out = found(folder)
    [run] = results.load(folder).runs
    joules = next(rail.corrected_joules for rail in run.energy if rail.phase == "workload")
    assert not left_out
    assert (one.operation, one.request_bytes, one.queue_depth) == ("read", 16384, 4)
    assert one.bytes_per_second == pytest.approx(40000 * 16384 / SECONDS)
    assert one.watts == pytest.approx({"3v3": joules / SECONDS})


def test_of_several_jobs_the_depths_add(folder):
    reported(folder, {"jobs": FIO["jobs"] * 3})
    assert found(folder)[0][0].queue_depth == 12


def test_an_engine_that_waits_has_one_request_a_job(folder):
    reported(folder, {"jobs": [{"job options": {"ioengine": "psync", "iodepth": "16"}}]})
    assert found(folder)[0][0].queue_depth == 1


def test_a_load_that_is_no_fio_has_no_depth(folder):
    reported(folder, {"ops": 12})
    assert found(folder)[0][0].queue_depth is None


def test_where_the_drive_did_not_set_the_pace_its_depth_is_left_out(folder):
    reported(folder, FIO)
    edit(folder, "UPDATE result SET device_bound_fraction = 0.4")
    assert found(folder)[0][0].queue_depth is None
    edit(folder, "UPDATE result SET device_bound_fraction = 0.95")
    assert found(folder)[0][0].queue_depth == 4


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("UPDATE io SET flushes = 4000", "its flushes cost energy too"),
        ("UPDATE io SET fua_writes = 4000", "its flushes cost energy too"),
        ("UPDATE io SET writes = 9000, write_bytes = 9000 * 16384", "neither all reads nor all writes"),
        ("UPDATE run SET status = 'failed'", "not measured to its end"),
        ("DELETE FROM io WHERE source = 'iod'", "not measured to its end"),
    ],
)
def test_other_runs_are_left_out_and_said_why(folder, statement, why):
    edit(folder, statement)
    assert found(folder) == ([], {why: 1})


def test_another_drives_runs_are_none_of_its(folder):
    assert found(folder, "nvme-plp") == ([], {})
