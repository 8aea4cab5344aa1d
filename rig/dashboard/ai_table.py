# SPDX-License-Identifier: GPL-3.0-or-later
"""The AI table: file system x I/O scheduler, for each drive and workload, as far as the runs have come."""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import fmean
from typing import Any

METRICS = {"ops": "ai_ops_per_joule", "mb": "ai_mb_per_joule"}
CELL_FACTORS = ("drive", "filesystem", "scheduler", "workload")


def build(runs: Sequence[dict[str, Any]], results: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Blocks, one a drive and workload (and level of any further factor), in the order of the plan.

    A block: drive, workload, factors, filesystems, schedulers, cells[filesystem][scheduler]. A cell: planned (runs
    in all), partial, failed, and for ops and mb, where an ok run has a value: mean, low, high, n, share (of the
    block's best mean, 0..1), mark ('best', 'tied' or ''). Only ok runs count: a partial run's meter failed. Where
    there is none but a partial run has a value, that is shown with n = 0.
    """
    blocks: dict[tuple[str, ...], dict[str, Any]] = {}
    values: dict[tuple[int, str, str], list[float]] = {}
    for run in runs:
        factors = {k: v for k, v in _factors(run).items() if k not in CELL_FACTORS}
        key = (run["drive"], run["workload"], json.dumps(factors, sort_keys=True))
        block = blocks.setdefault(
            key,
            {
                "drive": run["drive"],
                "workload": run["workload"],
                "factors": factors,
                "filesystems": [],
                "schedulers": [],
                "cells": {},
            },
        )
        filesystem, scheduler = run["filesystem"], run["scheduler"]
        if filesystem not in block["filesystems"]:
            block["filesystems"].append(filesystem)
        if scheduler not in block["schedulers"]:
            block["schedulers"].append(scheduler)
        cell = block["cells"].setdefault(filesystem, {}).setdefault(
            scheduler, {"planned": 0, "partial": 0, "failed": 0, "running": 0, "not_run": 0}
        )
        cell["planned"] += 1
        cell["partial"] += run["status"] == "partial"
        cell["failed"] += run["status"] in ("failed", "lost")
        cell["running"] += run["status"] == "running"
        cell["not_run"] += run["status"] == "not-run"
        result = results.get(run["id"])
        for metric, column in METRICS.items():
            value = result[column] if result else None
            if value is not None and run["status"] in ("ok", "partial"):
                of = values.setdefault((id(cell), metric, run["status"]), [])
                of.append(value)
    for block in blocks.values():
        block["filesystems"].sort()
        block["schedulers"].sort()
        cells = [cell for row in block["cells"].values() for cell in row.values()]
        for metric in METRICS:
            for cell in cells:
                ok = values.get((id(cell), metric, "ok"), [])
                shown = ok or values.get((id(cell), metric, "partial"), [])
                if shown:
                    cell[metric] = {"mean": fmean(shown), "low": min(shown), "high": max(shown), "n": len(ok)}
            _mark([cell[metric] for cell in cells if metric in cell])
    return list(blocks.values())


def _mark(figures: list[dict[str, Any]]) -> None:
    """Share of the best mean, and who is best; 'tied': its replicates' range meets the best's."""
    for figure in figures:
        figure.update(share=0.0, mark="")
    sound = [figure for figure in figures if figure["n"]]
    if not sound:
        return
    best = max(sound, key=lambda figure: figure["mean"])
    for figure in sound:
        figure["share"] = figure["mean"] / best["mean"] if best["mean"] > 0 else 0.0
        if figure is not best and figure["high"] >= best["low"]:
            figure["mark"] = "tied"
    best["mark"] = "best"


def _factors(run: dict[str, Any]) -> dict[str, Any]:
    try:
        factors = json.loads(run["factors"])
    except ValueError:
        return {}
    return factors if isinstance(factors, dict) else {}
