# SPDX-License-Identifier: GPL-3.0-or-later
"""Dashboards as Grafana takes them, and the InfluxQL of their panels."""

from __future__ import annotations

import dataclasses
import html
import itertools
import json
import re
from typing import Any

import pytest

from joulerig.analysis.results.influxdb.schema import BLOCKIO, HOSTLOAD, POWER, RESULT, WORKLOAD
from joulerig.rig.common.bounded import one_line
from joulerig.rig.grafana import dashboards
from joulerig.rig.grafana.dashboard import Lab, Meter, version_numbers
from joulerig.rig.grafana.influxql import Queries, tag_values
from joulerig.rig.grafana.provision import is_contained
from tests.support import hostile_text

LAB = Lab(
    "joulerig",
    "Joulerig",
    virtual=True,
    database="lab",
    hosts=["bench1", "bench2"],
    meters=[
        Meter("tap1", "hameg-hmo", 1000.0, ["CH1: 2026-01-02, valid until 2027-01-02"]),
        Meter("b", "x", None, []),
    ],
)
ALL = {one.name: one.as_json(LAB) for one in dashboards.all_of(LAB)}
every = pytest.mark.parametrize("name", ALL)


# --- queries


def test_an_interval_is_grouped_by_tags_and_limited_by_the_variables_that_are_tags() -> None:
    of = Queries(("host", "meter"))
    assert of.over_time(BLOCKIO, "max({reads})", ("drive",)) == (
        'SELECT max("reads") FROM "blockio" WHERE $timeFilter AND "host" =~ /^${host:regex}$/'
        ' GROUP BY time($__interval), "drive" fill(none)'
    )


def test_a_query_within_is_by_more_tags() -> None:
    query = Queries().over_time(
        POWER, 'sum("w")', ("drive",), within='mean({watts}) AS "w"', within_by=("rail",)
    )
    assert query == (
        'SELECT sum("w") FROM (SELECT mean("watts") AS "w" FROM "power" WHERE $timeFilter'
        ' GROUP BY time($__interval), "drive", "rail" fill(none))'
        ' WHERE $timeFilter GROUP BY time($__interval), "drive" fill(none)'
    )


def test_a_campaign_limits_by_its_runs_where_it_is_no_tag() -> None:
    of = Queries(("campaign",))
    assert '"run" =~ /^${campaign:regex}-[0-9]+$/' in of.rows(WORKLOAD, "{ops}")
    assert '"campaign" =~ /^${campaign:regex}$/' in of.rows(RESULT, "{ops}")
    assert of.rows(HOSTLOAD, "{memory_used_bytes}").endswith("WHERE $timeFilter")


def test_the_newest_rows() -> None:
    assert Queries().rows(RESULT, "{run}, {ops}", most=5) == (
        'SELECT "run", "ops" FROM "result" WHERE $timeFilter ORDER BY time DESC LIMIT 5'
    )


def test_a_field_of_every_class_is_one_expression() -> None:
    query = Queries().of_range(WORKLOAD, "max({/class_NAME_p99_seconds/})", ("drive",))
    assert r"SELECT max(/^class_\w+?_p99_seconds$/) FROM" in query


@pytest.mark.parametrize(
    "what", ["{wats}", "{joules_of_it}", "{class_NAME_ops}", "{/class_NAME_ops/}", "{campaign}"]
)
def test_a_name_that_is_not_declared_is_refused(what: str) -> None:
    with pytest.raises(KeyError, match="power has no "):
        Queries().over_time(POWER, f"mean({what})", ("drive",))


def test_a_tag_that_is_not_declared_is_refused() -> None:
    with pytest.raises(KeyError, match="power has no 'run'"):
        Queries().over_time(POWER, "mean({watts})", ("run",))
    with pytest.raises(KeyError):
        tag_values("campaign", POWER)


def test_a_query_is_of_the_databases_of_its_measurements_writer() -> None:
    queries = [target["query"] for one in ALL["lab"]["panels"] for target in one.get("targets", ())]
    queries += [one["query"] for one in ALL["campaign"]["annotations"]["list"] if not one.get("builtIn")]
    found = re.compile(r'FROM ("\S+"(?:, "\S+")*)')
    sources = {one for query in queries for one in found.findall(query)}
    assert '"lab_power".."power"' in sources
    assert '"lab_results".."result"' in sources
    assert '"lab_host_bench1".."phase", "lab_host_bench2".."phase"' in sources
    assert all(source.startswith('"lab_') for source in sources)


def test_a_variables_values_are_of_one_database() -> None:
    assert [one["query"] for one in ALL["meters"]["templating"]["list"]] == [
        'SHOW TAG VALUES ON "lab_power" FROM "power" WITH KEY = "meter"'
    ]


# --- dashboards


