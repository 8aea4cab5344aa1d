# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures in addition to AI, of a run and of a cell.

They are idle-subtracted energy, cost of an operation, of a sync and of a durable byte, how much is
written at each level, and the rates per watt that SNIA's Emerald reports.

Each is one amount over another, both of the workload phase. A run's figure is its own ratio, a
cell's the ratio of sums over its runs (analysis.energy.indicator.ratio_of_sums says why), of those
that have both amounts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from joulerig.analysis.energy import meters
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import IoCount
from joulerig.analysis.runs.idle import Idle

Amounts = Mapping[str, float | None]

GB, MIB = 1e9, 2**20

# Figure: (amount, over which other amount). Units are in the names.
AT_REST = {
    "idle_watts_low": ("idle_joules_low", "seconds"),
    "idle_watts_high": ("idle_joules_high", "seconds"),
    "base_load_fraction": ("idle_joules", "joules"),
}
RATIOS = {
    "idle_watts": ("idle_joules", "seconds"),
    "joules_per_op": ("joules", "ops"),
    "cpu_joules_per_op": ("cpu_joules", "ops"),
    "joules_per_sync": ("joules", "syncs"),
    "joules_per_durable_byte": ("joules", "durable_bytes"),
    "block_bytes_per_written_byte": ("block_write_bytes", "write_bytes"),
    "device_bytes_per_block_byte": ("device_write_bytes", "block_write_bytes"),
    "flushes_per_op": ("flushes", "ops"),
    "journal_transactions_per_op": ("journal_transactions", "ops"),
    "iops_per_watt": ("block_requests", "joules"),
    "mib_per_second_per_watt": ("block_mib", "joules"),
    "idle_gb_per_watt": ("capacity_gb_seconds", "idle_joules"),
    **AT_REST,
}
# Amounts that stand in the tables of runs themselves, and sums of them in that of cells.
SHOWN_AMOUNTS = ("block_write_bytes", "device_write_bytes")
# What a load added, of runs and, by operation, of cells: its interval, and why it is not shown.
DYNAMIC = ("dynamic_joules", "dynamic_joules_low", "dynamic_joules_high")
DYNAMIC_PER_OP = tuple(f"{name}_per_op{end}" for name in DYNAMIC[:1] for end in ("", "_low", "_high"))
WHY_NOT_DYNAMIC = "dynamic_joules_unknown"
WHY_NO_IDLE = "idle_unknown"
VOLUMES = ("write_bytes", "block_write_bytes", "device_write_bytes")


def amounts(campaign: Campaign, run: Run, idle: Idle | None = None) -> dict[str, float | None]:
    """Return what a run came to; None where it is not known. Empty for a run without performance.

    `idle`: of `analysis.runs.idle`; None where what follows from it is not asked for.

    idle_joules, idle_joules_low, idle_joules_high
        What its drives would have drawn in the workload phase at rest.
    dynamic_joules
        joules less idle_joules: what the load added, as a reading. `dynamic` says whether it is
        known.
    dynamic_joules_low, dynamic_joules_high
        Its interval, by that of the load's energy and that of idle power for as long as it took.
    cpu_joules
        Of all processor packages of the test host, whatever ran there (RAPL); next to the drives'
        joules, never among them.
    durable_bytes
        What the workload wrote, where it synced: its syncs made that durable. What came after the
        last sync is among it.
    block_*, flushes
        What the block layer of the test host passed on: all of it, also a file system's own.
        Requests are reads and writes, flushes among them.
    device_write_bytes
        What reached the drive, as a virtual drive counts it; a physical one has no count of one
        phase.
    capacity_gb_seconds
        Raw capacity of all drives of the run, in 10^9 bytes, times the phase.
    """
    performance = run.performance
    if performance is None:
        return {}
    result = run.result
    joules = result.ai_joules if result else None
    at_rest = idle or Idle()
    rest, rest_low, rest_high = (
        None if watts is None else watts * performance.seconds
        for watts in (at_rest.watts, at_rest.low, at_rest.high)
    )
    block, device = run.io.get("host") or run.io.get("iod"), run.io.get("twin")
    moved = _sum(_count(block, "read_bytes"), _count(block, "write_bytes"))
    capacity = _capacity_bytes(campaign, run)
    return {
        "seconds": performance.seconds,
        "joules": joules,
        "idle_joules": rest,
        "idle_joules_low": rest_low,
        "idle_joules_high": rest_high,
        "dynamic_joules": _difference(joules, rest),
        "dynamic_joules_low": _difference(result.joules_low if result else None, rest_high),
        "dynamic_joules_high": _difference(result.joules_high if result else None, rest_low),
        "cpu_joules": result.cpu_joules if result else None,
        "ops": performance.ops,
        "syncs": performance.syncs,
        "write_bytes": performance.write_bytes,
        "durable_bytes": performance.write_bytes if performance.syncs else None,
        "block_requests": _sum(_count(block, "reads"), _count(block, "writes")),
        "block_mib": None if moved is None else moved / MIB,
        "block_write_bytes": _count(block, "write_bytes"),
        "device_write_bytes": _count(device, "write_bytes"),
        "flushes": _count(block, "flushes"),
        "journal_transactions": _count(run.io.get("iod"), "journal_transactions"),
        "capacity_gb_seconds": None if capacity is None else capacity / GB * performance.seconds,
    }


