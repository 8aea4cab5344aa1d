# SPDX-License-Identifier: GPL-3.0-or-later
"""The power of a simulated drive that rests between single operations."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from joulerig.analysis import results
from joulerig.analysis.audit.rails import RailPower
from joulerig.analysis.power_states.declared import Declared, Rest, State
from joulerig.analysis.power_states.measured import Measured
from joulerig.analysis.results import power_points
from joulerig.analysis.results.campaign import Run
from joulerig.analysis.runs.over_time import Steps
from tests.support import simulated_waveform, verifiable_campaign

STEP = 1e-3
SERVES = State(0, 8.49, True, 0.0, 0.0)
LIGHT = State(1, 0.040, False, 2e-3, 1.2e-3)
DEEP = State(2, 0.005, False, 0.5e-3, 9.5e-3)


@dataclass
class Drive:
    """What it does, and may declare otherwise. Watts, seconds; `noise`: of a step, in watts.

    `chain`: (idle seconds since the last operation, watts) of the states that it enters in turn.
    """

    awake: float = 0.35
    chain: Sequence[tuple[float, float]] = ((0.162, 0.040), (0.5005, 0.005))
    leaving: float = 9.5e-3
    leaving_watts: float = 1.0
    operation: float = 1e-4
    pause: float = 2.0
    noise: float = 0.002

    def cycle(self, rests: bool) -> np.ndarray:
        """Return one cycle's watts, from when the drive is called to when it is called again."""
        late = self.leaving if rests else 0.0
        count = round((late + self.operation + self.pause) / STEP)
        edges = STEP * np.arange(count + 1)
        levels = [(0.0, self.awake + (self.leaving_watts if rests else 0.0)), (late, self.awake)]
        if rests:
            levels += [(late + self.operation + idle, watts) for idle, watts in self.chain]
        begins = np.array([begin for begin, _ in levels] + [edges[-1]])
        energy = np.concatenate(([0.0], np.cumsum([watts for _, watts in levels] * np.diff(begins))))
        return np.diff(np.interp(edges, begins, energy)) / STEP

    def power(self, rests: bool, cycles: int = 12, seed: int = 1) -> Steps:
        """Return a load's power. It begins in the middle of a pause."""
        one = self.cycle(rests)
        watts = np.concatenate([one[len(one) // 2 :], *[one] * cycles])
        return Steps(watts + self.noise * np.random.default_rng(seed).standard_normal(len(watts)), STEP)

    def cost(self) -> float:
        """Return the joules of a rest, by the drive's own parameters, threshold crossings aside."""
        deepest = self.chain[-1][1]
        more = sum(
            (watts - deepest) * (after - idle)
            for (idle, watts), (after, _) in zip(self.chain, self.chain[1:], strict=False)
        )
        return self.leaving_watts * self.leaving + more

    def declares(self, autonomous: bool = True) -> Declared:
        states = (SERVES, LIGHT, DEEP)
        return Declared(states, SERVES, Rest(LIGHT, DEEP, 0.160) if autonomous else None)

    def run(self, rests: bool, block: int = 1, *, declared: Declared | None = None) -> Measured:
        """Return a run of a load with pauses, with a meter's limit of 0.5 mW and 0.2 %."""
        rng = np.random.default_rng((block, rests))
        late = (self.leaving if rests else 0.0) + 4e-4 * (1 + 0.05 * rng.standard_normal())
        idle = self.chain[-1][1] if rests else self.awake
        power = self.power(rests, seed=2 * block + rests)
        load = float(power.watts.mean())
        return Measured(
            run=f"{block}-{rests}",
            block=block,
            declared=declared or self.declares(rests),
            idle=RailPower(idle + 1e-4 * rng.standard_normal(), 5e-4 + 0.002 * idle),
            no_idle="",
            load=RailPower(load, 5e-4 + 0.002 * load),
            greatest=None,
            power=power,
            pause_seconds=self.pause,
            latency_seconds=late,
        )


def campaign(folder: Path, drive: Drive | None = None, replicates: int = 6) -> Path:
    """Build a results folder of runs left to rest and kept awake; the drive declares `Drive()`."""
    drive = drive or Drive()
    verifiable_campaign.build(
        folder, filesystems=("ext4",), replicates=replicates, extra_factors={"apst": ("off", "any")}
    )
    with closing(sqlite3.connect(folder / "journal.sqlite")) as database, database:
        for run in results.load(folder).runs:
            _put(database, run, drive.run(run.factors["apst"] == "any", run.block))
    return folder


def _put(database: sqlite3.Connection, run: Run, one: Measured) -> None:
    """Put a simulated run into the files and the journal of a run of eleven cycles."""
    phase, rail = run.phases["workload"], run.energy[0]
    watts = np.concatenate((one.power.watts, one.power.watts))[: round(phase.seconds / STEP)]
    simulated_waveform.write(
        run.folder / f"waveform-{rail.meter}.parquet",
        samples=len(watts), rails=[rail.rail], drive=run.drive, host=run.host, meter=rail.meter,
        begin_ns=phase.start_ns, watts=watts,
    )  # fmt: skip
    assert one.idle is not None
    _put_idle(run, one.idle.watts)
    for name, known in (("idle", one.idle), ("workload", one.load)):
        assert known is not None
        seconds = run.phases[name].seconds
        low, high = ((known.watts + sign * known.limit_watts) * seconds for sign in (-1, 1))
        columns = {
            "joules": known.watts * seconds, "joules_low": low, "joules_high": high, "gap_low_joules": 0,
            "gap_high_joules": 0, "interpolation_joules": 0, "alignment_joules": 0, "product_joules": 0,
            "meter_joules": known.limit_watts * seconds,
        }  # fmt: skip
        sets = ", ".join(f"{column} = ?" for column in columns)
        database.execute(
            f"UPDATE energy SET {sets} WHERE run = ? AND phase = ?", (*columns.values(), run.id, name)
        )
    assert one.pause_seconds is not None
    database.execute(
        "UPDATE performance SET ops = ?, latency_p50_seconds = ? WHERE run = ?",
        (round(phase.seconds / one.pause_seconds), one.latency_seconds, run.id),
    )
    load = run.folder / "load.json"
    report = json.loads(load.read_text())
    assert one.latency_seconds is not None
    report["jobs"][0]["sync"]["lat_ns"]["bins"] = {str(round(one.latency_seconds * 1e9)): 10}
    load.write_text(json.dumps(report))
    settings = run.folder / "settings.json"
    settings.write_text(json.dumps({**run.settings, "power": {"drive": _settings(one.declared)}}))


def _put_idle(run: Run, watts: float) -> None:
    """Put power at rest into the points of a run's idle phase."""
    phase = run.phases["idle"]
    points = power_points.read(run.folder / "power.csv")
    assert points is not None
    noise = pl.Series(np.random.default_rng(run.ordinal).normal(1, 0.002, points.height))
    inside = pl.col("time_ns").is_between(phase.start_ns, phase.end_ns + 20_000_000)
    points = points.with_columns(
        pl.when(inside).then(share * watts * noise).otherwise(name).alias(name)
        for name, share in (("watts", 1.0), ("watts_min", 0.99), ("watts_max", 1.01))
    )
    counted = points.with_columns(
        joules=pl.col("watts").cum_sum() * 0.01, amps=pl.col("watts") / pl.col("volts")
    )
    power_points.write(counted, run.folder / "power.csv")


def _settings(declared: Declared) -> dict:
    """What a host records of a drive that declares this."""
    rest = declared.rest
    ways = [] if rest is None else [
        {"state": 0, "to": rest.first.number, "idle_milliseconds": round(rest.idle_seconds * 1e3)},
        {"state": rest.first.number, "to": rest.deepest.number, "idle_milliseconds": 340},
    ]  # fmt: skip
    states = [
        {
            "max_watts": one.watts, "operational": one.serves,
            "entry_microseconds": round(one.entry_seconds * 1e6),
            "exit_microseconds": round(one.exit_seconds * 1e6),
        }
        for one in declared.states
    ]  # fmt: skip
    autonomous = {"enabled": rest is not None, "transitions": ways}
    return {"power_states": states, "power_state": 0, "autonomous": autonomous}
