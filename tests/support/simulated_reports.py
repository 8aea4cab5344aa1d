# SPDX-License-Identifier: GPL-3.0-or-later
"""Drives that report their own power, true or wrong, and the rails that feed them, without a lab.

Power is drawn at ten steps a second: a level for each phase, which wanders and jumps. The drive
counts its own seconds from an instant that no reader knows; the rails are read by a meter whose
gain is wrong by less than its limit. What is compared and judged is the rig's own.
"""

from dataclasses import dataclass

import numpy as np

from joulerig.analysis.audit import rails
from joulerig.analysis.audit.checks import Stretch, Verdict
from joulerig.analysis.audit.findings import Finding
from joulerig.analysis.audit.readings import INTERVAL, SECOND, Counter, Histogram, Reading
from joulerig.analysis.audit.verdict import judge

STEP = 0.1  # s
BIN_WATTS, BINS = 0.25, 64
METER_LIMIT = 0.002
LOADS = ("reads", "writes", "syncs")
LEVELS = {"idle": 1.1, "reads": 2.6, "writes": 4.2, "syncs": 3.1}
SECONDS = {"idle": 15.0, "soak": 5.0, "load": 20.0, "tail": 5.0}
REPLICATES = 8


@dataclass(frozen=True)
class Twin:
    """A drive, and what an audit has to find. `flaw`: as virtuallab/twin/self_report.h has them."""

    name: str
    verdict: Verdict
    finding: Finding = Finding.NONE
    factor: float = 1.0
    error_percent: float | None = 3
    flaw: str = "none"
    reports: bool = True
    watt_hours: float = 812.4  # at the beginning


TWINS = (
    Twin("honest", Verdict.HOLDS),
    Twin("2 % off", Verdict.HOLDS, factor=1.02),
    Twin("5 % off", Verdict.CONTRADICTED, Finding.SCALE, factor=1.05),
    Twin("20 % off", Verdict.CONTRADICTED, Finding.SCALE, factor=0.8),
    Twin("stuck", Verdict.CONTRADICTED, Finding.STUCK, flaw="stuck"),
    Twin("wraps around", Verdict.CONTRADICTED, Finding.WRAPS, flaw="wraps", watt_hours=65534.85),
    Twin("resets with power", Verdict.CONTRADICTED, Finding.RESETS, flaw="resets"),
    Twin("other unit", Verdict.CONTRADICTED, Finding.UNIT, flaw="unit"),
    Twin("no field", Verdict.NOT_REPORTED, reports=False),
    Twin("histogram", Verdict.CONTRADICTED, Finding.HISTOGRAM, flaw="histogram"),
    Twin("idle as 0", Verdict.CONTRADICTED, Finding.NO_IDLE, flaw="no_idle"),
    Twin("false error figure", Verdict.CONTRADICTED, Finding.SCALE, factor=1.03, error_percent=1),
)


def audit(twin, seed, replicates=REPLICATES):
    """Simulate a campaign of a twin, and judge it."""
    return _Campaign(twin, np.random.default_rng(seed), replicates).judged()


