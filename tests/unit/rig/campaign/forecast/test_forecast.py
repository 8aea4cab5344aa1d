# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan is expected to take, by what earlier runs in a results folder took."""

import json
import math
import os
import sqlite3
from contextlib import closing

import pytest

from joulerig.analysis.results import journal as journals
from joulerig.analysis.statistics.detection import smallest_fixed, smallest_in_race
from joulerig.rig.campaign.definition import OVERHEAD_SECONDS, WATCH_SECONDS
from joulerig.rig.campaign.forecast import earlier
from joulerig.rig.campaign.forecast.expected import ASSUMED_SPREAD, forecast
from joulerig.rig.campaign.plan import make_plan
from joulerig.rig.common import host_library

SECOND = 10**9
PHASES = {"rest_seconds": 3, "idle_seconds": 2, "workload_seconds": 10, "tail_seconds": 1}


class Results:
    """A results folder of a lab, to which a test adds campaigns and their runs."""

    def __init__(self, folder, lab):
        self.folder, self.lab = folder, lab
        self.count = 0

    def campaign(self, runs, *, kind="measurement", version=None, use_bytes=None):
        """Add a campaign of `runs`, each what differs from an ordinary run."""
        self.count += 1
        name = f"study-{self.count}"
        folder = self.folder / name
        folder.mkdir(parents=True)
        with closing(sqlite3.connect(folder / journals.FILE)) as database, database:
            journals.create_tables(database)
            definition = json.dumps({"phases": PHASES, "use_bytes": use_bytes})
            lab = self.lab.model_dump_json(exclude={"inventory": True})
            row = {"id": name, "name": "study", "question": "Which?", "created_ns": self.count, "kind": kind}
            insert(database, "campaign", **row, definition=definition, lab=lab, virtual=0, provenance="{}")
            for ordinal, run in enumerate(runs, start=1):
                add_run(database, f"{name}-{ordinal:04d}", ordinal, **run)
            if version is not None:
                database.execute(f"PRAGMA user_version = {version}")
        return folder

    def read(self, *workloads):
        return earlier.read(self.folder, ["fast", "bare", "pair"], workloads or ("seqwrite",))


def insert(database, table, **row):
    marks = ", ".join("?" for _ in row)
    database.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", list(row.values()))


def add_run(
    database, run, ordinal, *, drive="fast", filesystem="ext4", workload="seqwrite", status="ok",
    outside=20.0, load=10.0, bytes_per_second=50e6, watts=4.0, ai=1000.0, preconditioned=None, **more,
):  # fmt: skip
    """Write a run whose time outside the declared phases is `outside` seconds."""
    levels = {"filesystem": filesystem, "scheduler": "none", "workload": workload, **more}
    begin = ordinal * 10_000 * SECOND
    at = begin + int(SECOND * ((preconditioned or 0) + outside / 2))
    lengths = {"prepare": outside / 4, "setup": 3 + outside / 4, "idle": 2, "workload": load, "tail": 1}
    ended = begin + int(SECOND * ((preconditioned or 0) + outside + 3 + 2 + load + 1))
    insert(
        database, "run", id=run, ordinal=ordinal, block=1, replicate=1, host="bench1", drive=drive,
        filesystem=filesystem, scheduler="none", workload=workload, cell=f"{drive}/{filesystem}",
        factors=json.dumps(levels), status=status, reason="", started_ns=begin, ended_ns=ended,
    )  # fmt: skip
    if preconditioned is not None:
        for after, what in ((0, "begun"), (preconditioned, "ended")):
            detail = json.dumps({"precondition": what})
            time_ns = begin + int(after * SECOND)
            insert(database, "event", time_ns=time_ns, run=run, event="preconditioning", detail=detail)
    for phase, seconds in lengths.items():
        clock = {"clock_offset_ns": 0, "clock_error_ns": 0}
        insert(
            database, "phase", run=run, phase=phase, start_ns=at, end_ns=at + int(seconds * SECOND), **clock
        )
        at += int(seconds * SECOND)
        if watts is not None:
            counts = {"samples": 1, "expected": 1, "lost": 0, "gap_seconds": 0.0}
            rail = {"meter": "tap1", "rail": "12v", "drive": drive, "joules": watts * seconds}
            insert(database, "energy", run=run, phase=phase, **rail, **counts)
    insert(database, "performance", run=run, seconds=load, ops=1, ops_per_second=1.0)
    insert(database, "result", run=run, ai_ops_per_joule=ai)
    for source, factor in (("iod", 1), ("host", 2), ("twin", 3)):
        insert(database, "io", run=run, source=source, write_bytes=int(factor * bytes_per_second * load))


