# SPDX-License-Identifier: GPL-3.0-or-later
"""What a check found: how bad it is, what it is about, and what mends it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from joulerig.plural import counted


class Severity(StrEnum):
    """`error`: a campaign fails, or its result is wrong; `warning`: it could be better."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Finding:
    """A finding of `check`.

    `subject`: a file with its line, a host, a drive, a meter. `key`: of the inventory, or empty.
    `text`: what was found, and what is allowed. `remedy`: a command, or what to change where.
    """

    severity: Severity
    check: str
    subject: str
    text: str
    remedy: str
    key: str = ""

    @property
    def found(self) -> str:
        """Return the key and what was found there."""
        return f"{self.key}: {self.text}" if self.key else self.text

    @property
    def line(self) -> str:
        """Return all of it on one line."""
        return f"{self.severity}: {self.subject}: {self.found}; {self.remedy}"


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings by severity, those of one severity in their order."""
    order = list(Severity)
    return sorted(findings, key=lambda one: order.index(one.severity))


def summary(findings: Iterable[Finding]) -> str:
    """Return how many findings there are of each severity."""
    severities = [one.severity for one in findings]
    found = [counted(number, name) for name in Severity if (number := severities.count(name))]
    return ", ".join(found) or "nothing found"
