# SPDX-License-Identifier: GPL-3.0-or-later
"""What drives report of their own power, judged by their rails, in the report."""

from __future__ import annotations

from dataclasses import dataclass

from joulerig.analysis.audit.verdict import DriveAudit
from joulerig.analysis.report.analysed import Analysed
from joulerig.analysis.report.chapter import Chapter


@dataclass(frozen=True)
class AuditContent:
    """The drives that report their power, with what their rails say of it."""

    drives: list[DriveAudit]


def content(analysed: Analysed) -> AuditContent | None:
    """Return the audits; None where no drive was asked, or none reports its power."""
    reporting = [one for one in analysed.audits if one.reports]
    return AuditContent(reporting) if reporting else None


AUDIT = Chapter("audit", "What the drives report of their own power", content)
