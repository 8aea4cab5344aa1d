# SPDX-License-Identifier: GPL-3.0-or-later
"""What follows an attempt that did not work, by its cause: another one, the next run, or an end."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from joulerig.analysis.results.schema import Cause, Name

MOST_RETRIES = 10


class Action(Name):
    """What follows an attempt that ended for a cause."""

    RETRY = "retry", "the run is attempted again at once, at most so many times"
    SKIP = "skip", "the run stays as it ended, and the next one begins"
    HOLD = "hold", "the host is set aside: its remaining runs stay planned"
    STOP = "stop", "no host begins another run; what runs is finished"


ALLOWED = f"retry N (1 to {MOST_RETRIES}), {', '.join(list(Action)[1:])}"
# What ends otherwise is known only to a later controller, or is an error of the controller's own.
DEFAULTS: Mapping[str, str] = {
    Cause.ERROR: "retry 1",
    Cause.REFUSED: "skip",
    Cause.UNABLE: "skip",
    Cause.BUSY: "retry 3",
    Cause.INTERRUPTED: "retry 1",
    Cause.BOOTED: "retry 1",
    Cause.HOST_GONE: "retry 1",
    Cause.CLOCK: "retry 1",
}
# What else uses a host needs a while to end.
PAUSE_SECONDS: Mapping[str, float] = {Cause.BUSY: 60.0}


@dataclass(frozen=True)
class Policy:
    """An action; `times`: how often a run is attempted again."""

    action: Action
    times: int = 0

    @classmethod
    def parse(cls, text: str) -> Policy:
        """Return the policy that a campaign writes. Raises ValueError."""
        retry = re.fullmatch(r"retry ([1-9]\d*)", text)
        if retry and int(retry[1]) <= MOST_RETRIES:
            return cls(Action.RETRY, int(retry[1]))
        for action in (Action.SKIP, Action.HOLD, Action.STOP):
            if text == action:
                return cls(action)
        raise ValueError(f"{text!r}; allowed: {ALLOWED}")


def complete(written: Any) -> dict[str, str]:
    """Return a policy for each cause: those that a campaign writes, else the default.

    Raises ValueError, on one line.
    """
    if not isinstance(written, dict):
        raise ValueError(f"{written!r}; allowed: a mapping of {', '.join(DEFAULTS)} to {ALLOWED}")
    for cause, text in written.items():
        if cause not in DEFAULTS:
            raise ValueError(f"unknown cause {cause!r}; allowed: {', '.join(DEFAULTS)}")
        try:
            Policy.parse(str(text))
        except ValueError as error:
            raise ValueError(f"{cause}: {error}") from None
    return {**{str(cause): text for cause, text in DEFAULTS.items()}, **written}


def shown(policies: Mapping[str, str]) -> str:
    """Return the policies for people: "retry 1: error, booted; skip: refused"."""
    causes: dict[str, list[str]] = {}
    for cause, text in policies.items():
        causes.setdefault(text, []).append(cause)
    return "; ".join(f"{text}: {', '.join(found)}" for text, found in causes.items())


@dataclass(frozen=True)
class Decision:
    """What follows an attempt; `shown`: which policy says so, for people."""

    action: Action
    shown: str = ""
    pause_seconds: float = 0.0


class Failures:
    """The policies of a campaign, and how often each run was attempted again by this process."""

    def __init__(self, policies: Mapping[str, str]) -> None:
        self._policies = {cause: Policy.parse(text) for cause, text in policies.items()}
        self._retries: Counter[tuple[str, str]] = Counter()

    def decide(self, run: str, cause: str | None) -> Decision:
        """Return what follows an attempt at a run that ended for a cause."""
        policy = self._policies.get(cause or "")
        if policy is None or cause is None:
            return Decision(Action.SKIP)
        if policy.action != Action.RETRY:
            return Decision(policy.action, f"{cause}: {policy.action}")
        if self._retries[run, cause] >= policy.times:
            return Decision(Action.SKIP, f"{cause}: retried {policy.times} of {policy.times} times")
        self._retries[run, cause] += 1
        number = f"{self._retries[run, cause]} of {policy.times}"
        return Decision(Action.RETRY, f"{cause}: retry {number}", PAUSE_SECONDS.get(cause, 0.0))