@every
def test_no_panel_lies_over_another_or_beyond_the_grid(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in ALL[name]["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = set(
            itertools.product(
                range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
            )
        )
        assert not cells & taken, panel["title"]
        taken |= cells


@every
def test_panels_have_numbers_titles_and_what_they_show(name: str) -> None:
    panels = ALL[name]["panels"]
    assert len({one["id"] for one in panels}) == len(panels)
    assert len({one["title"] for one in panels}) == len(panels)
    for one in panels:
        if one["type"] not in ("row", "text"):
            assert one["description"].endswith("."), one["title"]
            assert one["targets"], one["title"]


@every
def test_a_dashboard_has_its_uid_its_source_and_no_more_plugins_than_grafana(name: str) -> None:
    dashboard = ALL[name]
    assert dashboard["uid"] == f"joulerig-{name}"
    assert {one["type"] for one in dashboard["panels"]} <= {"row", "text", "timeseries", "stat", "table"}
    sources = {one["datasource"]["uid"] for one in dashboard["panels"] if one["type"] != "row"}
    assert sources == {"joulerig"}


@every
def test_the_same_lab_makes_the_same_dashboard(name: str) -> None:
    again = {one.name: one.as_json(LAB) for one in dashboards.all_of(LAB)}
    assert json.dumps(again[name]) == json.dumps(ALL[name])


@every
def test_a_virtual_lab_says_so_in_each_title(name: str) -> None:
    assert ALL[name]["title"].endswith("(virtual lab)")
    physical = dataclasses.replace(LAB, virtual=False)
    [title] = [one.as_json(physical)["title"] for one in dashboards.all_of(physical) if one.name == name]
    assert "virtual" not in title


@every
def test_each_series_of_a_panel_has_a_name_of_what_it_is_grouped_by(name: str) -> None:
    for panel in ALL[name]["panels"]:
        for target in panel.get("targets", []):
            tags = [word.strip('" ') for word in target["query"].rpartition("GROUP BY ")[2].split(",")]
            wanted = {
                f"$tag_{tag.removesuffix(' fill(none)').strip(chr(34))}" for tag in tags if "time(" not in tag
            }
            if "alias" in target:
                assert wanted <= {*target["alias"].split()}, panel["title"]


def test_the_columns_of_regions_are_those_that_grafana_looks_for() -> None:
    """It takes for the text the last column whose name has the text column's in it."""
    for region in ALL["campaign"]["annotations"]["list"]:
        if not region.get("builtIn"):
            others = [*region["tagsColumn"].split(","), region["timeEndColumn"]]
            assert not [one for one in others if region["textColumn"] in one]


def test_meters_are_described_with_their_calibration() -> None:
    [panel] = [one for one in ALL["meters"]["panels"] if one["type"] == "text"]
    rows = panel["options"]["content"].splitlines()
    assert "| tap1 | hameg-hmo | 1000 | CH1: 2026-01-02, valid until 2027-01-02 |" in rows
    assert "| b | x | its own | none: its class alone counts |" in rows


# --- what is there already


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("11.3.1", (11, 3, 1)), ("12.0.0+security-01", (12, 0, 0)), ("v9.5", (9, 5)), ("", ())],
)
def test_a_version_is_read(text: str, numbers: tuple[int, ...]) -> None:
    assert version_numbers(text) == numbers


@pytest.mark.parametrize(
    ("wanted", "found", "expected"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": {"b": [1, {"c": 2}]}}, {"a": {"b": [1, {"c": 2, "d": 3}]}}, True),
        ({"a": [1]}, {"a": [1, 2]}, False),
        ({"a": []}, {}, True),
        ({"a": [1]}, {}, False),
        ({"a": False}, {}, True),
        ({"a": True}, {}, False),
        ({"a": 1}, None, False),
        ([{"a": 1}], {"a": 1}, False),
    ],
)
def test_what_is_wanted_is_there_or_not(wanted: Any, found: Any, expected: bool) -> None:
    assert is_contained(wanted, found) is expected


# --- text from elsewhere


@pytest.mark.parametrize("kind", hostile_text.NAMES)
def test_a_channels_name_in_a_calibration_stays_text_in_its_cell(kind: str) -> None:
    """It is Markdown, in which Grafana replaces variables, and which may have HTML."""
    meters = [Meter("tap1", "hameg-hmo", 1000.0, [f"{hostile_text.NAMES[kind]}|${{drive}}: 2026-01-02"])]
    lab = dataclasses.replace(LAB, meters=meters)
    panels = next(one for one in dashboards.all_of(lab) if one.name == "meters").as_json(lab)["panels"]
    [content] = [panel["options"]["content"] for panel in panels if panel["type"] == "text"]
    *_, row = content.splitlines()
    assert row.count("|") == 5
    assert not set("$<>`[]{}\"'\\") & set(row)
    assert html.unescape(row).count(one_line(hostile_text.NAMES[kind])) == 1
