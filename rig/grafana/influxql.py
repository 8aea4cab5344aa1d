# SPDX-License-Identifier: GPL-3.0-or-later
"""Build a panel's InfluxQL from the declared measurements: a name that is not declared is refused.

In an expression, `{watts}` stands for field or tag `watts`, and `{/class_NAME_p99_seconds/}` for
that field of every class of operations. Grafana replaces what begins with `$`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from joulerig.analysis.results.influxdb.client import quote_identifier
from joulerig.analysis.results.influxdb.schema import MEASUREMENTS, Measurement, Writer

INTERVAL = "time($__interval)"
INTERVAL_SECONDS = "($__interval_ms / 1000)"


class _Names(dict[str, str]):
    """The names of a measurement as InfluxQL has them, by what stands for them."""

    def __init__(self, measurement: Measurement) -> None:
        fields = {field.name: field.pattern for field in measurement.fields}
        names = [*measurement.tags, *(name for name in fields if "NAME" not in name)]
        super().__init__({name: quote_identifier(name) for name in names})
        self.update({f"/{name}/": f"/^{pattern}$/" for name, pattern in fields.items() if "NAME" in name})
        self._measurement = measurement.name

    def __missing__(self, name: str) -> str:
        raise KeyError(f"{self._measurement} has no {name!r}: allowed: {', '.join(self)}")


@dataclass(frozen=True)
class Queries:
    """Queries of a dashboard, all of them limited by its variables, each named as a tag.

    `campaign` also limits what has a tag `run` alone, as a run's id begins with its campaign's.
    """

    variables: tuple[str, ...] = ()

    def over_time(
        self,
        measurement: Measurement,
        what: str,
        by: Sequence[str],
        *,
        within: str | None = None,
        within_by: Sequence[str] = (),
    ) -> str:
        """Return a query of one series per combination of tags `by`, a point an interval.

        `within`: an expression by `by` and `within_by`, of which `what` is then made, by its alias.
        """
        names = _Names(measurement)
        where = self.where(measurement)
        group = self._group(names, by)
        if within is None:
            return self._select(names, what, quote_identifier(measurement.name), where, group)
        inner_group = self._group(names, [*by, *within_by])
        inner = self._select(names, within, quote_identifier(measurement.name), where, inner_group)
        return f"SELECT {what} FROM ({inner}) WHERE $timeFilter {group}"

    def rate(self, measurement: Measurement, counter: str, by: Sequence[str]) -> str:
        """Return a query of by how much a counter rises a second; nothing where it restarts."""
        return self.over_time(measurement, f"non_negative_derivative(max({{{counter}}}), 1s)", by)

    def of_range(
        self,
        measurement: Measurement,
        what: str,
        by: Sequence[str],
        *,
        within: str | None = None,
    ) -> str:
        """Return a query of one value, or row, per combination of tags `by`, of the range shown.

        `within`: an expression of each interval, of which `what` is then made, by its alias.
        """
        names = _Names(measurement)
        where = self.where(measurement)
        group = f"GROUP BY {', '.join(names[tag] for tag in by)}"
        if within is None:
            return (
                f"SELECT {what.format_map(names)} FROM {quote_identifier(measurement.name)} {where} {group}"
            )
        inner_group = self._group(names, by)
        inner = self._select(names, within, quote_identifier(measurement.name), where, inner_group)
        return f"SELECT {what} FROM ({inner}) WHERE $timeFilter {group}"

    def rows(self, measurement: Measurement, what: str, *, most: int = 0) -> str:
        """Return a query of the points themselves; the `most` newest, where that is not 0."""
        limit = f" ORDER BY time DESC LIMIT {most}" if most else ""
        select = what.format_map(_Names(measurement))
        return f"SELECT {select} FROM {quote_identifier(measurement.name)} {self.where(measurement)}{limit}"

    def where(self, measurement: Measurement) -> str:
        """Return the condition by the range shown and the dashboard's variables."""
        names = _Names(measurement)
        conditions = ["$timeFilter"]
        for variable in self.variables:
            if variable in measurement.tags:
                conditions.append(f"{names[variable]} =~ /^${{{variable}:regex}}$/")
            elif variable == "campaign" and "run" in measurement.tags:
                conditions.append(f"{names['run']} =~ /^${{{variable}:regex}}-[0-9]+$/")
        return f"WHERE {' AND '.join(conditions)}"

    @staticmethod
    def _select(names: _Names, what: str, source: str, where: str, group: str) -> str:
        return f"SELECT {what.format_map(names)} FROM {source} {where} {group}"

    @staticmethod
    def _group(names: _Names, by: Sequence[str]) -> str:
        return f"GROUP BY {', '.join([INTERVAL, *(names[tag] for tag in by)])} fill(none)"


def tag_values(tag: str, measurement: Measurement) -> str:
    """Return the query of a variable: the values of a tag. InfluxDB looks in one database only."""
    source = quote_identifier(measurement.name)
    return f"SHOW TAG VALUES FROM {source} WITH KEY = {_Names(measurement)[tag]}"


def in_databases(query: str, base: str, hosts: Sequence[str]) -> str:
    """Return a query of this module with the databases of a lab that its measurement is in.

    >>> in_databases('SELECT "ops" FROM "workload"', "lab", ["a", "b"])
    'SELECT "ops" FROM "lab_host_a".."workload", "lab_host_b".."workload"'
    >>> in_databases('SHOW TAG VALUES FROM "result" WITH KEY = "run"', "lab", [])
    'SHOW TAG VALUES ON "lab_results" FROM "result" WITH KEY = "run"'
    """
    show = "SHOW TAG VALUES "
    found = re.search(r'FROM "(\w+)"', query)
    assert found, query
    writer = MEASUREMENTS[found[1]].writer
    of = [writer.database(base, host) for host in hosts] if writer is Writer.HOST else [writer.database(base)]
    if query.startswith(show):
        return f"{show}ON {quote_identifier(of[0])} {query.removeprefix(show)}"
    sources = ", ".join(f"{quote_identifier(one)}..{quote_identifier(found[1])}" for one in of)
    return query.replace(found[0], f"FROM {sources}")
