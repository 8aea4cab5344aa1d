# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab report: what it says, that it stands alone, and that no campaign makes it stumble."""

from __future__ import annotations

import dataclasses
import json
import re
import sqlite3
from pathlib import Path

import polars as pl
import pytest

from joulerig import text
from joulerig.analysis import report, results
from joulerig.analysis.compare import cells as comparison
from joulerig.analysis.report import answer, figures, standings
from joulerig.analysis.results.schema import TABLES
from joulerig.analysis.runs import idle
from joulerig.analysis.runs.idle_baseline import rail_baselines
from joulerig.analysis.statistics import steady_state
from joulerig.analysis.statistics.ranking import ONE_RUN
from joulerig.analysis.tables import runs_and_cells
from tests.support import simulated_campaign
from tests.support.report_pages import page, svgs, words
from tests.support.simulated_campaign import Outcome


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulated_campaign.build(tmp_path_factory.mktemp("demo") / "c", traces=True)


@pytest.fixture(scope="module")
def demo_page(demo: Path) -> str:
    return page(demo)


@pytest.fixture(scope="module")
def replicated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulated_campaign.build(
        tmp_path_factory.mktemp("r") / "c", replicates=3, virtual=False, noise=0.002, traces=True
    )


@pytest.fixture(scope="module")
def replicated_page(replicated: Path) -> str:
    return page(replicated)


# What it says


def test_question_and_answer_come_first(demo, demo_page):
    cells = runs_and_cells.cells(results.load(demo)).sort("ai_ops_per_joule", descending=True)
    best = cells.filter(pl.col("drive") == "nvme-plp").row(0, named=True)
    start = words(demo_page)[:900]
    assert "Which file system and I/O scheduler do the most synced writes per joule?" in start
    reading = f"{best['filesystem']} with {best['scheduler']}, {text.number(best['ai_ops_per_joule'])} ops/J"
    assert f"one run a cell: nothing can be separated highest reading {reading}; next " in start


def test_one_run_a_cell_names_no_combination_and_shows_the_readings(demo, demo_page):
    start = words(demo_page)[:1200]
    assert "n = 1" in start
    assert "One run a cell: the spread between runs is unknown, so nothing can be separated" in start
    campaign = results.load(demo)
    compared = comparison.compare_cells(campaign)
    groups = answer.groups(compared, runs_and_cells.cells(campaign, compared).to_dicts())
    for found in map(answer.answer, groups):
        assert (found.claim, found.figure) == (ONE_RUN, "")
    assert not any(cell["may_be_best"] for group in groups for cell in group.cells)
    assert "±" not in start.split("AI (aggregative indicator)")[0]


def test_replicates_come_with_half_of_their_95_percent_interval(replicated, replicated_page):
    found = words(replicated_page)
    best = (
        runs_and_cells.cells(results.load(replicated))
        .sort("ai_ops_per_joule", descending=True)
        .row(0, named=True)
    )
    half = (best["ai_ops_per_joule_interval_high"] - best["ai_ops_per_joule_interval_low"]) / 2
    assert f"{text.number(best['ai_ops_per_joule'])} ± {text.number(half, 2)} ops/J" in found
    assert "n = 3" in found
    assert "± without the meter's class" in found
    assert "nothing can be separated" not in found.split("Outlined:")[0]


def answered(folder: Path, **levels) -> answer.Answer:
    """Return the answer of a campaign of one drive and three runs a cell."""
    given = {"drives": ("nvme-plp",), "filesystems": ("f2fs",), "replicates": 3, "noise": 0.002, **levels}
    campaign = results.load(simulated_campaign.build(folder / "c", **given))
    compared = comparison.compare_cells(campaign)
    (group,) = answer.groups(compared, runs_and_cells.cells(campaign, compared).to_dicts())
    return answer.answer(group)


def test_the_answer_names_all_that_are_not_separated_from_the_best(tmp_path):
    found = answered(tmp_path, schedulers=("none", "mq-deadline", "bfq"), noise=0.012)
    assert found.claim == "f2fs with none or mq-deadline"
    assert re.search(r"f2fs with bfq is \d[\d.]* % worse \(\d[\d.]* to \d[\d.]* %\);", found.qualification)
    best = found.group.comparison.ranking.with_best
    [left] = [pair.detectable for pair in best if not pair.separated]
    less = text.percent(left)
    assert found.qualification.endswith(f"; a difference of {less} % would show in 9 of 10 such campaigns")


def test_a_single_best_is_named_alone(tmp_path):
    assert answered(tmp_path, schedulers=("none", "bfq"), replicates=5).claim == "f2fs with none"


def test_many_in_the_first_place_are_counted(tmp_path):
    found = answered(tmp_path, schedulers=("none", "mq-deadline", "bfq", "kyber"), noise=0.2)
    assert re.fullmatch(r"no single best: f2fs with [\w-]+ and 3 others not separated", found.claim)
    assert "not separated from any other" in found.qualification


