# SPDX-License-Identifier: GPL-3.0-or-later
"""Collectors, test hosts and controller write what InfluxDB's measurements declare."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from ansible.module_utils.joulerig import phases
from joulerig.analysis.results import power_points, processor, progress
from joulerig.analysis.results.columns import declared_columns
from joulerig.analysis.results.influxdb.schema import (
    MEASUREMENTS,
    RESULT,
    FieldType,
    Measurement,
    column_type,
    reference_page,
)
from joulerig.analysis.results.schema import Performance, Result
from joulerig.rig.campaign.execution import result_points
from tests.support import ROOT

# By program: where its points are made, and what it writes.
WRITERS = {
    "powerd": ("collectors/powerd", {"power", "power_10s"}),
    "iod": ("collectors/iod", {"blockio", "fsjournal", "drive_health", "hostload"}),
    "flowop": ("workloads/internal/measure", {"workload"}),
}
KINDS = {"Float": FieldType.FLOAT, "Int": FieldType.INTEGER, "String": FieldType.STRING}


def source(folder: str) -> str:
    """Return the Go source of a folder, without its tests."""
    paths = sorted((ROOT / folder).glob("*.go"))
    return "\n".join(path.read_text() for path in paths if not path.name.endswith("_test.go"))


def written_fields(text: str) -> set[tuple[str, FieldType]]:
    """Return the fields that Go source gives an Encoder; NAME in those of a class of operations."""
    plain = re.findall(r'\b(?:e|encoder|lines)\.(Float|Int|String)\("(\w+)", ', text)
    of_class = re.findall(r'\be\.(Float|Int)\(name\+"(\w+)", ', text)
    plain += [(kind, f"class_NAME{name}") for kind, name in of_class]
    return {(name, KINDS[kind]) for kind, name in plain}


def written_tags(text: str) -> dict[str, tuple[str, ...]]:
    """Return the tags of each measurement that Go source begins a line of."""
    found = {}
    for name, rest in re.findall(r'AppendKey\(nil, "(\w+)", (.*?)\)', text, re.DOTALL):
        found[name] = tuple(re.findall(r'"(\w+)", ', rest))
    for name, rest in re.findall(r'Begin\("(\w+)"\)((?:\.Tag\("\w+", \w+\))*)', text):
        found[name] = tuple(re.findall(r'Tag\("(\w+)"', rest))
    return found


@pytest.mark.parametrize("program", WRITERS)
def test_a_collector_writes_the_declared_fields_with_their_types(program: str) -> None:
    folder, names = WRITERS[program]
    declared = {(field.name, field.type) for name in names for field in MEASUREMENTS[name].fields}
    assert written_fields(source(folder)) == declared


@pytest.mark.parametrize("program", WRITERS)
def test_a_collector_writes_the_declared_tags(program: str) -> None:
    folder, names = WRITERS[program]
    assert written_tags(source(folder)) == {name: MEASUREMENTS[name].tags for name in names}


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[tuple[str, Callable[[], list[str]]]]:
    """The host agent's socket; gives its path, and what came."""
    path = str(tmp_path / "iod.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(path)
        sock.setblocking(False)

        def received() -> list[str]:
            lines = []
            while True:
                try:
                    lines.append(sock.recv(65536).decode())
                except BlockingIOError:
                    return lines

        yield path, received


def parse(line: str) -> tuple[str, set[str], dict[str, FieldType]]:
    """Return measurement, tags, and types of the fields of a line without escapes."""
    head, fields, _ = line.rstrip("\n").split(" ")
    name, *tags = head.split(",")
    types = {}
    for field in fields.split(","):
        key, value = field.split("=")
        kinds = {'"': FieldType.STRING, "i": FieldType.INTEGER}
        types[key] = kinds.get(value[-1], FieldType.FLOAT)
    return name, {tag.partition("=")[0] for tag in tags}, types


def test_a_test_host_writes_the_declared_fields(agent: tuple[str, Callable[[], list[str]]]) -> None:
    path, received = agent
    tags = {"campaign": "c", "run": "r", "host": "h", "drive": "d"}
    recorder = phases.Phases(path, tags, {"offset_ns": 1, "error_ns": 2})
    recorder.add("idle", 1, 2)
    recorder.work({"ops": 1, "read_bytes": 2, "write_bytes": 3}, 4)
    recorder.round({"number": 1, "ops": 2, "start_ns": 3, "end_ns": 4}, 5)
    lines = [parse(line) for line in received()]
    assert [name for name, _, _ in lines] == ["phase", "workload", "precondition"]
    for name, tag_names, types in lines:
        declared = {field.name: field.type for field in MEASUREMENTS[name].fields}
        assert tag_names == set(MEASUREMENTS[name].tags)
        assert types == {key: kind for key, kind in declared.items() if "NAME" not in key}


def test_the_controller_writes_the_declared_fields() -> None:
    examples = {FieldType.STRING: "a", FieldType.INTEGER: 7, FieldType.FLOAT: 0.5}
    fields = {field.name: examples[field.type] for field in RESULT.fields}
    name, tag_names, types = parse(result_points.point({**fields, **dict.fromkeys(RESULT.tags, "a")}))
    assert (name, tag_names) == (RESULT.name, set(RESULT.tags))
    assert types == {field.name: field.type for field in RESULT.fields}


def test_a_journal_has_what_the_controller_writes_by_the_same_names() -> None:
    columns = {
        one.name: one.unit for table in (Performance, Result) for one in declared_columns(table).values()
    }
    copied = {field.name: field.unit for field in RESULT.fields if field.name in columns}
    assert copied == {name: columns[name] for name in copied}
    own = {"status", "reason", "cell", "start_ns", "end_ns"}
    assert {field.name for field in RESULT.fields} == own | set(copied)


@pytest.mark.parametrize("kept", [power_points.COLUMNS, progress.COLUMNS, processor.COLUMNS])
def test_a_runs_files_keep_the_declared_types(kept: dict[str, type[pl.DataType]]) -> None:
    assert {name: column_type(name) for name in kept if name != "time_ns"} == {
        name: kind for name, kind in kept.items() if name != "time_ns"
    }


def test_a_name_has_one_type_in_all_measurements() -> None:
    types: dict[str, set[FieldType]] = {}
    for one in MEASUREMENTS.values():
        for field in one.fields:
            types.setdefault(field.name, set()).add(field.type)
    assert [name for name, found in types.items() if len(found) > 1] == []


@pytest.mark.parametrize("one", MEASUREMENTS.values(), ids=lambda one: one.name)
def test_every_field_has_a_meaning_and_its_unit_is_in_its_name(one: Measurement) -> None:
    units = {"_bytes": "B", "_seconds": "s", "_ns": "ns", "_celsius": "°C", "_hours": "h"}
    assert all(field.meaning for field in one.fields)
    for suffix, unit in units.items():
        assert {field.unit for field in one.fields if field.name.endswith(suffix)} <= {unit}


@pytest.mark.parametrize(
    "name", ["class_seconds", "class_read_p50", "class_read_ops_seconds_x", "my_class_read_ops", "class_NAME"]
)
def test_other_names_are_no_columns_of_a_class(name: str) -> None:
    assert column_type(name) is None


def test_the_page_in_the_repository_is_the_generated_one() -> None:
    """`python -m joulerig.analysis.results.influxdb docs/reference/influxdb.md` writes it."""
    assert (ROOT / "docs" / "reference" / "influxdb.md").read_text() == reference_page()