@pytest.fixture
def results(tmp_path, bench):
    return Results(tmp_path / "results", bench)


@pytest.fixture
def planned(bench, mapping):
    """Return planned(**CHANGES), the plan of one cell with ten replicates."""

    def make(**changes):
        mapping.update(replicates=10, phases=PHASES, **changes)
        if "factors" not in changes:
            mapping["factors"] = {"filesystem": ["ext4"], "scheduler": ["none"], "workload": ["seqwrite"]}
        return make_plan(mapping, bench, "playbooks/study.yml")

    return make


def seconds_of(plan, found):
    """Seconds of a run outside its declared phases, as forecast."""
    cost = forecast(plan, found).expected
    return 3600 * cost.hours / cost.runs - 16


def test_without_earlier_runs_it_is_estimated_from_sizes(planned, results):
    plan = planned()
    found = forecast(plan, results.read())
    assert (found.measured_runs, found.measured_share, found.measured_joules) == (0, 0.0, False)
    assert found.expected.hours == found.at_most.hours
    assert seconds_of(plan, results.read()) == pytest.approx(OVERHEAD_SECONDS + WATCH_SECONDS)
    assert found.expected.terabytes_written == pytest.approx(10 * 10 * 300e6 / 1e12)
    assert found.at_most.terabytes_written == pytest.approx(10 * 10 * 15.8e9 / 1e12)


def test_hours_are_from_the_median_of_earlier_runs(planned, results):
    results.campaign([{"outside": 20}, {"outside": 30}, {"outside": 500}])
    plan = planned()
    assert seconds_of(plan, results.read()) == pytest.approx(30)
    found = forecast(plan, results.read())
    assert (found.measured_runs, found.measured_share) == (3, 1.0)


def test_bytes_and_joules_are_expected_by_what_was_measured_and_bounded_as_before(planned, results):
    results.campaign([{"bytes_per_second": 50e6, "watts": 4.0}])
    plan = planned()
    found = forecast(plan, results.read())
    assert found.expected.terabytes_written == pytest.approx(10 * 10 * 50e6 / 1e12)  # iod's count
    assert found.measured_joules
    assert found.expected.kilowatt_hours == pytest.approx(4.0 * 3600 * found.expected.hours / 3.6e6)
    bounds = forecast(plan, earlier.Earlier())
    assert found.at_most == bounds.at_most


def test_runs_without_joules_leave_the_energy_to_its_bound(planned, results):
    results.campaign([{"watts": None}])
    assert not forecast(planned(), results.read()).measured_joules


@pytest.mark.parametrize(
    ("run", "seconds"),
    [
        ({"filesystem": "xfs", "outside": 40}, 40),  # the same drive and workload
        ({"drive": "bare", "outside": 40}, OVERHEAD_SECONDS + WATCH_SECONDS),  # another kind of drive
        ({"status": "failed", "outside": 40}, OVERHEAD_SECONDS + WATCH_SECONDS),
        ({"status": "partial", "outside": 40}, 40),
        ({"fill": "0.5", "outside": 40}, OVERHEAD_SECONDS + WATCH_SECONDS),  # fuller
        ({"age": "2", "outside": 40}, OVERHEAD_SECONDS + WATCH_SECONDS),  # older
        ({"workload": "randread", "outside": 40}, OVERHEAD_SECONDS + WATCH_SECONDS),
    ],
)
def test_which_earlier_runs_are_alike(planned, results, run, seconds):
    results.campaign([run])
    assert seconds_of(planned(), results.read("seqwrite", "randread")) == pytest.approx(seconds)


def test_runs_of_the_same_file_system_go_before_others(planned, results):
    results.campaign([{"filesystem": "xfs", "outside": 40}, {"outside": 20}])
    assert seconds_of(planned(), results.read()) == pytest.approx(20)


def test_a_drive_of_the_same_kind_stands_for_one_that_was_never_measured(planned, results, bench):
    drives = bench.hosts["bench1"].drives
    other = {**drives, "fast": drives["fast"].model_copy(update={"serial": "SERIAL-Q"})}
    host = bench.hosts["bench1"].model_copy(update={"drives": other})
    results.lab = bench.model_copy(update={"hosts": {"bench1": host}})
    results.campaign([{"outside": 40}])
    plan = planned()
    assert seconds_of(plan, results.read()) == pytest.approx(40)
    other["fast"] = other["fast"].model_copy(update={"model": "Example"})
    results.campaign([{"outside": 20}])
    assert seconds_of(plan, results.read()) == pytest.approx(40)


def test_a_load_that_ends_by_itself_takes_as_long_as_it_took(planned, results):
    results.campaign([{"load": 100.0}])
    assert seconds_of(planned(), results.read()) == pytest.approx(20 + 90)
    results.campaign([{"load": 10.5} for _ in range(3)])
    assert seconds_of(planned(), results.read()) == pytest.approx(20)


