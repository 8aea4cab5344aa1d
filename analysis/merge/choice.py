# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose, for each run of the plan, the campaign that executed it; refuse what does not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from joulerig import json_text
from joulerig.analysis.compare import races
from joulerig.analysis.merge.source import MergeError, Source
from joulerig.analysis.results.schema import OF_COUNTED_ATTEMPT, EventKind, Status

# When runs are held, given up or moved says nothing about what they are.
OF_EXECUTION = {"equivalent_hosts", "hold_minutes", "holds", "on_failure", "stop"}
Slot = tuple[str, str, int]  # host as planned, cell, replicate


@dataclass(frozen=True)
class Taken:
    """A run that the merged campaign has, and the campaign that it is from."""

    source: Source
    run: Mapping[str, Any]

    @property
    def id(self) -> str:
        return str(self.run["id"])


def choose(sources: Sequence[Source]) -> list[Taken]:
    """Return the runs of the merged campaign in order. Raises MergeError."""
    for other in sources[1:]:
        _compare(sources[0], other)
    slots: dict[Slot, list[Taken]] = {}
    for source in sources:
        for run in source.rows["run"]:
            if run["status"] == Status.RUNNING:
                raise MergeError(
                    f"{source.folder}: run {run['id']} is running; wait for its end, or end it by 'rig stop'"
                )
            slot = (planned_host(source, run), run["cell"], run["replicate"])
            slots.setdefault(slot, []).append(Taken(source, run))
    taken = [_one_of(candidates) for candidates in slots.values()]
    _refuse_shared_ids(taken)
    _refuse_races_over_hosts(sources, taken)
    return _numbered(sources, taken)


def planned_host(source: Source, run: Mapping[str, Any]) -> str:
    """Return the host that a run was planned for: an equivalent one may have taken it since."""
    for event in source.of_run("event", run["id"]):
        if event["event"] == EventKind.MOVED:
            return str(json_text.parse(event["detail"])["from"])
    return str(run["host"])


def _compare(one: Source, other: Source) -> None:
    """Refuse campaigns that are defined differently. Raises MergeError."""
    if one.campaign["virtual"] != other.campaign["virtual"]:
        virtual, bench = (one, other) if one.campaign["virtual"] else (other, one)
        raise MergeError(f"{virtual.folder}: is of a virtual lab, {bench.folder} is not")
    for key in sorted({*one.definition, *other.definition} - OF_EXECUTION):
        mine, its = (source.definition.get(key) for source in (one, other))
        if mine != its:
            raise MergeError(f"{other.folder}: campaign.{key}: {its!r}; in {one.folder} it is {mine!r}")


def _one_of(candidates: Sequence[Taken]) -> Taken:
    """Return the one run of a place in the plan that was executed. Raises MergeError."""
    ended = [one for one in candidates if one.run["status"] not in (Status.PLANNED, Status.EXCLUDED)]
    for other in ended[1:]:
        if _results(ended[0]) != _results(other):
            first, second = (f"{one.id} is {one.run['status']}" for one in (ended[0], other))
            raise MergeError(
                f"{other.source.folder}: {second}, and in {ended[0].source.folder} {first}:"
                f" both executed {other.run['cell']} number {other.run['replicate']} on {other.run['host']}"
            )
    return (ended or candidates)[0]


def _results(one: Taken) -> tuple[Any, ...]:
    run = {name: value for name, value in one.run.items() if name != "ordinal"}
    return run, [one.source.of_run(table, one.id) for table in OF_COUNTED_ATTEMPT]


def _refuse_shared_ids(taken: Sequence[Taken]) -> None:
    known: dict[str, Taken] = {}
    for one in taken:
        if (other := known.setdefault(one.id, one)) is not one:
            raise MergeError(
                f"{one.source.folder}: run {one.id} is {one.run['cell']} on {one.run['host']},"
                f" in {other.source.folder} it is {other.run['cell']} on {other.run['host']}"
            )


def _refuse_races_over_hosts(sources: Sequence[Source], taken: Sequence[Taken]) -> None:
    """Refuse a race whose cells would have several runs in a block."""
    if sources[0].definition.get("order") != races.ORDER:
        return
    hosts: dict[str, set[str]] = {}
    for one in taken:
        hosts.setdefault(one.run["drive"], set()).add(planned_host(one.source, one.run))
    for drive, found in hosts.items():
        if len(found) > 1:
            raise MergeError(
                f"{sources[0].folder}: campaign.order: {races.ORDER!r}: drive {drive!r} is on"
                f" {', '.join(sorted(found))}; allowed: drives of one host each"
            )


def _numbered(sources: Sequence[Source], taken: Sequence[Taken]) -> list[Taken]:
    """Return the runs in order: each campaign's own order holds, and positions are given once."""
    places = {id(source): number for number, source in enumerate(sources)}
    ordered = sorted(taken, key=lambda one: (one.run["ordinal"], places[id(one.source)]))
    if len({one.run["ordinal"] for one in ordered}) == len(ordered):
        return ordered
    return [Taken(one.source, {**one.run, "ordinal": number}) for number, one in enumerate(ordered, start=1)]
