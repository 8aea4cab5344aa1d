# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the runs that a person has attempted again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from joulerig.analysis.compare import races
from joulerig.analysis.results.schema import PASSING, Attempt, Cause, Name, Status
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common.errors import UserError

RETRIABLE = (Status.FAILED, Status.REFUSED, Status.NOT_RUN, Status.LOST, Status.PARTIAL)
Known = TypeVar("Known", bound=Name)


def choose(journal: Journal, status: str = "", cause: str = "", runs: Sequence[str] = ()) -> list[str]:
    """Return the ids of the runs that have one of these statuses, ended for a cause, are named.

    `status`: of `RETRIABLE`, separated by commas; empty: any of them, of the named runs. `cause`:
    of the last attempt; empty: any. `runs`: ids or numbers; empty: all. Runs that never began,
    because a race left them out, are not among them. Raises UserError, also for a named run that
    cannot be attempted again.
    """
    if not status and not runs:
        raise UserError(f"rig retry: needs --status or runs; allowed: --status {','.join(RETRIABLE)}")
    statuses = [_known("--status", one.strip(), RETRIABLE) for one in status.split(",") if one.strip()]
    wanted = _known("--cause", cause, tuple(Cause)) if cause else None
    attempts = journal.last_attempts()
    every = journal.runs()
    named = _named(journal, every, runs)
    found = []
    for run in named or every:
        why = _refusal(run, attempts.get(run["id"]), statuses or RETRIABLE, wanted)
        if not why:
            found.append(run["id"])
        elif named:
            raise UserError(f"{run['id']}: {why}")
    if races.KEY in journal.campaign["provenance"]:
        _check_race(found, attempts)
    return found


def _known(option: str, value: str, allowed: Sequence[Known]) -> Known:
    for one in allowed:
        if one == value:
            return one
    raise UserError(f"rig retry: {option} {value!r} is unknown; allowed: {', '.join(allowed)}")


def _named(
    journal: Journal, every: Collection[Mapping[str, Any]], names: Sequence[str]
) -> list[Mapping[str, Any]]:
    """Return the runs of these ids or numbers."""
    by_name = {name: run for run in every for name in (run["id"], str(run["ordinal"]))}
    for name in names:
        if name not in by_name:
            last = max((run["id"] for run in every), default="none")
            raise UserError(f"{journal.folder.name}: no run {name!r}; allowed: an id or a number, to {last}")
    return [by_name[name] for name in dict.fromkeys(names)]


def _refusal(
    run: Mapping[str, Any], attempt: Attempt | None, statuses: Collection[str], cause: Cause | None
) -> str:
    """Say why a run is not attempted again; nothing where it is."""
    if run["status"] not in statuses:
        return f"is {run['status']}; allowed: {', '.join(statuses)}"
    if attempt is None:
        return f"never began ({run['reason']}); allowed: runs that did"
    if cause and attempt.cause != cause:
        return f"ended for another cause ({attempt.cause or 'which was not kept'}); allowed: {cause}"
    return ""


def _check_race(runs: Collection[str], attempts: Mapping[str, Attempt]) -> None:
    """Refuse runs that looks of a race have counted as they are. Raises UserError."""
    for run in runs:
        if attempts[run].cause not in PASSING:
            raise UserError(
                f"{run}: the looks of its race count it as {attempts[run].status}; allowed in a race: runs"
                f" that ended for a cause which may be over ({', '.join(PASSING)})"
            )
