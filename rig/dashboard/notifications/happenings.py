# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a campaign's events is worth a notification, and in which words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from joulerig.analysis.results.schema import Asked, EventKind, Status
from joulerig.rig.lab.model import Happening as Kind

NOT_WELL = (Status.FAILED, Status.LOST, Status.PARTIAL, Status.REFUSED)


@dataclass(frozen=True)
class Happening:
    """Something that happened to a campaign, when (ns, UTC), and a sentence that says it."""

    kind: Kind
    campaign: str
    time_ns: int
    text: str
    run: str | None = None
    why: str = ""


def of_events(
    campaign: str,
    name: str,
    runs: Mapping[str, Mapping[str, Any]],
    events: Iterable[Mapping[str, Any]],
    odd: Callable[[Exception, str], None],
) -> Iterator[Happening]:
    """Yield what is worth saying of these events, in their order.

    `runs`: by id, with `cell` and `host`. An event: time_ns, run, event, detail, as in the
    journal. `odd`: is called with what is wrong with an event that is none, and its number.
    """
    for event in events:
        try:
            found = _of_event(campaign, name, runs, event)
        except Exception as error:
            odd(error, f"event {event['seq']}")
            continue
        if found is not None:
            yield found


def _of_event(
    campaign: str, name: str, runs: Mapping[str, Mapping[str, Any]], event: Mapping[str, Any]
) -> Happening | None:
    detail = json.loads(event["detail"])
    if not isinstance(detail, dict):
        raise TypeError(f"its detail is a {type(detail).__name__}, not an object")
    found = describe(event["event"], detail, runs.get(event["run"] or "", {}))
    if found is None:
        return None
    kind, said, why = found
    datetime.fromtimestamp(event["time_ns"] / 1e9, UTC)  # raises where that is no time
    return Happening(kind, campaign, event["time_ns"], _text(f"{name}: {said}"), event["run"], _text(why))


def _text(value: Any) -> str:
    """Return a text that can be sent: without halves of characters."""
    return str(value).encode(errors="replace").decode()


def describe(event: str, detail: Mapping[str, Any], run: Mapping[str, Any]) -> tuple[Kind, str, str] | None:
    """Return kind, words, and why of an event; None where it is not worth a notification."""
    match event:
        case EventKind.BEGUN:
            return "begun", f"its runs on {detail['host']} begin", ""
        case EventKind.STATUS if is_failure(detail):
            why = detail["reason"]
            return "failed", f"{run.get('cell')} on {run.get('host')} is {detail['to']}: {why}", why
        case EventKind.HOLD if detail["why"]:
            return "held", f"{run.get('host')} waits: {detail['why']}", detail["why"]
        case EventKind.SET_ASIDE:
            return "set-aside", f"{detail['host']} is set aside: {detail['why']}", detail["why"]
        case EventKind.ASKED if detail["to"] == Asked.PAUSE:
            return "paused", "is paused after what runs now", ""
        case EventKind.ASKED if detail["to"] == Asked.STOP:
            return "stopped", "stops after what runs now", ""
        case EventKind.FINISHED:
            counts = ", ".join(f"{count} {status}" for status, count in detail.items() if count)
            return "finished", f"is over: {counts}", ""
    return None


def is_failure(status: Mapping[str, Any]) -> bool:
    """Return whether a change of status is one for the worse, by its event's detail."""
    return status["to"] in NOT_WELL


def abandoned(campaign: str, name: str, why: str, time_ns: int) -> Happening:
    """Return that the process which executed a campaign is gone, and the campaign is not over."""
    text = f"{name}: no process executes it any more: {why}; 'rig run --resume' goes on with it"
    return Happening("abandoned", campaign, time_ns, text, None, why)
