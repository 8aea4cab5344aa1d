# SPDX-License-Identifier: GPL-3.0-or-later
"""Panels of a dashboard as Grafana's JSON: what Grafana 9 to 12 have in common, no plugin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# How old a row is: the column's name differs between versions of Grafana.
AGE = {"Time": "dateTimeFromNow", "time": "dateTimeFromNow"}
COLUMNS = 24  # of Grafana's grid
NORMAL_HEIGHT = 8


@dataclass(frozen=True)
class Query:
    """InfluxQL, and how its series are named: `$tag_drive`, `$col`, or words. No alias: a table."""

    influxql: str
    alias: str = ""


@dataclass(frozen=True)
class Panel:
    """A panel without its place.

    `unit`: an id of Grafana's units. `description`: what it shows and what not, on hovering.
    """

    kind: str
    title: str
    queries: Sequence[Query]
    description: str
    unit: str = "short"
    width: int = 12
    height: int = NORMAL_HEIGHT
    options: Mapping[str, Any] = field(default_factory=dict)
    custom: Mapping[str, Any] = field(default_factory=dict)
    overrides: Sequence[Mapping[str, Any]] = ()
    transformations: Sequence[Mapping[str, Any]] = ()

    def as_json(
        self, number: int, x: int, y: int, source: Mapping[str, str], locate: Callable[[str], str]
    ) -> dict[str, Any]:
        """Return it as Grafana's JSON, with its number and place."""
        place = {"x": x, "y": y, "w": self.width, "h": self.height}
        if self.kind == "row":
            return {
                "id": number, "type": "row", "title": self.title, "collapsed": False, "panels": [],
                "gridPos": place,
            }  # fmt: skip
        return {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.description,
            "gridPos": place,
            "datasource": dict(source),
            "fieldConfig": {
                "defaults": {"unit": self.unit, "custom": dict(self.custom)},
                "overrides": [dict(one) for one in self.overrides],
            },
            "options": dict(self.options),
            "transformations": [dict(one) for one in self.transformations],
            "targets": [
                {
                    "refId": chr(ord("A") + index),
                    "datasource": dict(source),
                    "rawQuery": True,
                    "query": locate(query.influxql),
                    "resultFormat": "time_series" if query.alias else "table",
                    **({"alias": query.alias} if query.alias else {}),
                }
                for index, query in enumerate(self.queries)
            ],
        }


def over_time(
    title: str,
    unit: str,
    description: str,
    *queries: Query,
    width: int = 12,
    points: bool = False,
    least: float | None = None,
) -> Panel:
    """Return a panel of lines, or of points where nothing is known between them.

    A line is broken where an interval has no value: a gap is no measurement.
    """
    style = (
        {"drawStyle": "points", "pointSize": 7}
        if points
        else {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 5}
    )
    return Panel(
        "timeseries",
        title,
        queries,
        description,
        unit,
        width,
        options={
            "legend": {
                "displayMode": "table",
                "placement": "bottom",
                "showLegend": True,
                "calcs": ["lastNotNull", "mean", "max"],
            },
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        custom={
            **style,
            "showPoints": "auto",
            "spanNulls": False,
            # An interval without points has no row: without this, a line would go over it.
            "insertNulls": 5000,
            "stacking": {"mode": "none", "group": "A"},
            **({"axisSoftMin": least} if least is not None else {}),
        },
    )


def figures(title: str, unit: str, description: str, *queries: Query, width: int = 12) -> Panel:
    """Return a panel of the newest value of each series, as a number."""
    return Panel(
        "stat",
        title,
        queries,
        description,
        unit,
        width,
        height=5,
        options={
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "colorMode": "none",
            "graphMode": "none",
            "textMode": "value_and_name",
            "justifyMode": "auto",
            "orientation": "auto",
        },
    )


def table(
    title: str,
    description: str,
    query: Query,
    *,
    units: Mapping[str, str] = {},
    hidden: Sequence[str] = (),
    width: int = COLUMNS,
    height: int = NORMAL_HEIGHT,
) -> Panel:
    """Return a panel of rows. `units`: of columns by name; `hidden`: columns that are not shown."""
    return Panel(
        "table",
        title,
        (query,),
        description,
        width=width,
        height=height,
        options={"showHeader": True},
        overrides=[
            {"matcher": {"id": "byName", "options": name}, "properties": [{"id": "unit", "value": unit}]}
            for name, unit in units.items()
        ],
        transformations=[
            {
                "id": "organize",
                "options": {
                    "excludeByName": dict.fromkeys(hidden, True),
                    "indexByName": {},
                    "renameByName": {},
                },
            }
        ]
        if hidden
        else [],
    )


def text(title: str, markdown: str, *, width: int = COLUMNS, height: int = 3) -> Panel:
    """Return a panel of words."""
    return Panel(
        "text", title, (), "", width=width, height=height, options={"mode": "markdown", "content": markdown}
    )


def row(title: str) -> Panel:
    """Return the heading of what follows."""
    return Panel("row", title, (), "", width=COLUMNS, height=1)
