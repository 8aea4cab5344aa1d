# SPDX-License-Identifier: GPL-3.0-or-later
"""Each panel's query has values of what the rig's programs wrote into a real InfluxDB."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from joulerig.rig.grafana import dashboards
from joulerig.rig.grafana.dashboard import Dashboard, Lab
from tests.support import measured_lab
from tests.support.influxd import Influxd, servers

LAB = Lab("joulerig", "Joulerig", virtual=True, database=Influxd.database, hosts=Influxd.hosts)
ALL = {one.name: one for one in dashboards.all_of(LAB)}
INTERVAL_MS = 1000


@dataclass(frozen=True)
class Measured:
    influxd: Influxd
    begin: int
    end: int

    def ask(self, query: str) -> dict[str, Any]:
        """Return InfluxDB's reply to what Grafana makes of a query, asked as the user who reads."""
        wanted = {"db": Influxd.power, "epoch": "ms", "q": self.interpolated(query)}
        reply = httpx.get(
            f"{self.influxd.url}/query", params=wanted, auth=Influxd.reader, trust_env=False, timeout=30
        )
        assert reply.status_code == 200, reply.text
        result: dict[str, Any] = reply.json()["results"][0]
        assert "error" not in result, (result, wanted["q"])
        return result

    def interpolated(self, query: str) -> str:
        # Two seconds around: an interval that is cut off has no point.
        times = f"time >= {self.begin // 10**6 - 2000}ms and time <= {self.end // 10**6 + 2000}ms"
        known = {
            "$timeFilter": times,
            "$__interval_ms": str(INTERVAL_MS),
            "$__interval": f"{INTERVAL_MS}ms",
            "${campaign:regex}": re.escape(measured_lab.CAMPAIGN).replace(r"\-", "-"),
            **dict.fromkeys(("${host:regex}", "${drive:regex}", "${meter:regex}"), ".*"),
        }
        for name, value in known.items():
            query = query.replace(name, value)
        left = query.replace("$/", "")
        assert "$" not in left, f"not interpolated: {left}"
        return query


@pytest.fixture(scope="module", params=servers(), ids=lambda path: "debian" if "/usr" in path else "built")
def measured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    folder = tmp_path_factory.mktemp("measured")
    with Influxd(folder / "influxd", program=request.param) as influxd:
        begin, end = measured_lab.measure(influxd, folder)
        yield Measured(influxd, begin, end)


def panels(dashboard: Dashboard) -> list[dict[str, Any]]:
    return [one for one in dashboard.as_json(LAB)["panels"] if one.get("targets")]


QUERIES = [
    pytest.param(target["query"], id=f"{name}: {panel['title']} {target['refId']}")
    for name, dashboard in ALL.items()
    for panel in panels(dashboard)
    for target in panel["targets"]
]


@pytest.mark.parametrize("query", QUERIES)
def test_a_panels_query_has_values(measured: Measured, query: str) -> None:
    series = measured.ask(query).get("series")
    assert series, f"empty: {measured.interpolated(query)}"
    for one in series:
        columns = list(zip(*one["values"], strict=True))[1:]
        for name, values in zip(one["columns"][1:], columns, strict=True):
            assert any(value is not None for value in values), f"{name} is empty"


@pytest.mark.parametrize("name", ALL)
def test_a_variable_has_values(measured: Measured, name: str) -> None:
    for variable in ALL[name].as_json(LAB)["templating"]["list"]:
        values = {row[1] for one in measured.ask(variable["query"])["series"] for row in one["values"]}
        expected = {
            "host": measured_lab.HOST,
            "drive": measured_lab.DRIVE,
            "meter": measured_lab.METER,
            "campaign": measured_lab.CAMPAIGN,
        }
        assert values == {expected[variable["name"]]}


@pytest.mark.parametrize("kind", ["phases", "runs"])
def test_a_region_has_text_tags_and_an_end_after_its_beginning(measured: Measured, kind: str) -> None:
    [region] = [one for one in ALL["campaign"].regions if one.name == kind]
    [made] = [one for one in ALL["campaign"].as_json(LAB)["annotations"]["list"] if one["name"] == kind]
    [series] = measured.ask(made["query"])["series"]
    [row] = series["values"]
    found = dict(zip(series["columns"], row, strict=True))
    assert all(found[name] for name in (region.text, *region.tags))
    assert 0 < found[region.end] - found["time"] < 60_000, "both are ms"


def test_energy_is_that_of_the_counter_from_the_first_interval_on(measured: Measured) -> None:
    [panel] = [one for one in panels(ALL["lab"]) if one["title"] == "Energy of the range"]
    [series] = measured.ask(panel["targets"][0]["query"])["series"]
    [[_, joules]] = series["values"]
    points = measured.influxd.rows("SELECT joules FROM power")
    first = [one["joules"] for one in points if one["time"] // 10**9 == points[0]["time"] // 10**9]
    assert joules == pytest.approx(points[-1]["joules"] - first[-1])


def test_the_ledger_of_the_meters_balances(measured: Measured) -> None:
    [panel] = [one for one in panels(ALL["meters"]) if one["title"] == "Samples in no book"]
    [series] = measured.ask(panel["targets"][0]["query"])["series"]
    assert [value for _, value in series["values"]] == [0]