def figures(runs: Sequence[Amounts]) -> dict[str, float | None]:
    """Compute all figures of one run, or of a cell's runs, from their `amounts`.

    None where nothing, or nothing positive, is there to divide by.
    """
    return {name: figure(runs, name) for name in RATIOS}


def figure(runs: Sequence[Amounts], name: str) -> float | None:
    """Compute one of the `figures`."""
    return _ratio(runs, *RATIOS[name])


def dynamic(amounts: Amounts, why_no_idle: str = "") -> dict[str, float | str | None]:
    """Return what a run's load added, with its interval, or why it is not known.

    `why_no_idle`: why idle power is not known.
    """
    values = tuple(amounts.get(name) for name in DYNAMIC)
    why = _why_unknown(values, why_no_idle) if amounts else ""
    shown = dict.fromkeys(DYNAMIC[:1]) if why else {DYNAMIC[0]: values[0]}
    return {**shown, **dict(zip(DYNAMIC[1:], values[1:], strict=True)), WHY_NOT_DYNAMIC: why or None}


def dynamic_per_op(runs: Sequence[Amounts], why_no_idle: str = "") -> dict[str, float | str | None]:
    """Return the same for each operation of a cell, of its runs whose idle power is known.

    Its limits add up over runs: what is wrong with a meter is wrong in all of them.
    """
    known = [run for run in runs if run.get(DYNAMIC[0]) is not None]
    ops = math.fsum(run["ops"] or 0 for run in known)
    values = [_total(run[name] for run in known) if ops > 0 else None for name in DYNAMIC]
    values = [None if value is None else value / ops for value in values]
    why = _why_unknown(values, why_no_idle) if any(runs) else ""
    per_op = dict(zip(DYNAMIC_PER_OP, (None if why else values[0], *values[1:]), strict=True))
    return {**per_op, WHY_NOT_DYNAMIC: why or None}


def _total(values: Iterable[float | None]) -> float | None:
    """Sum values; None where one is not known."""
    known = list(values)
    return None if None in known else math.fsum(value for value in known if value is not None)


def _why_unknown(values: Sequence[float | None], why_no_idle: str) -> str:
    """Say why what a load added, with its least and greatest, is not known; empty where it is.

    No load gives energy back: if all of the interval is below 0, idle power is wrong.
    """
    reading, low, high = values
    if reading is None:
        return why_no_idle or "no joules of the load"
    if low is None or high is None:
        return "nothing bounds the joules of the load or idle power"
    if high < 0:
        return "ALARM: below 0 beyond its uncertainty, so what was taken for idle power is not"
    return "its interval reaches 0" if low <= 0 else ""


def volumes(runs: Sequence[Amounts]) -> dict[str, float | None]:
    """Sum the bytes that the runs wrote, by level; None where those of a run are not known."""
    found = {name: [run.get(name) for run in runs] for name in VOLUMES}
    return {
        name: sum(amounts) if amounts and None not in amounts else None for name, amounts in found.items()
    }


def _ratio(runs: Sequence[Amounts], top: str, bottom: str) -> float | None:
    tops, bottoms = [], []
    for run in runs:
        above, below = run.get(top), run.get(bottom)
        if above is not None and below is not None:
            tops.append(above)
            bottoms.append(below)
    total = math.fsum(bottoms)
    return math.fsum(tops) / total if total > 0 else None


def _capacity_bytes(campaign: Campaign, run: Run) -> float | None:
    sizes = [
        meters.subtree(campaign.lab, "hosts", run.host, "drives", drive).get("size_bytes")
        for drive in campaign.drives(run)
    ]
    return sum(sizes) if sizes and all(isinstance(size, int) for size in sizes) else None


def _count(count: IoCount | None, name: str) -> int | None:
    return None if count is None else getattr(count, name)


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _difference(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other