def test_a_single_cell_has_nothing_to_be_compared_with(tmp_path):
    found = answered(tmp_path, schedulers=("none",))
    assert found.claim == "f2fs with none"
    assert "nothing to compare it with" in found.qualification


def test_cells_with_one_run_among_others_are_named_as_such(tmp_path):
    def once(levels):
        return (
            Outcome("failed", "fio")
            if levels["scheduler"] == "bfq" and levels["replicate"] > 1
            else Outcome()
        )

    found = answered(tmp_path, filesystems=("f2fs", "ext4"), schedulers=("none", "bfq"), outcome=once)
    assert found.claim == "f2fs with none or bfq or ext4 with bfq", "one run is separated from none"
    assert "n = 3" in found.qualification


def test_cells_without_two_blocks_in_common_are_not_separable(tmp_path):
    def in_separate_blocks(levels):
        first = levels["replicate"] == 1
        return Outcome() if first == (levels["scheduler"] == "bfq") else Outcome("failed", "fio")

    found = answered(tmp_path, schedulers=("none", "bfq"), outcome=in_separate_blocks)
    why = "fewer than two cells have two runs with a value in common blocks"
    assert found.claim == f"nothing can be separated: {why}"
    assert found.qualification.startswith("highest reading f2fs with none, ")


def test_every_figure_of_cells_and_runs_is_that_of_the_csv(demo, demo_page):
    campaign = results.load(demo)
    shown = re.findall(r"<td[^>]*>(?:<b>)?([^<]*)", demo_page)
    for column in ("ai_ops_per_joule", "ai_mb_per_joule", "ops_per_second", "joules", "true_joules"):
        for table in (runs_and_cells.runs(campaign), runs_and_cells.cells(campaign)):
            for value in table[column] if column in table.columns else []:
                assert text.number(value) in shown, (column, value)


def test_measured_stands_against_true_joules(demo, demo_page):
    errors = runs_and_cells.runs(results.load(demo))["error_percent"]
    worst = max(errors, key=abs)
    assert f"18 of 18 runs within ±1 % of true; mean error {text.signed(errors.mean(), 3)} %" in words(
        demo_page
    )
    assert f"largest {text.signed(worst, 3)} %" in words(demo_page)


def test_the_trace_is_of_the_median_run_of_the_best_cell(replicated, replicated_page):
    campaign = results.load(replicated)
    best = (
        runs_and_cells.cells(campaign)
        .filter(pl.col("drive") == "nvme-consumer")
        .sort("ai_ops_per_joule")
        .row(-1, named=True)
    )
    runs = sorted(
        (run for run in campaign.runs if run.cell == best["cell"]),
        key=lambda run: run.result.ai_ops_per_joule,
    )
    assert f"Run {runs[1].ordinal}, {best['cell']}, the median run" in words(replicated_page)


def test_provenance_names_kernel_tools_drive_meter_and_settings(demo_page):
    found = words(demo_page)
    for part in (
        "6.1.0-38-amd64", "fio-3.33", "QEMU NVMe Ctrl", "7.2.15", "JRNVC0001", "4.295 GB",
        "3v3 on tap1a CH1/CH2", "hameg-hmo", "sample_rate_hz 1000.0",
        "0f3c9d2e7a1b", "mkfs.ext4 -q -F", "rw,noatime",
        "bfq (×6); mq-deadline (×6); none (×6)",
    ):  # fmt: skip
        assert part in found, part


def test_how_to_repeat_it_is_given_as_commands_and_definition(demo_page):
    found = words(demo_page)
    for part in (
        "git checkout 0f3c9d2e7a1b",
        "rig up",
        "rig run playbooks/demo.yml",
        "replicates: 1",
        "seed: 1",
    ):
        assert part in found, part


def test_losses_are_summed_by_rail(demo, demo_page):
    energy = results.load(demo).tables["energy"]
    for lost in energy.group_by("drive").agg(pl.col("lost").sum())["lost"]:
        assert f">{lost}<" in demo_page
    assert text.fixed(energy.filter(pl.col("drive") == "nvme-plp")["expected"].sum(), 0) in words(demo_page)


# Virtual lab


def test_a_programs_figure_of_merit_is_shown_and_bytes_it_does_not_count_are_not(tmp_path):
    folder = simulated_campaign.build(
        tmp_path / "c", drives=("nvme-plp",), schedulers=("none",), replicates=2
    )
    assert "Figures of merit" not in page(folder)
    with sqlite3.connect(folder / "journal.sqlite") as database:
        database.execute(
            "UPDATE performance SET read_bytes = NULL, mb_per_second = NULL, unit = 'transaction',"
            " figure_name = 'notpm', figure_unit = '1/min', figure = 480.5, figure_better = 'higher'"
        )
    shown = words(page(folder))
    assert "Figures of merit" in shown
    assert "notpm 480.5 0 1/min higher transaction" in shown


