# SPDX-License-Identifier: GPL-3.0-or-later
"""How late a power tap's samples are, and whether volts and amps are of one moment.

A resistor on a rail, which the tap switches on at an instant that lies between a command and its
reply: volts and amps rise at once. When they rise in the samples, by the clock that powerd gives
them, less that instant is how late the samples are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from joulerig.analysis.energy.meters import LATENCY_NS
from joulerig.plural import counted
from joulerig.rig.common.errors import Strict, UserError
from joulerig.rig.common.numbers import NonNegativeFloat, PositiveInt, Real
from joulerig.rig.lab.meters import source, tap
from joulerig.rig.lab.model import Lab, Rail

OFF_SECONDS, ON_SECONDS, SETTLE_SECONDS = 0.2, 0.2, 0.5
RISEN = 0.05
"""Of the level that a rail rises to: above it, it has begun to."""
LARGEST_SKEW_SAMPLES = 0.5


class Lateness(Strict):
    """When samples show a step. Seconds.

    `late`: by the median of `steps`; `reach`: how far that can be off, as a step lies anywhere
    between its command and the reply. `allowed`: what the energy's bounds allow for. `skew`: how
    much later the amps rise than the volts. `sample`: the time between two samples.
    """

    steps: PositiveInt
    late: Real
    reach: NonNegativeFloat
    allowed: NonNegativeFloat
    skew: Real
    sample: NonNegativeFloat

    @property
    def is_late(self) -> bool:
        """Return whether the samples are later than what the bounds allow for."""
        return self.late - self.reach > self.allowed + self.sample

    @property
    def is_skewed(self) -> bool:
        """Return whether volts and amps are of different samples."""
        return abs(self.skew) > LARGEST_SKEW_SAMPLES * self.sample

    @property
    def faults(self) -> list[str]:
        """Describe what is wrong; empty where nothing is."""
        found = []
        if self.is_late:
            found.append(
                f"samples are {1e3 * self.late:.1f} ms late (± {1e3 * self.reach:.1f} ms), and the energy's"
                f" bounds allow for {1e3 * self.allowed:g} ms: declare latency_seconds"
            )
        if self.is_skewed:
            found.append(
                f"amps are {1e3 * abs(self.skew):.1f} ms {'later' if self.skew > 0 else 'earlier'} than volts"
            )
        return found


@dataclass(frozen=True)
class Step:
    """A rail was switched on between two instants of CLOCK_MONOTONIC, in ns."""

    from_ns: int
    to_ns: int


def take(lab: Lab, rail: Rail, steps: int) -> Lateness:
    """Switch a rail off and on `steps` times and find the rises in its samples.

    Raises UserError where the meter is no power tap, volts and amps are not its channels, or its
    samples do not rise.
    """
    meter = lab.controller.meters[rail.meter]
    if meter.timing != "stream" or not (rail.volts and rail.amps):
        raise UserError(f"meter {rail.meter}: only volts and amps that are streamed have a time to check")
    channels = [rail.volts, rail.amps]
    done: list[Step] = []
    failed: list[UserError] = []

    def switch() -> None:
        try:
            with tap.control(lab, rail.meter) as (port, first):
                time.sleep(SETTLE_SECONDS)
                for _ in range(steps):
                    _set(port, tap.rail_number(first, rail), on=False)
                    time.sleep(OFF_SECONDS)
                    done.append(_set(port, tap.rail_number(first, rail), on=True))
                    time.sleep(ON_SECONDS)
                time.sleep(SETTLE_SECONDS)
        except UserError as error:
            failed.append(error)

    parts: dict[str, list[NDArray[np.float64]]] = {channel: [] for channel in channels}
    arrivals: list[tuple[int, int]] = []  # ns, samples until then
    switching = threading.Thread(target=switch)
    with source.Reading(lab, rail.meter, channels) as reading:
        for block in reading.blocks():
            if not arrivals:
                switching.start()
            parts[block.channel].append(block.samples)
            if block.channel == channels[0]:
                arrivals.append((block.monotonic_ns, sum(map(len, parts[block.channel]))))
            if arrivals and not switching.is_alive():
                break
    switching.join()
    if failed:
        raise failed[0]
    assert meter.sample_rate_hz
    sample = 1 / meter.sample_rate_hz
    volts, amps = (np.concatenate(parts[channel]) for channel in channels)
    begin_ns = first_sample_ns(arrivals, sample)
    latency = meter.latency_seconds
    return judged(
        done,
        *(rises(values, done, begin_ns, sample) for values in (volts, amps)),
        sample=sample,
        allowed=LATENCY_NS * 1e-9 if latency is None else latency,
    )


def first_sample_ns(arrivals: Sequence[tuple[int, int]], sample: float) -> float:
    """Return when a stream's first sample began, by the earliest of its arrivals, as powerd does.

    `arrivals`: ns, and how many samples had come by then; `sample`: seconds between two.
    """
    return min(at - samples * sample * 1e9 for at, samples in arrivals)


def rises(
    values: NDArray[np.float64], steps: Sequence[Step], begin_ns: float, sample: float
) -> list[float | None]:
    """Return when `values` (n,) rise after each step, ns of CLOCK_MONOTONIC; None: they do not.

    A sample is the mean over its period: of the first that has risen, the height is how much of the
    period was after the rise.
    """
    found: list[float | None] = []
    for number, step in enumerate(steps):
        # A sample may be early by what its time is off: the rise is looked for from within the
        # time for which the rail was off.
        first = max(0, int((step.from_ns - OFF_SECONDS / 2 * 1e9 - begin_ns) / (sample * 1e9)))
        until = steps[number + 1].from_ns - OFF_SECONDS * 1e9 if number + 1 < len(steps) else None
        last = len(values) if until is None else int((until - begin_ns) / (sample * 1e9))
        stretch = values[first:last]
        level = float(np.median(stretch[len(stretch) // 2 :])) if len(stretch) > 2 else 0.0
        risen = np.flatnonzero(stretch > RISEN * level)
        if not (level > 0 and len(risen)) or risen[0] == 0:
            found.append(None)
            continue
        index = int(risen[0])
        fraction = min(1.0, float(stretch[index]) / level)
        found.append(begin_ns + (first + index + 1 - fraction) * sample * 1e9)
    return found


def judged(
    steps: Sequence[Step],
    volts: Sequence[float | None],
    amps: Sequence[float | None],
    *,
    sample: float,
    allowed: float,
) -> Lateness:
    """Return how late rises are. Raises UserError where fewer than half of the steps show."""
    both = [
        (step, rise, other)
        for step, rise, other in zip(steps, volts, amps, strict=True)
        if rise is not None and other is not None
    ]
    if not both or len(both) < len(steps) / 2:
        raise UserError(
            f"{len(steps) - len(both)} of {counted(len(steps), 'step')} of the rail not seen in its samples"
        )
    # A command that the controller's load delayed says little of when the rail was switched.
    quick = sorted(both, key=lambda one: one[0].to_ns - one[0].from_ns)[: max(1, len(both) // 2)]
    return Lateness(
        steps=len(both),
        late=float(np.median([rise - (step.from_ns + step.to_ns) / 2 for step, rise, _ in quick])) * 1e-9,
        reach=max(step.to_ns - step.from_ns for step, _, _ in quick) / 2 * 1e-9,
        allowed=allowed,
        skew=float(np.median([other - rise for _, rise, other in both])) * 1e-9,
        sample=sample,
    )


def _set(port: tap.TapPort, number: int, *, on: bool) -> Step:
    """Switch a rail; return between which instants."""
    before = time.monotonic_ns()
    reply = port.query(f"TAP:OUTP{number} {'ON' if on else 'OFF'};:TAP:OUTP{number}?")
    after = time.monotonic_ns()
    if reply != str(int(on)):
        raise UserError(f"{port.name}: rail {number} does not switch {'on' if on else 'off'}")
    return Step(before, after)
