# SPDX-License-Identifier: GPL-3.0-or-later
"""What SNIA Emerald asks of storage devices, as a table of quantities for each cell.

SNIA Emerald Power Efficiency Measurement Specification for Data Center Storage Devices, V1.0, by
its abstract: taxonomy, test sequence, configuration, instrumentation, benchmark driver, I/O
profiles, measurement interval, stability of the metric; ratios of idle capacity or operations to
mean power. Loads here go through a file system, so that no figure is one of Emerald's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from joulerig.analysis.drives import windows
from joulerig.analysis.energy import meters
from joulerig.analysis.results.campaign import Campaign, ResultsError, Run
from joulerig.analysis.results.schema import PhaseName
from joulerig.analysis.runs import loss_ledger
from joulerig.analysis.runs.derived import WHY_NO_IDLE
from joulerig.analysis.tables.standards.asked import NOT_MEASURED, Asked, instrument, middle

Row = Mapping[str, Any]
Greatest = Mapping[str, Mapping[str, tuple[float | None, str]]]


def asked(
    campaign: Campaign, runs: Sequence[dict[str, Any]], cells: Sequence[Row], greatest: Greatest
) -> Iterator[Asked]:
    """Yield the quantities of each cell that has a result, then those of each meter.

    `runs`, `cells`: rows of analysis.tables.runs_and_cells. `greatest`: by cell and window, of
    analysis.drives.windows.
    """
    by_cell = campaign.cells()
    for cell in cells:
        counted = [run for run in by_cell[cell["cell"]] if run.counts or run.unmetered]
        if counted:
            own = {run.id for run in counted}
            rows = [row for row in runs if row["run"] in own]
            yield from _of_cell(campaign, cell, counted, rows, greatest.get(cell["cell"], {}))
    for ledger in loss_ledger.meter_ledgers(campaign):
        yield from instrument(campaign, ledger)


def _of_cell(
    campaign: Campaign,
    cell: Row,
    counted: Sequence[Run],
    rows: Sequence[dict[str, Any]],
    greatest: Mapping[str, tuple[float | None, str]],
) -> Iterable[Asked]:
    name, first = cell["cell"], counted[0]
    drives = [
        meters.subtree(campaign.lab, "hosts", first.host, "drives", drive) for drive in campaign.drives(first)
    ]
    kinds = ", ".join(dict.fromkeys(str(spec["interface"]) for spec in drives if spec.get("interface")))
    sizes = [size for spec in drives if isinstance(size := spec.get("size_bytes"), int)]
    capacity = sum(sizes) / 1e9 if len(sizes) == len(drives) else None
    yield Asked(name, "taxonomy", "category of the taxonomy")
    yield Asked(name, "taxonomy", "interface", text=kinds)
    yield Asked(name, "taxonomy", "raw capacity", capacity, "GB")
    yield Asked(name, "test sequence", "conditioning", text=_conditioning(counted))
    yield Asked(name, "test sequence", "sequence of the specified profiles")
    yield Asked(name, "I/O profile", "load", text=f"{first.workload} through {first.key.combination}")
    for profile in ("random read", "random write", "mixed", "sequential read", "sequential write"):
        yield Asked(name, "I/O profile", f"{profile} of the raw device")
    yield Asked(name, "measurement interval", "length", middle(rows, "workload_seconds"), "s")
    yield Asked(name, "measurement interval", "selection", text="the whole load, no stable part of it")
    for series, noun in (("ops", "operations per second"), ("watts", "watts")):
        for figure in ("range", "slope"):
            value = middle(rows, f"fifths_{series}_{figure}_percent")
            yield Asked(name, "stability", f"{figure} of {noun} in fifths of the interval", value, "%")
    yield Asked(name, "stability", "runs that are stable", _float(cell["runs_steady"]))
    yield Asked(name, "stability", "runs", float(cell["runs_counted"]))
    idle = [run.phases[PhaseName.IDLE].seconds for run in counted if PhaseName.IDLE in run.phases]
    yield Asked(name, "idle", "length of the idle interval", min(idle, default=None), "s")
    unknown = f"not known: {cell[WHY_NO_IDLE]}" if cell[WHY_NO_IDLE] else ""
    yield Asked(name, "idle", "mean idle power", cell["idle_watts"], "W", unknown)
    for end, which in (("low", "lower"), ("high", "upper")):
        value = cell[f"idle_watts_{end}"]
        yield Asked(name, "idle", f"{which} end of its interval", value, "W", unknown)
    yield Asked(name, "idle", "runs that were at rest", _float(cell["runs_at_rest"]))
    yield Asked(name, "idle", "idle capacity per watt", cell["idle_gb_per_watt"], "GB/W", unknown)
    yield Asked(name, "active", "mean power", cell["mean_watts"], "W")
    for window in windows.NAMES.values():
        watts, why = greatest.get(window, (None, ""))
        text = f"{NOT_MEASURED}: {why}" if why else ""
        yield Asked(name, "active", f"greatest mean power of {window}", watts, "W", text)
    yield Asked(name, "active", "requests of the block layer per watt", cell["iops_per_watt"], "1/s/W")
    yield Asked(name, "active", "throughput per watt", cell["mib_per_second_per_watt"], "MiB/s/W")
    yield Asked(name, "active", "operations of the load per watt", cell["ai_ops_per_joule"], "1/s/W")
    yield Asked(name, "environment", "input volts", _volts(counted), "V")
    yield Asked(name, "environment", "ambient temperature")
    for end in ("start", "end"):
        value = cell[f"temperature_{end}_celsius"]
        yield Asked(name, "environment", f"temperature of the drive at the {end}", value, "°C")


def _float(value: int | None) -> float | None:
    return None if value is None else float(value)


def _conditioning(runs: Sequence[Run]) -> str:
    """Describe the preconditions of these runs; empty where there were none."""
    found = []
    for run in runs:
        try:
            if recipe := run.precondition.get("recipe"):
                steady = meters.subtree(run.precondition, "verdict").get("steady")
                found.append(
                    f"purge {recipe.get('purge')}, {recipe.get('passes')} passes, rounds of"
                    f" {recipe.get('job')}: {'steady' if steady else 'not steady'}"
                )
        except ResultsError:
            found.append("damaged record")
    return "; ".join(dict.fromkeys(found))


def _volts(runs: Sequence[Run]) -> float | None:
    """Return the mean volts of the load, of runs with a single rail; None of several rails."""
    rails = [
        (rail, run.phases[PhaseName.WORKLOAD].seconds)
        for run in runs
        for rail in run.energy
        if rail.phase == PhaseName.WORKLOAD and PhaseName.WORKLOAD in run.phases
    ]
    if len({(rail.drive, rail.rail) for rail, _ in rails}) != 1:
        return None
    known = [
        (rail.volt_seconds, seconds - rail.gap_seconds)
        for rail, seconds in rails
        if rail.volt_seconds is not None
    ]
    seconds = sum(length for _, length in known)
    return sum(integral for integral, _ in known) / seconds if seconds > 0 else None