def test_every_figure_and_its_caption_of_a_virtual_lab_says_so(demo_page):
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", demo_page, flags=re.S)
    assert len(captions) == len(svgs(demo_page)) >= 6
    assert all("Virtual lab" in caption for caption in captions)
    for caption in re.findall(r"<caption>(.*?)</caption>", demo_page, flags=re.S):
        assert "Virtual lab" in caption or caption.startswith(("Controller", "Runs that", "Left out"))


def test_a_virtual_figure_differs_from_a_physical_one_in_itself(demo):
    cells = runs_and_cells.cells(results.load(demo)).filter(pl.col("drive") == "nvme-plp").to_dicts()
    one, other = (
        figures.heat_map(cells, ["ext4", "xfs", "f2fs"], ["none", "mq-deadline", "bfq"], virtual=virtual).text
        for virtual in (True, False)
    )
    assert "<!-- virtual lab -->" in one
    assert "<!-- virtual lab -->" not in other


def test_a_physical_lab_is_never_called_virtual(replicated_page):
    source = replicated_page
    assert "virtual lab" not in words(source).lower()
    assert all("<!-- virtual lab -->" not in svg for svg in svgs(source))
    assert "true joules" not in words(source)
    assert "the virtual lab and" not in words(source)


# It stands alone


def test_the_html_refers_to_nothing_outside_itself(demo_page):
    for found in re.findall(r"""(?:src|href)\s*=\s*["']([^"']*)""", demo_page) + re.findall(
        r"url\(([^)]{0,40})", demo_page
    ):
        assert found.startswith("data:"), found
    assert "<script" not in demo_page
    assert "@import" not in demo_page
    for svg in svgs(demo_page):
        assert re.findall(r'(?:href|src)="(?!#)[^"]*"', svg) == []


def test_names_and_reasons_are_text_and_never_markup(tmp_path):
    nasty = '<script>alert("x")</script> & "quoted"'
    folder = simulated_campaign.build(
        tmp_path / "c", question=nasty, outcome=lambda _: Outcome("failed", nasty)
    )
    source = page(folder)
    assert "<script" not in source
    assert nasty in words(source.replace("&lt;", "‹").replace("&gt;", "›")).replace("‹", "<").replace(
        "›", ">"
    )


def test_csv_is_a_format_too(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c")
    assert [path.name for path in report.write(folder, ["csv"])] == [
        f"{name}.csv"
        for name in (
            "runs",
            "cells",
            "pairs",
            "best",
            "effects",
            "budget",
            "cemp",
            "elasticity",
            "drift",
            "outliers",
            "cross_talk",
            "claims",
            "quiescence",
            "processor",
            "temperature",
            "audit",
            "agreement",
            "power_states",
            "emerald",
            "pts",
            "eehpcwg",
            "windows",
            "endurance",
            "coefficients",
            "series",
        )
    ]


def test_an_unknown_format_is_refused_before_anything_is_written(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c")
    with pytest.raises(ValueError, match="'docx': allowed are html, pdf, csv"):
        report.write(folder, ["html", "docx"])
    assert not (folder / "report").exists()


# No campaign makes it stumble


def mixed(levels: dict) -> Outcome:
    if levels["scheduler"] == "bfq" and levels["filesystem"] == "xfs":
        return Outcome("failed", "fio: exit code 1: No space left on device")
    if levels["filesystem"] == "ext4" and levels["drive"] == "nvme-plp":
        return Outcome("partial", "meter tap1a fell silent", joules=False)
    if levels["scheduler"] == "mq-deadline" and levels["filesystem"] == "xfs":
        return Outcome("not-run", "kernel module xfs is not there")
    return Outcome()


def test_runs_that_did_not_end_well_are_named_with_their_reason(tmp_path):
    exclude = [{"filesystem": "f2fs", "scheduler": "kyber", "reason": "not asked"}]
    folder = simulated_campaign.build(tmp_path / "c", outcome=mixed, exclude=exclude)
    found = words(page(folder))
    assert "11 ok, 3 partial, 2 failed, 2 not-run of 18 runs" in found
    for reason in (
        "fio: exit code 1: No space left",
        "meter tap1a fell silent",
        "kernel module xfs is not there",
    ):
        assert found.count(reason) >= 2  # in the summary, and with each run
    assert "3 cells of 9 without a result" not in found.split("nvme-plp")[0]
    assert "5 cells of 9 without a result" in found
    assert "filesystem f2fs, scheduler kyber not asked" in found
    assert "partial, no joules" not in found  # that is in the figure, which is a picture


def test_a_partial_run_shows_its_performance_and_a_dash_for_joules(tmp_path):
    folder = simulated_campaign.build(
        tmp_path / "c", outcome=lambda _: Outcome("partial", "meter fell silent", joules=False)
    )
    campaign = results.load(folder)
    source = page(folder)
    found = words(source)
    assert "No run ended with both performance and joules, so there is no AI to compare." in found
    assert "No run has both measured and true joules." in found
    assert "No power trace" in found
    for run in campaign.runs:
        assert text.number(run.performance.ops_per_second) in found
    assert "None" not in found
    assert "nan" not in found.lower().split()


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome("not-run", "InfluxDB is down"),
        Outcome("failed", "mkfs: exit code 1"),
        Outcome("failed", ""),
        Outcome("lost", "vhost1 is gone"),
        Outcome("planned"),
        Outcome("running"),
    ],
)
def test_a_campaign_in_which_no_run_finished_says_so(tmp_path, outcome):
    folder = simulated_campaign.build(tmp_path / "c", outcome=lambda _: outcome, finished=False)
    found = words(page(folder))
    assert f"18 {outcome.status} of 18 runs" in found
    assert "no answer: no run ended with joules" in found
    assert "No power trace: no run ended with joules." in found
    assert "not finished: this report is of what there is so far" in found
    assert (
        outcome.reason or ("no reason was recorded" if outcome.status == "failed" else "not finished yet")
    ) in found


