# SPDX-License-Identifier: GPL-3.0-or-later
"""Export: the same numbers in CSV and Parquet, every column described, all or nothing."""

from __future__ import annotations

import json
import re
import struct

import polars as pl
import pytest

from joulerig.analysis import export, results
from joulerig.analysis.export import columns, frames, schema
from joulerig.analysis.results import power_points
from joulerig.analysis.tables import runs_and_cells
from tests.support import simulated_campaign
from tests.support.verifiable_campaign import mixed


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export") / "c"
    simulated_campaign.build(folder, replicates=2, traces=True, outcome=mixed, schedulers=("none", "bfq"))
    made = [
        [{"iops": 9000.5, "watts": 6.25}, {"iops": 1000.0, "watts": None}],
        [{"iops": 990.0, "watts": 4.0}],
    ]
    run = next(run for run in results.load(folder).runs if run.counts)
    (run.folder / "precondition.json").write_text(json.dumps({"stretches": made}))
    return results.load(folder)


@pytest.fixture(scope="module")
def exported(campaign, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    export.write(campaign, folder)
    return folder


def bits(values: pl.Series) -> list[bytes | None]:
    return [None if value is None else struct.pack("<d", value) for value in values]


def read_csv(path, like: pl.DataFrame) -> pl.DataFrame:
    return pl.read_csv(path, schema_overrides=dict(like.schema))


@pytest.mark.parametrize("name", list(columns.ABOUT))
def test_csv_and_parquet_hold_the_same_numbers_to_the_last_bit(exported, name):
    parquet = pl.read_parquet(exported / f"{name}.parquet")
    csv = read_csv(exported / f"{name}.csv", parquet)
    assert csv.columns == parquet.columns
    assert csv.height == parquet.height
    for column, kind in parquet.schema.items():
        if kind == pl.Float64:
            assert bits(csv[column]) == bits(parquet[column]), column
        else:
            assert csv[column].to_list() == parquet[column].to_list(), column


def test_floats_that_decimals_do_not_hold_come_back_from_csv(tmp_path):
    awkward = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0, 1e22, 123456789.12345679, None]
    export.put({"runs": pl.DataFrame({"joules": awkward})}, tmp_path)
    back = pl.read_csv(tmp_path / "runs.csv", schema_overrides={"joules": pl.Float64})
    assert bits(back["joules"]) == bits(pl.Series(awkward))


def test_not_known_is_blank_and_an_empty_text_is_not(exported, campaign):
    runs = read_csv(exported / "runs.csv", runs_and_cells.runs(campaign))
    assert runs["joules"].null_count() == sum(
        run.result is None or run.result.joules is None for run in campaign.runs
    )
    assert runs["reason"].to_list() == [run.reason for run in campaign.runs]


def test_every_column_is_described_and_none_that_is_not_exported(campaign):
    every = frames.every(campaign)
    assert list(every) == list(columns.ABOUT) == list(columns.OWN)
    for name, frame in every.items():
        for column in frame.columns:
            unit, meaning = columns.described(name, column)
            assert meaning.endswith("."), (name, column)
            assert unit == unit.strip()
        assert set(columns.OWN[name]) <= set(frame.columns), name
    used = {column for frame in every.values() for column in frame.columns}
    assert set(columns.COMMON) <= used


def test_the_schema_document_is_of_the_files_next_to_it(exported):
    reported = json.loads((exported / "schema.json").read_text())
    assert [table["table"] for table in reported["tables"]] == list(columns.ABOUT)
    for table in reported["tables"]:
        frame = pl.read_parquet(exported / f"{table['table']}.parquet")
        assert [one["column"] for one in table["columns"]] == frame.columns
        for one in table["columns"]:
            assert {"string": pl.String, "integer": pl.Int64, "number": pl.Float64, "boolean": pl.Boolean}[
                one["type"]
            ] == frame.schema[one["column"]]


# By the first of these that a column's name has.
UNITS = {
    "percent_per_kelvin": "%/K", "percent": "%", "joules_per_durable_byte": "J/B", "mb_per_joule": "MB/J",
    "ops_per_joule": "1/J", "iops_per_watt": "1/J", "mib_per_second_per_watt": "MiB/J", "gb_per_watt": "GB/W",
    "ops_per_second": "1/s", "mb_per_second": "MB/s", "iops": "1/s", "watt_hours": "Wh", "celsius": "°C",
    "kelvin": "K", "_hz": "Hz", "bytes": "B", "joules": "J",
    "watts": "W", "seconds": "s", "_ns": "ns", "years": "year", "volts": "V", "amps": "A",
}  # fmt: skip
WITHOUT_A_UNIT = re.compile(r"_relative_spread$|_unknown$|bytes_per_\w+_byte(_low|_high)?$")


def test_units_are_those_of_the_columns_names():
    found = {
        (table, column): unit
        for table, own in columns.OWN.items()
        for column, (unit, _) in {**columns.COMMON, **own}.items()
    }
    for (table, column), unit in found.items():
        expected = next((expected for part, expected in UNITS.items() if part in column), unit)
        expected = "" if WITHOUT_A_UNIT.search(column) else expected
        assert unit == expected, (table, column)
    assert set(UNITS.values()) <= set(found.values())


def test_a_column_without_a_description_is_exported_all_the_same():
    (table,) = schema.describe_tables({"runs": pl.DataFrame({"brand_new": [1]})})["tables"]
    assert table["columns"] == [{"column": "brand_new", "type": "integer", "unit": "", "meaning": ""}]


