# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict on a drive's report of its power."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from joulerig.analysis.audit.checks import (
    HistogramCheck,
    LifetimeCheck,
    PowerCheck,
    Stretch,
    Verdict,
    histogram_check,
    lifetime_check,
    power_checks,
)
from joulerig.analysis.audit.findings import Finding, finding
from joulerig.analysis.audit.rails import Compared
from joulerig.analysis.audit.readings import INTERVAL, SECOND


@dataclass(frozen=True)
class DriveAudit:
    """What the rails say of a drive's report.

    `finding`, `detail`: what is wrong, where the verdict is that the report is contradicted.
    `problems`: what could not be read or compared.
    """

    host: str
    drive: str
    verdict: Verdict
    finding: Finding
    detail: str
    powers: tuple[PowerCheck, ...]
    histogram: HistogramCheck
    lifetime: LifetimeCheck | None
    problems: tuple[str, ...] = ()

    @property
    def reports(self) -> bool:
        """Return whether the drive reports anything of its power."""
        return self.verdict != Verdict.NOT_REPORTED

    @property
    def sentence(self) -> str:
        """Return the verdict as a sentence without the drive's name."""
        if self.verdict == Verdict.CONTRADICTED:
            return f"contradicted: its report {self.finding} ({self.detail})"
        return {
            Verdict.HOLDS: "holds: it errs no more than it states",
            Verdict.UNDECIDED: "undecided: the runs do not settle whether it errs more than it states",
            Verdict.NOT_STATED: "reported without an error that it states",
            Verdict.NOT_REPORTED: "not reported",
        }[self.verdict]


def judge(
    host: str,
    drive: str,
    compared: Sequence[Compared],
    stretches: Sequence[Stretch],
    problems: Sequence[str] = (),
) -> DriveAudit:
    """Judge all that a drive reported.

    `compared`: its readings with the rails meanwhile. `stretches`: its lifetime energy from one
    instant to the next.
    """
    powers = power_checks(compared)
    histogram = histogram_check(compared)
    errors = [one.error_percent for one in powers if one.error_percent is not None]
    lifetime = lifetime_check(stretches, max(errors) if errors else None)
    what, detail = finding(powers, histogram, lifetime)
    return DriveAudit(
        host, drive, _overall(powers, lifetime, what), what, detail,
        tuple(powers), histogram, lifetime, tuple(problems),
    )  # fmt: skip


def _overall(powers: Sequence[PowerCheck], lifetime: LifetimeCheck | None, what: Finding) -> Verdict:
    if what != Finding.NONE:
        return Verdict.CONTRADICTED
    # A measurement settles what one second in a phase leaves open.
    quantities = {one.quantity for one in powers}
    counts = INTERVAL if INTERVAL in quantities else SECOND
    verdicts = {one.verdict for one in powers if one.quantity == counts}
    if not verdicts:
        return Verdict.NOT_REPORTED if lifetime is None else Verdict.UNDECIDED
    for worse in (Verdict.NOT_STATED, Verdict.UNDECIDED):
        if worse in verdicts:
            return worse
    return Verdict.HOLDS
