# SPDX-License-Identifier: GPL-3.0-or-later
"""A journal's events as sentences."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from joulerig.analysis.results.schema import Asked, EventKind
from joulerig.plural import counted
from joulerig.rig.dashboard.notifications import happenings


def describe(event: str, detail: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    """Return a sentence without its subject, which is the run (`cell`, `host`) or the campaign.

    Where an older journal's detail lacks what a sentence needs, the detail itself.
    """
    try:
        said = _no_happening(event, detail, run)
        if said is None:
            found = happenings.describe(event, detail, run)
            said = found[1] if found else None
    except (KeyError, TypeError, ValueError):
        said = None
    return said or f"{event}: {json.dumps(detail, sort_keys=True)}"


def _no_happening(event: str, detail: Mapping[str, Any], run: Mapping[str, Any]) -> str | None:
    """Return the words of an event that is no happening; None where it is one, or is unknown."""
    of = f"{run.get('cell')} on {run.get('host')}"
    match event:
        case EventKind.CREATED:
            return f"is planned with {counted(detail['runs'], 'run')}"
        case EventKind.STATUS if not happenings.is_failure(detail):
            return f"{of}: {detail['from']}, then {detail['to']}{_with_reason(detail)}"
        case EventKind.ASKED if detail["to"] not in (Asked.PAUSE, Asked.STOP):
            return f"is asked to {detail['to']}{_asked_by(detail)}"
        case EventKind.ASKED if "by" in detail:
            return f"is asked to {detail['to']} after what runs now{_asked_by(detail)}"
        case EventKind.RESUMED:
            return f"{of} is planned again, was {detail['was']}{_asked_by(detail)}"
        case EventKind.MOVED:
            return f"{run.get('cell')} moves from {detail['from']} to {detail['to']}"
        case EventKind.POWER_CYCLED:
            away = f", away for {detail['away_seconds']:.0f} s" if "away_seconds" in detail else ""
            return f"the power of {detail['host']} is cut and restored{away}"
        case EventKind.HOLD if not detail["why"]:
            return f"{run.get('host')} waits no longer for {detail['condition']}"
        case EventKind.LOOK:
            out = [f"{one['cell']} {one['reason']}" for one in detail["dropped"]]
            return f"{detail['race']}, look {detail['look']}: {'; '.join([*out, detail['verdict']])}"
        case EventKind.SETTLED:
            return f"{run.get('cell')}: {detail['from']}, settled as {detail['to']}{_with_reason(detail)}"
        case EventKind.PRECONDITIONING:
            why = detail.get("reason") or detail.get("why")
            return f"the drive of {run.get('cell')}: precondition {detail['precondition']}" + (
                f": {why}" if why else ""
            )
    return None


def _with_reason(detail: Mapping[str, Any]) -> str:
    return f": {detail['reason']}" if detail.get("reason") else ""


def _asked_by(detail: Mapping[str, Any]) -> str:
    return f", by {detail['by']}" if detail.get("by") else ""
