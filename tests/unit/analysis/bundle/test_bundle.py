# SPDX-License-Identifier: GPL-3.0-or-later
"""A bundle: the same bytes for the same campaign, complete or absent, and verified."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import sqlite3
import stat
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from joulerig.analysis import export, results
from joulerig.analysis.bundle import archive, check, crate, environment, manifest, reports, verify, writer
from joulerig.analysis.bundle import tables as files_of_tables
from joulerig.analysis.bundle.archive import BundleError
from joulerig.analysis.bundle.check import FAILED, OK, UNCHECKABLE, Check, Tally
from joulerig.analysis.export import frames
from joulerig.analysis.tables import runs_and_cells
from tests.support import verifiable_campaign

HERE = environment.here("0123456789ab")
RUN = "demo-20261113-082640-0001"
OF_A_BUNDLE = (
    "journal.sqlite", "environment.json", "ro-crate-metadata.json", "report/report.html",
    "report/report.pdf", "export/runs.csv", "export/cells.parquet", "export/schema.json",
)  # fmt: skip
OF_A_RUN = [
    f"runs/{RUN}/{name}" for name in ("load.json", "power.csv", "result.json", "settings.json", "truth.json")
]


@pytest.fixture(scope="module")
def packed(tmp_path_factory) -> Path:
    """A bundle of two runs."""
    folder = tmp_path_factory.mktemp("campaign")
    writer.write(verifiable_campaign.build(folder / "c"), folder / "b.zip", HERE)
    return folder / "b.zip"


@pytest.fixture(scope="module")
def whole(packed, tmp_path_factory) -> Path:
    """The bundle, unpacked."""
    folder = tmp_path_factory.mktemp("whole")
    archive.extract(packed, folder)
    return folder


@pytest.fixture
def no_pdf(monkeypatch):
    """Bundles are written without setting the pages of a PDF, which takes seconds."""
    monkeypatch.setattr(writer.document, "pdf", lambda _: b"%PDF")


@pytest.fixture
def unpacked(whole, tmp_path) -> Path:
    """The bundle, unpacked, to be changed."""
    return Path(shutil.copytree(whole, tmp_path / "unpacked"))


def checks(source: Path, upto: str = "report.pdf") -> dict[str, Check]:
    """The checklist by name, as far as that check: the report's take the longest."""
    found = {}
    for one in verify.verify(source, HERE):
        found[one.name] = one
        if one.name == upto:
            break
    return found


def failed(source: Path, upto: str = "tables") -> dict[str, Check]:
    return {name: one for name, one in checks(source, upto).items() if one.state == FAILED}


def rehash(folder: Path) -> None:
    """Update the manifest to the files' present hashes, as a forger would."""
    files = {name: folder / name for name in manifest.names(folder) if name != manifest.FILE}
    digests = {name: manifest.digest(path) for name, path in files.items()}
    (folder / manifest.FILE).write_text(manifest.text(digests))


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(bytes(content))


# Writing


def test_the_same_campaign_gives_the_same_bytes(packed, tmp_path):
    again = verifiable_campaign.build(tmp_path / "another" / "place")
    written = writer.write(again, tmp_path / "b.zip", HERE)
    assert (tmp_path / "b.zip").read_bytes() == packed.read_bytes()
    assert written.sha256 == manifest.digest(packed)
    assert written.bytes == packed.stat().st_size


def test_a_bundle_has_raw_data_journal_tables_report_and_hashes(packed):
    with zipfile.ZipFile(packed) as zipped:
        names = zipped.namelist()
        assert {member.date_time for member in zipped.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {stat.S_IMODE(member.external_attr >> 16) for member in zipped.infolist()} == {0o644}
    assert names[:-1] == sorted(names[:-1])
    assert names[-1] == "manifest-sha256.txt"
    for name in (*OF_A_BUNDLE, *OF_A_RUN):
        assert name in names, name


def test_sha256sum_reads_the_manifest(unpacked):
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", manifest.FILE], cwd=unpacked, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    there = {path for path in manifest.names(unpacked) if path != manifest.FILE}
    assert {line.removesuffix(": OK") for line in done.stdout.splitlines()} == there


def test_a_bundle_that_cannot_be_written_leaves_what_was_there(tmp_path, monkeypatch):
    folder = verifiable_campaign.build(tmp_path / "c")
    target = tmp_path / "b.zip"
    target.write_bytes(b"old")

    def disk_full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer.document, "pdf", lambda _: b"%PDF")
    monkeypatch.setattr(os, "fsync", disk_full)
    with pytest.raises(OSError, match="No space"):
        writer.write(folder, target, HERE)
    assert target.read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.zip", "c"]


