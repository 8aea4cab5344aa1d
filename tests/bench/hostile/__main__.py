# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure signals that are hostile to a meter, and compare their bounds with the truth.

    python -m tests.bench.hostile [--output FILE]

powerd's own meters, in its Go test harness (collectors/powerd/hostile_test.go), get the samples
that an instrument makes of each signal, and the product's functions compute the energy of phases
at random instants from the points. Of each signal: in how many phases the truth lies in the bounds
(or that there are none), by how much the corrected energy errs, and how wide the bounds are for
that. `make bench-trust` has these figures with others.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from joulerig.analysis.results import power_points, run_energy
from joulerig.analysis.results.schema import Phase, PhaseName
from tests.support import ROOT

HOST, DRIVE, METER, RAIL = "h", "d", "m", "12v"
PHASES, LOAD_SECONDS, EARLIEST, LATEST = 60, 30.0, 12.0, 38.0
SEED = 45
LEAST_INSIDE, MOST_RATIO = 0.95, 20.0
LEAST_SIGNALS, LEAST_CHOSEN = 35, 4


@dataclass(frozen=True)
class Signal:
    """The outcome of a signal.

    `bounded`: the share of phases with bounds. `inside`: of these, those with the truth in them;
    None where there are none. `error_percent`: of the corrected energy, root mean square.
    `half_width_percent`: the median. `ratio`: of that to the error; None without bounds.
    `sampled_inside`, `sampled_percent`: the share of phases whose interval as a sample holds the
    truth, and the median of its half-width; None where there is none.
    """

    name: str
    chosen_after_the_code: bool
    bounded: float
    inside: float | None
    error_percent: float
    half_width_percent: float | None
    ratio: float | None
    sampled_inside: float | None
    sampled_percent: float | None

    @property
    def holds(self) -> bool:
        """Return whether the truth is in the bounds of enough phases, or there are none."""
        return self.inside is None or self.inside >= LEAST_INSIDE


