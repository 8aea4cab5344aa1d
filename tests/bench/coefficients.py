# SPDX-License-Identifier: GPL-3.0-or-later
"""How often a twin's own parameters lie in the intervals of its coefficients, by simulation.

Campaigns on the flash twins' power model (virtuallab/twin/power.h), of nine loads through two file
systems, through a meter whose gains and offsets are off by anything within its class, whose ends
are off, and which loses samples that are then corrected for. In `misfit` each load draws up to so
much more or less than the model has. Drives of other `shapes` draw more than the twin's parameters
make: their intervals should not be exported, unless they hold these. `inside_untested` is what is
inside without the test of the form.

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
from dataclasses import asdict, dataclass, replace
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
MOST_FALSE = 0.5  # of the false exports that the test of the form is there to prevent
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
LINEAR, CONCAVE, HEATING, FULL_CACHE = "linear", "concave", "heating", "full cache"
SHAPES = (CONCAVE, HEATING, FULL_CACHE)
LOADS_OF_FULL_CACHE = ("write large",)
FILESYSTEMS = {"one": 1.0, "other": 1.35}  # bytes written for each byte of the load


@dataclass(frozen=True)
class Setting:
    """A kind of campaign.

    `scatter`: of a run's energy; `misfit`: of a load's, in all its runs; `shape`: of the drive's
    watts over its loads.
    """

    replicates: int
    scatter: float
    misfit: float = 0.0
    shape: str = LINEAR

    @property
    def name(self) -> str:
        found = f"{self.replicates} replicates, {100 * self.scatter:g} %, misfit {100 * self.misfit:g} %"
        return found if self.shape == LINEAR else f"{found}, {self.shape}"


SETTINGS = tuple(
    Setting(replicates, scatter, misfit)
    for replicates in (2, 3, 5)
    for scatter, misfit in ((0.002, 0.0), (0.01, 0.0), (0.03, 0.0), (0.01, 0.02))
) + tuple(Setting(3, scatter, shape=shape) for shape in SHAPES for scatter in (0.002, 0.01, 0.03))


Found = tuple[Estimate, Estimate, float]
"""An estimate, what it would be if no test of the form withheld it, and the truth."""


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


def watts_drawn(twin: Twin, shape: str, load: str, run: Sequence[float]) -> float:
    """Return the watts of a drive of a shape.

    Of the watts that the busiest load adds, a concave drive adds 35 % times the root of the share
    of its bandwidth in use, as one whose channels wake one by one. A heating drive draws up to 10 %
    more. A byte costs 1.6 times as much where the cache is used up.
    """
    true = np.array([twin.true[name] for name in TERMS])
    linear = float(true @ run)
    added = max(share * rate * cost for share, rate, cost in (
        (0.8, twin.read, true[1]), (0.5 * max(FILESYSTEMS.values()), twin.write, true[2])
    ))  # fmt: skip
    if shape == CONCAVE:
        return linear + 0.35 * added * math.sqrt(run[1] / twin.read + run[2] / twin.write)
    if shape == HEATING:
        return linear * (1 + 0.1 * (linear - float(true[0])) / added)
    if shape == FULL_CACHE and load in LOADS_OF_FULL_CACHE:
        return linear + 0.6 * float(true[2]) * run[2]
    return linear


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


def simulate(twin: Twin, setting: Setting, rng: np.random.Generator) -> Iterator[Found]:
    """Yield what one campaign gives, against the twin's own parameters."""
    meter = Meter(twin.volts, rng)
    floor = twin.true["active_watts"]
    found, watts, groups, idle, durable = [], [], [], [], defaultdict(list)
    truth: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for load in LOADS:
        for filesystem in FILESYSTEMS:
            off = 1 + setting.misfit * rng.uniform(-1, 1)
            for _ in range(setting.replicates):
                run = terms(twin, load, filesystem, rng)
                true = watts_drawn(twin, setting.shape, load, run) * off
                measured = meter.measure(true * (1 + setting.scatter * rng.normal()), SECONDS)
                left_alone = meter.measure(floor * (1 + setting.scatter * rng.normal()), IDLE_SECONDS)
                found.append(run)
                watts.append(measured)
                groups.append(f"{load}/{filesystem}")
                idle.append(left_alone)
                if run[4]:
                    written = run[2] * SECONDS / FILESYSTEMS[filesystem]
                    limit = SECONDS * float(np.hypot.reduce(list(meter.limits(measured).values())))
                    durable[groups[-1]].append(((measured - left_alone) * SECONDS, written, limit))
                    own = truth[groups[-1]]
                    own[0] += (true - floor) * SECONDS
                    own[1] += written
    rows = np.array(watts)
    common = {name: np.array([meter.limits(one)[name] for one in watts]) for name in meter.limits(1.0)}
    fitted = fit(Rows(TERMS, np.array(found), rows, groups, np.zeros(len(rows)), common))
    untested = estimates.of_loads(replace(fitted, form=""))
    for one, before in zip(estimates.of_loads(fitted), untested, strict=True):
        yield one, before, twin.true[one.name]
    limits = [float(np.hypot.reduce(list(meter.limits(one).values()))) for one in idle]
    at_rest = estimates.idle_power(idle, limits)
    yield at_rest, at_rest, twin.true["active_watts"]
    for cell, measured_rows in durable.items():
        one = estimates.durable_byte(cell, measured_rows)
        yield one, one, truth[cell][0] / truth[cell][1]