def test_a_campaign_without_a_run_says_so(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c", drives=())
    assert "The campaign has no runs." in words(page(folder))


def test_a_single_run_is_a_report(tmp_path):
    folder = simulated_campaign.build(
        tmp_path / "c", drives=("nvme-plp",), filesystems=("ext4",), schedulers=("none",)
    )
    assert "the only cell with a result, so nothing to compare it with" in words(page(folder))


def test_equal_runs_are_reported_as_without_spread(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c", replicates=2)
    edit(
        folder,
        "UPDATE result SET joules = 20, corrected_joules = 20, ai_ops_per_joule = 50",
        "UPDATE performance SET ops = 1000",
    )
    found = words(page(folder))
    assert "50.00 ± 0.071 ops/J" in found  # of gaps, instants and V × I alone
    why = "the runs of each cell are all alike: there is no spread to test by"
    assert f"nothing can be separated: {why}" in found
    assert "Nothing varies among the runs with a result" in found


def test_a_single_level_says_that_nothing_varies(tmp_path):
    folder = simulated_campaign.build(
        tmp_path / "c", filesystems=("ext4",), schedulers=("none",), replicates=3
    )
    found = words(section(page(folder), "What matters, and what limits the precision"))
    assert "Nothing varies among the runs with a result" in found
    assert "more replicates" in found


def test_what_matters_is_reported_by_factor_with_p_as_text(replicated_page):
    found = words(section(replicated_page, "What matters, and what limits the precision"))
    assert re.search(r"Scheduler: has an effect on nvme-consumer, randwrite-fsync \(\d[\d.]* % of the", found)
    assert "p < 0.001" in found
    assert "not known, and in no figure: the meter's class" in found
    for name in ("file system × scheduler", "largest AI", "run to run"):
        assert name in found


def test_figures_of_the_comparison_are_those_of_the_csv(replicated, replicated_page):
    source = section(replicated_page, "What matters, and what limits the precision")
    report.write(replicated, ["csv"])
    budget = pl.read_csv(replicated / "report" / "budget.csv")
    effects = pl.read_csv(replicated / "report" / "effects.csv")
    shown = {cell for row in rows(source) for cell in row}
    for frame in (budget, effects):
        for share in frame["share_percent"].drop_nulls():
            assert text.number(share, 2) in shown
    pairs = pl.read_csv(replicated / "report" / "best.csv")
    reported = re.search(r"is ([\d.]+) % worse \(([\d.]+) to ([\d.]+) %\)", words(replicated_page))
    wanted = [
        tuple(text.number(value, 2) for value in row)
        for row in pairs.select("less_percent", "less_percent_low", "less_percent_high").iter_rows()
    ]
    assert reported.groups() in wanted


def test_a_further_factor_has_its_own_panel(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c", extra_factors={"kernel": ("6.1", "6.12")})
    source = page(folder)
    assert "nvme-plp, randwrite-fsync, kernel=6.12" in words(source)
    assert len(re.findall("AI in operations per joule", source)) == 4


def test_without_a_power_csv_the_report_names_the_missing_trace(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c", traces=True, outcome=lambda _: Outcome(power_csv=False))
    assert "No power trace: no finished run kept its power.csv." in words(page(folder))


def test_without_the_best_runs_trace_another_stands_in_and_it_says_so(tmp_path):
    folder = simulated_campaign.build(
        tmp_path / "c", traces=True, outcome=lambda levels: Outcome(power_csv=levels["filesystem"] != "f2fs")
    )
    assert "the first run that kept its trace" in words(page(folder))


def test_a_damaged_power_csv_is_named(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c", traces=True)
    for path in folder.glob("runs/*/power.csv"):
        path.write_text("time_ns,rail\n1,5v\n")
    assert "no column 'watts'" in words(page(folder))


def test_damaged_settings_are_named_and_the_rest_stands(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c")
    (path, *_) = sorted(folder.glob("runs/*/settings.json"))
    path.write_text("{")
    found = words(page(folder))
    assert "settings.json: cannot be read as JSON" in found
    assert "6.1.0-38-amd64 (×17)" in found


def test_settings_lab_and_provenance_of_any_shape_are_shown(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c")
    edit(folder, "UPDATE campaign SET lab = '{\"hosts\": []}', provenance = '{}', definition = '{}'")
    for path in folder.glob("runs/*/settings.json"):
        path.write_text(
            json.dumps(
                {"drive": "text", "mkfs": ["mkfs.ext4", "-F"], "odd": [{"a": None}, 1], "id": str(path)}
            )
        )
    found = words(page(folder))
    assert "mkfs.ext4 -F" in found
    assert "odd 0 a" in found
    assert "differs from run to run" in found
    assert "not described in the lab model" in found


def test_a_run_without_settings_leaves_the_others(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c")
    for path in folder.glob("runs/*/settings.json"):
        path.unlink()
    assert "no run left its settings" in words(page(folder))


def edit(folder: Path, *statements: str) -> None:
    database = sqlite3.connect(folder / "journal.sqlite", isolation_level=None)
    for statement in statements:
        database.execute(statement)
    database.close()


# Figures and numbers


def test_a_heat_map_prints_the_value_of_each_cell_and_why_one_has_none(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c", outcome=mixed)
    cells = runs_and_cells.cells(results.load(folder)).filter(pl.col("drive") == "nvme-plp").to_dicts()
    drawn = figures.heat_map(
        cells, ["ext4", "xfs", "f2fs", "btrfs"], ["none", "mq-deadline", "bfq"], virtual=False
    ).text
    for one in cells:
        if one["ai_ops_per_joule"] is not None:
            assert f"<!-- {text.number(one['ai_ops_per_joule'])} -->" in drawn
    for reported in ("failed", "partial,", "not run", "not in plan"):
        assert f"<!-- {reported}" in drawn


@pytest.mark.parametrize(("replicates", "letters"), [(1, 0), (3, 3)])
def test_a_ranking_has_a_number_a_cell_letters_where_tested_and_the_front(tmp_path, replicates, letters):
    campaign = results.load(
        simulated_campaign.build(
            tmp_path / "c",
            drives=("nvme-plp",),
            filesystems=("f2fs",),
            noise=0.001,
            replicates=replicates,
        )
    )
    compared = comparison.compare_cells(campaign)
    (group,) = answer.groups(compared, runs_and_cells.cells(campaign, compared).to_dicts())
    drawn = standings.figure(group.ranked, virtual=False).text
    for rank, one in enumerate(group.ranked, start=1):
        assert f"<!-- {answer.combination(one)}  {rank} -->" in drawn
        assert f"<!-- {rank} -->" in drawn
    assert len(re.findall("<!-- [abc] -->", drawn)) == letters


def test_a_long_trace_is_thinned_and_keeps_its_extremes():
    points = pl.DataFrame(
        {"time_ns": range(100_000), "watts": 1.0, "watts_min": 0.5, "watts_max": 1.5}
    ).with_columns(
        watts_max=pl.when(pl.col("time_ns") == 77_777).then(9.0).otherwise(pl.col("watts_max")),
        watts_min=pl.when(pl.col("time_ns") == 33_333).then(-2.0).otherwise(pl.col("watts_min")),
    )
    thin = figures._thin(points)
    assert thin.height <= 900
    assert (thin["watts_max"].max(), thin["watts_min"].min(), thin["watts"].mean()) == (9.0, -2.0, 1.0)


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [
        (1419.88, 4, "1,420"), (489.379, 4, "489.4"), (4.51045, 4, "4.510"), (0.0977123, 3, "0.0977"),
        (0, 4, "0"), (None, 4, "–"), (float("nan"), 4, "–"), (-0.25, 2, "−0.25"),
        (123456.7, 4, "123,500"), (9.9996, 4, "10.00"),
        (3.2e-7, 2, "3.2×10^−7"),
    ],
)  # fmt: skip
def test_numbers_have_the_digits_that_they_are_given(value, digits, shown):
    assert text.number(value, digits) == shown


def test_run_numbers_are_given_as_ranges():
    assert text.ranges([3, 1, 2, 7, 9, 10]) == "1–3, 7, 9–10"


# What the figures rest on

ACCURACY = {
    "volts": {"gain_percent": 0.1, "offset": 0.005, "resolution": 0.001},
    "amps": {"gain_percent": 0.2, "offset": 0.002, "resolution": 0.0005},
}
FIT = {"gain": 1.0, "offset": 0.0, "u_gain": 5e-4, "u_offset": 1e-4, "cov": 0.0}


def calibrated(state: str, expires: str) -> dict:
    channels = {"CH1": FIT, "CH2": FIT}
    return {
        "state": state,
        "date": "2025-10-01",
        "expires": expires,
        "certificate": "C-7",
        "channels": channels,
    }


@pytest.fixture(scope="module")
def expired(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tap1a's calibration is past its date, tap1b (of the SATA drive) has none."""
    return simulated_campaign.build(
        tmp_path_factory.mktemp("e") / "c",
        drives=("nvme-plp", "sata-plp"),
        replicates=2,
        virtual=False,
        traces=True,
        accuracy=ACCURACY,
        calibration={"tap1a": calibrated("expired", "2026-10-01"), "tap1b": {"state": "none"}},
    )


def section(source: str, title: str) -> str:
    found = re.search(rf"<section[^>]*>\s*<h2>{title}</h2>.*?</section>", source, flags=re.S)
    assert found, title
    return found[0]


def rows(source: str) -> list[list[str]]:
    """The cells of each row of a part of the page."""
    return [
        [words(cell) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, flags=re.S)]
        for row in re.findall(r"<tr[^>]*>(.*?)</tr>", source, flags=re.S)
    ]


def test_energy_and_ai_come_with_low_and_high(demo, demo_page):
    campaign = results.load(demo)
    runs, cells = runs_and_cells.runs(campaign), runs_and_cells.cells(campaign)
    found = words(demo_page)
    for low, high in runs.select("joules_low", "joules_high").iter_rows():
        assert f"{text.number(low)} to {text.number(high)}" in found
    for low, high in cells.select("ai_ops_per_joule_energy_low", "ai_ops_per_joule_energy_high").iter_rows():
        assert f"{text.number(low)} to {text.number(high)}" in found
    assert "by the energy's interval alone" in found[:900]


def test_the_truth_is_said_to_lie_within_or_not(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c", drives=("nvme-plp",))
    with sqlite3.connect(folder / "journal.sqlite") as database:
        database.execute("UPDATE result SET joules_low = true_joules - 1, joules_high = true_joules + 1")
    found = page(folder)
    assert "True joules lie within [low, high] in 9 of 9 runs." in words(found)
    with sqlite3.connect(folder / "journal.sqlite") as database:
        database.execute("UPDATE result SET joules_high = true_joules - 0.1 WHERE run LIKE '%-0004'")
    found = page(folder)
    assert "True joules lie within [low, high] in 8 of 9 runs; outside in run 4." in words(found)
    of_run_4 = next(row for row in rows(section(found, "Runs")) if row[0] == "4")
    assert "no" in of_run_4


def test_the_ledger_of_each_meter_is_shown_with_its_balance(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c", drives=("nvme-plp", "sata-plp"), lost_share=0.01)
    with sqlite3.connect(folder / "journal.sqlite") as database:
        database.execute("UPDATE energy SET duplicate = 3, samples = samples - 3 WHERE meter = 'tap1a'")
        database.execute("UPDATE energy SET samples = samples - 2 WHERE meter = 'tap1b' AND phase = 'idle'")
        database.execute(
            "UPDATE energy SET worst_gap_seconds = 0.25 WHERE meter = 'tap1a' AND phase = 'idle'"
        )
    energy = results.load(folder).tables["energy"].filter(pl.col("meter") == "tap1a")
    found = {row[0]: row for row in rows(section(page(folder), "What was lost"))}
    expected, samples, lost = (text.fixed(energy[name].sum(), 0) for name in ("expected", "samples", "lost"))
    assert found["tap1a"][1:4] == [expected, samples, lost]
    assert found["tap1a"][5:] == ["135", "0", "0", "0", "0.250", "yes"]
    assert found["tap1b"][-1] == "no , 18 unaccounted for"


def test_a_journal_of_version_1_has_no_balance_and_no_intervals_and_says_so(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c", drives=("nvme-plp",))
    with sqlite3.connect(folder / "journal.sqlite") as database:
        for table in ("energy", "result"):
            for name, one in TABLES[table].columns.items():
                if one.since > 1:
                    database.execute(f"ALTER TABLE {table} DROP COLUMN {name}")
        database.execute("PRAGMA user_version = 1")
    found = page(folder)
    assert [row[-1] for row in rows(section(found, "What was lost")) if row[0] == "tap1a"] == ["not known"]
    assert "No run has joules with a low and a high." in words(found)
    assert "True joules lie within" not in words(found)


def test_a_meter_without_class_and_calibration_says_so_once(demo_page):
    assert words(demo_page).count("no calibration on record, meter class not stated") == 1
    found = section(demo_page, "How sure the joules are")
    assert words(found).count("meter class not stated (volts): low and high have no part for the meter") == 2


def test_the_budget_of_a_rail_is_shown_by_source(expired):
    found = section(page(expired), "How sure the joules are")
    shares = next(row for row in rows(found) if row[0] == "sata-plp")
    assert sum(float(share) for share in shares[-5:]) == pytest.approx(100, abs=2)
    sources = next(row[-1] for row in rows(found) if row[0] == "sata-plp 5v")
    for source in ("volts class", "amps class", "volts quantisation", "amps quantisation"):
        assert source in sources
    assert "calibration" not in sources


def test_every_figure_on_an_expired_calibration_is_marked_and_no_other_is(expired):
    source = page(expired)
    campaign = results.load(expired)
    assert "† calibration of tap1a expired 2026-10-01." in words(source)[:900]
    for title in ("Cells", "Runs"):
        for row in rows(section(source, title)):
            group = row[1] if title == "Runs" else ""
            if title == "Runs" and group in ("nvme-plp", "sata-plp"):
                assert sum("†" in cell for cell in row) == (5 if group == "nvme-plp" else 0), row
    marked, group = {}, ""
    for row in rows(section(source, "Cells")):
        if len(row) == 1:
            group = row[0].split(",")[0]
        elif group:
            marked.setdefault(group, set()).add(sum("†" in cell for cell in row))
    assert marked == {"nvme-plp": {5}, "sata-plp": {0}}
    claims = {row[0]: row[-1] for row in rows(source)[:6] if "ops/J" in row[-1]}
    assert claims["nvme-plp, randwrite-fsync"].endswith("†")
    assert not claims["sata-plp, randwrite-fsync"].endswith("†")
    group = ""
    for row in rows(section(source, "Other figures per joule and per watt")):
        if len(row) == 1:
            group = row[0].split(",")[0]
        elif group and len(row) == 12:
            assert sum("†" in cell for cell in row) == (10 if group == "nvme-plp" else 0), row
    captions = [
        words(caption) for caption in re.findall(r"<figcaption>(.*?)</figcaption>", source, flags=re.S)
    ]
    for caption in captions:
        assert ("expired" in caption) == ("nvme-plp" in caption), caption
    maps = [svg for svg in svgs(source) if any(f"<!-- {level} -->" in svg for level in ("ext4",))]
    cells = runs_and_cells.cells(campaign)
    for svg, drive in zip(maps, ("nvme-plp", "sata-plp"), strict=True):
        values = cells.filter(pl.col("drive") == drive)["ai_ops_per_joule"]
        assert all((f"<!-- {text.number(value)}† -->" in svg) == (drive == "nvme-plp") for value in values)
    for title in ("Idle baseline", "How sure the joules are"):
        for row in rows(section(source, title)):
            reported = [cell for cell in row if re.match(r"nvme-plp|sata-plp", cell)]
            if reported:
                assert any("†" in cell for cell in row) == reported[0].startswith("nvme-plp"), row


def test_a_calibration_that_runs_out_during_a_campaign_marks_what_came_after(tmp_path):
    folder = simulated_campaign.build(
        tmp_path / "c",
        drives=("nvme-plp",),
        accuracy=ACCURACY,
        calibration={"tap1a": calibrated("valid", "2026-11-13")},
    )
    assert "†" not in words(page(folder))
    day = 86_400 * simulated_campaign.SECOND
    with sqlite3.connect(folder / "journal.sqlite") as database:
        database.execute(f"UPDATE run SET started_ns = started_ns + {day} WHERE ordinal > 6")
        database.execute(
            f"UPDATE phase SET start_ns = start_ns + {day}, end_ns = end_ns + {day}"
            " WHERE run IN (SELECT id FROM run WHERE ordinal > 6)"
        )
    marked = [any("†" in cell for cell in row) for row in rows(section(page(folder), "Runs"))[1:]]
    assert marked == [False] * 6 + [True] * 3


def test_a_valid_calibration_is_named_with_its_date(tmp_path):
    folder = simulated_campaign.build(
        tmp_path / "c",
        drives=("nvme-plp",),
        accuracy=ACCURACY,
        calibration={"tap1a": calibrated("valid", "2027-10-01")},
    )
    found = words(page(folder))
    assert "calibration of 2025-10-01 valid to 2027-10-01, certificate C-7" in found
    assert "†" not in found
    assert "calibration channels" not in found  # its coefficients are no version of the controller's


def test_the_idle_baseline_is_shown_and_said_to_be_in_no_other_figure(demo, demo_page):
    found = section(demo_page, "Idle baseline")
    assert "AI and joules have nothing subtracted" in words(found)
    (row,) = (row for row in rows(found) if row[1] == "nvme-plp")
    campaign = results.load(demo)
    (baseline,) = (one for one in rail_baselines(campaign, idle.by_run(campaign)) if one.drive == "nvme-plp")
    assert row[4:6] == ["9", text.number(baseline.watts)]
    assert row[-1].startswith("2026-11-13 ")


def test_a_drive_without_a_rail_is_answered_by_its_performance(tmp_path):
    why = "no joules: nvme-plp: no rail"
    folder = simulated_campaign.build(
        tmp_path / "c", drives=["nvme-plp"], outcome=lambda _: Outcome("ok", why, joules=False)
    )
    found = words(page(folder))
    fastest = max(run.performance.ops_per_second for run in results.load(folder).runs)
    assert "no AI, as no rail is measured; one run a cell: nothing can be separated" in found
    assert "highest reading f2fs with none" in found
    assert f"{text.number(fastest)} ops/s" in found
    assert why in found
    assert "Every planned run is ok." in found


def test_an_emulated_drive_is_named_as_such(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c", drives=["nvme-plp"])
    host = results.load(folder).runs[0].host
    by = json.dumps({host: {"nvme-plp": "scsi_debug, 8 ms a request"}})
    with sqlite3.connect(folder / "journal.sqlite") as database:
        database.execute(
            "UPDATE campaign SET provenance = json_set(provenance, '$.emulated', json(?))", (by,)
        )
    assert ", emulated by scsi_debug, 8 ms a request" in words(page(folder))


# --- steady state


ROUNDS = [(9000.0, 6.0), (4000.0, 5.2), (1000.0, 4.0), *[(1000.0 + n, 4.0) for n in range(1, 5)]]
RECIPE = {"purge": "discard", "passes": 2, "job": "randwrite", "round_seconds": 60}


def preconditioned(folder: Path, rounds: list[tuple[float, float | None]], **changed) -> Path:
    """A campaign of two runs on a drive that settled by `rounds` before the first one."""
    simulated_campaign.build(folder, drives=["nvme-plp"], filesystems=["ext4", "xfs"], schedulers=["none"])
    made = [{"iops": iops, "watts": watts} for iops, watts in rounds]
    verdict = dataclasses.asdict(steady_state.judge(made))
    first, second = sorted(path.name for path in (folder / "runs").iterdir())
    found = {"why": "", "by": first, "recipe": RECIPE, "verdict": verdict}
    for run, more in ((first, {"reused": False, "stretches": [made]}), (second, {"reused": True})):
        path = folder / "runs" / run / "precondition.json"
        path.write_text(json.dumps({**found, **more, **changed}))
    return folder


def test_a_campaign_that_preconditions_no_drive_does_not_speak_of_it(demo_page):
    assert "Steady state" not in demo_page


def test_how_each_drive_came_to_its_state_is_reported(tmp_path):
    source = page(preconditioned(tmp_path / "c", ROUNDS))
    reported = words(source)
    assert "nvme-plp 1–2 discard 2 7 × 60 s randwrite yes 1,002 0.399 0.399 4.000 0 0" in reported
    assert "steady at round 7: iops range 0.4 % of 20 % allowed" in reported
    assert "before run demo-20261113-082640-0001" in reported
    assert (
        "range is at most 20 % of their mean and whose least-squares line rises or falls by at most 10 %"
        in reported
    )
    assert source.count("Rounds of drive nvme-plp") == 1


def test_a_drive_that_never_got_there_is_named_so(tmp_path):
    reported = words(page(preconditioned(tmp_path / "c", ROUNDS[:5])))
    assert "5 × 60 s randwrite no" in reported
    assert "not steady after 5 rounds: iops range" in reported


def test_a_drive_without_watts_has_none_in_the_table(tmp_path):
    reported = words(page(preconditioned(tmp_path / "c", [(iops, None) for iops, _ in ROUNDS])))
    assert "yes 1,002 0.399 0.399 – – –" in reported
    assert "no watts: judged on iops alone" in reported


def test_a_precondition_of_another_campaign_has_no_rounds_here(tmp_path):
    folder = preconditioned(tmp_path / "c", ROUNDS, by="earlier-20260101-000000-0003", reused=True)
    source = page(folder)
    assert "before run earlier-20260101-000000-0003" in words(source)
    assert "Rounds of drive" not in source


def test_a_damaged_precondition_is_named_and_the_rest_stands(tmp_path):
    folder = preconditioned(tmp_path / "c", ROUNDS)
    (folder / "runs" / "demo-20261113-082640-0001" / "precondition.json").write_text("{")
    reported = words(page(folder))
    assert "precondition.json: cannot be read as JSON" in reported
    assert "nvme-plp 2 discard" in reported
