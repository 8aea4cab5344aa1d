# SPDX-License-Identifier: GPL-3.0-or-later
"""A dashboard as Grafana's JSON: its variables, annotations, and the places of its panels."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from joulerig.rig.grafana.influxql import in_databases
from joulerig.rig.grafana.panels import COLUMNS, Panel

# Grafana 9's. Later ones read it, and change nothing of what is used here.
SCHEMA_VERSION = 36
SOURCE_TYPE = "influxdb"
PHASE_COLOURS = {"phases": "rgba(90, 140, 220, 1)", "runs": "rgba(220, 140, 40, 1)"}


# Grafana adds it where it is not there.
BUILT_IN: Mapping[str, Any] = {
    "builtIn": 1,
    "datasource": {"type": "grafana", "uid": "-- Grafana --"},
    "enable": True,
    "hide": True,
    "iconColor": "rgba(0, 211, 255, 1)",
    "name": "Annotations & Alerts",
    "type": "dashboard",
}


@dataclass(frozen=True)
class Lab:
    """What dashboards say of a lab.

    `uid`: of its data source; the uids of its dashboards begin with it. `database`: the beginning
    of its databases' names, of which each of `hosts` has one.
    """

    uid: str
    title: str
    virtual: bool
    database: str
    hosts: Sequence[str]
    meters: Sequence[Meter] = ()


@dataclass(frozen=True)
class Meter:
    """What a dashboard says of a meter that InfluxDB does not have. `calibrations`: a line each."""

    name: str
    driver: str
    rate_hz: float | None
    calibrations: Sequence[str]


@dataclass(frozen=True)
class Variable:
    """A choice at the head of a dashboard, named as a tag; `query` yields its values."""

    name: str
    query: str
    many: bool = True


@dataclass(frozen=True)
class Regions:
    """Stretches of time that are marked in all panels.

    `query` has the columns `text`, `tags` and `end`, which is in ms.
    """

    name: str
    measurement: str
    query: str
    text: str
    tags: Sequence[str]
    end: str


@dataclass(frozen=True)
class Dashboard:
    """A dashboard of a lab. `name`: the end of its uid. `range`: how much it shows at first."""

    name: str
    title: str
    description: str
    variables: Sequence[Variable]
    panels: Sequence[Panel]
    regions: Sequence[Regions] = ()
    range: str = "now-15m"
    refresh: str = "5s"

    def as_json(self, lab: Lab, version: Sequence[int] = ()) -> dict[str, Any]:
        """Return it as Grafana's JSON. `version`: Grafana's; it names columns in its own way."""
        source = {"type": SOURCE_TYPE, "uid": lab.uid}
        query = partial(in_databases, base=lab.database, hosts=lab.hosts)
        marks = " (virtual lab)" if lab.virtual else ""
        return {
            "uid": uid(lab, self.name),
            "title": f"{lab.title}: {self.title}{marks}",
            "description": self.description,
            "tags": [lab.uid, *(["virtual lab"] if lab.virtual else [])],
            "schemaVersion": SCHEMA_VERSION,
            "editable": True,
            "graphTooltip": 1,  # a common crosshair
            "timezone": "browser",
            "time": {"from": self.range, "to": "now"},
            "refresh": self.refresh,
            "links": [
                {
                    "type": "dashboards",
                    "title": lab.title,
                    "tags": [lab.uid],
                    "asDropdown": True,
                    "includeVars": True,
                    "keepTime": True,
                    "targetBlank": False,
                    "icon": "external link",
                    "tooltip": "",
                    "url": "",
                }
            ],
            "templating": {"list": [_variable(one, source, query) for one in self.variables]},
            "annotations": {
                "list": [BUILT_IN, *(_annotation(one, source, query, version) for one in self.regions)]
            },
            "panels": list(_placed(self.panels, source, query)),
        }


def uid(lab: Lab, name: str) -> str:
    """Return a dashboard's uid, by which it is found again."""
    return f"{lab.uid}-{name}"


def version_numbers(text: str) -> tuple[int, ...]:
    """Return the version that Grafana reports as numbers, such as (11, 3, 1)."""
    return tuple(map(int, re.findall(r"\d+", text)[:3]))


def _placed(
    panels: Sequence[Panel], source: dict[str, str], query: Callable[[str], str]
) -> list[dict[str, Any]]:
    """Return panels' JSON from left to right and downwards, none over another."""
    placed, x, y, height = [], 0, 0, 0
    for number, panel in enumerate(panels, 1):
        if x + panel.width > COLUMNS:
            x, y, height = 0, y + height, 0
        placed.append(panel.as_json(number, x, y, source, query))
        x, height = x + panel.width, max(height, panel.height)
    return placed


def _variable(one: Variable, source: dict[str, str], query: Callable[[str], str]) -> dict[str, Any]:
    return {
        "name": one.name,
        "label": one.name,
        "type": "query",
        "datasource": source,
        "query": query(one.query),
        "definition": query(one.query),
        "refresh": 2,  # whenever the time range changes
        "sort": 1 if one.many else 2,  # by the alphabet; campaigns, whose names end in their date, back
        "multi": one.many,
        "includeAll": one.many,
        **({"allValue": ".*", "current": {"text": ["All"], "value": ["$__all"]}} if one.many else {}),
        "regex": "",
        "hide": 0,
        "skipUrlSync": False,
        "options": [],
    }


def _annotation(
    one: Regions, source: dict[str, str], query: Callable[[str], str], version: Sequence[int]
) -> dict[str, Any]:
    # Since its server asks InfluxDB for annotations (10.2), Grafana puts the measurement's name
    # before that of a column, and finds the column of the end by its whole name.
    end = one.end if version and tuple(version) < (10, 2) else f"{one.measurement}.{one.end}"
    asked = {
        "query": query(one.query),
        "textColumn": one.text,
        "tagsColumn": ",".join(one.tags),
        "timeEndColumn": end,
    }
    return {
        "name": one.name,
        "datasource": source,
        "enable": True,
        "hide": False,
        "iconColor": PHASE_COLOURS[one.name],
        **asked,  # where Grafana had them first, and some of 9 looks
        "target": {
            **asked,
            "name": one.name,
            "refId": "Anno",
            "queryType": "tags",
            "fromAnnotations": True,
            "rawQuery": True,
        },
    }
