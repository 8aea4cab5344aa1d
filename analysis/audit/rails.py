# SPDX-License-Identifier: GPL-3.0-or-later
"""What a drive's rails took in the seconds that the drive reports.

A drive counts its own seconds, whose ends the host does not see: a measurement that the host starts
holds the first second that ends afterwards, which may have begun up to a second before. The rails'
mean power over every window that can be meant bounds what that leaves open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from joulerig.analysis.audit.readings import NS, SECOND, Reading
from joulerig.analysis.energy.interval import IntervalEnergy
from joulerig.analysis.results import run_energy
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import Phase, RailEnergy

WINDOWS = 6  # that are tried of those that can be meant
SLACK_SECONDS = 0.05  # of the drive's clock, and of when it takes a command


@dataclass(frozen=True)
class RailPower:
    """Mean power of a drive's rails together, and the limit of its error either way."""

    watts: float
    limit_watts: float


@dataclass(frozen=True)
class Compared:
    """A reading, and the rails meanwhile.

    `window_watts`: the rails' mean in each window that can be meant, the earliest first. `limit`:
    of the meters, relative.
    """

    reading: Reading
    window_watts: tuple[float, ...]
    limit: float

    @property
    def watts(self) -> float:
        return sum(self.window_watts) / len(self.window_watts)

    @property
    def ratio(self) -> float:
        return self.reading.watts / self.watts


def open_share(compared: Sequence[Compared]) -> float:
    """Return how far the ends of seconds, and a report's last digit, leave a mean ratio open.

    A drive's seconds end at the same fraction of every second, so that what their ends do to the
    mean of several runs is what one of the windows does; what it does to single runs is among their
    spread.
    """
    shares = [[watts / one.watts - 1 for watts in one.window_watts] for one in compared]
    aligned = max(abs(sum(window)) / len(compared) for window in zip(*shares, strict=True))
    digit = sum(one.reading.step_watts / (2 * one.watts) for one in compared) / len(compared)
    return float(aligned + digit)


Power = Callable[[int, int], RailPower | None]


def windows(reading: Reading) -> Iterator[tuple[int, int]]:
    """Yield (start_ns, end_ns) of the seconds that a reading can be of; none where none can be."""
    if reading.quantity == SECOND:
        first, last = 0.0, 1.0  # of the start, before `start_ns`
        starts = [
            reading.start_ns - round((first + (last - first) * n / (WINDOWS - 1)) * NS)
            for n in range(WINDOWS)
        ]
    else:
        rest = (reading.stop_ns - reading.start_ns) / NS - reading.seconds
        slack = SLACK_SECONDS + reading.instant_error_seconds
        first = max(0.0, rest) - slack
        last = min(1.0, rest + 1) + slack
        if not first <= last:
            return  # it counted more or fewer seconds than there were
        starts = [
            reading.start_ns + round((first - 1 + (last - first) * n / (WINDOWS - 1)) * NS)
            for n in range(WINDOWS)
        ]
    for start in starts:
        yield start, start + round(reading.seconds * NS)


def compare(reading: Reading, power: Power) -> Compared | None:
    """Compare a reading with the rails; None where they were not measured, or drew nothing.

    `power`: the rails' mean power between two instants, None where it is not known.
    """
    found = [power(start, end) for start, end in windows(reading)]
    known = [one for one in found if one is not None and one.watts > 0]
    if not known or len(known) < len(found):
        return None
    return Compared(
        reading,
        tuple(one.watts for one in known),
        max(one.limit_watts / one.watts for one in known),
    )


def power_of(campaign: Campaign, run: Run, drive: str, frame: pl.DataFrame) -> Power:
    """Return the mean power of a run's drive between two instants, by the run's power points."""
    rails = list(dict.fromkeys((e.drive, e.meter, e.rail) for e in run.energy if e.drive == drive))
    own = frame.filter(pl.col("drive") == drive)
    offset, error = run.clock

    def power(start_ns: int, end_ns: int) -> RailPower | None:
        window = Phase("idle", start_ns, end_ns, offset, error)
        found = run_energy.phase_energies(
            own, [window], rails, host=run.host, lab=campaign.lab, provenance=campaign.provenance
        )
        return together([energy for _, _, energy in found], (end_ns - start_ns) / NS)

    return power


def together(energies: Sequence[IntervalEnergy | RailEnergy], seconds: float) -> RailPower | None:
    """Return the mean power of rails over an interval; None where one is not known, or none is."""
    joules = limit = 0.0
    for one in energies:
        if one.joules is None or one.joules_low is None or one.joules_high is None:
            return None
        joules += (one.joules_low + one.joules_high) / 2
        limit += (one.joules_high - one.joules_low) / 2
    return RailPower(joules / seconds, limit / seconds) if energies else None
