# SPDX-License-Identifier: GPL-3.0-or-later
"""What drives report of their own power, judged by their rails, in the report."""

from __future__ import annotations

from joulerig.analysis.audit.verdict import DriveAudit
from joulerig.analysis.report.analysed import Analysed
from joulerig.analysis.report.chapter import Chapter


def content(analysed: Analysed) -> list[DriveAudit] | None:
    """Return the audits; None where no drive was asked, or none reports its power."""
    return [one for one in analysed.audits if one.reports] or None


AUDIT = Chapter("audit", "What the drives report of their own power", content)
