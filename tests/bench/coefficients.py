# SPDX-License-Identifier: GPL-3.0-or-later
"""How often a twin's own parameters lie in the intervals of its coefficients, by simulation.

Campaigns on the flash twins' power model (virtuallab/twin/power.h), of nine loads through two file
systems, through a meter whose gains and offsets are off by anything within its class, whose ends
are off, and which loses samples that are then corrected for. In `misfit` each load draws up to so
much more or less than the model has.

    python -m tests.bench.coefficients [--campaigns N] [--output FILE]

Exit code: 0 if all bars hold, 1 if not.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from joulerig.analysis.coefficients import estimates
from joulerig.analysis.coefficients.design import TERMS
from joulerig.analysis.coefficients.estimates import Estimate
from joulerig.analysis.coefficients.fit import Rows, fit
from joulerig.virtuallab import profile
from tests.support import ROOT

SEED = 27
LEAST_INSIDE = 0.90
FEWEST_TO_JUDGE = 50  # exported intervals
LEAST_EXPORTED = 0.5  # of all coefficients: intervals that are never given away prove nothing
PROFILES = ("nvme-consumer", "nvme-enterprise", "nvme-powersensor3", "sata-consumer", "sata-enterprise")
SECONDS, IDLE_SECONDS = 60.0, 20.0
# Of the meter, limits of its class: gains as fractions, offsets in volts and amps.
VOLTS_GAIN, AMPS_GAIN, VOLTS_OFFSET, AMPS_OFFSET = 0.001, 0.002, 2e-3, 2e-4
ALIGNMENT_SECONDS, LOST = 0.01, 0.002

# Share of the reading and writing bandwidth, bytes of a request, writes a flush (0: none).
LOADS = {
    "read small": (0.15, 0.0, 4096, 0),
    "read large": (0.8, 0.0, 131072, 0),
    "read paced": (0.02, 0.0, 16384, 0),
    "write small": (0.0, 0.12, 4096, 0),
    "write large": (0.0, 0.5, 131072, 0),
    "mixed": (0.1, 0.1, 16384, 0),
    "sync each": (0.0, 0.005, 8192, 1),
    "sync sixteenth": (0.0, 0.05, 4096, 16),
    "sync paced": (0.0, 0.001, 4096, 4),
}
FILESYSTEMS = {"one": 1.0, "other": 1.35}  # bytes written for each byte of the load


@dataclass(frozen=True)
class Setting:
    """A kind of campaign. `scatter`: of a run's energy; `misfit`: of a load's, in all its runs."""

    replicates: int
    scatter: float
    misfit: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.replicates} replicates, {100 * self.scatter:g} %, misfit {100 * self.misfit:g} %"


SETTINGS = tuple(
    Setting(replicates, scatter, misfit)
    for replicates in (2, 3, 5)
    for scatter, misfit in ((0.002, 0.0), (0.01, 0.0), (0.03, 0.0), (0.01, 0.02))
)


class Twin:
    """The parameters of a profile's rails, added up: one meter measures the sum."""

    def __init__(self, name: str) -> None:
        drive = profile.load(name)
        rails = drive.rails.values()
        self.volts = float(np.mean([rail.volts for rail in rails]))
        self.true = {
            "active_watts": sum(rail.idle_watts for rail in rails),
            "joules_per_read_byte": sum(rail.read_joules_per_byte for rail in rails),
            "joules_per_written_byte": sum(rail.write_joules_per_byte for rail in rails),
            "joules_per_request": sum(rail.command_joules for rail in rails),
            "joules_per_flush": sum(rail.flush_joules for rail in rails),
        }
        self.read = drive.flash.read_bytes_per_second
        self.write = drive.flash.write_bytes_per_second


