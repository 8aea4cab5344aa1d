# SPDX-License-Identifier: GPL-3.0-or-later
"""Read, judge and write results/bench/studies.json: all attempts at each study, and the verdicts.

An attempt is never replaced by another one, and the verdicts are those of all attempts together
(`joulerig.analysis.studies.attempts`). Files of before there were registrations are read as well.
What they did not record is listed in an attempt's `unknown`; such an attempt can contradict a claim
and cannot decide one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from joulerig.analysis import studies
from joulerig.analysis.studies import attempts as judging
from joulerig.analysis.studies import mtime_interval, nvmm_fs
from joulerig.analysis.studies.attempts import Attempt
from joulerig.analysis.studies.claims import Claim, Effect, Measured, Ratio, Verdict
from joulerig.analysis.studies.registration import Registration
from joulerig.rig.campaign import definition
from joulerig.rig.campaign import playbook as playbooks
from tests.support import ROOT

Entry = dict[str, Any]

# Of claims that all runs decide, not an interval: the bands that files without registrations lack.
OF_EVERY_RUN = {
    "model": mtime_interval.MODEL_BAND,
    "counted": mtime_interval.MODEL_BAND,
    "bypass": nvmm_fs.BYPASSED,
}
NOT_RECORDED = ["registration", "blocks", "cells that ran", "bytes left in the page cache"]


def registered(study: str) -> Entry:
    """Return what a study's playbook fixes of its short form, as an attempt keeps it."""
    source = ROOT / "playbooks" / f"{study}.yml"
    short = definition.short_form(playbooks.mapping(source), source.name)
    return {"registered": short["registered"], "replicates": short["replicates"]}


def measured_row(one: Measured) -> Entry:
    """Return what was measured of a claim as a row of the file."""
    effect = one.effect
    return {
        "claim": one.claim.key,
        "where": one.where,
        "expected": one.expected,
        "band": [end if math.isfinite(end) else None for end in one.band],
        "obstacle": one.obstacle,
        "note": one.note,
        "effect": effect and effect.value,
        "low": effect and effect.low,
        "high": effect and effect.high,
        "blocks": effect and effect.blocks,
        "ratios": [[list(ratio) for ratio in row] for row in effect.ratios] if effect else [],
    }


def _measured(study: str, row: Mapping[str, Any]) -> Measured:
    low, high = row["band"]
    ratios = tuple(tuple(Ratio(*one) for one in ratios) for ratios in row["ratios"])
    effect = None
    if row["effect"] is not None:
        effect = Effect(row["effect"], row["low"], row["high"], row["blocks"], ratios)
    band = (-math.inf if low is None else low, math.inf if high is None else high)
    return Measured(
        _claim(study, row["claim"]), row["where"], row["expected"], effect, band, row["obstacle"], row["note"]
    )


def _claim(study: str, key: str) -> Claim:
    return next((one for one in studies.STUDIES[study].claims if one.key == key), Claim(key, ""))


def _attempt(study: str, entry: Mapping[str, Any]) -> Attempt:
    return Attempt(
        f"{entry['campaign']} {entry['part']}",
        entry["slow_motion"],
        entry["virtual"],
        Registration.read(entry["registered"] or {}),
        [_measured(study, row) for row in entry["measured"]],
    )


def judged(study: str, entries: Iterable[Entry], fixed: Entry | None = None) -> Entry:
    """Return a study's entry of the file: its attempts by campaign, and the verdicts of them all.

    `fixed`: as of `registered`; by default what the study's playbook fixes today.
    """
    fixed = fixed or registered(study)
    mine = sorted(entries, key=lambda one: (one["campaign"] or "", one["part"]))
    verdicts = judging.judge([_attempt(study, one) for one in mine], Registration.read(fixed))
    return {
        **fixed,
        "seconds": round(sum(one["seconds"] or 0.0 for one in mine), 1),
        "claims": [_verdict_row(one) for one in verdicts],
        "problems": [problem for one in mine for problem in one["problems"]],
        "attempts": mine,
    }


