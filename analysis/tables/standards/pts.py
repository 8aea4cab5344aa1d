# SPDX-License-Identifier: GPL-3.0-or-later
"""What SNIA SSS PTS asks in the header and the steady-state record of a test, for each drive.

SNIA Solid State Storage Performance Test Specification 2.0.2: test hardware, settings of test and
drive, purge, workload independent and workload dependent preconditioning (WIPC, WDPC), rounds, and
the window that steady state was judged by. The rounds here are WDPC where their job is the load
that is tested; the campaign's own load comes after mkfs, through a file system.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from joulerig.analysis.energy import meters
from joulerig.analysis.results.campaign import Campaign, ResultsError, Run
from joulerig.analysis.statistics import steady_state
from joulerig.analysis.tables.standards.asked import Asked, middle

_UNITS = {"iops": "1/s", "watts": "W"}


def asked(campaign: Campaign) -> Iterator[Asked]:
    """Yield the quantities of each drive, and of each workload that was run on it."""
    by_drive: dict[tuple[str, str], list[Run]] = {}
    for run in campaign.runs:
        if run.performance:
            by_drive.setdefault((run.host, run.drive), []).append(run)
    for (host, drive), runs in by_drive.items():
        yield from _of_drive(campaign, f"{host}/{drive}", host, drive, runs)
        for workload in dict.fromkeys(run.workload for run in runs):
            own = [run for run in runs if run.workload == workload]
            yield from _of_load(f"{host}/{drive} {workload}", own[0])
            yield from _measured(f"{host}/{drive} {workload}", own)


def _of_drive(campaign: Campaign, name: str, host: str, drive: str, runs: Sequence[Run]) -> Iterable[Asked]:
    settings = _file_of(runs[-1], "settings")
    found = settings.get("drive")
    own: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    own = own.get(drive, own) if isinstance(own.get(drive, own), Mapping) else {}
    declared = meters.subtree(campaign.lab, "hosts", host, "drives", drive)
    size = declared.get("size_bytes")
    yield Asked(name, "test hardware", "test system", text=host)
    for quantity in ("motherboard and chipset", "processor", "memory", "host bus adapter"):
        yield Asked(name, "test hardware", quantity)
    yield Asked(name, "test hardware", "operating system", text=str(settings.get("kernel") or ""))
    tools = settings.get("tools")
    stimulus = ", ".join(map(str, tools.values())) if isinstance(tools, Mapping) else ""
    yield Asked(name, "test hardware", "test software", text=stimulus)
    for key, quantity in (("model", "model"), ("firmware", "firmware"), ("serial", "serial")):
        yield Asked(name, "drive", quantity, text=str(own.get(key) or declared.get(key) or ""))
    yield Asked(name, "drive", "interface", text=str(declared.get("interface") or ""))
    yield Asked(name, "drive", "capacity", size / 1e9 if isinstance(size, int) else None, "GB")
    cache = settings.get("write_cache")
    if not isinstance(cache, Mapping):
        cache = meters.subtree(settings, "queue", "write_cache")
    yield Asked(name, "drive", "write cache", text=str(cache.get("in_effect") or ""))
    found_preconditions = _preconditions(runs)
    for by, made in found_preconditions.items():
        yield from _of_precondition(f"{name} before run {by}", made)
    if not found_preconditions:
        yield from _of_precondition(name, {})


def _of_precondition(name: str, made: Mapping[str, Any]) -> Iterable[Asked]:
    recipe: Mapping[str, Any] = made.get("recipe") or {}
    verdict: Mapping[str, Any] = made.get("verdict") or {}
    windows = {window["series"]: window for window in verdict.get("windows") or []}
    used = recipe.get("use_bytes")
    yield Asked(name, "preconditioning", "purge", text=str(recipe.get("purge") or ""))
    whole = "the whole drive" if recipe and not used else ""
    yield Asked(name, "preconditioning", "active range", used / 1e9 if used else None, "GB", whole)
    yield Asked(name, "preconditioning", "WIPC: passes over the active range", _number(recipe.get("passes")))
    yield Asked(name, "preconditioning", "WDPC: load of the rounds", text=str(recipe.get("job") or ""))
    yield Asked(name, "preconditioning", "WDPC by the tested load through its file system")
    yield Asked(name, "steady state", "length of a round", _number(recipe.get("round_seconds")), "s")
    rounds = verdict.get("rounds")
    total = None if rounds is None else float(rounds + verdict.get("rounds_before", 0))
    yield Asked(name, "steady state", "rounds", total)
    verdict_text = "" if not verdict else "yes" if verdict.get("steady") else "no"
    yield Asked(name, "steady state", "reached", text=verdict_text)
    for series in steady_state.SERIES:
        window = windows.get(series, {})
        ends = f"{window['first']} to {window['last']}" if window else ""
        yield Asked(name, "steady state", f"{series}: rounds of the window", text=ends)
        yield Asked(name, "steady state", f"{series}: mean", window.get("mean"), _UNITS[series])
        for figure, limit in (("range", steady_state.RANGE_LIMIT), ("slope", steady_state.SLOPE_LIMIT)):
            value = window.get(f"{figure}_fraction")
            quantity = f"{series}: {figure}, at most {100 * limit:g} allowed"
            yield Asked(name, "steady state", quantity, None if value is None else 100 * value, "%")


def _of_load(name: str, run: Run) -> Iterable[Asked]:
    """Yield the settings of a load, as fio's own report has them."""
    report = _file_of(run, "load")
    jobs = [job.get("job options") or {} for job in report.get("jobs") or [] if isinstance(job, Mapping)]
    common = report.get("global options") or {}
    options = [{**common, **job} for job in jobs]

    def setting(key: str) -> str:
        return ", ".join(dict.fromkeys(str(one[key]) for one in options if key in one))

    pattern = setting("buffer_pattern") or (
        f"{share} % compressible" if (share := setting("buffer_compress_percentage")) else ""
    )
    yield Asked(name, "load", "access", text=setting("rw"))
    yield Asked(name, "load", "block size", text=setting("bs"))
    yield Asked(name, "load", "data pattern", text=pattern)
    yield Asked(name, "load", "entropy of the data")
    yield Asked(name, "load", "threads", _threads(options))
    yield Asked(name, "load", "outstanding I/O per thread", text=setting("iodepth"))
    yield Asked(name, "load", "active range", text=setting("size"))
    for matrix in ("IOPS", "throughput", "latency"):
        yield Asked(name, "load", f"{matrix} by block size and share of reads")