@dataclass(frozen=True)
class Line:
    """Shares of one coefficient's estimates in one setting, of all profiles.

    `exported`: of all estimates; `inside`: of the exported intervals, those that hold the
    parameter; `least`: the same of the profile where it is least; `of_all`: of all intervals;
    `half_width`: median, of the parameter, of the exported ones. `*_untested`: without the test of
    the form.
    """

    setting: str
    coefficient: str
    estimates: int
    exported: float
    inside: float | None
    least: float | None
    of_all: float | None
    half_width: float | None
    exported_untested: float
    inside_untested: float | None


def lines(setting: Setting, campaigns: int) -> list[Line]:
    """Simulate campaigns of one kind on every drive."""
    found: dict[str, dict[str, list[Found]]] = defaultdict(lambda: defaultdict(list))
    for name in PROFILES:
        twin = Twin(name)
        rng = np.random.default_rng([SEED, *name.encode(), *setting.name.encode()])
        for _ in range(campaigns):
            for one in simulate(twin, setting, rng):
                found[one[0].name][name].append(one)
    return [_line(setting, coefficient, by_profile) for coefficient, by_profile in found.items()]


def _line(setting: Setting, name: str, by_profile: Mapping[str, Sequence[Found]]) -> Line:
    def inside(place: int, *, withheld: bool = False) -> list[list[bool]]:
        return [
            [one.interval.low <= found[2] <= one.interval.high for found in group
             if (one := (found[0], found[1])[place]).interval and (withheld or not one.withheld)]
            for group in by_profile.values()
        ]  # fmt: skip

    given, untested = inside(0), inside(1)
    widths = [
        (one.interval.high - one.interval.low) / 2 / true
        for group in by_profile.values()
        for one, _, true in group
        if one.interval and not one.withheld
    ]
    count = sum(len(group) for group in by_profile.values())
    return Line(
        setting.name,
        name,
        count,
        len(widths) / count,
        _share(given),
        min((float(np.mean(hits)) for hits in given if len(hits) >= FEWEST_TO_JUDGE), default=None),
        _share(inside(0, withheld=True)),
        float(np.median(widths)) if widths else None,
        sum(map(len, untested)) / count,
        _share(untested),
    )


def _share(hits: Sequence[Sequence[bool]]) -> float | None:
    """Return the share of all that hit; None of none."""
    return float(np.mean(np.concatenate(hits))) if any(hits) else None


def find_failed(found: Sequence[Line]) -> list[str]:
    """Describe each bar that does not hold: coverage of proportional drives, exports of others."""
    straight = proportional(found)
    failed = [
        f"{one.setting}: {one.coefficient}: {one.inside:.3f} inside"
        for one in straight
        if one.exported * one.estimates >= FEWEST_TO_JUDGE and (one.inside or 0.0) < LEAST_INSIDE
    ]
    exported = sum(one.exported for one in straight) / len(straight)
    failed += [f"exported: {exported:.2f}"] if exported < LEAST_EXPORTED else []
    before, after = (false_exports(found, untested=one) for one in (True, False))
    return failed + ([f"false exports: {before} to {after}"] if after > MOST_FALSE * before else [])


def proportional(found: Sequence[Line]) -> list[Line]:
    """Return the lines of drives whose watts are proportional to their loads."""
    return [one for one in found if not one.setting.endswith(SHAPES)]


def false_exports(found: Sequence[Line], *, untested: bool) -> int:
    """Count exported coefficients of other drives that do not hold the truth."""
    count = 0.0
    for one in found:
        if one.setting.endswith(SHAPES) and one.coefficient in TERMS:
            exported = one.exported_untested if untested else one.exported
            inside = one.inside_untested if untested else one.inside
            count += one.estimates * exported * (1 - (inside or 0.0))
    return round(count)


def overall(found: Sequence[Line]) -> float:
    """Return the share of all exported intervals that hold their parameter."""
    given = [(one.exported * one.estimates, one.inside or 0.0) for one in found if one.exported]
    return sum(count * inside for count, inside in given) / sum(count for count, _ in given)


def show(found: Sequence[Line]) -> None:
    heads = ("exported", "inside", "least", "half", "untested", "inside")
    print(f"{'setting':46} {'coefficient':24}" + "".join(f" {head:>8}" for head in heads))
    for one in found:
        untested = (one.exported_untested, one.inside_untested)
        shares = (one.exported, one.inside, one.least, one.half_width, *untested)
        texts = " ".join(f"{'-':>8}" if share is None else f"{100 * share:7.1f}%" for share in shares)
        print(f"{one.setting:46} {one.coefficient:24} {texts}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Fit coefficients to simulated campaigns.")
    parser.add_argument("--campaigns", type=int, default=200, help="of each line")
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "bench" / "coefficients.json")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    found = [line for one in SETTINGS for line in lines(one, arguments.campaigns)]
    show(found)
    failed, straight = find_failed(found), proportional(found)
    judged = [one.inside for one in straight if one.exported * one.estimates >= FEWEST_TO_JUDGE]
    whole = {
        "campaigns_per_line": arguments.campaigns,
        "seed": SEED,
        "inside": overall(straight),
        "least_inside": min((one for one in judged if one is not None), default=None),
        "mean_exported": sum(one.exported for one in straight) / len(straight),
        "false_exports": false_exports(found, untested=False),
        "false_exports_untested": false_exports(found, untested=True),
        "lines": [asdict(one) for one in found],
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(whole, indent=1) + "\n")
    print(
        f"{time.perf_counter() - begin:.0f} s; inside: {whole['inside']:.3f};"
        f" false exports of other shapes: {whole['false_exports_untested']} without the test of the form,"
        f" {whole['false_exports']} with it"
    )
    print("\n".join(f"DOES NOT HOLD: {one}" for one in failed) or "holds")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
