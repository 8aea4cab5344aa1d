# SPDX-License-Identifier: GPL-3.0-or-later
"""The greatest mean power of a run's load, over the windows that standards and vendors judge by.

- 100 µs and 1 s: how vendors test drives against OCP's limits of power, as they describe it
- 10 s: the window of the active power of an NVMe power state (ACTP)

The windows slide, and none reaches beyond the load. A window that a meter is too slow for is not
measured, and says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from joulerig.analysis.energy import meters
from joulerig.analysis.results import waveform
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import PhaseName
from joulerig.analysis.results.waveform import WaveformError
from joulerig.analysis.runs import over_time
from joulerig.analysis.runs.over_time import PowerOverTime

SHORT = 100e-6
NAMES = {SHORT: "100 µs", **{seconds: f"{seconds:g} s" for seconds in over_time.WINDOWS}}
FEWEST_SAMPLES = 10
"""In a window: its ends lie within samples, and a tenth of it is what they may be off by."""
NOT_MEASURABLE = "not measurable with this meter"
_ROWS = 1 << 20  # of a waveform, read at a time

COLUMNS = {
    "campaign": pl.String,
    "run": pl.String,
    "cell": pl.String,
    "host": pl.String,
    "drive": pl.String,
    "window": pl.String,
    "window_seconds": pl.Float64,
    "watts": pl.Float64,
    "watts_low": pl.Float64,
    "watts_high": pl.Float64,
    "begins_seconds": pl.Float64,
    "observed_seconds": pl.Float64,
    "missing": pl.String,
}


@dataclass(frozen=True)
class Greatest:
    """The greatest mean of one window over a run's load.

    `begins`: seconds since the load began. `watts` is None where `missing` says why.
    """

    seconds: float
    watts: float | None = None
    begins: float | None = None
    missing: str = ""


def of_run(campaign: Campaign, run: Run, power: PowerOverTime | None) -> list[Greatest]:
    """Return the greatest mean of each of `NAMES`; nothing of a run without a load."""
    phase = run.phases.get(PhaseName.WORKLOAD)
    if phase is None or run.performance is None:
        return []
    found = [_short(campaign, run)]
    for seconds in over_time.WINDOWS:
        one = power.greatest.get(seconds) if power else None
        if one is not None:
            found.append(Greatest(seconds, one.watts, one.begins))
        else:
            found.append(Greatest(seconds, missing=_why_missing(seconds, phase.seconds, power)))
    return found


def _why_missing(seconds: float, load: float, power: PowerOverTime | None) -> str:
    if power is None:
        return "no trace of its power"
    if load < seconds:
        return f"the load took {load:.3g} s"
    if power.spacing_seconds * FEWEST_SAMPLES > seconds:
        return NOT_MEASURABLE
    return "gaps in every window"


def _short(campaign: Campaign, run: Run) -> Greatest:
    """Return the greatest 100 µs, from the samples of a waveform."""
    rails = {(one.meter, one.drive, one.rail) for one in run.energy if one.phase == PhaseName.WORKLOAD}
    if not rails:
        return Greatest(SHORT, missing="no rail was measured")
    rates = [meters.declared(campaign.lab, meter).get("sample_rate_hz") or 0.0 for meter, _, _ in rails]
    if min(rates) * SHORT < FEWEST_SAMPLES:
        return Greatest(SHORT, missing=NOT_MEASURABLE)
    if len(rails) > 1:
        return Greatest(SHORT, missing="several rails, whose samples are not of the same instants")
    ((meter, drive, rail),) = rails
    path = run.folder / f"waveform-{meter}.parquet"
    if not path.is_file():
        return Greatest(SHORT, missing="no waveform was kept")
    phase = run.phases[PhaseName.WORKLOAD]
    try:
        found = greatest_of_samples(path, drive, rail, SHORT, (phase.start_ns, phase.end_ns))
    except WaveformError:
        return Greatest(SHORT, missing="the waveform is damaged")
    if found is None:
        return Greatest(SHORT, missing="no window without a lost sample")
    watts, ends_ns = found
    return Greatest(SHORT, watts, max(0.0, (ends_ns - phase.start_ns) * 1e-9 - SHORT))


def greatest_of_samples(
    path: Path, drive: str, rail: str, seconds: float, interval: tuple[int, int]
) -> tuple[float, int] | None:
    """Return the greatest mean of as many samples as a window has, and when (UTC ns) it ends.

    Samples of one stream without a lost one between them, all of which end within the interval.
    None where there is no such window. Raises WaveformError.
    """
    meta = waveform.metadata(path)
    count = max(1, round(seconds * meta["sample_rate_hz"]))
    best: tuple[float, int] | None = None
    kept: dict[int, tuple[NDArray[np.int64], NDArray[np.float64]]] = {}
    for stream, index, watts in _samples(path, drive, rail):
        if stream in kept:
            index = np.concatenate((kept[stream][0], index))
            watts = np.concatenate((kept[stream][1], watts))
        kept[stream] = index[-count + 1 :] if count > 1 else index[:0], watts[len(watts) - count + 1 :]
        if len(index) < count:
            continue
        times = waveform.sample_times(meta, stream, pl.Series(index)).to_numpy()
        means = np.convolve(watts, np.full(count, 1.0 / count), "valid")
        whole = index[count - 1 :] - index[: len(means)] == count - 1
        period = 1e9 / meta["sample_rate_hz"]
        inside = (times[: len(means)] - period >= interval[0]) & (times[count - 1 :] <= interval[1])
        means = np.where(whole & inside, means, -math.inf)
        place = int(np.argmax(means))
        if math.isfinite(means[place]) and (best is None or means[place] > best[0]):
            best = float(means[place]), int(times[count - 1 + place])
    return best


def _samples(
    path: Path, drive: str, rail: str
) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.float64]]]:
    """Yield stream, index and watts of a rail's samples, in the order of the file."""
    lazy = pl.scan_parquet(path).select("drive", "rail", "stream", "index", "volts", "amps")
    first = 0
    while True:
        try:
            frame = lazy.slice(first, _ROWS).collect()
        except (OSError, pl.exceptions.PolarsError) as error:
            raise WaveformError(f"{path}: cannot be read: {' '.join(str(error).split())[:200]}") from None
        own = frame.filter((pl.col("drive") == drive) & (pl.col("rail") == rail))
        for (stream,), part in own.group_by("stream", maintain_order=True):
            watts = part["volts"].to_numpy().astype(np.float64) * part["amps"].to_numpy()
            yield int(stream), part["index"].to_numpy(), watts
        if frame.height < _ROWS:
            return
        first += _ROWS


