# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold, end, resume and complete campaigns: for the command line, and for a page's buttons."""

from __future__ import annotations

from collections.abc import Sequence

from joulerig.analysis.results.schema import Asked
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common.errors import UserError

PAUSED, GOES_ON, STOPS = "is paused after what runs now", "goes on", "stops after what runs now"


def pause(journal: Journal, by: str = "") -> str:
    """Begin no run until `go_on`; return what there is to say. `by`: who asks.

    Raises UserError where no process executes the campaign.
    """
    _raise_unless_executed(journal)
    journal.ask(Asked.PAUSE, by)
    return PAUSED


def go_on(journal: Journal, by: str = "") -> str:
    """Take back a pause or a stop that is not over; as `pause`."""
    _raise_unless_executed(journal)
    journal.ask(None, by)
    return GOES_ON


def stop(journal: Journal, by: str = "") -> str:
    """End the campaign after what runs now; as `pause`. `ending.end` ends it at once."""
    _raise_unless_executed(journal)
    journal.ask(Asked.STOP, by)
    return STOPS


def retry(
    journal: Journal, status: str = "", cause: str = "", runs: Sequence[str] = (), by: str = "rig retry"
) -> list[str]:
    """Plan runs again that a policy allows (`policies.retry.choose`); return their ids.

    Raises UserError.
    """
    from joulerig.rig.campaign import opening
    from joulerig.rig.campaign.policies import retry as policy

    chosen = policy.choose(journal, status, cause, runs)
    opening.retry(journal, chosen, by)
    return chosen


def _raise_unless_executed(journal: Journal) -> None:
    if journal.executor is None:
        silent = journal.obstacle()
        way_on = silent or f"is not being executed; '{journal.resumption}' goes on with it"
        raise UserError(f"{journal.folder.name}: {way_on}")