def _measured(name: str, runs: Sequence[Run]) -> Iterable[Asked]:
    """Yield what a load did, the median over its runs, through whichever file systems they had."""
    rows = [vars(run.performance) for run in runs if run.performance]
    for quantity, column, unit in (
        ("operations per second", "ops_per_second", "1/s"),
        ("throughput", "mb_per_second", "MB/s"),
        ("median latency", "latency_p50_seconds", "s"),
        ("99 % quantile of latency", "latency_p99_seconds", "s"),
    ):
        yield Asked(name, "measured", f"{quantity}, through a file system", middle(rows, column), unit)
    for quantity in ("greatest latency", "latency histogram", "write history"):
        yield Asked(name, "measured", quantity)


def _threads(options: Sequence[Mapping[str, Any]]) -> float | None:
    try:
        return float(sum(int(one.get("numjobs", 1)) for one in options)) if options else None
    except (TypeError, ValueError):
        return None


def _preconditions(runs: Sequence[Run]) -> dict[str, Mapping[str, Any]]:
    """Return the preconditions that the runs stand on, by the run that each was made for."""
    found: dict[str, Mapping[str, Any]] = {}
    for run in runs:
        if made := _file_of(run, "precondition"):
            found.setdefault(str(made.get("by", run.id)), made)
    return found


def _file_of(run: Run, name: str) -> dict[str, Any]:
    """Return a file of a run; empty where it is damaged, which the report names."""
    try:
        return dict(getattr(run, name))
    except ResultsError:
        return {}


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None