def test_writing_a_bundle_changes_nothing_in_the_results_folder(tmp_path, no_pdf):
    folder = verifiable_campaign.build(tmp_path / "c")

    def files() -> dict[str, str]:
        own_of_sqlite = ("journal.sqlite-wal", "journal.sqlite-shm")
        return {
            name: manifest.digest(folder / name)
            for name in manifest.names(folder)
            if name not in own_of_sqlite
        }

    before = files()
    writer.write(folder, tmp_path / "b.zip", HERE)
    assert files() == before


def test_links_and_hidden_files_of_a_run_stay_outside(tmp_path, no_pdf):
    folder = verifiable_campaign.build(tmp_path / "c")
    (folder / "runs" / RUN / ".power.csv.half").write_text("x")
    (folder / "runs" / RUN / "passwd").symlink_to("/etc/passwd")
    writer.write(folder, tmp_path / "b.zip", HERE)
    with zipfile.ZipFile(tmp_path / "b.zip") as zipped:
        names = [name.rsplit("/", 1)[-1] for name in zipped.namelist()]
    assert "power.csv" in names
    assert not {"passwd", ".power.csv.half"} & set(names)


def test_a_campaign_that_is_being_written_is_packed_as_of_one_instant(tmp_path, no_pdf):
    folder = verifiable_campaign.build(tmp_path / "c")
    writing = sqlite3.connect(folder / "journal.sqlite", isolation_level=None)
    writing.execute("BEGIN IMMEDIATE")
    writing.execute("UPDATE performance SET ops = 1")
    writer.write(folder, tmp_path / "b.zip", HERE)
    writing.execute("ROLLBACK")
    writing.close()
    assert not failed(tmp_path / "b.zip")


def test_a_name_that_no_manifest_can_hold_is_refused(tmp_path, no_pdf):
    folder = verifiable_campaign.build(tmp_path / "c")
    (folder / "runs" / RUN / "two\nlines").write_text("x")
    with pytest.raises(BundleError, match="cannot be packed"):
        writer.write(folder, tmp_path / "b.zip", HERE)
    assert not (tmp_path / "b.zip").exists()


def test_a_damaged_file_is_named_in_the_report_by_its_place_in_the_bundle(tmp_path, no_pdf):
    folder = verifiable_campaign.build(tmp_path / "c")
    (folder / "runs" / RUN / "settings.json").write_text("{")
    writer.write(folder, tmp_path / "b.zip", HERE)
    with zipfile.ZipFile(tmp_path / "b.zip") as zipped:
        source = zipped.read(reports.HTML).decode()
    assert f">runs/{RUN}/settings.json: cannot be read as JSON" in source
    assert checks(tmp_path / "b.zip", "report.html")["report.html"].state == OK


# RO-Crate


def test_the_metadata_have_what_ro_crate_1_1_requires(unpacked):
    reported = json.loads((unpacked / crate.FILE).read_text())
    entities = {one["@id"]: one for one in reported["@graph"]}
    assert reported["@context"] == "https://w3id.org/ro/crate/1.1/context"
    assert entities["ro-crate-metadata.json"] == {
        "@id": "ro-crate-metadata.json",
        "@type": "CreativeWork",
        "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
        "about": {"@id": "./"},
    }
    root = entities["./"]
    assert root["@type"] == "Dataset"
    assert all(root[key] for key in ("name", "description", "license"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", root["datePublished"])
    for part in root["hasPart"]:
        file = entities[part["@id"]]
        assert file["@type"] == "File"
        if "contentSize" in file:
            assert int(file["contentSize"]) == (unpacked / file["@id"]).stat().st_size
    referred = {
        value["@id"] for one in reported["@graph"] for value in one.values() if isinstance(value, dict)
    }
    assert referred - {"https://w3id.org/ro/crate/1.1"} <= set(entities)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda reported: reported.update({"@context": "elsewhere"}), "@context"),
        (lambda reported: reported.update({"@graph": {}}), "@graph"),
        (lambda reported: reported["@graph"][0].pop("conformsTo"), "conformsTo"),
        (lambda reported: reported["@graph"][0].update(about={"@id": "#x"}), "about"),
        (lambda reported: reported["@graph"][1].pop("license"), "no license"),
        (lambda reported: reported["@graph"][1].pop("datePublished"), "no datePublished"),
        (lambda reported: reported["@graph"][1]["hasPart"].pop(), "not in hasPart"),
        (
            lambda reported: reported["@graph"][1]["hasPart"].append({"@id": "more.txt"}),
            "more.txt: in hasPart, and not",
        ),
        (lambda reported: reported["@graph"].pop(), "no entity of @type File"),
        (lambda reported: reported["@graph"].append(reported["@graph"][-1]), "twice"),
    ],
)
def test_what_is_missing_in_the_metadata_is_named(unpacked, change, problem):
    reported = json.loads((unpacked / crate.FILE).read_text())
    change(reported)
    (unpacked / crate.FILE).write_text(json.dumps(reported))
    assert any(problem in offender for offender in checks(unpacked, "RO-Crate")["RO-Crate"].offenders)