def terms(twin: Twin, load: str, filesystem: str, rng: np.random.Generator) -> list[float]:
    """Draw one run's terms: what reaches the drive a second."""
    read, write, size, each = LOADS[load]
    pace = 1 + 0.05 * rng.uniform(-1, 1)
    read_bytes = read * twin.read * pace
    written = write * twin.write * pace * FILESYSTEMS[filesystem]
    flushes = write * twin.write * pace / size / each if each else 0.0
    return [1.0, read_bytes, written, (read_bytes + written) / size + flushes, flushes]


class Meter:
    """A meter's errors over a campaign, each anywhere within the limits of its class."""

    def __init__(self, volts: float, rng: np.random.Generator) -> None:
        self.volts, self.rng = volts, rng
        self.errors = {name: rng.uniform(-1, 1) for name in self.limits(1.0)}

    def limits(self, watts: float) -> dict[str, float]:
        """Return by source the most that watts can be off."""
        return {
            "volts' gain": VOLTS_GAIN * watts,
            "amps' gain": AMPS_GAIN * watts,
            "volts' offset": VOLTS_OFFSET * watts / self.volts,
            "amps' offset": AMPS_OFFSET * self.volts,
        }

    def measure(self, watts: float, seconds: float) -> float:
        """Return what is measured of watts that go on for so long."""
        off = sum(self.errors[name] * limit for name, limit in self.limits(watts).items())
        ends = watts * self.rng.uniform(-1, 1) * ALIGNMENT_SECONDS / seconds
        lost = watts * LOST * self.rng.uniform(0, 1) * self.rng.normal(0, 0.2)  # after the correction
        return watts + off + ends + lost


def simulate(twin: Twin, setting: Setting, rng: np.random.Generator) -> Iterator[tuple[Estimate, float]]:
    """Yield the estimates of one campaign, each with the twin's own parameter."""
    meter = Meter(twin.volts, rng)
    true = np.array([twin.true[name] for name in TERMS])
    found, watts, groups, idle, durable = [], [], [], [], defaultdict(list)
    truth: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for load in LOADS:
        for filesystem in FILESYSTEMS:
            off = 1 + setting.misfit * rng.uniform(-1, 1)
            for _ in range(setting.replicates):
                run = terms(twin, load, filesystem, rng)
                drawn = float(true @ run) * off * (1 + setting.scatter * rng.normal())
                measured = meter.measure(drawn, SECONDS)
                left_alone = meter.measure(true[0] * (1 + setting.scatter * rng.normal()), IDLE_SECONDS)
                found.append(run)
                watts.append(measured)
                groups.append(f"{load}/{filesystem}")
                idle.append(left_alone)
                if run[4]:
                    written = run[2] * SECONDS / FILESYSTEMS[filesystem]
                    limit = SECONDS * float(np.hypot.reduce(list(meter.limits(measured).values())))
                    durable[groups[-1]].append(((measured - left_alone) * SECONDS, written, limit))
                    own = truth[groups[-1]]
                    own[0] += (float(true @ run) * off - true[0]) * SECONDS
                    own[1] += written
    rows = np.array(watts)
    common = {name: np.array([meter.limits(one)[name] for one in watts]) for name in meter.limits(1.0)}
    fitted = fit(Rows(TERMS, np.array(found), rows, groups, np.zeros(len(rows)), common))
    for one in estimates.of_loads(fitted):
        yield one, twin.true[one.name]
    limits = [float(np.hypot.reduce(list(meter.limits(one).values()))) for one in idle]
    yield estimates.idle_power(idle, limits), twin.true["active_watts"]
    for cell, measured_rows in durable.items():
        yield estimates.durable_byte(cell, measured_rows), truth[cell][0] / truth[cell][1]


@dataclass(frozen=True)
class Line:
    """Of one coefficient in one setting, of all profiles: shares.

    `exported`: of all estimates; `inside`: of the exported intervals, those that hold the
    parameter; `least`: the same of the profile where it is least; `of_all`: of all intervals;
    `half_width`: median, of the parameter, of the exported ones.
    """

    setting: str
    coefficient: str
    estimates: int
    exported: float
    inside: float
    least: float
    of_all: float
    half_width: float


