# SPDX-License-Identifier: GPL-3.0-or-later
"""What the page gets of a campaign, put together from its journal."""

from __future__ import annotations

from collections import Counter
from typing import Any

from joulerig.analysis.results.schema import FINISHED, PhaseName, PreconditioningPhase, Status
from joulerig.rig.dashboard.campaign import ai_table, eta
from joulerig.rig.dashboard.campaign.journal import array_members

RUN_FIELDS = (
    "id",
    "ordinal",
    "host",
    "drive",
    "filesystem",
    "scheduler",
    "workload",
    "replicate",
    "status",
    "reason",
    "started_ns",
    "ended_ns",
)


def campaign(journal: dict[str, Any], now_ns: int) -> dict[str, Any]:
    """Return the campaign message from `Journal.read`, with absolute times."""
    row, runs, results = journal["campaign"], journal["runs"], journal["results"]
    counts = Counter(run["status"] for run in runs)
    left = eta.remaining_seconds(runs, now_ns, journal["settlings"], side_by_side=bool(row["side_by_side"]))
    started = min((run["started_ns"] for run in runs if run["started_ns"]), default=None)
    return {
        "id": row["id"],
        "name": row["name"],
        "question": row["question"],
        "virtual": bool(row["virtual"]),
        "created_ns": row["created_ns"],
        "started_ns": started,
        "finished_ns": row["finished_ns"],
        "state": stands(row["finished_ns"], counts),
        "last_event_ns": journal["last_event_ns"],
        "total": len(runs),
        "done": sum(counts[status] for status in FINISHED),
        "counts": {status: counts[status] for status in (Status.RUNNING, Status.PLANNED, *FINISHED)},
        "eta_ns": None if left is None else now_ns + int(left * 1e9),
        "eta_at_most": bool(settling(journal)),
        "hosts": _hosts(row, runs, settling(journal)),
        "phases": tuple(PhaseName),
        "settling_phases": tuple(PreconditioningPhase),
        "arrays": array_members(row["lab"]),
        "runs": [
            {name: run[name] for name in RUN_FIELDS} | _journal(run) | _figures(results.get(run["id"]))
            for run in runs
        ],
        "warnings": journal["standing"].warnings,
        "table": ai_table.build(runs, results, journal["standing"]),
    }


def ended(journal: dict[str, Any]) -> dict[str, int]:
    """Return, by run, when it ended, of the runs that are over."""
    return {
        run["id"]: run["ended_ns"]
        for run in journal["runs"]
        if run["status"] in FINISHED and run["ended_ns"] is not None
    }


def settling(journal: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return, by run, its precondition (`Journal.read`), of the runs that are in it now."""
    return {
        run["id"]: journal["settlings"][run["id"]]
        for run in journal["runs"]
        if run["status"] == Status.RUNNING and eta.is_settling(run, journal["settlings"])
    }


def stands(finished_ns: int | None, counts: Counter[str]) -> str:
    """Return how far a campaign is, by when it was over and how many runs have each status."""
    if finished_ns is not None:
        return "finished"
    if counts[Status.RUNNING]:
        return str(Status.RUNNING)
    if counts[Status.PLANNED] and any(counts[status] for status in FINISHED):
        return "between runs"
    return str(Status.PLANNED) if counts[Status.PLANNED] else "finishing"


def _hosts(
    row: dict[str, Any], runs: list[dict[str, Any]], settling: dict[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return what each host does; of a host whose drives go side by side, each of them."""
    found: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        of = f"{run['host']} {run['drive']}" if row["side_by_side"] else run["host"]
        found.setdefault(of, []).append(run)
    return [_host(name, mine, settling) for name, mine in sorted(found.items())]


def _host(host: str, mine: list[dict[str, Any]], settling: dict[str, dict[str, Any]]) -> dict[str, Any]:
    running = next((run for run in mine if run["status"] == Status.RUNNING), None)
    return {
        "host": host,
        "done": sum(run["status"] in FINISHED for run in mine),
        "total": len(mine),
        "run": running
        and {
            "id": running["id"],
            "ordinal": running["ordinal"],
            "cell": running["cell"],
            "replicate": running["replicate"],
            "drive": running["drive"],
            "started_ns": running["started_ns"],
            "settling": settling.get(running["id"]),
        },
    }


def _journal(run: dict[str, Any]) -> dict[str, str]:
    """Return the drive of the run's file system journal, where that is another drive."""
    journal = ai_table.factors(run).get("journal", "internal")
    return {} if journal == "internal" else {"journal": journal}


def _figures(result: dict[str, Any] | None) -> dict[str, Any]:
    if result is None:
        return {}
    return {
        "joules": result["joules"],
        "ops_per_joule": result["ai_ops_per_joule"],
        "mb_per_joule": result["ai_mb_per_joule"],
        "error_percent": result["error_percent"],
        "ops_per_second": result["ops"] / result["seconds"] if result["seconds"] > 0 else None,
    }