# What holds


def test_an_untouched_bundle_holds_in_every_check(packed):
    found = checks(packed)
    assert {one.state for one in found.values()} == {OK}
    assert list(found) == [
        "zip", "manifest", "RO-Crate", "journal", "events", "completeness", "ledger", "phases", "performance",
        "energy", "true joules", "joules and AI of runs", "I/O counts", "AI of cells", "tables",
        "report.html", "report.pdf",
    ]  # fmt: skip


def test_an_unpacked_bundle_holds_as_well_and_is_not_touched(unpacked):
    before = {name: manifest.digest(unpacked / name) for name in manifest.names(unpacked)}
    found = checks(unpacked, "tables")
    assert {name for name, one in found.items() if one.state != OK} == {"zip"}
    assert {name: manifest.digest(unpacked / name) for name in manifest.names(unpacked)} == before


def test_a_results_folder_has_no_hashes_and_its_numbers_hold(tmp_path):
    found = checks(verifiable_campaign.build(tmp_path / "c"), "tables")
    unchecked = {name for name, one in found.items() if one.state == UNCHECKABLE}
    assert unchecked == {"zip", "manifest", "RO-Crate", "tables"}
    assert {one.state for one in found.values()} == {OK, UNCHECKABLE}


def test_tables_and_series_that_were_exported_into_a_results_folder_are_compared(tmp_path):
    folder = verifiable_campaign.build(tmp_path / "c")
    export.write(results.load(folder), folder / "export")
    runs_and_cells.write(results.load(folder), folder / "report")
    found = checks(folder, "tables")["tables"]
    assert (found.state, found.offenders) == (OK, ())
    loaded = results.load(folder)
    files = 2 * len(frames.every(loaded)) + len(runs_and_cells.frames(loaded))
    assert f"in {files} files" in found.detail
    path = folder / "export" / "power.parquet"
    frame = pl.read_parquet(path)
    frame.with_columns(watts=pl.when(pl.int_range(pl.len()) == 9).then(0.5).otherwise("watts")).write_parquet(
        path
    )
    (message,) = checks(folder, "tables")["tables"].offenders
    where = f"{frame['run'][9]} 12v {frame['time_ns'][9]} tap1a"
    assert message.startswith(f"export/power.parquet: {where}: watts: 0.5 is stored, ")


def test_runs_that_failed_or_were_lost_are_no_fault_of_the_bundle(tmp_path):
    folder = verifiable_campaign.build(tmp_path / "c", outcome=verifiable_campaign.mixed, replicates=3)
    assert {run.status for run in results.load(folder).runs} == {
        "ok",
        "failed",
        "partial",
        "lost",
        "excluded",
    }
    writer.write(folder, tmp_path / "b.zip", HERE)
    assert not failed(tmp_path / "b.zip", "report.pdf")


def test_a_campaign_that_runs_is_said_not_to_be_over(tmp_path, no_pdf):
    folder = verifiable_campaign.build(
        tmp_path / "c", outcome=verifiable_campaign.still_running, replicates=2, finished=False
    )
    writer.write(folder, tmp_path / "b.zip", HERE)
    found = checks(tmp_path / "b.zip", "report.html")
    assert found["completeness"].state == UNCHECKABLE
    assert "not over: 2 of 4 runs to come" in found["completeness"].detail
    assert [name for name, one in found.items() if one.state == FAILED] == []
    with zipfile.ZipFile(tmp_path / "b.zip") as zipped:
        assert not any("-0003/" in name for name in zipped.namelist())


def test_a_campaign_in_slow_motion_holds_with_its_slowness_in_every_table(tmp_path, no_pdf):
    folder = verifiable_campaign.build(tmp_path / "c")
    with sqlite3.connect(folder / "journal.sqlite") as journal:
        journal.execute("UPDATE phase SET slowness = 40 WHERE phase != 'prepare'")
    writer.write(folder, tmp_path / "b.zip", HERE)
    (tmp_path / "unpacked").mkdir()
    archive.extract(tmp_path / "b.zip", tmp_path / "unpacked")
    phases = pl.read_csv(next((tmp_path / "unpacked").rglob("export/phases.csv")))
    assert set(phases["slowness"]) == {1.0, 40.0}
    assert not failed(tmp_path / "b.zip", "report.html")


def test_a_physical_lab_has_no_truth_to_be_checked(tmp_path):
    found = checks(verifiable_campaign.build(tmp_path / "c", virtual=False), "joules and AI of runs")
    assert found["true joules"].state == UNCHECKABLE
    assert found["joules and AI of runs"].state == OK


# What was changed