def test_the_series_has_every_point_of_every_run_that_kept_them(campaign, exported):
    whole = pl.read_parquet(exported / "power.parquet")
    kept = [run for run in campaign.runs if (run.folder / "power.csv").exists()]
    assert whole["run"].unique(maintain_order=True).to_list() == [run.id for run in kept]
    for run in kept[:3]:
        points = whole.filter(pl.col("run") == run.id).drop("campaign", "run")
        assert points.equals(power_points.read(run.folder / "power.csv"))


def test_rounds_are_numbered_over_their_stretches(exported):
    reported = pl.read_csv(exported / "rounds.csv").select("stretch", "round", "iops", "watts").rows()
    assert reported == [(1, 1, 9000.5, 6.25), (1, 2, 1000.0, None), (2, 3, 990.0, 4.0)]


def test_energy_phases_and_io_are_the_journals(campaign, exported):
    for name, table in (("energy", "energy"), ("phases", "phase"), ("io", "io")):
        journal = campaign.tables[table]
        frame = pl.read_parquet(exported / f"{name}.parquet")
        assert frame.height == journal.height > 0
        for column in set(journal.columns) & set(frame.columns):
            assert sorted(frame[column].to_list(), key=repr) == sorted(journal[column].to_list(), key=repr)


def test_one_format_alone_can_be_asked_for(campaign, tmp_path):
    export.write(campaign, tmp_path, ["csv"])
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.csv" for name in columns.ABOUT} | {
        "schema.json"
    }


def test_an_unknown_format_is_refused_before_anything_is_written(campaign, tmp_path):
    with pytest.raises(ValueError, match="'xlsx': allowed are csv, parquet"):
        export.write(campaign, tmp_path / "x", ["csv", "xlsx"])
    assert not (tmp_path / "x").exists()


def test_a_failure_leaves_what_was_there_and_nothing_half_done(tmp_path, monkeypatch):
    campaign = results.load(simulated_campaign.build(tmp_path / "c", drives=("nvme-plp",)))
    target = tmp_path / "x"
    export.write(campaign, target)
    before = {path.name: path.read_bytes() for path in target.iterdir()}

    def disk_full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(schema, "document", disk_full)
    with pytest.raises(OSError, match="No space"):
        export.write(campaign, target)
    assert {path.name: path.read_bytes() for path in target.iterdir()} == before


def test_a_damaged_series_is_named_and_nothing_is_written(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c", drives=("nvme-plp",), traces=True)
    (path, *_) = sorted(folder.glob("runs/*/power.csv"))
    path.write_text("time_ns,rail\n1,5v\n")
    with pytest.raises(power_points.PowerFileError, match=path.parent.name):
        export.write(results.load(folder), tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_waveform_is_listed_with_what_became_of_it_and_copied(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c", drives=("nvme-plp",), filesystems=("ext4",))
    first, second, _ = results.load(folder).runs
    meta = {"version": 1, "sample_rate_hz": 1000.0}
    pl.DataFrame({"volts": [12.0]}).write_parquet(
        first.folder / "waveform-tap1a.parquet", metadata={"joulerig.waveform": json.dumps(meta)}
    )
    reported = {"tap1a": {"path": "waveform-tap1a.parquet", "recorded": 1, "dropped": 2, "cut": 3}}
    (first.folder / "waveforms.json").write_text(json.dumps(reported))
    (second.folder / "waveforms.json").write_text(json.dumps({"tap1a": {"error": "powerd: polled"}}))
    written = export.write(results.load(folder), tmp_path / "x")
    copy = tmp_path / "x" / "waveforms" / f"{first.id}-tap1a.parquet"
    assert copy in written
    assert copy.read_bytes() == (first.folder / "waveform-tap1a.parquet").read_bytes()
    rows = pl.read_csv(tmp_path / "x" / "waveforms.csv").drop("campaign", "bytes").rows()
    assert rows == [
        (first.id, "tap1a", f"runs/{first.id}/waveform-tap1a.parquet", 1000.0, 1, 2, 3, None),
        (second.id, "tap1a", None, None, None, None, None, "powerd: polled"),
    ]


def test_a_waveform_that_cannot_be_read_is_listed_with_why(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c", drives=("nvme-plp",), filesystems=("ext4",))
    run = results.load(folder).runs[0]
    (run.folder / "waveform-tap1a.parquet").write_bytes(b"PAR1")
    (run.folder / "waveforms.json").write_text(json.dumps({"tap1a": {"recorded": 9}}))
    (row,) = frames.waveforms(results.load(folder)).rows(named=True)
    assert (row["file"], row["bytes"], row["recorded"]) == (f"runs/{run.id}/waveform-tap1a.parquet", 4, 9)
    assert "cannot be read" in row["error"]


def test_a_list_of_waveforms_that_is_damaged_is_named(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c", drives=("nvme-plp",), filesystems=("ext4",))
    path = results.load(folder).runs[0].folder / "waveforms.json"
    path.write_text("[")
    with pytest.raises(results.campaign.ResultsError, match=f"{path}: cannot be read as JSON"):
        frames.waveforms(results.load(folder))


def test_an_export_leaves_nothing_but_its_files(campaign, tmp_path):
    written = export.write(campaign, tmp_path / "x", ["parquet"])
    assert sorted(written) == sorted(path for path in (tmp_path / "x").rglob("*") if path.is_file())
    assert {path.parent for path in written} == {tmp_path / "x"}


def test_a_campaign_without_a_run_exports_empty_tables(tmp_path):
    campaign = results.load(simulated_campaign.build(tmp_path / "c", drives=()))
    export.write(campaign, tmp_path / "x")
    assert pl.read_csv(tmp_path / "x" / "runs.csv").columns == list(runs_and_cells.RUN_COLUMNS)
    assert pl.read_parquet(tmp_path / "x" / "power.parquet").height == 0
