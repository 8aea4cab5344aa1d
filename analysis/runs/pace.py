# SPDX-License-Identifier: GPL-3.0-or-later
"""What set the pace of loads on a virtual lab: its drives' models, or an emulated processor.

In slow motion a second of the lab lasts several of the machine's, and the emulated processor is so
much faster next to its drives.
"""

from __future__ import annotations

from dataclasses import dataclass

from joulerig.analysis.energy import meters
from joulerig.analysis.results.campaign import Campaign
from joulerig.analysis.results.schema import PhaseName


@dataclass(frozen=True)
class Pace:
    """Of a campaign's loads, the least and the greatest of each.

    `drives`: share of the load's time in which the drives' models set the pace. `slowness`: how
    many seconds of the machine a second of the lab lasted; None where it is not known.
    `as_machine`: the slowness with which a test host would have been as fast as the machine; None
    where it was not measured.
    """

    drives: tuple[float, float]
    slowness: tuple[float, float] | None
    as_machine: float | None

    @property
    def sentence(self) -> str:
        """Return it in words."""
        share = span(*(f"{100 * share:.0f}" for share in self.drives))
        text = f"the drive models set the pace for {share} % of a run's load,"
        text += " the test host's processor for the rest"
        if self.slowness is None:
            return text
        slow = span(*(f"{one:.3g}" for one in self.slowness))
        if slow != "1":
            text += f"; slow motion {slow}"
        if self.as_machine is not None and self.as_machine > self.slowness[1]:
            text += f"; with slow motion {self.as_machine:.3g} it would be as fast as the machine"
        return text


def span(least: str, most: str) -> str:
    """Return two figures as a range, or the one that both are."""
    return least if least == most else f"{least} to {most}"


def of_campaign(campaign: Campaign) -> Pace | None:
    """Return what set the pace of the runs that say so; None where none does."""
    shares = [
        run.result.device_bound_fraction
        for run in campaign.runs
        if run.result and run.result.device_bound_fraction is not None
    ]
    if not shares:
        return None
    known = [float(one["slowness"]) for one in meters.subtree(campaign.provenance, "processors").values()]
    return Pace((min(shares), max(shares)), slowness(campaign), max(known, default=None))


def slowness(campaign: Campaign) -> tuple[float, float] | None:
    """Return how many seconds of the machine a second of the loads lasted, least and greatest.

    Also of those that no drive's model can pace, as on an NVDIMM; None where none is known.
    """
    loads = [run.phases.get(PhaseName.WORKLOAD) for run in campaign.runs]
    slow = [load.slowness for load in loads if load and load.slowness is not None]
    return (min(slow), max(slow)) if slow else None
