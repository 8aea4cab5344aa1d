# SPDX-License-Identifier: GPL-3.0-or-later
"""Coefficients as a JSON document: `coefficients.schema.json` in this folder describes it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from joulerig import atomic
from joulerig.analysis.coefficients import estimates
from joulerig.analysis.coefficients.design import LoadRow
from joulerig.analysis.coefficients.estimates import DriveEstimates, Estimate
from joulerig.analysis.coefficients.fit import Fit
from joulerig.analysis.energy import meters
from joulerig.analysis.results.campaign import Campaign, ResultsError
from joulerig.analysis.runs import temperature

FORMAT, VERSION = "joulerig-coefficients", 1
SCHEMA = Path(__file__).with_name("coefficients.schema.json")
MODEL = (
    "watts under load = active_watts + joules_per_read_byte * bytes read a second"
    " + joules_per_written_byte * bytes written a second + joules_per_request * requests a second"
    " + joules_per_flush * flushes a second, as the block layer of the host counts them"
)


def document(campaign: Campaign) -> dict[str, Any]:
    """Return the coefficients of the campaign's drives, with what they hold for."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": MODEL,
        "confidence": 0.95,
        "provenance": {
            "campaign": campaign.id,
            "question": campaign.question,
            "measured": _date(campaign.created_ns),
            "virtual_lab": bool(campaign.virtual),
            "revision": campaign.revision,
        },
        "drives": [_drive(campaign, one) for one in estimates.of_campaign(campaign)],
    }


def as_text(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def write(path: Path, text: str) -> None:
    """Write atomically. Raises OSError."""
    atomic.write(path, text.encode())


def _date(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _drive(campaign: Campaign, found: DriveEstimates) -> dict[str, Any]:
    host, drive = found.place
    declared = meters.subtree(campaign.lab, "hosts", host, "drives", drive)
    own = _settings_of_drive(found.rows)
    return {
        "host": host,
        "drive": drive,
        "model": _text(own.get("model") or declared.get("model")),
        "firmware": _text(own.get("firmware")),
        "interface": _text(declared.get("interface")),
        "size_bytes": size if isinstance(size := declared.get("size_bytes"), int) else None,
        "coefficients": [_exported(one) for one in found.estimates if not one.withheld],
        "withheld": [_withheld(one) for one in found.estimates if one.withheld],
        "fit": None if found.fit is None else _fit(found.fit),
        "conditions": _conditions(campaign, found),
        "meters": _meters(campaign, found.rows),
        "intervals_include_meter": found.meter_known,
    }


def _exported(one: Estimate) -> dict[str, Any]:
    assert one.value is not None
    assert one.interval is not None
    return {
        "name": one.name,
        "cell": one.cell or None,
        "value": one.value,
        "low": one.interval.low,
        "high": one.interval.high,
        "unit": one.unit,
        "runs": one.runs,
        "meaning": estimates.MEANINGS[one.name],
    }


def _withheld(one: Estimate) -> dict[str, Any]:
    return {"name": one.name, "cell": one.cell or None, "reason": one.withheld}


def _fit(fit: Fit) -> dict[str, Any]:
    return {
        "rows": fit.rows,
        "loads": fit.groups,
        "condition_number": fit.condition if math.isfinite(fit.condition) else None,
        "residual_rms": fit.residual_rms,
        "rows_held_out": fit.held_out,
        "held_out_rms": fit.held_out_rms,
        "held_out_worst": fit.held_out_worst,
    }


def _conditions(campaign: Campaign, found: DriveEstimates) -> dict[str, Any]:
    runs = [row.run for row in found.rows]
    factors: dict[str, list[str]] = {}
    for run in runs:
        levels = {**run.factors, "filesystem": run.filesystem, "scheduler": run.scheduler}
        for name, level in {**levels, "workload": run.workload}.items():
            if name != "drive" and str(level) not in factors.setdefault(name, []):
                factors[name].append(str(level))
    by_run = temperature.by_run(campaign)
    warm = [by_run[run.id] for run in runs if run.id in by_run]
    celsius = [end for one in warm for end in (one.start, one.end) if end is not None]
    rates = {
        f"{name}_per_second": _range(terms)
        for name, terms in zip(
            ("read_bytes", "written_bytes", "requests", "flushes"),
            list(zip(*(row.terms for row in found.rows), strict=True))[1:],
            strict=False,
        )
    }
    return {
        "runs": len(runs),
        "runs_left_out": dict(sorted(found.left_out.items())),
        "emulated": sorted({by for run in runs for by in campaign.emulated(run).values()}),
        "factors": {name: sorted(levels) for name, levels in sorted(factors.items())},
        "kernels": sorted({_text(_settings(row).get("kernel")) for row in found.rows} - {""}),
        "watts": _range(row.watts for row in found.rows),
        "celsius": _range(celsius),
        **rates,
    }


def _range(values: Iterable[float]) -> list[float] | None:
    """Return the least and the greatest; None of nothing."""
    known = list(values)
    return [min(known), max(known)] if known else None


def _meters(campaign: Campaign, rows: Sequence[LoadRow]) -> list[dict[str, Any]]:
    last: dict[tuple[str, str], int] = {}
    for row in rows:
        for rail in row.run.energy:
            ended = row.run.ended_ns or 0
            last[rail.meter, rail.rail] = max(ended, last.get((rail.meter, rail.rail), 0))
    return [
        {
            "meter": meter,
            "rail": rail,
            "driver": _text(meters.declared(campaign.lab, meter).get("driver")),
            "vouched_by": meters.standing(campaign.lab, campaign.provenance, meter, at_ns),
        }
        for (meter, rail), at_ns in sorted(last.items())
    ]


def _settings(row: LoadRow) -> Mapping[str, Any]:
    """Return a run's settings; empty where its file is damaged, which the report names."""
    try:
        return row.run.settings
    except ResultsError:
        return {}


def _settings_of_drive(rows: Sequence[LoadRow]) -> Mapping[str, Any]:
    for row in reversed(rows):
        found = _settings(row).get("drive")
        if isinstance(found, Mapping):
            own = found.get(row.run.drive, found)
            return own if isinstance(own, Mapping) else {}
    return {}


def _text(value: Any) -> str:
    return "" if value is None else str(value)
