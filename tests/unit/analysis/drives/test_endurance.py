# SPDX-License-Identifier: GPL-3.0-or-later
"""Joules and wear of an operation: from which counts, what is missing, and the Pareto front."""

import html
import json
import re
import sqlite3

import pytest

from joulerig.analysis import results
from joulerig.analysis.drives import endurance
from joulerig.analysis.export import columns
from joulerig.analysis.report import document
from joulerig.analysis.runs.modes.nand import Rise
from joulerig.analysis.tables import runs_and_cells
from tests.support import simulated_campaign
from tests.support.report_pages import svgs

OPS = {"ext4": 0.62, "xfs": 0.71, "f2fs": 1.0}
CELL = "nvme-plp/ext4/none/randwrite-fsync"


def nvme(written, programmed):
    return {"data_units_written": written, "physical_media_units_written": programmed}


def sata(host, nand):
    table = [{"name": name, "raw": {"value": value}} for name, value in {**host, **nand}.items()]
    return {"ata_smart_attributes": {"table": table}}


@pytest.fixture
def build(tmp_path):
    def make(before=None, after=None, rated=None, **given):
        given = {"drives": ("nvme-plp",), "schedulers": ("none",), "replicates": 2, **given}
        folder = simulated_campaign.build(tmp_path / "c", **given)
        for run in results.load(folder).runs:
            run.folder.mkdir(parents=True, exist_ok=True)
            for name, report in (("before", before), ("after", after)):
                if report is not None:
                    (run.folder / f"smart_{name}.json").write_text(json.dumps(report))
        if rated is not None:
            with sqlite3.connect(folder / "journal.sqlite") as database:
                (text,) = database.execute("SELECT lab FROM campaign").fetchone()
                lab = json.loads(text)
                lab["hosts"]["vhost1"]["drives"]["nvme-plp"]["rated_terabytes_written"] = rated
                database.execute("UPDATE campaign SET lab = ?", [json.dumps(lab)])
        return results.load(folder)

    return make


def rows(campaign):
    found = endurance.table(campaign, runs_and_cells.cells(campaign).to_dicts())
    return {row["cell"]: row for row in found.to_dicts()}


def test_joules_and_bytes_are_ratios_of_sums(build):
    campaign = build()
    row, runs = rows(campaign)[CELL], campaign.cells()[CELL]
    ops = sum(run.performance.ops for run in runs)
    assert row["joules_per_op"] == pytest.approx(sum(run.result.ai_joules for run in runs) / ops)
    assert row["host_bytes_per_op"] == pytest.approx(sum(run.io["host"].write_bytes for run in runs) / ops)
    assert row["durable_bytes_per_op"] == row["written_bytes_per_op"] == 4096
    assert row["runs_counted"] == 2


def test_the_interval_of_joules_is_that_of_work_per_joule(build):
    campaign = build()
    (cell,) = [one for one in runs_and_cells.cells(campaign).to_dicts() if one["cell"] == CELL]
    row = rows(campaign)[CELL]
    assert row["joules_per_op_low"] == 1 / cell["ai_ops_per_joule_interval_high"]
    assert row["joules_per_op_high"] == 1 / cell["ai_ops_per_joule_interval_low"]
    assert row["joules_per_op_low"] < row["joules_per_op"] < row["joules_per_op_high"]


def test_one_run_has_no_interval(build):
    row = rows(build(replicates=1))[CELL]
    assert (row["joules_per_op_low"], row["joules_per_op_high"]) == (None, None)


def test_nand_bytes_are_host_bytes_times_the_drives_own_ratio(build):
    row = rows(build(nvme(1000, 10**9), nvme(1400, 10**9 + 2 * 400 * 512_000)))[CELL]
    assert row["nand_bytes_per_host_byte"] == pytest.approx(2.0)
    assert row["nand_bytes_per_op"] == pytest.approx(2 * row["host_bytes_per_op"])
    assert row["nand_missing"] == ""