@pytest.mark.parametrize(
    "name",
    [*OF_A_BUNDLE, *OF_A_RUN],
)
def test_a_flipped_bit_names_its_file(unpacked, name):
    flip(unpacked / name, (unpacked / name).stat().st_size // 2)
    found = checks(unpacked, "manifest")["manifest"]
    assert [offender.split(":")[:2] for offender in found.offenders] == [["changed", f" {name}"]]


def test_a_file_cut_short_is_reported_with_its_size(unpacked):
    path = unpacked / "runs" / RUN / "power.csv"
    with path.open("r+b") as file:
        file.truncate(1000)
    (message,) = checks(unpacked, "manifest")["manifest"].offenders
    assert message == f"changed: runs/{RUN}/power.csv: its 1000 bytes are not those that were packed"


def test_an_older_bundle_with_hashes_of_blocks_is_verified(unpacked):
    (unpacked / "blocks-sha256.txt").write_text(f"{'0' * 64}  0  runs/{RUN}/power.csv\n")
    rehash(unpacked)
    assert not failed(unpacked, "manifest")


def test_a_file_that_is_gone_and_one_too_many_are_named(unpacked):
    (unpacked / "runs" / RUN / "settings.json").unlink()
    (unpacked / "runs" / RUN / "notes.txt").write_text("x")
    found = checks(unpacked, "completeness")
    assert found["manifest"].offenders == (
        f"missing: runs/{RUN}/settings.json",
        f"not in the manifest: runs/{RUN}/notes.txt",
    )
    assert found["completeness"].offenders == (f"runs/{RUN}/settings.json: missing",)


def test_a_link_in_the_place_of_a_file_is_a_change(unpacked, tmp_path):
    path = unpacked / "runs" / RUN / "settings.json"
    path.rename(tmp_path / "same.json")
    path.symlink_to(tmp_path / "same.json")
    assert "a link stands in its place" in checks(unpacked, "manifest")["manifest"].offenders[0]


@pytest.mark.parametrize(
    ("statement", "kind", "expected"),
    [
        (f"UPDATE performance SET ops = ops + 1 WHERE run = '{RUN}'", "performance", "performance: ops"),
        (
            f"UPDATE performance SET latency_p99_seconds = 1e-3 WHERE run = '{RUN}'",
            "performance",
            "latency_p99_seconds",
        ),
        (f"UPDATE phase SET end_ns = end_ns + 1 WHERE run = '{RUN}'", "phases", "end_ns"),
        (
            f"UPDATE energy SET joules = joules * 1.0001 WHERE run = '{RUN}' AND phase = 'idle'",
            "energy",
            "idle nvme-plp tap1a 12v: joules",
        ),
        (f"UPDATE energy SET joules_low = 1 WHERE run = '{RUN}'", "energy", "joules_low"),
        (f"UPDATE energy SET samples = samples - 1 WHERE run = '{RUN}'", "energy", "samples"),
        (f"DELETE FROM energy WHERE run = '{RUN}' AND phase = 'workload'", "energy", "nothing is stored"),
        (f"UPDATE energy SET true_joules = 1 WHERE run = '{RUN}'", "true joules", "true_joules"),
        (
            f"UPDATE result SET ai_ops_per_joule = 99 WHERE run = '{RUN}'",
            "joules and AI of runs",
            "ai_ops_per_joule",
        ),
        (f"UPDATE result SET joules = joules + 1e-6 WHERE run = '{RUN}'", "joules and AI of runs", "joules"),
        (
            f"UPDATE result SET device_bound_fraction = 1 WHERE run = '{RUN}'",
            "joules and AI of runs",
            "device_bound",
        ),
        (f"UPDATE result SET cpu_joules = 1 WHERE run = '{RUN}'", "joules and AI of runs", "cpu_joules"),
        (
            f"UPDATE io SET writes = 7 WHERE run = '{RUN}' AND source = 'host'",
            "I/O counts",
            "I/O by host: writes",
        ),
        (
            f"UPDATE io SET flushes = 7 WHERE run = '{RUN}' AND source = 'twin'",
            "I/O counts",
            "I/O by twin: flushes",
        ),
    ],
)
def test_a_number_changed_in_the_journal_is_found_though_the_hashes_hold(unpacked, statement, kind, expected):
    verifiable_campaign.edit(unpacked, statement)
    rehash(unpacked)
    found = failed(unpacked, kind)
    assert "manifest" not in found
    assert kind in found
    assert any(RUN in offender and expected in offender for offender in found[kind].offenders), found[kind]


def test_a_changed_ai_shows_in_its_cell(unpacked):
    verifiable_campaign.edit(unpacked, f"UPDATE performance SET ops = ops * 2 WHERE run = '{RUN}'")
    rehash(unpacked)
    cell = next(run.cell for run in results.load(unpacked).runs if run.id == RUN)
    assert any(
        cell in one and "ai_ops_per_joule:" in one for one in failed(unpacked)["AI of cells"].offenders
    )


def test_a_power_trace_made_larger_gives_other_joules(unpacked):
    path = unpacked / "runs" / RUN / "power.csv"
    frame = pl.read_csv(path)
    frame.with_columns(pl.col("joules") * 1.001).write_csv(path)
    rehash(unpacked)
    found = failed(unpacked)
    assert "manifest" not in found
    for phase in ("prepare", "setup", "idle", "workload", "tail"):
        assert any(f"{RUN}: {phase} nvme-plp tap1a 12v: joules:" in one for one in found["energy"].offenders)
    assert any(f"{RUN}: workload: joules" in one for one in found["joules and AI of runs"].offenders)
    assert any(
        "export/runs.csv" in one and RUN in one and "joules" in one for one in found["tables"].offenders
    )


def test_samples_that_are_in_no_column_of_the_ledger_are_named(unpacked):
    verifiable_campaign.edit(
        unpacked, f"UPDATE energy SET lost = lost + 3 WHERE run = '{RUN}' AND phase = 'idle'"
    )
    path = unpacked / "runs" / RUN / "power.csv"
    frame = pl.read_csv(path)
    frame.with_columns(lost=pl.when(pl.int_range(pl.len()) == 7).then(5).otherwise("lost")).write_csv(path)
    of_phase, from_points = failed(unpacked, "ledger")["ledger"].offenders
    assert f"{RUN}: idle: nvme-plp 12v on tap1a" in of_phase
    assert f"{RUN}: power.csv: 1 point off, the first at {frame['time_ns'][7]}" in from_points


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_number_changed_in_a_table_is_named_with_its_row(unpacked, kind):
    path = unpacked / "export" / f"runs.{kind}"
    frame = pl.read_csv(path) if kind == "csv" else pl.read_parquet(path)
    frame = frame.with_columns(
        joules=pl.when(pl.col("run") == RUN).then(pl.col("joules") + 1e-6).otherwise("joules")
    )
    frame.write_csv(path) if kind == "csv" else frame.write_parquet(path)
    rehash(unpacked)
    (message,) = failed(unpacked)["tables"].offenders
    assert message.startswith(f"export/runs.{kind}: {RUN}: joules: ")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda frame: frame.drop("joules"), "column 'joules' is missing"),
        (lambda frame: frame.with_columns(more=1), "column 'more' is no column of it"),
        (lambda frame: frame.head(1), "1 row stored, 2 recomputed"),
        (lambda frame: frame.with_columns(joules=pl.lit("12 J")), "'12 J' is stored"),
        (lambda frame: frame.with_columns(joules=pl.lit(None)), "nothing is stored"),
        (lambda frame: frame.with_columns(status=pl.lit("partial")), "'partial' is stored, 'ok' comes out"),
        (lambda frame: frame.with_columns(virtual_lab=False), "'false' is stored"),
    ],
)
def test_a_table_of_another_shape_or_kind_is_named(unpacked, change, expected):
    path = unpacked / "export" / "runs.csv"
    change(pl.read_csv(path)).write_csv(path)
    assert any(expected in offender for offender in failed(unpacked)["tables"].offenders)


