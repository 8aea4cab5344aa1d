# SPDX-License-Identifier: GPL-3.0-or-later
"""HTML, PDF, CSV and Parquet have the same numbers: the report's tables against the files."""

from __future__ import annotations

import html
import itertools
import json
import re
import shutil
import sqlite3
import statistics
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pypdf
import pytest

from joulerig import text
from joulerig.analysis import export, report, results
from joulerig.rig.cli import results as terminal
from joulerig.rig.dashboard.campaign import state
from joulerig.rig.dashboard.campaign.journal import Journal
from tests.support import simulated_campaign
from tests.support.simulated_campaign import Outcome

Row = dict[str, object]


def outcome(levels: dict) -> Outcome:
    if levels["ordinal"] == 5:
        return Outcome("partial", "meter fell silent", joules=False)
    return Outcome("failed", "fio: exit 1") if levels["ordinal"] == 9 else Outcome()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A campaign with its report and its export; some runs have no joules."""
    place = tmp_path_factory.mktemp("numbers") / "c"
    accuracy = {
        "volts": {"gain_percent": 0.1, "offset": 0.002},
        "amps": {"gain_percent": 0.2, "offset": 1e-4},
    }
    simulated_campaign.build(
        place, replicates=3, schedulers=("none", "bfq"), outcome=outcome, traces=True, accuracy=accuracy
    )
    for run in results.load(place).runs:
        for name, kelvin in (("before", 273), ("after", 280)):
            health = {"temperature": kelvin + 30 + (7 * run.ordinal) % 11}
            (run.folder / f"smart_{name}.json").write_text(json.dumps(health))
    report.write(place)
    export.write(results.load(place), place / "export")
    return place


@pytest.fixture(scope="module")
def page(folder) -> str:
    return (folder / "report" / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def printed(folder) -> str:
    pages = pypdf.PdfReader(folder / "report" / "report.pdf").pages
    return " ".join(" ".join(one.extract_text().split()) for one in pages)


@pytest.fixture(scope="module", params=["csv", "parquet"])
def tables(request, folder) -> Callable[[str], list[Row]]:
    """Rows of an exported table, as a reader of that format has them."""

    def read(name: str) -> list[Row]:
        frame = pl.read_parquet(folder / "export" / f"{name}.parquet")
        if request.param == "csv":
            frame = pl.read_csv(folder / "export" / f"{name}.csv", schema_overrides=dict(frame.schema))
        return frame.to_dicts()

    return read


def table(page: str, caption: str) -> tuple[list[str], list[list[str]]]:
    """Return the column names and rows of the table whose caption has that text."""
    (source,) = (one for one in re.findall(r"<table.*?</table>", page, re.S) if caption in plain(one))
    head, body = re.split(r"</thead>", source, maxsplit=1)
    first, *others = re.findall(r"<tr>(.*?)</tr>", head, re.S)
    spanning = re.findall(r"<th([^>]*)>(.*?)</th>", first, re.S)
    names = [
        plain(name) for how, name in spanning if not others or ('rowspan="2"' in how and "after" not in how)
    ]
    names += [plain(name) for row in others for name in re.findall(r"<th[^>]*>(.*?)</th>", row, re.S)]
    names += [plain(name) for how, name in spanning if others and "after" in how]
    rows = re.findall(r'<tr(?: class="(head)")?>(.*?)</tr>', body, re.S)
    return names, [
        [] if head else [plain(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.S)]
        for head, row in rows
    ]


def plain(source: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", source)).split())


def reach(low: object, high: object) -> str:
    return text.DASH if low is None or high is None else f"{text.number(low)} to {text.number(high)}"


OF_CELL: dict[str, Callable[[Row], str]] = {
    "mean": lambda row: text.number(row["ai_ops_per_joule"]),
    "95 %": lambda row: reach(row["ai_ops_per_joule_interval_low"], row["ai_ops_per_joule_interval_high"]),
    "by energy": lambda row: reach(row["ai_ops_per_joule_energy_low"], row["ai_ops_per_joule_energy_high"]),
    "s/mean, %": lambda row: text.percent(row["ai_ops_per_joule_relative_spread"]),
    "MB/J": lambda row: text.number(row["ai_mb_per_joule"]),
    "ops/s": lambda row: text.number(row["ops_per_second"]),
    "MB/s": lambda row: text.number(row["mb_per_second"]),
    "W": lambda row: text.number(row["mean_watts"]),
    "p50, ms": lambda row: text.milliseconds(row["latency_p50_seconds"]),
    "p99, ms": lambda row: text.milliseconds(row["latency_p99_seconds"]),
}
OF_RUN: dict[str, Callable[[Row], str]] = {
    "repl.": lambda row: str(row["replicate"]),
    "s": lambda row: text.fixed(row["workload_seconds"], 2),
    "ops/s": lambda row: text.number(row["ops_per_second"]),
    "MB/s": lambda row: text.number(row["mb_per_second"]),
    "joules": lambda row: text.number(row["joules"]),
    "low to high": lambda row: reach(row["joules_low"], row["joules_high"]),
    "true joules": lambda row: text.number(row["true_joules"]),
    "error, %": lambda row: text.signed(row["error_percent"], 3),
    "W": lambda row: text.number(row["mean_watts"]),
    "ops/J": lambda row: text.number(row["ai_ops_per_joule"]),
    "MB/J": lambda row: text.number(row["ai_mb_per_joule"]),
}


def test_numbers_of_cells(page, tables):
    names, shown = table(page, "All cells, best first")
    assert set(OF_CELL) <= set(names)
    cells = {(row["drive"], row["filesystem"], row["scheduler"]): row for row in tables("cells")}
    seen = []
    drives = iter(re.findall(r"nvme-\w+(?=, randwrite)", plain(page[page.index("All cells, best first") :])))
    for cell in shown:
        if not cell:
            drive = next(drives)
            continue
        row = cells[drive, cell[0], cell[1]]
        seen.append(row["cell"])
        for name, formatted in OF_CELL.items():
            assert cell[names.index(name)] == formatted(row), (row["cell"], name)
    assert sorted(seen) == sorted(row["cell"] for row in tables("cells"))


def test_numbers_of_runs(page, tables):
    names, shown = table(page, "All runs in order of execution")
    assert set(OF_RUN) <= set(names)
    by_ordinal = {str(row["ordinal"]): row for row in tables("runs")}
    rows = [row for row in shown if len(row) == len(names)]  # the others are reasons
    assert [row[0] for row in rows] == list(by_ordinal)
    for shown_row in rows:
        for name, formatted in OF_RUN.items():
            assert shown_row[names.index(name)] == formatted(by_ordinal[shown_row[0]]), (shown_row[0], name)


def test_work_per_joule_is_of_the_corrected_joules_and_the_same_everywhere(folder, tables):
    """In the journal, the tables, the dashboard and the terminal."""
    journal = Journal(folder / "journal.sqlite")
    seen = journal.read()
    journal.close()
    message = state.campaign(seen, seen["last_event_ns"])
    shown = {run["id"]: run["ops_per_joule"] for run in message["runs"] if "ops_per_joule" in run}
    of_terminal = {run["id"]: run["ai_ops_per_joule"] for run in terminal.as_json(folder)["runs"]}
    corrected: dict[object, list[Row]] = {}
    for row in tables("runs"):
        assert of_terminal[row["run"]] == row["ai_ops_per_joule"]
        if row["joules"] is None:
            continue
        assert row["corrected_joules"] == pytest.approx((row["joules_low"] + row["joules_high"]) / 2)
        assert row["ai_ops_per_joule"] == pytest.approx(row["ops"] / row["corrected_joules"], rel=1e-12)
        assert row["mean_watts"] == pytest.approx(
            row["corrected_joules"] / row["workload_seconds"], rel=1e-12
        )
        assert row["joules_per_op"] == pytest.approx(1 / row["ai_ops_per_joule"], rel=1e-12)
        assert shown[row["run"]] == row["ai_ops_per_joule"]
        corrected.setdefault(row["cell"], []).append(row)
    assert any(row["joules"] != row["corrected_joules"] for rows in corrected.values() for row in rows)
    table = terminal.ai_table_text(folder)
    by_cell = {
        (block["drive"], filesystem, scheduler): cell
        for block in message["table"]
        for filesystem, row in block["cells"].items()
        for scheduler, cell in row.items()
    }
    for row in tables("cells"):
        counted = [run for run in corrected.get(row["cell"], []) if run["status"] == "ok"]
        expected = sum(run["ops"] for run in counted) / sum(run["corrected_joules"] for run in counted)
        assert row["ai_ops_per_joule"] == pytest.approx(expected, rel=1e-12)
        on_page = by_cell[row["drive"], row["filesystem"], row["scheduler"]]["ops"]
        assert on_page["mean"] == pytest.approx(expected, rel=1e-12)
        assert f"{expected:.1f}" in table


@pytest.mark.long
def test_a_warning_of_uneven_losses_is_in_the_report_the_terminal_and_the_dashboard(folder, tmp_path):
    lossy = tmp_path / "c"
    shutil.copytree(folder, lossy)
    with sqlite3.connect(lossy / "journal.sqlite") as database:
        database.execute(
            "UPDATE energy SET gap_seconds = 0.08 WHERE phase = 'workload' AND drive = 'nvme-plp' AND run IN"
            " (SELECT id FROM run WHERE filesystem = 'xfs')"
        )
    warning = "nvme-plp, randwrite-fsync: Cells lost notably different shares of their samples, from 0.0"
    report.write(lossy)
    journal = Journal(lossy / "journal.sqlite")
    seen = journal.read()
    journal.close()
    assert warning in plain((lossy / "report" / "report.html").read_text(encoding="utf-8"))
    assert f"WARNING: {warning}" in " ".join(terminal.ai_table_text(lossy).split())
    (shown,) = state.campaign(seen, seen["last_event_ns"])["warnings"]
    assert shown.startswith(warning)


def test_numbers_of_effects(page, tables):
    _, shown = table(page, "Analysis of variance")
    expected = [
        [
            row["source"],
            str(row["degrees_of_freedom"]),
            text.number(row["share_percent"], 2),
            "" if row["source"] == "run to run" else text.number(row["f"], 3),
            "" if row["source"] == "run to run" else text.probability(row["p"]),
            text.number(row["deviation_percent"], 2) if row["deviation_percent"] is not None else "",
        ]
        for row in tables("effects")
    ]
    assert [row for row in shown if row] == expected


def test_numbers_of_the_budgets(page, tables):
    names, shown = table(page, "Relative standard uncertainty u")
    headings = {"run to run": "run to run", "gaps": "gaps", "interpolation": "interpolation",
                "alignment": "alignment", "product": "V × I", "meter": "meter"}  # fmt: skip
    of_drives: dict[tuple, set] = {}
    for row in tables("budget"):
        key = tuple(row["cell"].split("/")[1:3])
        of_drives.setdefault((key, row["source"]), set()).add(text.number(row["share_percent"], 2))
    checked = 0
    for cell in (row for row in shown if row and len(row) > 4):
        for source, heading in headings.items():
            if heading in names:
                assert cell[names.index(heading)] in of_drives[(cell[0], cell[1]), source]
                checked += 1
    assert checked == 6 * len({row["cell"] for row in tables("budget")})


def ends(row: Row, name: str, digits: int) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    if low is None:
        return text.DASH
    return f"{text.signed(low, digits)} to {text.signed(high, digits)}"


def test_numbers_of_cemp(page, tables):
    _, shown = table(page, "change of energy dE over change of performance dP")
    expected = [
        [
            row["anchor"],
            " with ".join(row["cell"].split("/")[1:3]),
            text.signed(row["energy_change_percent"], 1),
            ends(row, "energy_change_percent", 1),
            text.signed(row["performance_change_percent"], 1),
            ends(row, "performance_change_percent", 1),
            text.number(row["cemp"], 3),
            ends(row, "cemp", 2),
        ]
        for row in tables("cemp")
    ]
    assert [row for row in shown if len(row) > 1] == expected


def test_numbers_of_elasticity(tmp_path):
    place = simulated_campaign.build(
        tmp_path / "c",
        drives=("nvme-plp",),
        filesystems=("ext4", "xfs"),
        schedulers=("none",),
        replicates=3,
        extra_factors={"threads": ("1", "4", "16")},
    )
    report.write(place, ["html", "csv"])
    shown_page = (place / "report" / "report.html").read_text(encoding="utf-8")
    _, shown = table(shown_page, "How smoothly energy follows performance")
    rows = pl.read_csv(place / "report" / "elasticity.csv").to_dicts()
    assert len(rows) == 2
    assert [row for row in shown if len(row) > 1] == [
        [
            row["drive"],
            row["filesystem"],
            row["scheduler"],
            f"threads {row['levels']}; workload randwrite-fsync",
            text.number(row["elasticity"], 3),
            ends(row, "elasticity", 3),
            text.number(row["watts_variation_percent"], 2),
        ]
        for row in rows
    ]


def test_numbers_of_dynamic_energy(page, tables):
    _, shown = table(page, "Ratios of sums over the workload phases")
    by_combination: dict[tuple, set] = {}
    for row in tables("cells"):
        low, high = row["dynamic_joules_per_op_low"], row["dynamic_joules_per_op_high"]
        known = row["dynamic_joules_per_op"] is not None
        figure = f"{text.number(1e3 * low)} to {text.number(1e3 * high)}" if known else text.DASH
        by_combination.setdefault((row["filesystem"], row["scheduler"]), set()).add(figure)
    rows = [row for row in shown if row]
    assert len(rows) == sum(row["ai_ops_per_joule"] is not None for row in tables("cells"))
    for row in rows:
        assert row[7] in by_combination[row[0], row[1]]


def test_numbers_of_steadiness(page, tables):
    _, shown = table(page, "SNIA PTS' rule for a steady state, applied to the load itself")
    runs = tables("runs")
    expected = []
    for row in tables("quiescence"):  # the cells with an AI, in the report's order
        counted = [run for run in runs if run["cell"] == row["cell"] and run["steadiness"]]
        cell = next(cell for cell in tables("cells") if cell["cell"] == row["cell"])
        unsteady = sum(run["steadiness"].startswith("not steady") for run in counted)
        assert unsteady == cell["runs_not_steady"]
        figures = []
        for name in ("ops_range", "ops_slope", "watts_range", "watts_slope"):
            known = [run[f"fifths_{name}_percent"] for run in counted]
            known = [value for value in known if value is not None]
            figures.append(text.number(statistics.median(known), 3) if known else text.DASH)
        open_ = sum(run["steadiness"].startswith("cannot tell") for run in counted)
        left = sum(run["steadiness"] == "not judged" for run in counted)
        counts = [len(counted) - unsteady - open_ - left, unsteady, open_, left]
        expected.append([cell["filesystem"], cell["scheduler"], *map(str, counts), *figures])
    assert [row for row in shown if len(row) == 10] == expected
    assert any(text.DASH not in row[-1] for row in expected)


def test_numbers_of_temperature(page, tables):
    _, shown = table(page, "The drive's own temperature before mkfs")
    expected = []
    for row in tables("temperature"):
        low, high = row["percent_per_kelvin_low"], row["percent_per_kelvin_high"]
        starts = (row["start_least_celsius"], row["start_greatest_celsius"])
        expected.append(
            [
                *(f"{row['drive']}, {row['workload']}", str(row["runs"])),
                " to ".join(text.number(one, 3) for one in starts),
                *(text.fixed(row["cells_differ_kelvin"], 1), text.signed(row["percent_per_kelvin"], 2)),
                text.DASH if low is None else f"{text.signed(low, 2)} to {text.signed(high, 2)}",
                *(text.probability(row["p"]), "seen" if row["seen"] else "none seen"),
            ]
        )
        counted = [run for run in tables("runs") if run["drive"] == row["drive"] and run["status"] == "ok"]
        assert starts == tuple(end(run["temperature_start_celsius"] for run in counted) for end in (min, max))
    assert [row for row in shown if row] == expected


def test_numbers_of_the_phases_of_the_run_that_is_shown(page, tables):
    ordinal = int(re.search(r"Run (\d+), [^,]*, the median run", plain(page))[1])
    (run,) = (row["run"] for row in tables("runs") if row["ordinal"] == ordinal)
    seconds = {row["phase"]: row["seconds"] for row in tables("phases") if row["run"] == run}
    joules = {row["phase"]: row["joules"] for row in tables("energy") if row["run"] == run}
    corrected = {
        row["phase"]: row["joules"]
        + (row["gap_low_joules"] + row["gap_high_joules"] - row["product_joules"]) / 2
        for row in tables("energy")
        if row["run"] == run
    }
    true = {row["phase"]: row["true_joules"] for row in tables("energy") if row["run"] == run}
    _, shown = table(page, "The same run by phase")
    assert [row[:3] + row[4:] for row in shown if row] == [
        [
            phase,
            text.fixed(seconds[phase], 2),
            text.number(joules[phase]),
            text.number(true[phase]),
            text.number(corrected[phase] / seconds[phase]),
        ]
        for phase in seconds
    ]


def test_the_pdf_prints_the_numbers_of_cells_and_runs(printed, tables):
    for row in tables("cells"):
        line = f"{text.number(row['ai_ops_per_joule'])} {row['letters']} {OF_CELL['95 %'](row)}"
        assert f"{line} {OF_CELL['by energy'](row)}" in printed, row["cell"]
        figures = ["MB/J", "ops/s", "MB/s", "W", "p50, ms", "p99, ms"]
        assert " ".join(OF_CELL[name](row) for name in figures) in printed, row["cell"]
    for row in tables("runs"):
        for before, after in itertools.pairwise(("s", "ops/s", "MB/s", "joules")):
            assert f"{OF_RUN[before](row)} {OF_RUN[after](row)}" in printed, (row["ordinal"], before)
        for before, after in itertools.pairwise(("W", "ops/J", "MB/J")):
            assert f"{OF_RUN[before](row)} {OF_RUN[after](row)}" in printed, (row["ordinal"], before)


def test_the_pdf_prints_every_text_of_the_html_with_a_number(page, printed):
    """The PDF may break a line anywhere, so white space does not count."""
    body = re.sub(r"<(style|head)>.*?</\1>", " ", page, flags=re.S)
    words = [word for word in plain(body).split() if re.search(r"\d", word)]
    whole = re.sub(r"\s", "", printed)
    missing = {word for word in words if word not in whole}
    assert missing == set()


def test_a_number_that_differs_in_its_last_digit_shown_is_noticed(page, tables):
    """The comparison itself can fail."""
    row = dict(tables("runs")[0])
    names, shown = table(page, "All runs in order of execution")
    row["joules"] *= 1.001
    assert shown[0][names.index("joules")] != OF_RUN["joules"](row)