def test_preconditioning_is_counted_apart_and_as_it_took(planned, results):
    results.campaign([{"preconditioned": 1000.0}, {}])
    plan = planned(precondition={"reuse_within": 1})
    found = forecast(plan, results.read())
    assert found.expected.preconditions == 1
    assert found.expected.precondition_hours == pytest.approx(1000 / 3600)
    assert found.expected.hours == pytest.approx((1000 + 10 * (16 + 20)) / 3600)
    assert found.at_most.precondition_hours > 2


def test_a_precondition_is_expected_less_often_than_if_runs_wrote_all_they_can(planned, results):
    results.campaign([{"bytes_per_second": 1e6}])
    found = forecast(planned(precondition={"reuse_within": 0.2}), results.read())
    assert found.expected.preconditions == 1
    assert found.at_most.preconditions > 1


def test_boots_take_what_they_took(planned, results):
    order = ["installed", "hz100", "hz100", "installed", "installed"]
    runs = [
        {"kernel": kernel, "outside": 20 + 60 * (kernel != before)}
        for kernel, before in zip(order, ["installed", *order], strict=False)
    ]
    results.campaign(runs)
    assert results.read().boot_seconds() == pytest.approx(60)
    plan = planned(
        factors={"filesystem": ["ext4"], "scheduler": ["none"], "workload": ["seqwrite"], "kernel": ["hz100"]}
    )
    found = forecast(plan, results.read())
    assert 3600 * found.expected.hours == pytest.approx(60 + 10 * (16 + 20))
    assert 3600 * forecast(plan, earlier.Earlier()).expected.hours == pytest.approx(
        600 + 10 * (16 + OVERHEAD_SECONDS + WATCH_SECONDS)
    )


def test_a_boot_is_not_among_what_a_run_takes(planned, results):
    results.campaign([{"kernel": "hz100", "outside": 90}, {"kernel": "hz100", "outside": 20}])
    assert seconds_of(planned(), results.read()) == pytest.approx(20)


def test_a_boot_takes_no_less_than_no_time(results):
    results.campaign([{"kernel": "hz100", "outside": 10}, {"kernel": "hz100", "outside": 20}])
    assert results.read().boot_seconds() == 0.0


def test_what_a_preconditioning_took_is_of_its_drive(results):
    results.campaign([{"preconditioned": 1000.0}, {"drive": "bare", "preconditioned": 3000.0}])
    assert results.read().precondition_seconds("SERIAL-A") == 1000.0
    assert results.read().precondition_seconds("SERIAL-D") == 3000.0


def test_a_preconditioning_without_an_end_took_an_unknown_time(results):
    folder = results.campaign([{"preconditioned": 1000.0}])
    with closing(sqlite3.connect(folder / journals.FILE)) as database, database:
        database.execute("DELETE FROM event WHERE detail LIKE '%ended%'")
    [sample] = results.read().samples
    assert sample.precondition_seconds is None


def test_what_the_drive_counted_goes_before_what_the_load_says(results):
    folder = results.campaign([{"bytes_per_second": 50e6}])
    with closing(sqlite3.connect(folder / journals.FILE)) as database, database:
        database.execute("UPDATE performance SET write_bytes = 7")
    [sample] = results.read().samples
    assert sample.bytes_per_second == pytest.approx(50e6)
    for source, rate in (("iod", 100e6), ("host", 0.7)):
        with closing(sqlite3.connect(folder / journals.FILE)) as database, database:
            database.execute("DELETE FROM io WHERE source = ?", (source,))
        [sample] = results.read().samples
        assert sample.bytes_per_second == pytest.approx(rate)


def test_a_run_of_which_a_rail_lacks_joules_has_no_watts(results):
    folder = results.campaign([{}])
    with closing(sqlite3.connect(folder / journals.FILE)) as database, database:
        database.execute("UPDATE energy SET joules = NULL WHERE phase = 'tail'")
    [sample] = results.read().samples
    assert sample.watts is None


def test_the_newest_journals_are_read(results, monkeypatch):
    monkeypatch.setattr(earlier, "MOST_JOURNALS", 1)
    for number, outside in ((1, 20), (2, 40)):
        folder = results.campaign([{"outside": outside}])
        os.utime(folder / journals.FILE, (number, number))
    [sample] = results.read().samples
    assert sample.outside_seconds == pytest.approx(40)


