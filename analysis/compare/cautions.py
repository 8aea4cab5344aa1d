# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to be said before any figure of a campaign, in the report and at the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from joulerig.analysis.compare import temperature
from joulerig.analysis.compare.cells import Comparison
from joulerig.analysis.compare.more_joules import quiescent
from joulerig.analysis.compare.more_joules.quiescent import Quiescent
from joulerig.analysis.compare.temperature import Warmth
from joulerig.analysis.results.campaign import Campaign
from joulerig.analysis.runs import steadiness
from joulerig.analysis.runs import temperature as temperatures
from joulerig.analysis.runs.idle import Idle
from joulerig.analysis.runs.over_time import PowerOverTime
from joulerig.analysis.runs.steadiness import Steadiness
from joulerig.plural import counted


def cautions(
    campaign: Campaign,
    compared: Sequence[Comparison],
    quiet: Sequence[Quiescent],
    judged: Mapping[str, Steadiness],
    warmth: Sequence[Warmth],
) -> list[str]:
    """Return the cautions, a sentence without its full stop each.

    `quiet`: analysis.compare.more_joules.quiescent.compare's. `judged`:
    analysis.runs.steadiness.by_run's.
    `warmth`: analysis.compare.temperature.compare's.
    """
    return [
        *quiescent.warnings(quiet),
        *_unsteady(campaign, compared, judged),
        *temperature.warnings(warmth),
    ]


def of_campaign(
    campaign: Campaign,
    compared: Sequence[Comparison],
    over: Mapping[str, PowerOverTime],
    idles: Mapping[str, Idle],
) -> list[str]:
    """Return the `cautions` of a campaign. `over`, `idles`: power over time and at rest, by run."""
    quiet = quiescent.compare(campaign, compared, over, idles)
    warmth = temperature.compare(campaign, compared, temperatures.by_run(campaign))
    return cautions(campaign, compared, quiet, steadiness.by_run(campaign, over), warmth)


def _unsteady(
    campaign: Campaign, compared: Sequence[Comparison], judged: Mapping[str, Steadiness]
) -> Iterator[str]:
    """Say of each comparison how many of its counted runs were not steady."""
    cells = campaign.cells()
    for one in compared:
        runs = [run for cell in one.ranking.order for run in cells[cell] if run.counts or run.unmetered]
        found = [judged[run.id] for run in runs if run.id in judged]
        unsteady = [verdict for verdict in found if verdict.is_unsteady]
        if unsteady:
            by = (
                f"{sum(series in verdict.unsteady for verdict in unsteady)} by {series}"
                for series in (steadiness.OPS, steadiness.WATTS)
                if any(series in verdict.unsteady for verdict in unsteady)
            )
            yield (
                f"{one.name}: not steady while measured: {len(unsteady)} of {counted(len(runs), 'run')}"
                f" ({', '.join(by)})"
            )
