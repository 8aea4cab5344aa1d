# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with the energy of runs in all of them alike, for comparisons of cells.

With E the joules that a run's AI is of, an error of a rail's gain moves log E by the rail's share
of E, one of an offset by what the offset is multiplied with (JCGM 100:2008, equation 10), over E.
On a drive of one rail the gain is the same for all cells and cancels; an offset is a larger share
of fewer watts and does not. What its gaps drew is each run's own, and so are the meter's bends and
the steps of its readings, which are other errors at other watts. Samples that are seen to vary by
more than a step average its error out.

Not here is what differs from run to run, as the ends' instants do: the spread between runs shows
it. Nor is the limit of V x I within a sample, which two loads of one drive reach at opposite ends
only if one of them alone switches the whole current within every sample; a cell's own interval has
it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping

import numpy as np
from numpy.typing import NDArray

from joulerig.analysis.compare.cell_runs import CellRuns, Place, Rails
from joulerig.analysis.energy import meters, uncertainty
from joulerig.analysis.energy.uncertainty import ChannelError
from joulerig.analysis.results.campaign import Campaign
from joulerig.analysis.statistics.differences import Systematic, SystematicByCell, SystematicRuns

_Moment = tuple[int, int, float]  # the rail's place, a day, seconds
_DAY_NS = 86_400 * 1_000_000_000
_DITHER = (1.5, 16.0)  # steps over which the samples of a point spread by noise: of ten, three deviations


