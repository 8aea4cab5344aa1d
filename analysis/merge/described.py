# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab and the provenance of a merged campaign: of each controller what its runs rest on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from joulerig.analysis.compare import races
from joulerig.analysis.energy import meters
from joulerig.analysis.merge.choice import Taken
from joulerig.analysis.merge.source import KEY, MergeError, Source

WHERE = {"connection", "serial"}  # of a meter: which instrument, not of what kind
BY_RUN = ("calibration", "emulated", "subjects", races.KEY, KEY)


def describe(sources: Sequence[Source], taken: Sequence[Taken]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the lab and the provenance. Raises MergeError where two contradict each other."""
    hosts = _hosts(sources, taken)
    users = _users_of_meters(sources, taken)
    lab = {
        **sources[0].lab,
        "hosts": hosts,
        "controller": {
            **meters.subtree(sources[0].lab, "controller"),
            "meters": {name: meters.declared(using[0].lab, name) for name, using in users.items()},
        },
    }
    for name, using in users.items():
        for other in using[1:]:
            _compare_meters(name, using[0], other)
    provenance = _common([_controller_part(one) for one in sources])
    calibrations = {name: meters.calibration(using[0].provenance, name) for name, using in users.items()}
    if any("calibration" in one.provenance for one in sources):
        provenance["calibration"] = {name: found for name, found in calibrations.items() if found}
    provenance["emulated"] = {
        host: found
        for one in reversed(sources)
        for host, found in meters.subtree(one.provenance, "emulated").items()
    }
    provenance |= _subjects(sources) | _race(sources)
    provenance[KEY] = _parts(sources, taken)
    return lab, provenance


def _hosts(sources: Sequence[Source], taken: Sequence[Taken]) -> dict[str, Any]:
    """Return each host as the campaign described it that has its runs."""
    found: dict[str, tuple[Source, Any]] = {}
    for one in taken:
        host, its = one.run["host"], meters.subtree(one.source.lab, "hosts", one.run["host"])
        known, mine = found.setdefault(host, (one.source, its))
        if mine != its:
            raise MergeError(
                f"{one.source.folder}: host {host} is described otherwise than in {known.folder}:"
                f" {_difference(its, mine)}"
            )
    return {host: described for host, (_, described) in found.items()}


def _users_of_meters(sources: Sequence[Source], taken: Sequence[Taken]) -> dict[str, list[Source]]:
    """Return, by meter, the campaigns whose runs have energy of it; else the first that has it."""
    found: dict[str, list[Source]] = {}
    for one in taken:
        for row in one.source.of_run("energy", one.id):
            using = found.setdefault(row["meter"], [])
            if one.source not in using:
                using.append(one.source)
    for source in sources:
        for name in meters.subtree(source.lab, "controller", "meters"):
            found.setdefault(name, [source])
    return found


def _compare_meters(name: str, one: Source, other: Source) -> None:
    """Refuse a name that stands for meters of which different things are known."""
    mine, its = (
        {key: value for key, value in meters.declared(source.lab, name).items() if key not in WHERE}
        for source in (one, other)
    )
    if mine != its:
        raise MergeError(
            f"{other.folder}: meter {name} is described otherwise than in {one.folder}:"
            f" {_difference(its, mine)}"
        )
    was, now = (meters.calibration(source.provenance, name) for source in (one, other))
    if was != now:
        raise MergeError(
            f"{other.folder}: meter {name} has another calibration than in {one.folder}:"
            f" {_difference(now, was)}; runs of both rest on it, and a campaign keeps one a meter"
        )


def _difference(its: Mapping[str, Any], mine: Mapping[str, Any]) -> str:
    """Describe the first difference of two descriptions."""
    for key in sorted({*its, *mine}):
        here, there = its.get(key), mine.get(key)
        if here == there:
            continue
        if isinstance(here, Mapping) and isinstance(there, Mapping):
            return f"{key}.{_difference(here, there)}"
        return f"{key}: {here!r}, there {there!r}"
    return ""


def _controller_part(source: Source) -> dict[str, Any]:
    return {key: value for key, value in source.provenance.items() if key not in BY_RUN}


def _common(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what is the same in all of them; each one's own is in its part."""
    same: dict[str, Any] = {}
    for key, value in found[0].items():
        values = [one.get(key) for one in found]
        if all(one == value for one in values):
            same[key] = value
        elif all(isinstance(one, Mapping) for one in values):
            same[key] = _common(values)  # type: ignore[arg-type]
    return same


def _subjects(sources: Sequence[Source]) -> dict[str, Any]:
    """Return the subjects of power cuts of all of them, each once."""
    found: list[Any] = []
    for source in sources:
        found += [one for one in source.provenance.get("subjects", []) if one not in found]
    return {"subjects": found} if found else {}


def _race(sources: Sequence[Source]) -> dict[str, Any]:
    """Return the rules of the race, which are the same for all."""
    rules = [source.provenance.get(races.KEY) for source in sources]
    for source, found in zip(sources, rules, strict=True):
        if found != rules[0]:
            raise MergeError(f"{source.folder}: races by other rules than {sources[0].folder}")
    return {races.KEY: rules[0]} if rules[0] is not None else {}


def _parts(sources: Sequence[Source], taken: Sequence[Taken]) -> dict[str, Any]:
    """Return the provenance of each campaign, its hosts and runs, by a name that is there once."""
    parts: dict[str, Any] = {}
    for source in sources:
        if KEY in source.provenance:
            parts |= {_free(parts, name): part for name, part in source.provenance[KEY].items()}
            continue
        own = [one.run for one in taken if one.source is source]
        parts[_free(parts, source.name)] = {
            "hosts": list(dict.fromkeys(run["host"] for run in own)),
            "runs": len(own),
            "created_ns": source.campaign["created_ns"],
            "finished_ns": source.campaign["finished_ns"],
            "provenance": source.provenance,
        }
    return parts


def _free(parts: Mapping[str, Any], name: str) -> str:
    number = 1
    while (free := name if number == 1 else f"{name} ({number})") in parts:
        number += 1
    return free