def table(campaign: Campaign, over: Mapping[str, PowerOverTime]) -> pl.DataFrame:
    """Return one row a run and window. Columns: `COLUMNS`."""
    rows = [
        _row(campaign, run, one) for run in campaign.runs for one in of_run(campaign, run, over.get(run.id))
    ]
    return pl.DataFrame(rows, schema=COLUMNS)


def _row(campaign: Campaign, run: Run, one: Greatest) -> dict[str, object]:
    low, high = _interval(run, one.watts)
    return {
        "campaign": campaign.id,
        "run": run.id,
        "cell": run.cell,
        "host": run.host,
        "drive": run.drive,
        "window": NAMES[one.seconds],
        "window_seconds": one.seconds,
        "watts": one.watts,
        "watts_low": low,
        "watts_high": high,
        "begins_seconds": one.begins,
        "observed_seconds": run.phases[PhaseName.WORKLOAD].seconds,
        "missing": one.missing,
    }


def _interval(run: Run, watts: float | None) -> tuple[float | None, float | None]:
    """Return least and greatest by the meter: by the share of the load's energy that it leaves."""
    rails = [one for one in run.energy if one.phase == PhaseName.WORKLOAD]
    joules = sum(one.joules or 0.0 for one in rails)
    parts = [one.meter_joules for one in rails]
    if watts is None or joules <= 0 or None in parts:
        return None, None
    share = sum(part for part in parts if part is not None) / joules
    return watts * (1 - share), watts * (1 + share)


def greatest_by_cell(rows: pl.DataFrame) -> dict[str, dict[str, tuple[float | None, str]]]:
    """Return by cell and window the greatest of its runs, or why no run has it."""
    found: dict[str, dict[str, tuple[float | None, str]]] = {}
    for (cell, window), part in rows.group_by("cell", "window", maintain_order=True):
        watts = part["watts"].drop_nulls()
        why = "; ".join(dict.fromkeys(part["missing"])) if watts.is_empty() else ""
        found.setdefault(str(cell), {})[str(window)] = (None if watts.is_empty() else float(watts.max()), why)  # type: ignore[arg-type]
    return found