def lines(setting: Setting, campaigns: int) -> list[Line]:
    """Simulate campaigns of one kind on every drive."""
    found: dict[str, dict[str, list[tuple[Estimate, float]]]] = defaultdict(lambda: defaultdict(list))
    for name in PROFILES:
        twin = Twin(name)
        rng = np.random.default_rng([SEED, *name.encode(), *setting.name.encode()])
        for _ in range(campaigns):
            for one, true in simulate(twin, setting, rng):
                found[one.name][name].append((one, true))
    return [_line(setting, coefficient, by_profile) for coefficient, by_profile in found.items()]


def _line(setting: Setting, name: str, by_profile: Mapping[str, Sequence[tuple[Estimate, float]]]) -> Line:
    def shares(exported: bool) -> list[list[bool]]:
        return [
            [one.interval.low <= true <= one.interval.high for one, true in found if one.interval
             and not (exported and one.withheld)]
            for found in by_profile.values()
        ]  # fmt: skip

    given, known = shares(True), shares(False)
    widths = [
        (one.interval.high - one.interval.low) / 2 / true
        for found in by_profile.values()
        for one, true in found
        if one.interval and not one.withheld
    ]
    count = sum(len(found) for found in by_profile.values())
    return Line(
        setting.name,
        name,
        count,
        len(widths) / count,
        float(np.mean(np.concatenate(given))) if widths else math.nan,
        min((float(np.mean(hits)) for hits in given if len(hits) >= FEWEST_TO_JUDGE), default=math.nan),
        float(np.mean(np.concatenate(known))) if any(known) else math.nan,
        float(np.median(widths)) if widths else math.nan,
    )


def find_failed(found: Sequence[Line]) -> list[str]:
    """Describe each bar that does not hold."""
    failed = [
        f"{one.setting}: {one.coefficient}: {one.inside:.3f} inside"
        for one in found
        if one.exported * one.estimates >= FEWEST_TO_JUDGE and one.inside < LEAST_INSIDE
    ]
    exported = sum(one.exported for one in found) / len(found)
    return failed + ([f"exported: {exported:.2f}"] if exported < LEAST_EXPORTED else [])


def overall(found: Sequence[Line]) -> float:
    """Return the share of all exported intervals that hold their parameter."""
    given = [(one.exported * one.estimates, one.inside) for one in found if one.exported]
    return sum(count * inside for count, inside in given) / sum(count for count, _ in given)


def show(found: Sequence[Line]) -> None:
    print(f"{'setting':34} {'coefficient':26} {'exported':>8} {'inside':>7} {'least':>7} {'half':>7}")
    for one in found:
        shares = (one.inside, one.least, one.half_width)
        texts = " ".join(f"{100 * share:6.1f}%" for share in shares)
        print(f"{one.setting:34} {one.coefficient:26} {100 * one.exported:7.0f}% {texts}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Fit coefficients to simulated campaigns.")
    parser.add_argument("--campaigns", type=int, default=200, help="of each line")
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "bench" / "coefficients.json")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    found = [line for one in SETTINGS for line in lines(one, arguments.campaigns)]
    show(found)
    failed = find_failed(found)
    whole = {
        "campaigns_per_line": arguments.campaigns,
        "seed": SEED,
        "inside": overall(found),
        "least_inside": min(one.inside for one in found if one.exported * one.estimates >= FEWEST_TO_JUDGE),
        "mean_exported": sum(one.exported for one in found) / len(found),
        "lines": [asdict(one) for one in found],
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(whole, indent=1) + "\n")
    print(f"{time.perf_counter() - begin:.0f} s; inside: {whole['inside']:.3f}")
    print("\n".join(f"DOES NOT HOLD: {one}" for one in failed) or "holds")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