def test_a_table_that_is_none_is_named(unpacked):
    (unpacked / "export" / "runs.parquet").write_bytes(b"PAR1 no")
    (unpacked / "export" / "invented.csv").write_text("a\n1\n")
    reported = failed(unpacked)["tables"].offenders
    assert any("export/runs.parquet: cannot be read" in one for one in reported)
    assert "export/invented.csv: no table of this program" in reported


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("result.json", "{", "phases"),
        ("result.json", "[]", "phases"),
        ("result.json", '{"phases": [1], "clock": [2]}', "phases"),
        ("load.json", '{"jobs": []}', "performance"),
        ("load.json", '{"jobs": [{"read": 1}]}', "performance"),
        ("load.json", "\x00", "performance"),
        ("power.csv", "time_ns\n1\n", "energy"),
        ("power.csv", "time_ns,rail,watts\nx,y,z\n", "energy"),
        ("truth.json", '{"nvme-plp": {"rails": []}}', "true joules"),
        ("truth.json", '{"nvme-plp": 1}', "true joules"),
    ],
)
def test_a_damaged_file_of_a_run_fails_its_check_and_no_other_stumbles(unpacked, name, content, kind):
    (unpacked / "runs" / RUN / name).write_text(content)
    found = checks(unpacked, "tables")
    assert found[kind].state == FAILED
    assert any(RUN in offender for offender in found[kind].offenders)
    assert "tables" in found


def test_a_run_without_its_raw_files_is_not_passed_off_as_checked(unpacked):
    for name in ("load.json", "power.csv"):
        for run in results.load(unpacked).runs:
            (run.folder / name).unlink()
    found = checks(unpacked, "joules and AI of runs")
    assert found["performance"].state == found["energy"].state == UNCHECKABLE
    assert "has no load.json" in found["performance"].detail
    assert found["completeness"].state == FAILED