def test_a_load_that_declares_its_rate_is_expected_to_write_so_much(planned, results):
    def written(workload):
        plan = planned(factors={"filesystem": ["ext4"], "scheduler": ["none"], "workload": [workload]})
        return forecast(plan, results.read()).expected.terabytes_written

    assert written("randread") == 0
    assert written("overwrite-fsync-paced") == pytest.approx(10 * 10 * 4096 * 100 / 1e12)


def test_an_arrays_members_share_what_is_written(planned, results):
    results.campaign([{"drive": "pair", "bytes_per_second": 40e6}])
    found = forecast(planned(drives=["pair"]), results.read())
    half = pytest.approx(10 * 10 * 20e6)
    assert found.expected.written == {("bench1", "hdd-1"): half, ("bench1", "hdd-2"): half}


# --- journals


@pytest.mark.parametrize("content", [b"", b"no database at all, but long enough to be one" * 30])
def test_a_journal_that_cannot_be_read_is_left_out(results, content):
    results.campaign([{}])
    (results.folder / "broken").mkdir()
    (results.folder / "broken" / journals.FILE).write_bytes(content)
    assert len(results.read().samples) == 1


def test_a_newer_programs_journal_and_one_of_power_cuts_are_left_out(results):
    results.campaign([{}], version=journals.VERSION + 1)
    results.campaign([{}], kind="power-cut")
    assert results.read().samples == []


def test_reading_changes_nothing(results):
    folder = results.campaign([{}])
    before = (folder / journals.FILE).read_bytes()
    results.read()
    assert (folder / journals.FILE).read_bytes() == before
    assert [path.name for path in folder.iterdir()] == [journals.FILE]


def test_no_more_than_the_newest_runs_are_read(results, monkeypatch):
    monkeypatch.setattr(earlier, "MOST_RUNS", 3)
    results.campaign([{"outside": 10 * number} for number in range(1, 6)])
    assert sorted(one.outside_seconds for one in results.read().samples) == pytest.approx([30, 40, 50])


# --- the smallest difference


def test_the_spread_is_that_of_earlier_runs_of_the_same_cells(planned, results):
    values = [1000.0, 1020.0, 980.0, 1010.0, 990.0, 1000.0]
    results.campaign([{"ai": value} for value in values])
    results.campaign([{"ai": 5 * value} for value in values])  # another campaign, another level
    logs = [math.log(value) for value in values]
    mean = sum(logs) / 6
    spread = math.sqrt(sum((value - mean) ** 2 for value in logs) / 5)
    plan = planned()
    found = forecast(plan, results.read()).difference
    assert (found.spread, found.runs) == (pytest.approx(spread), 12)
    other = planned(factors={"filesystem": ["xfs"], "scheduler": ["none"], "workload": ["seqwrite"]})
    assert forecast(other, results.read()).difference.runs == 0


def test_with_few_earlier_runs_a_spread_is_assumed(planned, results):
    results.campaign([{"ai": 1000.0}, {"ai": 2000.0}])
    found = forecast(planned(), results.read()).difference
    assert (found.spread, found.runs) == (ASSUMED_SPREAD, 0)


def test_the_cells_that_compete_are_those_of_a_drive_and_a_workload(planned, results):
    plan = planned(
        drives=["fast", "bare"],
        factors={
            "filesystem": ["ext4", "xfs"],
            "scheduler": ["none", "bfq"],
            "workload": ["seqwrite", "randread"],
        },
        exclude=[{"filesystem": "xfs", "scheduler": "bfq", "reason": "not now"}],
    )
    assert forecast(plan, results.read()).difference.compared == 3


def test_a_fixed_design_and_a_race_detect_what_the_statistics_say(planned, results):
    factors = {"filesystem": ["ext4", "xfs"], "scheduler": ["none", "bfq"], "workload": ["seqwrite"]}
    fixed = forecast(planned(factors=factors), results.read()).difference
    assert fixed.smallest == smallest_fixed(4, 10, ASSUMED_SPREAD)
    assert fixed.share is None
    plan = planned(factors=factors, order="racing")
    race = forecast(plan, results.read()).difference
    assert race.smallest == smallest_in_race(4, plan.race(), ASSUMED_SPREAD)
    assert 0.2 < race.share < 1


def test_runs_on_a_part_of_a_drive_are_not_those_on_all_of_it(planned, results):
    results.campaign([{"outside": 40}], use_bytes=64 << 30)
    assert seconds_of(planned(), results.read()) == pytest.approx(OVERHEAD_SECONDS + WATCH_SECONDS)
    assert seconds_of(planned(use_bytes="64 GiB"), results.read()) == pytest.approx(40)


def test_a_plan_has_the_second_in_which_a_host_watches_its_drives():
    host_library.find()
    from ansible.module_utils.joulerig.drives.uses import stillness

    assert stillness.STILL_SECONDS == WATCH_SECONDS