def test_a_count_of_128_bits_in_halves_is_read(build):
    before, after = ({"hi": 0, "lo": value} for value in (10**9, 10**9 + 3 * 400 * 512_000))
    row = rows(build(nvme(0, before), nvme(400, after)))[CELL]
    assert row["nand_bytes_per_host_byte"] == pytest.approx(3.0)


def test_a_report_by_drive_is_read(build):
    before, after = ({"nvme-plp": nvme(*counts)} for counts in ((0, 0), (100, 120 * 512_000)))
    assert rows(build(before, after))[CELL]["nand_bytes_per_host_byte"] == pytest.approx(1.2)


@pytest.mark.parametrize(
    ("host", "nand", "expected"),
    [
        (("Host_Writes_32MiB", 1000), ("NAND_Writes_32MiB", 1500), 1.5),
        (("Host_Writes_GiB", 100), ("NAND_Writes_1GiB", 250), 2.5),
        (("Total_LBAs_Written", 2**28), ("NAND_Writes_1GiB", 256), 2.0),
    ],
)
def test_vendors_attributes_of_sata_drives_are_read(build, host, nand, expected):
    before = sata({host[0]: 0}, {nand[0]: 0})
    row = rows(build(before, sata(dict([host]), dict([nand]))))[CELL]
    assert row["nand_bytes_per_host_byte"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, None),
        ({"data_units_written": 5}, {"data_units_written": 500}),
        (nvme(0, 0), None),
        ({"ata_smart_attributes": "none"}, {"ata_smart_attributes": {"table": [7]}}),
        (nvme(500, 10**9), nvme(10, 10**9)),
        (nvme(True, "many"), nvme(7, [])),
    ],
)
def test_without_both_counts_nand_bytes_are_missing(build, before, after):
    row = rows(build(before, after))[CELL]
    assert row["nand_bytes_per_op"] is None
    assert row["nand_missing"] == endurance.NO_NAND


def test_counts_that_rose_by_few_units_are_too_coarse(build):
    before, after = (sata({"Host_Writes_GiB": n}, {"NAND_Writes_1GiB": 2 * n}) for n in (50, 53))
    assert rows(build(before, after))[CELL]["nand_missing"] == endurance.TOO_COARSE


def test_a_damaged_report_is_as_none(build):
    campaign = build(nvme(0, 0), nvme(400, 400 * 512_000))
    (campaign.cells()[CELL][0].folder / "smart_after.json").write_text("{")
    assert rows(results.load(campaign.folder))[CELL]["nand_missing"] == endurance.NO_NAND


def test_years_follow_from_the_rating_and_the_host_bytes(build):
    row = rows(build(rated=100.0))[CELL]
    ops = 1e14 / row["host_bytes_per_op"]
    assert row["ops_of_rated_life"] == pytest.approx(ops)
    assert row["years_at_given_rate"] == pytest.approx(ops / 100 / 86_400 / 365.25)
    assert row["years_at_load"] == pytest.approx(row["years_at_given_rate"] * 100 / (8200 * 0.62), rel=0.05)
    assert row["life_missing"] == ""


def test_without_a_rating_there_is_no_life(build):
    row = rows(build())[CELL]
    assert (row["rated_bytes"], row["years_at_load"]) == (None, None)
    assert row["life_missing"] == endurance.NO_RATING


def test_a_load_that_writes_nothing_has_no_life(build):
    campaign = build(rated=100.0)
    with sqlite3.connect(campaign.folder / "journal.sqlite") as database:
        database.execute("UPDATE io SET write_bytes = 0")
    assert rows(results.load(campaign.folder))[CELL]["life_missing"] == "the load wrote nothing"


def row(cell, joules, host, nand=None, drive="d", workload="w", runs=2):
    return {
        "cell": cell,
        "runs_counted": runs,
        "drive": drive,
        "workload": workload,
        "joules_per_op": joules,
        "host_bytes_per_op": host,
        "nand_bytes_per_op": nand,
    }


