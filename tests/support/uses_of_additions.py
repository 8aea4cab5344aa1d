# SPDX-License-Identifier: GPL-3.0-or-later
"""Use each addition of tests/support/additions.py, in a copy of the project that has them.

tests/integration/rig/test_one_place_to_add.py runs these tests in that copy; here they would fail.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import typer.testing

from joulerig.analysis import export, results, studies
from joulerig.analysis.bundle import verify
from joulerig.analysis.report import document
from joulerig.analysis.results import journal as run_record
from joulerig.analysis.results.schema import Result
from joulerig.analysis.tables import comparisons, runs_and_cells
from joulerig.rig import workloads
from joulerig.rig.campaign import opening
from joulerig.rig.campaign import power_cut_definition as power_cuts
from joulerig.rig.campaign.execution.executor import Executor
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.campaign.opening import OpenCampaign
from joulerig.rig.campaign.plan import Plan, make_plan
from joulerig.rig.cli import main
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import packages
from joulerig.rig.lab.meters import source
from joulerig.rig.lab.model import Lab
from joulerig.rig.workloads import trial
from tests.bench import studies as make_studies
from tests.support import ROOT
from tests.support.fake_channel import BEGIN, WELL, Channel, S
from tests.support.influxd import Influxd
from tests.support.lab_files import LabFiles, pretend_services

FLUSHES, WATTS, SECONDS = 6, 5.0, 4
METER = {"driver": "gwinstek-gpd", "connection": "/dev/ttyUSB0"}
CAMPAIGN: dict[str, Any] = {
    "name": "additions",
    "question": "Is what was added used everywhere?",
    "study": "f2fs_speed",
    "registered": {
        "ladder": [1, 2],
        "hours": 1,
        "greatest_width": 2,
        "claims": {"faster": {"cells": {"filesystem": ["ext4", "f2fs"]}}},
    },
    "drives": ["bare"],
    "factors": {
        "filesystem": ["ext4", "f2fs", "newfs"],
        "scheduler": ["none"],
        "workload": ["copies"],
        "read_ahead_kb": [128],
    },
    "replicates": 3,
    "order": "as-written",
}


def lab_with_meter(lab_files: LabFiles) -> Lab:
    """Return a lab whose drive `bare` is measured by a meter of the new family."""
    lab_files.controller["meters"]["supply"] = dict(METER)
    lab_files.drives["bare"]["rails"] = {"5v": {"meter": "supply", "volts": "V1", "amps": "I1"}}
    return lab_files.load()


@pytest.fixture
def lab(lab_files: LabFiles) -> Lab:
    return lab_with_meter(lab_files)


@pytest.fixture
def plan(lab: Lab) -> Plan:
    return make_plan(CAMPAIGN, lab, "playbooks/study.yml")


@dataclass
class Executed:
    """The campaign after it was executed on a test host that is not there."""

    requests: list[Mapping[str, Any]]
    results: results.Campaign
    tables: dict[str, pl.DataFrame]
    exported: Path


@pytest.fixture(scope="module")
def executed(influxd_server: Influxd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Executed]:
    folder = tmp_path_factory.mktemp("lab")
    influxd_server.empty()
    tags = "meter=supply,rail=5v,host=bench1,drive=bare"
    influxd_server.write(
        *(
            f"power,{tags} volts=5,amps=1,watts={WATTS},watts_min={WATTS},watts_max={WATTS},"
            f"joules={WATTS * n / 100},samples={n}i,expected={n}i,lost=0i,duplicate=0i,repeated=0i,"
            f'gap_seconds=0,clock_residual_seconds=0,session="s1" {BEGIN + n * S // 100}'
            for n in range(1001)
        )
    )
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("JOULERIG_VAR", str(folder / "var"))
        monkeypatch.setenv("JOULERIG_RESULTS", str(folder / "results"))
        pretend_services(monkeypatch, influxd_server, ["supply"])
        yield execute(lab_with_meter(LabFiles(folder)), folder)


def execute(lab: Lab, folder: Path) -> Executed:
    """Execute the campaign on a test host that is not there; return its results."""
    work = folder / "work"
    work.mkdir()
    report = trial.run("copies", workloads.load(lab)["copies"], work, seconds=1, seed=1).report
    journal = opening.open_campaign(CAMPAIGN, lab, "playbooks/study.yml")
    campaign = OpenCampaign.load(journal, lab)
    replies = [
        {
            **WELL,
            "report": {**report, "ops": (400 if run["filesystem"] == "f2fs" else 200) + run["ordinal"]},
            "counters": {"flushes": FLUSHES},
            "settings": {"queue": {"read_ahead_kb": {"before": "4096", "in_effect": "128"}}},
        }
        for run in journal.runs()
    ]
    channel = Channel(*replies)
    Executor(campaign, "bench1", channel, {}, clock=channel.clock, sleep=channel.sleep).execute()
    journal.conclude()
    journal.close()
    found = results.load(journal.folder)
    export.write(found, journal.folder / "export")
    return Executed(channel.requests, found, runs_and_cells.frames(found), journal.folder / "export")


@pytest.fixture
def page() -> Callable[[str], str]:
    """page(PATH): a page of the site that is made from the code."""
    sys.path.insert(0, str(ROOT / "tools" / "site"))
    try:
        import reference
    finally:
        sys.path.pop(0)
    return lambda path: reference.pages()[path]


def refusal(mapping: dict[str, Any], lab: Lab) -> str:
    with pytest.raises(UserError) as caught:
        make_plan(mapping, lab, "playbooks/study.yml")
    return str(caught.value)


def with_factor(**levels: list[Any]) -> dict[str, Any]:
    return {**CAMPAIGN, "factors": {**CAMPAIGN["factors"], **levels}}


# --- all of them in one campaign


def test_all_runs_are_ok_and_measured(executed: Executed) -> None:
    assert [(run.status, run.reason) for run in executed.results.runs] == [("ok", "")] * 9
    assert {run.result.joules for run in executed.results.runs if run.result} == {WATTS * SECONDS}


def test_rig_verify_computes_the_same_again(executed: Executed) -> None:
    checks = {check.name: check for check in verify.verify(executed.results.folder, {})}
    assert [check for check in checks.values() if check.state == "FAILED"] == []
    assert checks["joules and AI of runs"].state == "ok"
    assert checks["tables"].state == "ok"


# --- a meter family


def test_meter_family_is_among_the_allowed_drivers(lab_files: LabFiles) -> None:
    lab_files.controller["meters"]["supply"] = {**METER, "driver": "gwinstek"}
    with pytest.raises(UserError, match=r"'gwinstek' is not a driver .*allowed: .*gwinstek-gpd"):
        lab_files.load()


def test_meter_family_gives_what_the_inventory_leaves_out(lab: Lab) -> None:
    assert lab.controller.meters["supply"].sample_rate_hz == 2.0
    assert source.driver(lab, "supply") == "gwinstek-gpd:conn=/dev/ttyUSB0:force_detect=GPD-2303S"


def test_meter_family_is_measured_with(executed: Executed) -> None:
    energy = pl.read_parquet(executed.exported / "energy.parquet").filter(pl.col("phase") == "workload")
    assert set(energy["meter"]) == {"supply"}
    assert set(energy["joules"]) == {WATTS * SECONDS}


def test_meter_family_is_documented(page: Callable[[str], str]) -> None:
    assert "| `gwinstek-gpd` | GW Instek GPD supplies | serial |" in page("reference/names.md")


# --- a file system


def test_file_system_is_among_the_allowed_names(lab: Lab) -> None:
    assert "newfs" in refusal(with_factor(filesystem=["newf"]), lab)


def test_file_system_has_its_packages_installed(lab: Lab) -> None:
    assert "bcachefs-tools" in packages.for_filesystems(lab)
    assert "bcachefs-tools" in packages.for_guests(lab)


def test_file_system_can_be_power_cut(lab: Lab) -> None:
    asked = {
        "kind": "power-cut",
        "name": "cuts",
        "question": "Is it kept?",
        "subjects": [{"drive": "fast", "filesystem": "newfs"}],
    }
    [subject] = power_cuts.make_subjects(power_cuts.parse(asked, lab, "x.yml"), lab)
    assert not subject.fsync_flushes


def test_file_system_is_planned(plan: Plan) -> None:
    assert "bare/newfs/none/copies/read_ahead_kb=128" in {run.cell for run in plan.runs}


def test_file_system_is_made_by_the_host(executed: Executed) -> None:
    asked = [request["filesystem"] for request in executed.requests]
    [mkfs] = {tuple(one["mkfs"]) for one in asked if one["name"] == "newfs"}
    assert mkfs == ("bcachefs", "format", "--quiet", "--force")


def test_file_system_is_in_the_table(executed: Executed) -> None:
    assert set(executed.tables["cells"]["filesystem"]) == {"ext4", "f2fs", "newfs"}


def test_file_system_is_documented(page: Callable[[str], str]) -> None:
    assert "| `newfs` | bcachefs, copy on write | bcachefs-tools |" in page("reference/names.md")


# --- a workload program


def test_program_is_listed_by_the_command_line(lab: Lab) -> None:
    listed = typer.testing.CliRunner().invoke(main.app, ["workloads", "list", "--json"])
    assert "copies" in json.loads(listed.stdout)


def test_program_is_among_the_allowed_workloads(lab: Lab) -> None:
    assert "copies" in refusal(with_factor(workload=["copie"]), lab)


def test_program_has_its_packages_and_files_put_on_the_host(lab: Lab) -> None:
    put = workloads.deployment(["copies"], lab)
    assert put["campaign_packages"] == ["coreutils-extra"]
    assert any(entry["dest"].endswith("/clone/clone.py") for entry in put["campaign_programs"])


def test_program_is_run_by_the_host(executed: Executed) -> None:
    assert {request["workload"]["program"] for request in executed.requests} == {
        "/usr/local/share/joulerig/programs/clone/clone.py"
    }


def test_program_is_in_the_table(executed: Executed) -> None:
    assert set(executed.tables["runs"]["workload"]) == {"copies"}
    assert set(executed.tables["runs"]["unit"]) == {"copy"}


def test_program_is_documented(page: Callable[[str], str]) -> None:
    assert "| `clone` | copies of a file | `copies` | copy |" in page("reference/names.md")
    assert "| `clone` | `bytes` | size of the file | `4096` |" in page("reference/names.md")


# --- a factor


def test_factor_is_among_the_allowed_keys(lab: Lab) -> None:
    assert "read_ahead_kb" in refusal(with_factor(read_ahed_kb=[1]), lab)


def test_factor_is_planned(plan: Plan) -> None:
    assert plan.further_factors == ["read_ahead_kb"]


def test_factor_is_set_by_the_host(executed: Executed) -> None:
    [asked] = {json.dumps(request["kernel_files"]) for request in executed.requests}
    assert json.loads(asked) == [
        {
            "factor": "read_ahead_kb",
            "path": "/sys/block/{device}/queue/read_ahead_kb",
            "value": "128",
            "needs": "",
        }
    ]


def test_factor_is_in_the_table(executed: Executed) -> None:
    levels = {json.loads(text)["read_ahead_kb"] for text in executed.tables["runs"]["factors_json"]}
    assert levels == {"128"}


def test_factor_is_documented(page: Callable[[str], str]) -> None:
    row = "| `read_ahead_kb` | Read ahead. KiB that the kernel reads ahead. |"
    assert row in page("reference/names.md")


# --- a study


def test_study_is_among_the_allowed_names(lab: Lab) -> None:
    assert "f2fs_speed" in refusal({**CAMPAIGN, "study": "f2fs_sped"}, lab)


def test_study_judges_its_claims_in_the_table(executed: Executed) -> None:
    judged = comparisons.claims(executed.results, ()).select("study", "claim", "verdict").to_dicts()
    assert judged == [{"study": "f2fs_speed", "claim": "faster", "verdict": "holds"}]
    assert pl.read_csv(executed.exported / "claims.csv")["claim"].to_list() == ["faster"]


def test_study_is_a_section_of_the_report_with_its_figure(executed: Executed) -> None:
    html = document.html(executed.results)
    for text in ("f2fs against ext4", "Operations a second, run by run.", "10.0000/none"):
        assert text in html


def test_study_is_run_by_make_studies(executed: Executed) -> None:
    assert "f2fs_speed" in make_studies.studies.STUDIES
    study = studies.find_study(executed.results)
    assert study is not None
    assert [claim.key for claim in study.claims_from_the_io_path] == ["faster"]


def test_study_is_documented(tmp_path: Path) -> None:
    studies.write_pages(tmp_path)
    text = (tmp_path / "f2fs_speed.md").read_text()
    assert text.startswith("# f2fs against ext4\n\nDoe 2026")
    assert "**Question.** Is f2fs faster than ext4?" in text
    assert "| `faster` | f2fs does more operations a second than ext4. | published | yes |" in text
    assert "f2fs_speed.md" in studies.index()


# --- a result column

COLUMN = "joules_per_flush"
OLD_JOURNALS = sorted((ROOT / "tests" / "fixtures" / "journals").glob("*.sql"))


def columns_of_result(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as database:
        return [row[1] for row in database.execute("PRAGMA table_info(result)")]


def test_column_is_in_a_new_journal(executed: Executed) -> None:
    assert columns_of_result(executed.results.folder / run_record.FILE)[-1] == COLUMN


@pytest.mark.parametrize(
    "old", sorted((ROOT / "tests/fixtures/journals").glob("*.sql")), ids=lambda path: path.stem
)
def test_column_comes_into_an_old_journal(tmp_path: Path, old: Path) -> None:
    path = tmp_path / run_record.FILE
    with closing(sqlite3.connect(path)) as database:
        database.executescript(old.read_text())
    assert COLUMN not in columns_of_result(path)
    Journal(tmp_path).close()
    assert columns_of_result(path)[-1] == COLUMN


def test_column_is_in_the_data_class(executed: Executed) -> None:
    assert COLUMN in {field.name for field in fields(Result)}


def test_column_has_its_value_from_the_outcome_of_a_run(executed: Executed) -> None:
    values = {getattr(run.result, COLUMN) for run in executed.results.runs}
    assert values == {WATTS * SECONDS / FLUSHES}


@pytest.mark.parametrize("read", [pl.read_parquet, pl.read_csv])
def test_column_is_in_the_exported_table(executed: Executed, read: Callable[[Path], pl.DataFrame]) -> None:
    suffix = read.__name__.removeprefix("read_")
    assert set(read(executed.exported / f"runs.{suffix}")[COLUMN]) == {WATTS * SECONDS / FLUSHES}


def test_column_has_unit_and_meaning_in_the_exports_schema(executed: Executed) -> None:
    schema = json.loads((executed.exported / export.SCHEMA_FILE).read_text())
    [runs] = [table for table in schema["tables"] if table["table"] == "runs"]
    [described] = [column for column in runs["columns"] if column["column"] == COLUMN]
    assert described == {
        "column": COLUMN, "type": "number", "unit": "J", "meaning": "Energy over flushes."
    }  # fmt: skip


def test_column_is_documented(page: Callable[[str], str]) -> None:
    row = f"| `{COLUMN}` | number, may be NULL | J | Energy over flushes. | {run_record.VERSION} |"
    assert row in page("reference/results-schema.md")
    assert f"| `{COLUMN}` | J | Energy over flushes. |" in page("reference/exported-tables.md")