def measure(folder: Path) -> list[Signal]:
    """Measure all signals, with files in a folder."""
    subprocess.run(
        [str(ROOT / "tools" / "go"), "test", "./collectors/powerd", "-run", "TestHostileSignals", "-count=1"],
        env={**os.environ, "JOULERIG_HOSTILE": str(folder)},
        cwd=ROOT,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return [judged(path) for path in sorted(folder.glob("*.json"))]


def judged(path: Path) -> Signal:
    """Return what became of a signal, by the files that the harness left."""
    described = json.loads(path.read_text())
    frame = points(path.with_suffix(".lines").read_text().splitlines())
    truth, rng = np.asarray(described["truth"]), np.random.default_rng(SEED)
    energies, true = [], []
    for start in rng.uniform(EARLIEST, LATEST, PHASES):
        ends = (start, start + LOAD_SECONDS)
        phase = Phase(PhaseName.WORKLOAD, *(utc(described, end) for end in ends), 0, 0)
        ((_, _, energy),) = run_energy.phase_energies(
            frame, [phase], [(DRIVE, METER, RAIL)], host=HOST, lab=lab(described), provenance={}
        )
        if energy.joules is None:
            continue
        energies.append(energy)
        true.append(float(np.diff(np.interp(ends, 1e-3 * np.arange(len(truth)), truth))[0]))
    return compared(described["name"], described["chosen_after_the_code"], energies, true)


def compared(name: str, chosen: bool, energies: Sequence[Any], true: Sequence[float]) -> Signal:
    """Compare energies with the truth."""
    known = [(one, real) for one, real in zip(energies, true, strict=True) if one.joules_low is not None]
    inside = [one.joules_low <= real <= one.joules_high for one, real in known]
    off = [
        (one.joules + one.budget.correction - real) / real for one, real in zip(energies, true, strict=True)
    ]
    error = 100 * float(np.sqrt(np.mean(np.square(off)))) if off else float("nan")
    halves = [50 * (one.joules_high - one.joules_low) / real for one, real in known]
    half = float(np.median(halves)) if halves else None
    samples = [
        (one.sampled_joules, abs(one.joules - real), real)
        for one, real in zip(energies, true, strict=True)
        if one.sampled_joules is not None
    ]
    return Signal(
        name,
        chosen,
        len(known) / len(energies) if energies else 0.0,
        sum(inside) / len(inside) if inside else None,
        round(error, 5),
        None if half is None else round(half, 5),
        None if half is None or error == 0 else round(half / error, 2),
        sum(off <= reach for reach, off, _ in samples) / len(samples) if samples else None,
        round(float(np.median([100 * reach / real for reach, _, real in samples])), 4) if samples else None,
    )


def utc(described: Mapping[str, Any], seconds: float) -> int:
    """Return CLOCK_REALTIME at an instant after the begin, as the controller has it then."""
    set_by = sum(by for at, by in described["clock_steps"] or () if seconds >= at)
    return int(described["begin_ns"]) + round((seconds + set_by) * 1e9)


def lab(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return the lab model as a campaign's journal has it."""
    supply = {"volts": 12.0, "amps": described["supply_amps"], "ohms": described["ohms"]}
    meter = {
        "driver": "fake",
        **{name: described[name] for name in ("timing", "sample_rate_hz", "samples")},
        **({"bandwidth_hz": described["bandwidth_hz"]} if described["bandwidth_hz"] else {}),
        "accuracy": dict.fromkeys(("volts", "amps"), described["class"]) if described["class"] else {},
    }
    channels = {"watt_hours": "CH1"} if described["register"] else {"volts": "CH1", "amps": "CH2"}
    rail = {"meter": METER, **channels, **({"supply": supply} if described["supply_amps"] > 0 else {})}
    return {
        "controller": {"meters": {METER: meter}},
        "hosts": {HOST: {"drives": {DRIVE: {"rails": {RAIL: rail}}}}},
    }


def points(lines: Iterable[str]) -> pl.DataFrame:
    """Return the power points of lines of InfluxDB's protocol."""
    rows = []
    for line in lines:
        series, fields, at = line.rsplit(" ", 2)
        if not series.startswith("power,"):
            continue
        row: dict[str, Any] = {"time_ns": int(at), "drive": DRIVE, "meter": METER, "rail": RAIL}
        for field in fields.split(","):
            name, value = field.split("=")
            row[name] = value.strip('"') if name == "session" else float(value.removesuffix("i"))
        rows.append(row)
    frame = pl.DataFrame(rows, schema_overrides={"session": pl.String}, infer_schema_length=None)
    kept = [name for name in power_points.COLUMNS if name in frame.columns]
    return frame.select(pl.col(name).cast(power_points.COLUMNS[name]) for name in kept)


def figures(found: Sequence[Signal]) -> dict[str, Any]:
    """Return the figures of results/bench/trust.json; `details` last."""
    ratios = [one.ratio for one in found if one.ratio is not None]
    return {
        "hostile_signals": len(found),
        "hostile_chosen_after_the_code": sum(one.chosen_after_the_code for one in found),
        "hostile_outside": sum(not one.holds for one in found),
        "hostile_without_bounds": sum(one.bounded == 0 for one in found),
        "hostile_median_ratio": round(float(np.median(ratios)), 2) if ratios else None,
        "details": {"hostile": [asdict(one) for one in found]},
    }


def line(one: Signal) -> str:
    """Describe a signal on one line."""
    inside = "no bounds" if one.inside is None else f"{100 * one.inside:.0f} % inside"
    half = "" if one.half_width_percent is None else f"{one.half_width_percent:.4g} %"
    ratio = "" if one.ratio is None else f"{one.ratio:.3g}"
    sampled = ""
    if one.sampled_inside is not None:
        sampled = f"; sampled {100 * one.sampled_inside:.0f} % inside ±{one.sampled_percent:.3g} %"
    return (
        f"{one.name:42} {inside:12} error {one.error_percent:9.4f} %  half-width {half:>10}  ratio {ratio}"
        f"{sampled}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="jr") as place:
        found = measure(Path(place))
    result = figures(found)
    for one in found:
        print(line(one))
    print({key: value for key, value in result.items() if key != "details"})
    if arguments.output:
        arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(one.holds for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