class _Campaign:
    def __init__(self, twin, random, replicates):
        self.twin, self.random = twin, random
        self.gain = 1 + random.uniform(-METER_LIMIT, METER_LIMIT)
        self.seconds_off = random.uniform(0, 1)  # of the drive's seconds
        self.joules = 3600 * twin.watt_hours
        self.cycles = 12
        self.stuck_at = None
        self.compared, self.counters = [], []
        orders = [random.permutation(LOADS) for _ in range(replicates)]
        for number, load in enumerate(load for order in orders for load in order):
            self._run(f"run-{number:04}", str(load), 1000.0 * number)
            if number == 7:
                self._power_cycle()

    def judged(self):
        stretches = [
            Stretch(before, after, 0.0, 6.0 * (after.time_ns - before.time_ns) / 1e9)
            for before, after in zip(self.counters, self.counters[1:], strict=False)
        ]
        return judge("host", "drive", self.compared, stretches)

    def _power_cycle(self):
        self.cycles += 1
        if self.twin.flaw == "resets":
            self.joules = 0.0

    def _run(self, run, load, start):
        phases = [("soak", "idle", SECONDS["soak"]), ("idle", "idle", SECONDS["idle"]),
                  (load, load, SECONDS["load"]), ("tail", "idle", SECONDS["tail"])]  # fmt: skip
        watts, idle, ends = [], [], [0.0]
        for _, level, seconds in phases:
            count = round(seconds / STEP)
            watts.append(self._level(LEVELS[level], count))
            idle.append(np.full(count, LEVELS["idle"]))
            ends.append(ends[-1] + seconds)
        watts = np.concatenate(watts)
        self.instants = start + STEP * np.arange(len(watts) + 1)
        self.total = np.concatenate([[0.0], np.cumsum(watts * STEP)])
        idles = np.minimum(np.concatenate(idle), watts)
        self.idle_total = np.concatenate([[0.0], np.cumsum(idles * STEP)])
        self._count_seconds(start, start + ends[-1])
        for (name, _, _), first, last in zip(phases, ends, ends[1:], strict=False):
            if name not in ("soak", "tail"):
                self._phase(run, name, start + first + 1.0 * (name != "idle"), start + last)

    def _level(self, mean, count):
        """Return a phase's power: its own level, a slow wave, jumps and noise."""
        own = mean * (1 + 0.02 * self.random.standard_normal())
        wave = 0.05 * np.sin(2 * np.pi * (np.arange(count) * STEP / 7.0 + self.random.uniform()))
        bursts = 0.3 * (self.random.uniform(size=count) < 0.05)
        return own * np.maximum(1 + wave + bursts + 0.08 * self.random.standard_normal(count), 0.05)

    def _joules(self, total, at):
        return float(np.interp(at, self.instants, total))

    def _count_seconds(self, start, end):
        """Have the drive count each of its seconds in a run: their ends, its watts, its joules."""
        self.ends, self.watts, self.kept = [], [], []
        at = np.floor(start) + self.seconds_off
        at += 1.0 * (at < start)
        while at + 1 <= end:
            seen = self._joules(self.total, at + 1) - self._joules(self.total, at)
            if self.twin.flaw == "no_idle":
                seen -= self._joules(self.idle_total, at + 1) - self._joules(self.idle_total, at)
            seen = max(seen, 0.0) * self.twin.factor * (10 if self.twin.flaw == "unit" else 1)
            if self.twin.flaw == "stuck":
                self.stuck_at = seen if self.stuck_at is None else self.stuck_at
                seen = self.stuck_at
            else:
                self.joules += seen
            self.ends.append(at + 1)
            self.watts.append(seen)
            self.kept.append(self.joules)
            at += 1

    def _phase(self, run, condition, start, stop):
        start += self.random.uniform(0, 0.02)
        stop += self.random.uniform(-0.02, 0.0)
        if not self.twin.reports:
            return
        inside = [n for n, end in enumerate(self.ends) if start < end <= stop]
        self._counter(run, start, inside[0] - 1)
        self._counter(run, stop, inside[-1])
        watts = np.array([self.watts[n] for n in inside])
        seen = watts + (1.0 if self.twin.flaw == "histogram" else 0.0)
        places = np.floor(seen / BIN_WATTS).astype(int)
        counts = np.bincount(places[places < BINS], minlength=BINS)
        histogram = Histogram(
            tuple(BIN_WATTS * n for n in range(BINS)), tuple(int(c) for c in counts), BIN_WATTS,
            int((places >= BINS).sum()),
        )  # fmt: skip
        mean, step = _rounded(float(watts.mean()))
        common = (self.twin.error_percent,)
        self._compare(
            Reading(run, "drive", condition, INTERVAL, round(start * 1e9), round(stop * 1e9), len(inside),
                    mean, step, *common, _rounded(float(watts.max()))[0], histogram)
        )  # fmt: skip
        last, step = _rounded(float(watts[-1]))
        at = round(stop * 1e9)
        self._compare(Reading(run, "drive", condition, SECOND, at - 10**9, at, 1, last, step, *common))

    def _counter(self, run, at, second):
        hours = int(np.ceil(self.kept[max(second, 0)] / 3600))
        if self.twin.flaw == "wraps":
            hours %= 65536
        self.counters.append(Counter(run, round(at * 1e9), hours, self.cycles))

    def _compare(self, reading):
        found = rails.compare(reading, self._rails)
        assert found is not None
        self.compared.append(found)

    def _rails(self, start_ns, end_ns):
        start, end = start_ns / 1e9, end_ns / 1e9
        watts = self.gain * (self._joules(self.total, end) - self._joules(self.total, start)) / (end - start)
        return rails.RailPower(watts, METER_LIMIT * watts)


def _rounded(watts):
    """Return watts and their last digit as NVMe has them."""
    step = 1e-4 if watts * 1e4 < 65535.5 else 1e-2
    return round(watts / step) * step, step
