# SPDX-License-Identifier: GPL-3.0-or-later
"""AI with more joules in the report: to quiescence, and with the processors."""

from __future__ import annotations

from dataclasses import dataclass

from joulerig.analysis.compare.more_joules.quiescent import Quiescent
from joulerig.analysis.compare.more_joules.with_processor import WithProcessor
from joulerig.analysis.report.analysed import Analysed
from joulerig.analysis.report.chapter import Chapter
from joulerig.analysis.runs import quiescence as rule


@dataclass(frozen=True)
class QuiescenceContent:
    """The comparisons by AI to quiescence, and the rule of when power is back at idle."""

    comparisons: list[Quiescent]
    quiet_seconds: float = rule.QUIET_SECONDS
    deviations: float = rule.DEVIATIONS


def content(analysed: Analysed) -> QuiescenceContent | None:
    """Return the cells after their loads; None where no cell has an AI."""
    return QuiescenceContent(analysed.quiescent) if analysed.quiescent else None


QUIESCENCE = Chapter("quiescence", "After the load: AI to quiescence", content)


@dataclass(frozen=True)
class WithProcessorContent:
    """The comparisons by AI and with the processors' joules."""

    comparisons: list[WithProcessor]


def with_processor(analysed: Analysed) -> WithProcessorContent | None:
    """Return the comparisons with the processors' joules; None where no run has them."""
    return WithProcessorContent(analysed.with_processor) if analysed.with_processor else None


WITH_PROCESSOR = Chapter("with_processor", "Drives and processors together", with_processor)