def test_the_front_has_the_cells_that_no_other_beats_in_both():
    found = [row("a", 1.0, 9.0), row("b", 2.0, 5.0), row("c", 3.0, 6.0), row("d", 4.0, 1.0)]
    assert endurance.fronts(found) == {"a", "b", "d"}


def test_wear_is_nand_bytes_where_all_cells_have_them():
    found = [row("a", 1.0, 1.0, nand=9.0), row("b", 2.0, 2.0, nand=3.0)]
    assert endurance.fronts(found) == {"a", "b"}
    found[1]["nand_bytes_per_op"] = None
    assert endurance.fronts(found) == {"a"}


def test_fronts_are_by_drive_and_workload():
    found = [row("a", 1.0, 1.0), row("b", 2.0, 2.0, drive="other"), row("c", 2.0, 2.0, workload="other")]
    assert endurance.fronts(found) == {"a", "b", "c"}


def test_a_cell_without_joules_is_on_no_front():
    assert endurance.fronts([row("a", None, 1.0), row("b", 1.0, 2.0), row("c", 1.0, None)]) == {"b"}


def test_a_single_reading_is_named_on_no_front(build):
    assert endurance.fronts([row("a", 1.0, 1.0, runs=1), row("b", 2.0, 2.0), row("c", 0.5, 3.0)]) == {"c"}
    campaign = build(replicates=1)
    assert {one["pareto"] for one in rows(campaign).values()} == {None}
    assert runs_and_cells.cells(campaign)["pareto"].null_count() == 3
    page = document.html(campaign)
    assert "Joules and wear of an operation" in page
    assert "<b>on the front</b>" not in page


def test_a_front_is_named_from_two_runs_on(build):
    assert any(one["pareto"] for one in rows(build()).values())


def rises(*pairs, unit=2**30):
    return [Rise(host * unit, nand * unit, unit, unit) for host, nand in pairs]


def amplification_of(monkeypatch, found):
    monkeypatch.setattr(endurance, "rise", lambda one: one)
    return endurance.amplification(found)


def test_the_last_units_of_the_counts_are_in_the_interval(monkeypatch):
    found = amplification_of(monkeypatch, rises((20, 40), (20, 40)))
    assert found.value == 2.0
    assert found.interval == pytest.approx((78 / 42, 82 / 38))


def test_the_scatter_of_the_runs_is_in_the_interval(monkeypatch):
    fine, wide = ((10**6, 2 * 10**6), (10**6, 3 * 10**6)), ((20, 40), (20, 60))
    scattered, coarse = (amplification_of(monkeypatch, rises(*pairs)) for pairs in (fine, wide))
    assert scattered.value == coarse.value == 2.5
    assert scattered.interval.high - 2.5 == pytest.approx(12.706 * 0.5, rel=1e-3)
    assert coarse.interval.high > scattered.interval.high


def test_one_run_has_no_interval_of_amplification(monkeypatch):
    found = amplification_of(monkeypatch, rises((100, 200)))
    assert (found.value, found.interval) == (2.0, None)


def test_the_report_has_the_picture_and_what_is_missing(build):
    page = document.html(build(rated=100.0))
    assert "Joules and wear of an operation" in page
    assert "Bytes written against joules" in page
    assert html.escape(endurance.NO_NAND, quote=True).replace("&#x27;", "&#39;") in page


def test_points_of_the_picture_are_numbered_as_the_rows_of_the_table(build):
    page = document.html(build(extra_factors={"write_cache": ("write back", "no flush")}))
    section = page[page.index("Joules and wear of an operation") :].partition("</section>")[0]
    named = re.findall(r"<td>(\d+): (nvme-plp/[^< ]+)", section)
    assert [int(number) for number, _ in named] == [*range(1, 7)]
    [picture] = svgs(section)
    assert {number for number, _ in named} <= set(re.findall(r"<!-- (\d+) -->", picture))


def test_every_column_is_described():
    for name in endurance.COLUMNS:
        assert columns.described("endurance", name)
