# SPDX-License-Identifier: GPL-3.0-or-later
"""A drive's power during a load, in steps as short as its meters allow."""

from __future__ import annotations

import numpy as np
import polars as pl

from joulerig.analysis.results import power_points, waveform
from joulerig.analysis.results.campaign import Run
from joulerig.analysis.results.schema import PhaseName
from joulerig.analysis.runs import over_time
from joulerig.analysis.runs.over_time import Rail, Steps

_MARGIN = 1_000_000_000  # ns around a load, whose ends lie within samples
_MOST_STEPS = 2_000_000  # of a load; a faster waveform is taken in longer ones


def of_load(run: Run, drive: str) -> Steps:
    """Return the power of a drive's rails together over a run's load.

    From the waveforms of its meters, where the run kept one of each rail, else from the points of
    `power.csv`. Empty without a load or without either. Raises waveform.WaveformError,
    power_points.PowerFileError.
    """
    load = run.phases.get(PhaseName.WORKLOAD)
    measured = {(one.meter, one.rail) for one in run.energy if one.drive == drive}
    if load is None or not measured:
        return Steps()
    files = {meter: run.folder / f"waveform-{meter}.parquet" for meter, _ in measured}
    if all(path.is_file() for path in files.values()):
        rails = []
        step = load.seconds / _MOST_STEPS
        for meter, rail in sorted(measured):
            found = waveform.read(
                files[meter], rails=[rail], start_ns=load.start_ns - _MARGIN, end_ns=load.end_ns + _MARGIN
            )
            period = 1 / found.meta["sample_rate_hz"]
            rails.append(_rail(found.frame.filter(pl.col("drive") == drive), period, load.start_ns))
            step = max(step, period)
    else:
        frame = power_points.read(run.folder / "power.csv")
        if frame is None:
            return Steps()
        rails = over_time.stored_rails(frame.filter(pl.col("drive") == drive), load.start_ns)
        step = max((float(np.median(np.diff(rail.times))) for rail in rails), default=0.0)
    count = int(load.seconds / step) if step else 0
    if len(rails) < len(measured) or count < 1 or any(len(rail.times) < 2 for rail in rails):
        return Steps()
    return Steps(
        over_time.watts_between(rails, np.linspace(0.0, load.seconds, count + 1)), load.seconds / count
    )


def _rail(samples: pl.DataFrame, period: float, origin_ns: int) -> Rail:
    """Return a waveform's samples as a rail: of each the mean up to its end, NaN over lost ones."""
    samples = samples.filter(pl.col("time_ns").is_not_null()).sort("time_ns")
    watts = samples["volts"].to_numpy().astype(float) * samples["amps"].to_numpy()
    times = (samples["time_ns"].to_numpy() - origin_ns) * 1e-9
    if not len(times):
        return Rail(times, watts)
    lost = np.diff(times, prepend=times[0] - period) > 1.5 * period
    return Rail(np.concatenate(([times[0] - period], times)), np.where(lost, np.nan, watts))
