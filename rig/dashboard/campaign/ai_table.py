# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the AI table: file system x I/O scheduler, per drive and workload, from the runs so far."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from joulerig.analysis.compare import cells
from joulerig.analysis.energy.indicator import ratio_of_sums, within_energy
from joulerig.analysis.results.campaign import Campaign
from joulerig.analysis.results.schema import CELL_FACTORS, Status, is_control

WORK = {"ops": "ops", "mb": "megabytes"}  # what a metric divides by joules


@dataclass(frozen=True)
class Standing:
    """What the rankings of a campaign say: a mark by metric and cell, and what cannot be tested.

    `untested`: why, by cell, of cells that are compared with others and of which none is named the
    best. `warnings`: of comparisons whose cells lost different shares of their samples.
    """

    marks: Mapping[str, Mapping[str, str]]
    untested: Mapping[str, str]
    warnings: Sequence[str]


def standing(campaign: Campaign) -> Standing:
    """Rank a campaign's cells as its report does.

    A cell's mark is "best" where it is named the winner, and "open" where it is one that may be the
    best.
    """
    marks: dict[str, dict[str, str]] = {}
    untested: dict[str, str] = {}
    warnings: list[str] = []
    for metric, work in (("ops", "ops"), ("mb", "bytes_moved")):
        marks[metric] = {}
        for (drive, workload, _), ranked in cells.rank_groups(campaign, work).items():
            found = ranked.ranking
            marks[metric] |= dict.fromkeys(found.contenders, "best" if found.winner else "open")
            if metric == "ops" and len(found.order) > 1 and (why := found.why or found.withheld):
                untested |= dict.fromkeys(found.order, why)
            if metric == "ops" and ranked.uneven_losses:
                warnings.append(f"{drive}, {workload}: {ranked.uneven_losses}")
    return Standing(marks, untested, warnings)


def build(
    runs: Sequence[dict[str, Any]], results: dict[str, dict[str, Any]], standing: Standing
) -> list[dict[str, Any]]:
    """Return blocks, one a drive and workload (and level of any further factor), in plan order.

    Runs for the control of cross-talk are in none.

    A block: drive, workload, factors, filesystems, schedulers, untested (why nothing can be
    separated, or ''), cells[filesystem][scheduler]. A cell: planned (runs in all), partial,
    failed, running, not_run, and for ops and mb, where an ok run has a value: mean (all work over
    all joules), low and high of the runs, energy_low and energy_high (of the joules' own interval,
    where the journal has one), n, share (of the block's greatest mean, 0..1), mark (`standing`, or
    ''). Only ok runs count: a partial run's meter failed. Where there is only a partial run that
    has a value, that is shown with n = 0. Where ok runs have no joules, their drives having no
    rail, unmetered: n, and ops and mb per second. There is no mb where a run's bytes are not known.
    """
    blocks: dict[tuple[str, ...], dict[str, Any]] = {}
    by_cell: dict[int, list[tuple[str, dict[str, Any]]]] = {}
    unmetered: dict[int, list[dict[str, Any]]] = {}
    names: dict[int, str] = {}
    for run in runs:
        if is_control(factors(run)):
            continue
        further = {k: v for k, v in factors(run).items() if k not in CELL_FACTORS}
        block = blocks.setdefault(
            (run["drive"], run["workload"], json.dumps(further, sort_keys=True)),
            {
                "drive": run["drive"],
                "workload": run["workload"],
                "factors": further,
                "filesystems": [],
                "schedulers": [],
                "untested": "",
                "cells": {},
            },
        )
        for factor, level in (("filesystems", run["filesystem"]), ("schedulers", run["scheduler"])):
            if level not in block[factor]:
                block[factor].append(level)
        cell = (
            block["cells"]
            .setdefault(run["filesystem"], {})
            .setdefault(
                run["scheduler"], {"planned": 0, "partial": 0, "failed": 0, "running": 0, "not_run": 0}
            )
        )
        cell["planned"] += 1
        names[id(cell)] = run["cell"]
        block["untested"] = block["untested"] or standing.untested.get(run["cell"], "")
        cell["partial"] += run["status"] == Status.PARTIAL
        cell["failed"] += run["status"] in (Status.FAILED, Status.LOST)
        cell["running"] += run["status"] == Status.RUNNING
        cell["not_run"] += run["status"] in (Status.REFUSED, Status.NOT_RUN, Status.EXCLUDED)
        result = results.get(run["id"])
        if result and result["ai_joules"] is not None and result["ai_joules"] > 0:
            by_cell.setdefault(id(cell), []).append((run["status"], result))
        elif result and result["ai_joules"] is None and run["status"] == Status.OK and result["seconds"] > 0:
            unmetered.setdefault(id(cell), []).append(result)
    for block in blocks.values():
        block["filesystems"].sort()
        block["schedulers"].sort()
        in_block = [cell for row in block["cells"].values() for cell in row.values()]
        for cell in in_block:
            if runs_without := unmetered.get(id(cell)):
                seconds = [result["seconds"] for result in runs_without]
                cell["unmetered"] = {"n": len(runs_without)} | {
                    metric: ratio_of_sums([result[work] for result in runs_without], seconds).mean
                    for metric, work in WORK.items()
                    if _known(runs_without, work)
                }
        for metric, work in WORK.items():
            for cell in in_block:
                figure = _figure(by_cell.get(id(cell), []), work)
                if figure:
                    mark = standing.marks[metric].get(names[id(cell)], "") if figure["n"] else ""
                    cell[metric] = figure | {"share": 0.0, "mark": mark}
            _share([cell[metric] for cell in in_block if metric in cell])
    return list(blocks.values())


def _figure(measured: list[tuple[str, dict[str, Any]]], work: str) -> dict[str, Any] | None:
    counting = [result for status, result in measured if status == Status.OK]
    shown = counting or [result for status, result in measured if status == Status.PARTIAL]
    if not shown or not _known(shown, work):
        return None
    ratio = ratio_of_sums([result[work] for result in shown], [result["ai_joules"] for result in shown])
    figure = {"mean": ratio.mean, "low": ratio.least, "high": ratio.greatest, "n": len(counting)}
    reach = within_energy(
        sum(result[work] for result in shown),
        *(
            None if any(result[bound] is None for result in shown) else sum(result[bound] for result in shown)
            for bound in ("joules_low", "joules_high")
        ),
    )
    return figure | ({"energy_low": reach[0], "energy_high": reach[1]} if reach else {})


def _known(results: Sequence[dict[str, Any]], work: str) -> bool:
    return all(result[work] is not None for result in results)


def _share(figures: list[dict[str, Any]]) -> None:
    """Set each figure's share of the greatest mean."""
    sound = [figure for figure in figures if figure["n"]]
    greatest = max((figure["mean"] for figure in sound), default=0.0)
    for figure in sound:
        figure["share"] = figure["mean"] / greatest if greatest > 0 else 0.0


def factors(run: dict[str, Any]) -> dict[str, Any]:
    """Return the levels of a run's factors, from its row of the journal."""
    try:
        factors = json.loads(run["factors"])
    except ValueError:
        return {}
    return factors if isinstance(factors, dict) else {}
