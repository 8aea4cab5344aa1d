# SPDX-License-Identifier: GPL-3.0-or-later
"""The chapters on the joules themselves: true joules, lost samples, intervals, idle baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from joulerig import text
from joulerig.analysis.drawing import Svg
from joulerig.analysis.energy import meters, uncertainty
from joulerig.analysis.energy.interval import EnergyBudget
from joulerig.analysis.report import figures
from joulerig.analysis.report.analysed import Analysed
from joulerig.analysis.report.chapter import Chapter
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import PhaseName, RailEnergy
from joulerig.analysis.runs import idle_baseline as idle
from joulerig.analysis.runs import loss_ledger, pace
from joulerig.analysis.runs.pace import Pace

_MOST_ERROR_PERCENT = 1
_GAPS = {"gap_low": "gap_low_joules", "gap_high": "gap_high_joules"}


@dataclass(frozen=True)
class Truth:
    """Measured against true joules.

    `worst_error`: percent, of the run `worst`. `pace`: what set the pace of the loads.
    """

    figure: Svg
    count: int
    worst: Run
    worst_error: float
    mean: float
    within: int
    bounded: int
    inside: int
    outside: str
    pace: Pace | None


@dataclass(frozen=True)
class TrueJoules:
    """`truth`: None where no run has both measured and true joules."""

    truth: Truth | None


@dataclass(frozen=True)
class Losses:
    """The ledgers of samples: by meter, and by rail."""

    meters: list[loss_ledger.Ledger]
    rails: list[loss_ledger.Ledger]


@dataclass(frozen=True)
class RailInterval:
    """What the intervals of one rail's workload phases are made of.

    `budget` is in watts, at mean power.
    """

    drive: str
    meter: str
    rail: str
    runs: int
    watts: float | None
    low: float | None
    high: float | None
    shares: dict[str, float]
    budget: uncertainty.MeterBudget
    expired: bool


@dataclass(frozen=True)
class Intervals:
    """The intervals of the workload phases' energy, by rail."""

    rails: list[RailInterval]


@dataclass(frozen=True)
class IdleBaseline:
    """Each rail's power at rest, and whether it rests on a calibration past its date."""

    rails: list[tuple[idle.Baseline, bool]]


def true_joules(analysed: Analysed) -> TrueJoules | None:
    """Return how far measured joules are off the true ones.

    None on a bench, where these are unknown.
    """
    campaign = analysed.campaign
    return TrueJoules(_truth(campaign)) if campaign.virtual else None


def _truth(campaign: Campaign) -> Truth | None:
    found = [
        (run, run.result, run.result.error_percent)
        for run in campaign.runs
        if run.result and run.result.error_percent is not None
    ]
    if not found:
        return None
    worst, _, worst_error = max(found, key=lambda one: abs(one[2]))
    return Truth(
        figure=figures.measured_against_true([run for run, *_ in found], virtual=campaign.virtual),
        count=len(found),
        worst=worst,
        worst_error=worst_error,
        mean=sum(error for *_, error in found) / len(found),
        within=sum(abs(error) <= _MOST_ERROR_PERCENT for *_, error in found),
        bounded=sum(result.truth_within is not None for _, result, _ in found),
        inside=sum(result.truth_within is True for _, result, _ in found),
        outside=text.ranges([run.ordinal for run, result, _ in found if result.truth_within is False]),
        pace=pace.of_campaign(campaign),
    )


def losses(analysed: Analysed) -> Losses:
    """Return the ledgers of samples of the whole campaign."""
    return Losses(loss_ledger.meter_ledgers(analysed.campaign), loss_ledger.rail_ledgers(analysed.campaign))


def intervals(analysed: Analysed) -> Intervals:
    """Return the intervals by rail, over the workload phases whose joules have a low and a high."""
    campaign = analysed.campaign
    found: dict[tuple[str, str, str], list[tuple[Run, RailEnergy]]] = {}
    for run in campaign.runs:
        for rail in run.energy:
            if (
                rail.phase == PhaseName.WORKLOAD
                and rail.joules_low is not None
                and PhaseName.WORKLOAD in run.phases
            ):
                found.setdefault((rail.drive, rail.meter, rail.rail), []).append((run, rail))
    return Intervals([_interval(campaign, key, found[key]) for key in sorted(found)])


def _interval(
    campaign: Campaign, key: tuple[str, str, str], measured: Sequence[tuple[Run, RailEnergy]]
) -> RailInterval:
    drive, meter, rail = key
    seconds = sum(run.phases[PhaseName.WORKLOAD].seconds for run, _ in measured)

    def mean(name: str) -> float | None:
        values = [getattr(energy, name) for _, energy in measured]
        return None if None in values or seconds <= 0 else sum(values) / seconds

    parts = {
        field.name: mean(_GAPS.get(field.name, f"{field.name}_joules")) for field in fields(EnergyBudget)
    }
    last = max(run.phases[PhaseName.WORKLOAD].start_ns for run, _ in measured)
    return RailInterval(
        drive,
        meter,
        rail,
        runs=len(measured),
        watts=mean("joules"),
        low=mean("joules_low"),
        high=mean("joules_high"),
        shares=EnergyBudget(**parts).shares(),
        budget=meters.budget(
            campaign.lab,
            campaign.provenance,
            host=measured[0][0].host,
            drive=drive,
            rail=rail,
            meter=meter,
            joules=mean("joules"),
            seconds=1.0,
            volt_seconds=mean("volt_seconds"),
            amp_seconds=mean("amp_seconds"),
            at_ns=last,
        ),
        expired=meters.expired(campaign.provenance, meter, last),
    )


def idle_baseline(analysed: Analysed) -> IdleBaseline:
    """Return the power of each rail at rest."""
    campaign = analysed.campaign
    return IdleBaseline(
        [
            (row, row.watts is not None and meters.expired(campaign.provenance, row.meter, row.last_ns))
            for row in idle.rail_baselines(campaign, analysed.idles)
        ]
    )


TRUE_JOULES = Chapter("true_joules", "Measured against true joules", true_joules)
LOSSES = Chapter("losses", "What was lost", losses)
INTERVALS = Chapter("intervals", "How sure the joules are", intervals)
IDLE_BASELINE = Chapter("idle_baseline", "Idle baseline", idle_baseline)