class MeterErrors:
    """The errors of a campaign's meters, as far as they are known; each channel's worked out once.

    A meter without a class counts as one without errors, and the budget of the cell says so. Gaps
    that nothing bounds can have drawn anything, and so can a class's offset on a run whose volts
    and amps were not kept: the limit of such a run is infinite.
    """

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        self._rails: dict[Hashable, list[tuple[str, Hashable, ChannelError]]] = {}
        self._wired: dict[Place, dict[str, str]] = {}

    def by_cell(self, cells: Mapping[str, CellRuns]) -> SystematicByCell:
        """Return what can be wrong with the energy of each cell's loads, by run."""
        return {cell: self.of_runs(runs) for cell, runs in cells.items()}

    def of_cell(self, runs: CellRuns) -> Systematic:
        """Return the mean over runs: what is wrong with their mean logarithm."""
        return self.of_runs(runs).mean

    def of_runs(self, runs: CellRuns) -> SystematicRuns:
        """Return what can be wrong with the energy of loads, as fractions of it."""
        has_energy = (runs.joules > 0) & ~np.isnan(runs.phase_seconds)
        energies = np.where(has_energy, runs.joules, math.inf)
        rails, seconds = runs.rails, runs.phase_seconds[runs.rails.of_run]
        measured = ~np.isnan(rails.joules)
        halves = np.where(measured, _half_ranges(rails), 0.0)
        joules = rails.joules + rails.gap_correction + rails.product_correction
        weights = _weights(rails, seconds)
        common: dict[Hashable, NDArray[np.float64]] = {}
        for moment, alike in self._alike(runs, measured & ~np.isnan(seconds)).items():
            of_runs = rails.of_run[alike]
            for kind, source, error in self._errors(runs, alike[0], moment):
                weight = weights[kind][alike]
                moved = error.gain * joules[alike] + (error.offset * weight if error.offset else 0.0)
                if error.differs:
                    limits = np.abs(moved) * (
                        _of_steps(rails, alike, moved, seconds) if error.source == uncertainty.STEPS else 1.0
                    )
                    halves[alike] += np.where(np.isnan(limits), math.inf, limits)
                    continue
                halves[alike] += np.where(np.isnan(moved), math.inf, 0.0)
                parts = common.setdefault(source, np.zeros(len(runs)))
                parts[of_runs] = np.nan_to_num(moved) / energies[of_runs]
        sums = np.bincount(rails.of_run, halves, len(runs))
        own = np.divide(sums, energies, out=np.zeros(len(runs)), where=has_energy)
        return SystematicRuns(runs.blocks, own, common)

    def _alike(self, runs: CellRuns, which: NDArray[np.bool_]) -> dict[_Moment, list[int]]:
        """Return which of the rails have the errors of their channels in common."""
        moments = self._moments(runs)
        found: dict[_Moment, list[int]] = {}
        for rail in np.flatnonzero(which).tolist():
            found.setdefault(moments[rail], []).append(rail)
        return found

    def _moments(self, runs: CellRuns) -> list[_Moment]:
        """Return what the errors of each rail's channels depend on.

        It is the day, to whose end a calibration holds, and of a register of energy the seconds, as
        its class can follow from one of power.
        """
        rails = runs.rails
        days = (runs.phase_starts // _DAY_NS)[rails.of_run]
        registers = np.array(["watt_hours" in self._channels(place) for place in rails.places], dtype=bool)
        seconds = np.where(registers[rails.of_place], runs.phase_seconds[rails.of_run], 0.0)
        return list(zip(rails.of_place.tolist(), days.tolist(), seconds.tolist(), strict=True))

    def _errors(self, runs: CellRuns, rail: int, moment: _Moment) -> list[tuple[str, Hashable, ChannelError]]:
        """Return the errors of a rail's channels: quantity, source, error.

        Sources are equal where the error is one and the same: within a campaign, and in two that
        rest on one calibration record.
        """
        key = (runs.rails.places[moment[0]], *moment[1:])
        if key not in self._rails:
            run = runs.rails.of_run[rail]
            seconds, at_ns = float(runs.phase_seconds[run]), int(runs.phase_starts[run])
            self._rails[key] = self._errors_of_rail(key[0], seconds, at_ns)
        return self._rails[key]

    def _channels(self, place: Place) -> dict[str, str]:
        if place not in self._wired:
            host, drive, rail, _ = place
            self._wired[place] = meters.channels(self._campaign.lab, host, drive, rail)
        return self._wired[place]

    def _errors_of_rail(
        self, place: Place, seconds: float, at_ns: int
    ) -> list[tuple[str, Hashable, ChannelError]]:
        record = meters.rail_calibration(self._campaign.lab, self._campaign.provenance, *place)
        state = uncertainty.calibration_state(record, at_ns)
        accuracy = meters.accuracy(self._campaign.lab, *place)
        found: list[tuple[str, Hashable, ChannelError]] = []
        for kind, channel in self._channels(place).items():
            fitted = meters.subtree(record, "channels", channel) if state in ("valid", "expired") else {}
            limits = uncertainty.class_limits(accuracy, kind, seconds)
            for error in uncertainty.channel_errors(
                kind, limits, fitted or None, expired=state == "expired", at_ns=at_ns
            ):
                of = json.dumps(record, sort_keys=True) if error.calibrated else self._campaign.id
                found.append((kind, (*place, channel, error.source, of), error))
        return found


def _half_ranges(rails: Rails) -> NDArray[np.float64]:
    """Return how far the energy of rails can be from the corrected one for its gaps, in joules.

    Infinite where nothing bounds the gaps.
    """
    ends = np.maximum(rails.gap_high - rails.gap_correction, rails.gap_correction - rails.gap_low)
    return np.where(np.isnan(ends), math.inf, np.maximum(ends, 0.0))


def _of_steps(
    rails: Rails, which: list[int], halves: NDArray[np.float64], seconds: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return how much of half a step stays in the mean of a load's samples.

    All of it, unless the samples of most points spread over steps of their own, as those of a noisy
    rail do: then it averages out as chance does (B. Widrow, I. Kollár, Quantization Noise, 2008,
    chapter 3). `halves` (which,): half a step over the whole load, in joules. A spread of many
    steps can be a load that goes to and fro between two levels, and shows nothing.
    """
    steps = 2 * np.abs(halves) / seconds[which]
    spread = rails.spread_watts[which]
    with np.errstate(invalid="ignore"):
        dithers = (spread >= _DITHER[0] * steps) & (spread <= _DITHER[1] * steps) & (rails.samples[which] > 0)
        return np.where(dithers, 1 / np.sqrt(np.maximum(rails.samples[which], 1.0)), 1.0)


def _weights(rails: Rails, seconds: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Return what an offset of a channel is multiplied with to give joules; NaN: not known."""
    return {
        "volts": rails.amp_seconds,
        "amps": rails.volt_seconds,
        "watts": seconds,
        "watt_hours": np.ones(len(seconds)),
    }