@pytest.mark.parametrize("status", ["ok", "partial"])
def test_a_run_in_which_a_clock_was_set_is_not_ok(unpacked, status):
    verifiable_campaign.edit(unpacked, f"UPDATE run SET status = '{status}' WHERE id = '{RUN}'")
    folder = unpacked / "runs" / RUN
    answer = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**answer, "controller_step_ns": 30_000_000_000}))
    found = checks(unpacked, "phases")["phases"]
    assert found.state == (FAILED if status == "ok" else OK)
    assert ("the controller's clock was set forward by 30 s" in str(found.offenders)) == (status == "ok")
    energy = checks(unpacked)["energy"]
    assert energy.state == FAILED, "its journal has joules"
    assert any(RUN in offender and "joules" in offender for offender in energy.offenders)


def without_the_tool(unpacked: Path, report: dict) -> Check:
    """Its workload is the lab's own, and result.json does not name what loaded."""
    verifiable_campaign.edit(unpacked, "UPDATE run SET workload = 'ours'")
    folder = unpacked / "runs" / RUN
    answer = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**answer, "invocation": None}))
    (folder / "load.json").write_text(json.dumps(report))
    return checks(unpacked, "performance")["performance"]


def test_what_loaded_is_known_by_the_reports_format(unpacked):
    report = json.loads((unpacked / "runs" / RUN / "load.json").read_text())
    found = without_the_tool(unpacked, report)
    assert (found.state, found.detail[:3]) == (OK, "28 ")


def test_what_loaded_is_not_guessed(unpacked):
    found = without_the_tool(unpacked, {"ops": 3})
    assert f"{RUN}: result.json does not name what loaded, and load.json's format is unknown" in found.detail
    assert (found.state, found.detail[:3]) == (OK, "14 ")


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (f"DELETE FROM run WHERE id = '{RUN}'", "2 runs planned, 1 in the journal"),
        (f"DELETE FROM run WHERE id = '{RUN}'", f"runs/{RUN}: of no run in the journal"),
        (
            f"UPDATE run SET status = 'planned' WHERE id = '{RUN}'",
            f"{RUN}: planned, though the campaign is over",
        ),
    ],
)
def test_runs_that_were_taken_out_are_missed(unpacked, statement, expected):
    verifiable_campaign.edit(unpacked, statement)
    assert expected in failed(unpacked, "completeness")["completeness"].offenders


def test_a_status_without_an_event_is_named(unpacked):
    verifiable_campaign.edit(unpacked, f"UPDATE run SET status = 'partial' WHERE id = '{RUN}'")
    (message,) = failed(unpacked, "events")["events"].offenders
    assert message == f"{RUN}: its status is partial, its events end with ok"


def test_rows_of_no_run_are_named(unpacked):
    verifiable_campaign.edit(unpacked, f"DELETE FROM run WHERE id = '{RUN}'")
    assert any("refers to a row of run" in one for one in failed(unpacked, "journal")["journal"].offenders)


def test_a_journal_that_is_damaged_ends_the_checklist(unpacked):
    path = unpacked / "journal.sqlite"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    found = checks(unpacked)
    assert {"manifest", "journal", "campaign"} <= {name for name, one in found.items() if one.state == FAILED}
    assert list(found)[-1] == "campaign"


# The report


def test_a_number_changed_in_the_report_is_shown_in_its_section(unpacked, monkeypatch):
    path = unpacked / reports.HTML
    source = path.read_text()
    shown = re.search(r'<td class="n"><b>([\d.,]+)</b>', source)[1]
    path.write_text(source.replace(f"<b>{shown}</b>", "<b>99,999</b>", 1))
    monkeypatch.setattr(reports, "check_pdf", lambda *_: Check("report.pdf", OK))
    (message,) = failed(unpacked, "report.html")["report.html"].offenders
    assert message == f"Cells: '99,999' is there, '{shown}' comes out"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda source: source.replace("svg+xml;base64,P", "svg+xml;base64,Q", 1), "figure 1 of"),
        (lambda source: source.replace("</section>", "<p>more</p></section>", 1), "texts stored"),
        (lambda source: source.replace("font-size", "font-sizf", 1), "what stands between them"),
    ],
)
def test_a_changed_figure_an_added_text_and_another_style_are_reported(unpacked, whole, change, expected):
    source = (whole / reports.HTML).read_text()
    (unpacked / reports.HTML).write_text(change(source))
    assert change(source) != source
    found = reports.check_html(unpacked, source, reports.Origin())
    assert found.state == FAILED
    assert expected in " ".join(found.offenders)