def _verdict_row(one: Verdict) -> Entry:
    return {
        "claim": one.claim.key,
        "where": one.where,
        "verdict": one.verdict,
        "effect": one.effect and one.effect.value,
        "low": one.effect and one.effect.low,
        "high": one.effect and one.effect.high,
        "why": one.why,
    }


def read(path: Path) -> dict[str, list[Entry]]:
    """Return the attempts of a file, also of one without registrations, by study."""
    text = json.loads(path.read_text()) if path.exists() else {}
    return {study: _entries(study, found) for study, found in text.items()}


def _entries(study: str, found: Mapping[str, Any]) -> list[Entry]:
    if "attempts" in found:
        return list(found["attempts"])
    parts = found.get("parts") or {"": found}
    return [_unregistered(study, part, one) for part, one in parts.items()]


def _unregistered(study: str, part: str, found: Mapping[str, Any]) -> Entry:
    """Return an entry of a file without registrations as an attempt."""
    rows = found["claims"]
    slowness = {k for row in rows for k in row.get("k") or [None]}
    [slow_motion] = slowness if len(slowness) == 1 else [None]
    return {
        "campaign": found.get("campaign"),
        "part": part,
        "slow_motion": slow_motion,
        "virtual": True,
        "registered": None,
        "unknown": [*NOT_RECORDED, *(["slow motion"] if slow_motion is None else [])],
        "seconds": found["seconds"],
        "runs": found.get("runs", {}),
        "problems": found["problems"],
        "measured": [_unregistered_row(study, row) for row in rows],
    }


def _unregistered_row(study: str, row: Mapping[str, Any]) -> Entry:
    """Return a row of a file without registrations, with an interval as of two blocks.

    The number of blocks is not recorded; with two, no correction makes the interval too narrow. The
    verdict of then is not kept, its reason is.
    """
    key, value = row["claim"], row["effect"]
    effect, band = None, OF_EVERY_RUN.get(key, (1.0, math.inf))
    if value is not None and key in OF_EVERY_RUN:
        effect = Effect(value, row["low"], row["high"], 1)
    elif value is not None:
        effect = Effect.of_interval(value, row["low"], row["high"], 1 if row["low"] is None else 2)
    one = Measured(_claim(study, key), row["where"], "", effect, band)
    paced = {name: row[name] for name in ("k", "device_bound_fraction", "accelerator") if name in row}
    is_open = row["verdict"] == judging.OPEN
    return {**measured_row(one), "obstacle" if is_open else "note": row["why"], **paced}


def merged(before: Sequence[Entry], found: Sequence[Entry]) -> list[Entry]:
    """Return all attempts, each once; a campaign that was resumed is one, of all its seconds."""
    kept = {_key(one): one for one in before}
    for one in found:
        key = _key(one)
        earlier = kept.get(key) if one["campaign"] else None
        seconds = (earlier["seconds"] or 0.0) + (one["seconds"] or 0.0) if earlier else one["seconds"]
        kept[key] = {**one, "seconds": seconds and round(seconds, 1)}
    return list(kept.values())


def collected(files: Iterable[Path]) -> dict[str, list[Entry]]:
    """Return the attempts of several files, each once: of its copies, the one that knows most."""
    copies: dict[str, dict[tuple[str, ...], list[Entry]]] = {}
    for path in files:
        for study, entries in read(path).items():
            for one in entries:
                copies.setdefault(study, {}).setdefault(_key(one), []).append(one)
    return {study: [max(mine, key=_knows) for mine in by_key.values()] for study, by_key in copies.items()}


def _key(one: Entry) -> tuple[str, ...]:
    """Return what an attempt is known by: its campaign, or its part where none was opened."""
    return (one["campaign"],) if one["campaign"] else ("", one["part"])


def _knows(one: Entry) -> tuple[Any, ...]:
    known_k = sum("k" in row and row["k"] is not None for row in one["measured"])
    return one["runs"].get("ok", 0), known_k, len(one["measured"]), one["seconds"] or 0.0, json.dumps(one)


def write(path: Path, by_study: Mapping[str, Sequence[Entry]]) -> dict[str, Entry]:
    """Judge all attempts of each study, write the file, and return what is in it."""
    found = {study: judged(study, entries) for study, entries in by_study.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n")
    return found
