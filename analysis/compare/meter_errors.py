# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with the energy of runs in all of them alike, for comparisons of cells.

With E the joules that a run's AI is of, an error of a rail's gain moves log E by the rail's share
of E, one of an offset by what the offset is multiplied with (JCGM 100:2008, equation 10), over E.
On a drive of one rail the gain is the same for all cells and cancels; an offset is a larger share
of fewer watts and does not. What its gaps drew is each run's own.

Not here is what differs from run to run, as the ends' instants do: the spread between runs shows
it. Nor is the limit of V x I within a sample, which two loads of one drive reach at opposite ends
only if one of them alone switches the whole current within every sample; a cell's own interval has
it.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence

from joulerig.analysis.energy import meters, uncertainty
from joulerig.analysis.energy.uncertainty import ChannelError
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import PhaseName, RailEnergy
from joulerig.analysis.statistics.differences import Systematic, SystematicRuns, mean_systematic

_NONE = Systematic()
_DAY_NS = 86_400 * 1_000_000_000


class MeterErrors:
    """The errors of a campaign's meters, as far as they are known; each channel's worked out once.

    Of a meter without a class, of gaps that nothing bounds and of a run whose volts and amps were
    not kept nothing is known: it counts as none, and the budget of the cell says so.
    """

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        self._rails: dict[tuple[Hashable, ...], list[tuple[str, Hashable, ChannelError]]] = {}
        self._runs: dict[str, Systematic] = {}

    def by_block(self, cells: Mapping[str, Sequence[Run]]) -> SystematicRuns:
        """Return what is wrong with each cell's runs, with their blocks."""
        return {cell: [(run.block, self.of_run(run)) for run in runs] for cell, runs in cells.items()}

    def of_cell(self, runs: Sequence[Run]) -> Systematic:
        """Return the mean over runs: what is wrong with their mean logarithm."""
        return mean_systematic([self.of_run(run) for run in runs])

    def of_run(self, run: Run) -> Systematic:
        """Return what can be wrong with the energy of a run's load, as fractions of it."""
        if run.id not in self._runs:
            self._runs[run.id] = self._of_run(run)
        return self._runs[run.id]

    def _of_run(self, run: Run) -> Systematic:
        energy = run.result.ai_joules if run.result else None
        load = run.phases.get(PhaseName.WORKLOAD)
        if energy is None or not energy > 0 or load is None:
            return _NONE
        own = 0.0
        common: dict[Hashable, float] = {}
        for rail in run.energy:
            if rail.phase != PhaseName.WORKLOAD or rail.joules is None:
                continue
            correction = run.gap_correction(rail)
            own += _half_range(rail, correction)
            for kind, source, error in self._errors(run, rail, load.seconds, load.start_ns):
                if (weight := _weight(kind, rail, load.seconds)) is not None:
                    moved = error.gain * (rail.joules + correction) + error.offset * weight
                    common[source] = moved / energy
        return Systematic(own / energy, common)

    def _errors(
        self, run: Run, rail: RailEnergy, seconds: float, at_ns: int
    ) -> list[tuple[str, Hashable, ChannelError]]:
        """Return the errors of a rail's channels: quantity, source, error.

        Sources are equal where the error is one and the same: within a campaign, and in two that
        rest on one calibration record.
        """
        place = (run.host, rail.drive, rail.rail, rail.meter)
        day = at_ns // _DAY_NS  # a calibration holds to the end of a day
        if (place, day, seconds) not in self._rails:
            self._rails[place, day, seconds] = self._errors_of_rail(place, seconds, at_ns)
        return self._rails[place, day, seconds]

    def _errors_of_rail(
        self, place: tuple[str, str, str, str], seconds: float, at_ns: int
    ) -> list[tuple[str, Hashable, ChannelError]]:
        lab, (host, drive, rail, meter) = self._campaign.lab, place
        record = meters.calibration(self._campaign.provenance, meter)
        state = uncertainty.calibration_state(record, at_ns)
        accuracy = meters.subtree(meters.declared(lab, meter), "accuracy")
        found: list[tuple[str, Hashable, ChannelError]] = []
        for kind, channel in meters.channels(lab, host, drive, rail).items():
            fitted = meters.subtree(record, "channels", channel) if state in ("valid", "expired") else {}
            limits = uncertainty.class_limits(accuracy, kind, seconds)
            for error in uncertainty.channel_errors(
                kind, limits, fitted or None, expired=state == "expired", at_ns=at_ns
            ):
                of = json.dumps(record, sort_keys=True) if error.calibrated else self._campaign.id
                found.append((kind, (*place, channel, error.source, of), error))
        return found


def _half_range(rail: RailEnergy, correction: float) -> float:
    """Return how far the energy of a rail can be from the corrected one for its gaps, in joules."""
    if rail.gap_low_joules is None or rail.gap_high_joules is None:
        return 0.0
    return max(rail.gap_high_joules - correction, correction - rail.gap_low_joules, 0.0)


def _weight(kind: str, rail: RailEnergy, seconds: float) -> float | None:
    """Return what an offset of a channel is multiplied with to give joules; None: not known."""
    return {
        "volts": rail.amp_seconds,
        "amps": rail.volt_seconds,
        "watts": seconds,
        "watt_hours": 1.0,
    }[kind]
