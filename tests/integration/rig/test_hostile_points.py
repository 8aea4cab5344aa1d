# SPDX-License-Identifier: GPL-3.0-or-later
"""Hostile text in tags, fields and queries of a real InfluxDB is a value, and nothing else."""

from __future__ import annotations

import re
from typing import Any

import pytest

from joulerig.analysis.results.influxdb.client import InfluxError, quote_identifier, quote_string
from joulerig.analysis.results.influxdb.schema import RESULT, FieldType
from joulerig.rig.campaign.execution import result_points
from joulerig.rig.dashboard.api import views
from tests.support import hostile_text
from tests.support.influxd import Influxd

T0 = 1_794_600_000_000_000_000
TEXTS = {**hostile_text.NAMES, "comma": 'x,host=owned y="', "backslashes": "x\\", "two": "a\\\\,b\\=c\\ d"}
VALUES = {FieldType.FLOAT: 1.5, FieldType.INTEGER: 7}


def point(text: str) -> dict[str, Any]:
    values = {field.name: VALUES.get(field.type, text) for field in RESULT.fields}
    return {**values, **dict.fromkeys(RESULT.tags, text), "start_ns": T0}


def kept(text: str) -> str:
    """Return a tag's value as a server has it: what the line protocol cannot carry is '_'."""
    return re.sub(r"[\x00-\x1f\x7f]|\\(?=[,= \\]|\Z)", "_", text)


def measurements(influxd: Influxd) -> list[list[str]]:
    return influxd.statement("SHOW MEASUREMENTS", database=influxd.results)["series"][0]["values"]


@pytest.mark.parametrize("kind", TEXTS)
def test_a_text_is_one_value_of_one_point_and_is_found_by_it(influxd: Influxd, kind: str) -> None:
    text = TEXTS[kind]
    line = result_points.point(point(text))
    assert len(line.splitlines()) == 1 or not {"\n", "\r"} & set(line)
    influxd.write(line)
    assert measurements(influxd) == [["result"]]
    tag = quote_string(kept(text))
    where = " AND ".join(f"{quote_identifier(name)} = {tag}" for name in RESULT.tags)
    found = influxd.databases().query(f"SELECT * FROM result WHERE {where} GROUP BY *")
    assert found.height == 1
    assert {found[name][0] for name in RESULT.tags} == {kept(text)}


@pytest.mark.parametrize("kind", TEXTS)
def test_a_text_in_a_query_finds_nothing_and_changes_nothing(influxd: Influxd, kind: str) -> None:
    text = TEXTS[kind]
    before = influxd.statement("SHOW DATABASES")
    known, unknown = (views.View(host, text, T0, 10**9, 10) for host in (influxd.hosts[0], text))
    for view in (known, unknown):
        assert views.power(influxd.databases(), view)["rails"] == []
    assert views.bands(influxd.databases(), known, [text])["bands"] == []
    with pytest.raises(InfluxError) as refused:  # it has no database
        views.bands(influxd.databases(), unknown, [text])
    assert len(str(refused.value).splitlines()) == 1
    assert influxd.statement("SHOW DATABASES") == before