def test_what_another_program_or_library_made_is_not_called_forged(unpacked, whole):
    source = (whole / reports.HTML).read_text()
    drawn = source.replace("svg+xml;base64,P", "svg+xml;base64,Q", 1)
    worded = source.replace("</section>", "<p>more</p></section>", 1)
    (unpacked / environment.FILE).write_text(json.dumps({**HERE, "revision": "another"}))
    other = environment.origin(unpacked, HERE)
    assert "revision another of the program" in other.program
    assert other.libraries == ""
    libraries = {**HERE["libraries"], "matplotlib": "1.0"}
    (unpacked / environment.FILE).write_text(json.dumps({**HERE, "libraries": libraries}))
    drawing = environment.origin(unpacked, HERE)
    assert drawing.program == ""
    assert "matplotlib" in drawing.libraries
    for text, origin, state in (
        (worded, other, UNCHECKABLE), (worded, drawing, FAILED), (drawn, other, UNCHECKABLE),
        (drawn, drawing, UNCHECKABLE), (drawn, reports.Origin(), FAILED), (source, other, OK),
    ):  # fmt: skip
        (unpacked / reports.HTML).write_text(text)
        assert reports.check_html(unpacked, source, origin).state == state


def test_a_pdf_of_something_else_is_reported(unpacked, monkeypatch):
    monkeypatch.setattr(reports.document, "pdf", lambda _: b"%PDF as it comes out")
    assert reports.check_pdf(unpacked, "", reports.Origin()).state == FAILED
    assert reports.check_pdf(unpacked, "", reports.Origin(libraries="other libraries")).state == UNCHECKABLE
    (unpacked / reports.PDF).write_bytes(b"%PDF as it comes out")
    assert reports.check_pdf(unpacked, "", reports.Origin()).state == OK


# Zips that strangers made


def test_a_zip_cut_short_cannot_be_read(packed, tmp_path):
    (tmp_path / "b.zip").write_bytes(packed.read_bytes()[:-1000])
    with pytest.raises(BundleError, match=r"b\.zip: cannot be read as a zip"):
        checks(tmp_path / "b.zip")


@pytest.mark.parametrize("content", [b"", b"PK", b"text"])
def test_a_file_that_is_not_a_zip_cannot_be_read(tmp_path, content):
    (tmp_path / "b.zip").write_bytes(content)
    with pytest.raises(BundleError, match="cannot be read as a zip"):
        checks(tmp_path / "b.zip")


def test_what_is_not_there_or_no_bundle_is_reported(tmp_path):
    with pytest.raises(BundleError, match="no such file or folder"):
        checks(tmp_path / "nothing.zip")
    with pytest.raises(BundleError, match="no bundle, no campaign"):
        checks(tmp_path)


def test_a_flipped_bit_in_the_zip_names_the_file(packed, tmp_path):
    copy = tmp_path / "b.zip"
    copy.write_bytes(packed.read_bytes())
    name = f"runs/{RUN}/power.csv"
    with zipfile.ZipFile(copy) as zipped:
        member = zipped.getinfo(name)
    flip(copy, member.header_offset + 30 + len(name) + member.compress_size // 2)
    found = failed(copy, "completeness")
    assert [one.split(":")[0] for one in found["zip"].offenders] == [name]
    assert f"missing: {name}" in found["manifest"].offenders


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("../outside.txt", "leads out"),
        ("runs/../../outside.txt", "leads out"),
        ("/outside.txt", "is absolute"),
        ("C:outside.txt", "is absolute"),
        ("a\\..\\outside.txt", "no name"),
        ("a\nb.txt", "no name"),
        ("./a.txt", "plain form"),
        ("a//b.txt", "plain form"),
    ],
)
def test_names_that_lead_elsewhere_are_refused_and_nothing_is_unpacked(tmp_path, name, why):
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as zipped:
        zipped.writestr("journal.sqlite", b"x")
        zipped.writestr(name, b"x")
    target = tmp_path / "in" / "folder"
    target.mkdir(parents=True)
    with pytest.raises(BundleError, match=f"refused: .*{why}"):
        archive.extract(tmp_path / "b.zip", target)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / "b.zip"]


def test_links_and_names_that_come_twice_are_refused(tmp_path):
    link = zipfile.ZipInfo("runs")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as zipped:
        zipped.writestr(link, "/etc")
    with pytest.raises(BundleError, match="is a link"):
        archive.extract(tmp_path / "b.zip", tmp_path)
    with zipfile.ZipFile(tmp_path / "c.zip", "w") as zipped:
        zipped.writestr("a", "1")
        with pytest.warns(UserWarning, match="Duplicate"):
            zipped.writestr("a", "2")
    with pytest.raises(BundleError, match="is there twice"):
        archive.extract(tmp_path / "c.zip", tmp_path)


def test_a_way_of_packing_that_is_never_written_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "b.zip", "w", zipfile.ZIP_LZMA) as zipped:
        zipped.writestr("journal.sqlite", b"x")
    with pytest.raises(BundleError, match="otherwise than stored or deflated"):
        archive.extract(tmp_path / "b.zip", tmp_path)


