# SPDX-License-Identifier: GPL-3.0-or-later
"""Count how often idle power is right or not known, drives are accused, and leftovers are found.

    python -m tests.bench.idle [--campaigns N] [--drive NAME]

Simulated drives, each by their power at 100 points a second in four runs a campaign, with the noise
of each family and a meter anywhere within its class; the rig's own functions judge them. The noise
families `pink` and `telegraph` were chosen after `analysis.runs.idle` was finished.
Prints a line for each bar. Exit code: 0 if all hold, 1 if not.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from joulerig.analysis import results
from joulerig.analysis.power_states import checks, measured
from joulerig.analysis.power_states.checks import Verdict
from joulerig.analysis.power_states.declared import Declared, Rest, State
from joulerig.analysis.power_states.measured import Measured
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.runs import idle, over_time, quiescence
from joulerig.analysis.runs.idle import Idle
from joulerig.analysis.runs.over_time import Floats, Steps
from joulerig.analysis.runs.quiescence import State as Settled
from tests.support import simulated_campaign

SEED = 45
CAMPAIGNS, RUNS = 30, 4
LEAST_RIGHT, MOST_ACCUSED, LEAST_FOUND = 0.95, 0.01, 0.95
POINT = 0.01  # seconds
LOAD_SECONDS, LOAD_WATTS, FOLDING_WATTS = 2.0, 3.0, 1.338
GAIN, OFFSET_AMPS, VOLTS = 0.005, 1e-4, 3.3  # limits of the meter's class
CLASS = {"volts": {"gain_percent": 0.01}, "amps": {"gain_percent": 100 * GAIN, "offset": OFFSET_AMPS}}
MILLIWATTS = 5e-4  # noise of a point, with 0.5 % of its power

Course = Callable[[Floats, np.random.Generator], Floats]
"""Watts of a drive at seconds since it was last given work."""


def dozing(after_work: float = 0.0, deep: float = 0.005) -> Course:
    """Return a drive that folds for so many seconds, and then goes to rest by its power states."""

    def watts(times: Floats, _: np.random.Generator) -> Floats:
        rest = times - after_work
        at_rest = np.where(rest < 0.16, 0.35, np.where(rest < 0.5, 0.04, deep))
        return np.where(rest < 0, FOLDING_WATTS, at_rest)

    return watts


def uneven(longest: float) -> Course:
    """Return a drive that folds for another time in each run."""

    def watts(times: Floats, rng: np.random.Generator) -> Floats:
        return dozing(longest * rng.uniform())(times, rng)

    return watts


def settling(seconds: float) -> Course:
    """Return a drive whose power falls to 1 W by an exponential course."""
    return lambda times, _: 1.0 + 0.3 * np.exp(-times / seconds)


def two_levels(times: Floats, _: np.random.Generator) -> Floats:
    """Return a drive that goes to and fro every 1.7 s."""
    return np.where((times // 1.7) % 2 == 0, 0.35, 0.04)


def never(times: Floats, rng: np.random.Generator) -> Floats:
    """Return a drive that works in bursts of any length, for as long as the simulation lasts."""
    edges = np.cumsum(rng.exponential(0.8, 200))
    return np.where(np.searchsorted(edges, times) % 2 == 0, FOLDING_WATTS, 0.35)


@dataclass(frozen=True)
class Drive:
    """A simulated drive. `rest`: watts at rest; None: it has none but those of its last second."""

    course: Course
    rest: float | None
    soak: float = 5.0
    idle: float = 5.0
    tail: float = 5.0


DRIVES: Mapping[str, Drive] = {
    "clean": Drive(dozing(), 0.005),
    "clean, 4 W": Drive(lambda times, _: np.full(len(times), 4.0), 4.0),
    "folds 0.3 s into idle": Drive(dozing(5.3), 0.005),
    "folds 1 s into idle": Drive(dozing(6.0), 0.005),
    "folds 3 s into idle": Drive(dozing(8.0), 0.005),
    "folds all but 80 ms of idle": Drive(dozing(9.92), 0.005),
    "folds all but 30 ms of idle": Drive(dozing(9.97), 0.005),
    "folds 30 s, idle 30 s": Drive(dozing(30.0), 0.005, idle=30.0),
    "folds 30 s, long tail": Drive(dozing(30.0), 0.005, tail=70.0),
    "folds up to 10 s": Drive(uneven(10.0), 0.005),
    "slopes for seconds": Drive(settling(4.0), None),
    "slopes for a minute": Drive(settling(60.0), None),
    "two levels": Drive(two_levels, None),
    "never at rest": Drive(never, None),
}


def white(count: int, rng: np.random.Generator) -> Floats:
    return rng.standard_normal(count)


def remembering(memory: float) -> Callable[[int, np.random.Generator], Floats]:
    """Return noise of unit variance with this lag-1 correlation."""

    def noise(count: int, rng: np.random.Generator) -> Floats:
        values = rng.standard_normal(count)
        for n in range(1, count):
            values[n] = memory * values[n - 1] + np.sqrt(1 - memory**2) * values[n]
        return values

    return noise


def heavy(count: int, rng: np.random.Generator) -> Floats:
    return np.asarray(rng.standard_t(3, count) / np.sqrt(3))


def pink(count: int, rng: np.random.Generator) -> Floats:
    """Return noise whose density falls with the frequency."""
    frequencies = np.fft.rfftfreq(count)
    frequencies[0] = np.inf
    values = np.fft.irfft(np.fft.rfft(rng.standard_normal(count)) / np.sqrt(frequencies), count)
    return np.asarray(values / values.std())


def telegraph(count: int, rng: np.random.Generator) -> Floats:
    """Return noise that jumps between two values, after 50 ms on average."""
    edges = np.cumsum(rng.exponential(5.0, count))
    return np.where(np.searchsorted(edges, np.arange(count)) % 2 == 0, 1.0, -1.0)


NOISES = {
    "white": white,
    "AR(1) 0.5": remembering(0.5),
    "AR(1) 0.9": remembering(0.9),
    "heavy tails": heavy,
    "pink": pink,
    "telegraph": telegraph,
}


class Bench:
    """A campaign of one drive and meter, whose runs are simulated one by one."""

    def __init__(self, folder: Path) -> None:
        made = {"drives": ("nvme-consumer",), "filesystems": ("ext4",), "schedulers": ("none",)}
        simulated_campaign.build(folder, accuracy=CLASS, lost_share=0.0, replicates=RUNS, **made)
        self.campaign: Campaign = results.load(folder)

    def runs(
        self, drive: Drive, noise: Callable[[int, np.random.Generator], Floats], rng: np.random.Generator
    ) -> Iterator[tuple[Run, pl.DataFrame, list[Floats]]]:
        """Yield runs with their power points, and what the drive drew in idle phase and tail."""
        gain, offset = GAIN * rng.uniform(-1, 1), OFFSET_AMPS * VOLTS * rng.uniform(-1, 1)
        for run in self.campaign.runs:
            times = np.arange(POINT / 2, drive.idle, POINT)
            after = np.arange(POINT / 2, drive.tail, POINT)
            parts = [drive.course(drive.soak + times, rng), drive.course(after, rng)]
            load = np.full(round(LOAD_SECONDS / POINT), LOAD_WATTS)
            true = np.concatenate(
                [np.full(20, parts[0][0]), parts[0], load, parts[1], parts[1][-1:].repeat(20)]
            )
            drawn = true + (MILLIWATTS + 0.005 * true) * noise(len(true), rng)
            start = run.phases["idle"].start_ns
            ends = np.cumsum([0.0, drive.idle, LOAD_SECONDS, drive.tail])
            phases = {
                name: replace(
                    run.phases[name], start_ns=start + round(1e9 * one), end_ns=start + round(1e9 * other)
                )
                for name, one, other in zip(("idle", "workload", "tail"), ends[:-1], ends[1:], strict=True)
            }
            points = _points(drawn * (1 + gain) + offset, start, run)
            yield replace(run, phases=phases, energy=run.energy, result=run.result), points, parts

    def idles(self, found: Sequence[tuple[Run, pl.DataFrame, list[Floats]]]) -> list[Idle]:
        """Return what the rig finds of runs of one drive."""
        own = replace(self.campaign, runs=tuple(run for run, *_ in found))
        read = {run.id: idle.from_points(own, run, points) for run, points, _ in found}
        return list(idle.judged(own, read).values())


def _points(watts: Floats, start_ns: int, run: Run) -> pl.DataFrame:
    """Return power points, the first 0.2 s before an idle phase begins."""
    rail = run.energy[0]
    times = start_ns + np.round(1e9 * POINT * (np.arange(len(watts)) - 19)).astype(int)
    samples = 10 * np.arange(1, len(watts) + 1)
    return pl.DataFrame(
        {
            "time_ns": times, "rail": rail.rail, "watts": watts, "watts_min": watts, "watts_max": watts,
            "joules": np.cumsum(watts) * POINT, "drive": rail.drive, "meter": rail.meter,
            "volts": np.full(len(watts), VOLTS), "amps": watts / VOLTS, "samples": samples,
            "expected": samples, "lost": np.zeros(len(watts), dtype=np.int64),
            "gap_seconds": np.zeros(len(watts)), "session": "1", "clock_residual_seconds": 1e-4,
        }
    )  # fmt: skip


def drives(bench: Bench, campaigns: int, only: str = "") -> list[dict[str, Any]]:
    """Return by drive and noise how many runs have idle power, and how many of them are right."""
    rows = []
    for number, (name, drive) in enumerate(DRIVES.items()):
        for family, (noise_name, noise) in enumerate(NOISES.items()):
            rng = np.random.default_rng((SEED, number, family))
            known = right = 0
            for _ in range(campaigns if only in name else 0):
                found = list(bench.runs(drive, noise, rng))
                for one, (_, _, parts) in zip(bench.idles(found), found, strict=True):
                    rest = drive.rest if drive.rest is not None else float(parts[0][-100:].mean())
                    known += one.watts is not None
                    right += one.low is not None and one.high is not None and one.low <= rest <= one.high
            rows.append({"drive": name, "noise": noise_name, "known": known, "right": right})
    return rows


AWAKE = 0.35
DECLARED = Declared(
    (State(0, 8.49, True, 0.0, 0.0), State(1, 0.005, False, 0.0, 0.01)),
    rest=Rest(State(1, 0.005, False, 0.0, 0.01), State(1, 0.005, False, 0.0, 0.01), 0.5),
)


def obey(bench: Bench, campaigns: int) -> list[dict[str, Any]]:
    """Return how often an honest drive is contradicted, by idle phase, leftover and rest.

    `planned`: the rest is as long as a plan makes it where the inventory says how long the drive
    takes to settle. Otherwise the drive may fold evenly through all that is looked at.
    """
    rows = []
    for seconds, leftover, planned in itertools.product(
        (1.0, 5.0, 30.0), (0.0, 0.3, 1.0, 3.0), (True, False)
    ):
        rng = np.random.default_rng((SEED, round(seconds), round(10 * leftover)))
        settles = 5.0 + leftover
        soak = max(5.0, math.ceil(settles - seconds / 2)) if planned else 5.0
        drive = Drive(dozing(settles - 0.5), 0.005, soak=soak, idle=seconds)
        verdicts = []
        for _ in range(campaigns):
            runs = [_measured(one) for one in bench.idles(list(bench.runs(drive, white, rng)))]
            awake = [_measured(Idle(AWAKE, AWAKE, AWAKE))] * RUNS
            verdicts.append(checks.rested(runs, awake).checks[0].verdict)
        counts = {one.value: verdicts.count(one) for one in Verdict}
        rows.append({"idle_seconds": seconds, "leftover_seconds": leftover, "planned": planned, **counts})
    return rows


def _measured(one: Idle) -> Measured:
    return Measured("", 0, DECLARED, measured.at_rest(one), one.why, None, None, Steps(), None, None)


def left(folding: float, joules: float, watts: float) -> Course:
    """Return a drive that folds before its idle phase, and leaves so much to do after its load."""

    def course(times: Floats, rng: np.random.Generator) -> Floats:
        if times[0] >= 1.0:  # it was left to rest before
            return dozing(folding)(times, rng)
        return np.where(times < joules / watts, 0.005 + watts, 0.005)

    return course


def leftovers(bench: Bench, campaigns: int) -> list[dict[str, Any]]:
    """Return how many leftovers of each kind are within their interval, not settled, or wrong."""
    rows = []
    for idle_name, folding in (("clean", 0.0), ("0.3 s of folding", 5.3)):
        for number, (joules, watts) in enumerate(
            (joules, watts) for joules in (1.0, 7.3, 35.7, 100.0) for watts in (0.05, 0.25, 0.6, 2.5)
        ):
            rng = np.random.default_rng((SEED, number, round(folding)))
            found = {"inside": 0, "not settled": 0, "not known": 0, "wrong": 0}
            drive = Drive(left(folding, joules, watts), 0.005, tail=30.0)
            for _ in range(campaigns):
                runs = list(bench.runs(drive, white, rng))
                for one, (run, points, _) in zip(bench.idles(runs), runs, strict=True):
                    done = round(joules / watts / POINT) * POINT * watts  # by whole points
                    found[_leftover(one, run, points, done)] += 1
            rows.append({"idle": idle_name, "joules": joules, "watts": watts, **found})
    return rows


def _leftover(one: Idle, run: Run, points: pl.DataFrame, joules: float) -> str:
    power = over_time.from_points(points, run.phases["workload"], tail=run.phases["tail"])
    after = quiescence.after_load(run, one, power)
    if after.state == Settled.SETTLED:
        assert after.low is not None
        assert after.high is not None
        return "inside" if after.low <= joules <= after.high else "wrong"
    return after.state.value


def measure(campaigns: int = CAMPAIGNS, only: str = "") -> dict[str, Any]:
    """Return the figures, with `details` last."""
    with tempfile.TemporaryDirectory(prefix="jr") as folder:
        bench = Bench(Path(folder) / "c")
        found = drives(bench, campaigns, only)
        accused, after = obey(bench, campaigns), leftovers(bench, -(-campaigns // 6))
    by_drive = {
        name: [sum(row[key] for row in found if row["drive"] == name) for key in ("known", "right")]
        for name in DRIVES
    }
    runs = sum(row["inside"] + row["not settled"] + row["not known"] + row["wrong"] for row in after)
    return {
        "idle_drives": len(DRIVES),
        "idle_right_worst": min((right / known for known, right in by_drive.values() if known), default=0.0),
        "idle_known_of_clean": by_drive["clean"][0] / (campaigns * RUNS * len(NOISES)),
        "obey_honest_contradicted": _contradicted(accused, planned=True),
        "obey_honest_contradicted_unplanned": _contradicted(accused, planned=False),
        "leftovers_right": 1 - sum(row["wrong"] for row in after) / runs,
        "details": {"idle": found, "obey": accused, "leftovers": after},
    }


def _contradicted(rows: Sequence[Mapping[str, Any]], *, planned: bool) -> float:
    own = [row for row in rows if row["planned"] == planned]
    return sum(row["contradicted"] for row in own) / sum(row[one.value] for row in own for one in Verdict)


def bars(found: Mapping[str, Any]) -> list[tuple[bool, str]]:
    """Return of each bar whether it holds, and its line."""
    bounds = (
        ("idle_right_worst", LEAST_RIGHT, True),
        ("obey_honest_contradicted", MOST_ACCUSED, False),
        ("leftovers_right", LEAST_FOUND, True),
    )
    return [
        (
            found[key] >= limit if least else found[key] <= limit,
            f"{key}: {found[key]:.3f} (bar: at {'least' if least else 'most'} {limit})",
        )
        for key, limit, least in bounds
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--campaigns", type=int, default=CAMPAIGNS)
    parser.add_argument("--drive", default="", help="part of the names of the drives to simulate")
    arguments = parser.parse_args()
    found = measure(arguments.campaigns, arguments.drive)
    for rows in found["details"].values():
        for row in rows:
            print("  ".join(f"{key} {value}" for key, value in row.items()))
    judged = bars(found)
    for holds, line in judged:
        print(f"{'holds' if holds else 'DOES NOT HOLD'}: {line}")
    return 0 if all(holds for holds, _ in judged) else 1


if __name__ == "__main__":
    sys.exit(main())