def test_a_zip_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "b.zip", "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("zeroes", b"\0" * 10_000_000)
    archive.extract(tmp_path / "b.zip", tmp_path)
    monkeypatch.setattr(archive, "FREELY_BYTES", 1_000_000)
    with pytest.raises(BundleError, match="unpack to 10000000"):
        archive.extract(tmp_path / "b.zip", tmp_path)


@pytest.mark.parametrize(
    "line",
    ["abc  name", f"{'0' * 64} name", f"{'0' * 64}  ../name", f"{'G' * 64}  name", f"{'0' * 64}  /name"],
)
def test_a_manifest_that_is_none_fails(unpacked, line):
    (unpacked / manifest.FILE).write_text(line + "\n")
    assert "line 1" in failed(unpacked, "manifest")["manifest"].offenders[0]


# Comparing


@pytest.mark.parametrize(
    ("stored", "again", "same"),
    [
        (1.0, 1.0 + 1e-12, True), (1.0, 1.0 + 1e-8, False), (1e-5, 1.0001e-5, False), (0.0, 1e-30, True),
        (None, None, True), (None, 1.0, False), (1.0, None, False), (1, 2, False), (True, 1, False),
        ("a", "a", True), (float("nan"), float("nan"), True), (float("nan"), 1.0, False), (1.0, "1.0", False),
        (10**18, 10**18 + 1, False),
    ],
)  # fmt: skip
def test_numbers_are_alike_to_a_billionth_and_counts_exactly(stored, again, same):
    assert check.alike(stored, again) is same


def test_a_subjects_statement_of_one_cut_is_read_as_it_was_written(tmp_path):
    (tmp_path / "subjects.csv").write_text("statement\nno promise in 1 power cuts (1 acknowledged flushes)\n")
    again = pl.DataFrame({"statement": ["no promise in 1 power cut (1 acknowledged flush)"]})
    assert files_of_tables.compare(tmp_path / "subjects.csv", again) == (1, [])


def test_a_checklists_line_names_the_first_few_offenders():
    tally = Tally()
    for number in range(8):
        tally.same(f"run {number}", 1, 2)
    lines = tally.check("energy", "figure").lines()
    assert lines[0] == "FAILED        energy: 8 figures"
    assert lines[1] == "    run 0: 1 is stored, 2 comes out"
    assert lines[-1] == "    and 3 more"


@pytest.mark.parametrize("name", ["runs", "cells", "energy"])
def test_every_value_of_a_table_is_compared(tmp_path, whole, name):
    """Whatever single value changes, it is found."""
    again = frames.small(results.load(whole))[name]
    export.put({name: again}, tmp_path)
    assert (
        check_table(tmp_path / f"{name}.csv", again) == check_table(tmp_path / f"{name}.parquet", again) == []
    )
    for column in again.columns:
        changed = other(again, column)
        for suffix in ("csv", "parquet"):
            path = tmp_path / f"changed.{suffix}"
            changed.write_csv(path) if suffix == "csv" else changed.write_parquet(path)
            (message,) = check_table(path, again)
            assert f": {column}: " in message


def check_table(path: Path, again: pl.DataFrame) -> list[str]:
    return files_of_tables.compare(path, again)[1]


def other(frame: pl.DataFrame, column: str) -> pl.DataFrame:
    """The frame with another value in the first row of a column."""
    values: Callable = {
        pl.String: lambda value: f"{value or ''}x",
        pl.Boolean: lambda value: not value,
        pl.Int64: lambda value: (value or 0) + 1,
        pl.Float64: lambda value: (value or 0.0) * 1.001 + 1e-6,
    }[frame.schema[column].base_type()]
    first = pl.Series(column, [values(frame[column][0]), *frame[column][1:]], dtype=frame.schema[column])
    return frame.with_columns(first)


def test_the_tables_of_a_bundle_are_those_of_an_export(whole):
    campaign = results.load(whole)
    assert pl.read_parquet(whole / "export" / "runs.parquet").equals(runs_and_cells.runs(campaign))


ODD = (b"null", b"-1", b"1e999", b"[]", b"{}", b'"x"', b"99999999999999999999", b"", b"true", b"\x00", b"NaN")


@pytest.mark.parametrize("seed", range(12))
def test_whatever_stands_in_the_files_the_checklist_comes_to_its_end(unpacked, seed):
    """A value or two of the JSON files replaced by something odd: named, and no check stumbles."""
    rng = random.Random(seed)
    names = [name for name in manifest.names(unpacked) if name.endswith(".json")]
    for name in rng.sample(sorted(names), 2):
        path = unpacked / name
        content = path.read_bytes()
        place = rng.choice(list(re.finditer(rb'-?\d+|"[^"]*"|\[[^\[\]]*\]', content)))
        path.write_bytes(content[: place.start()] + rng.choice(ODD) + content[place.end() :])
        assert path.read_bytes() != content
    found = checks(unpacked, "tables")
    assert list(found)[-1] == "tables"
    assert len(found["manifest"].offenders) == 2
