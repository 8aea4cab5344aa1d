# SPDX-License-Identifier: GPL-3.0-or-later
"""What drives reported of their power in a run, as its host read it from their log pages.

The host's module wrote it into result.json (ansible/module_utils/joulerig/ownpower).
Instants are on the controller's clock here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from joulerig.analysis.results.schema import PhaseName

NS = 1e9
FEWEST_SECONDS = 3  # of a measurement: with fewer, its ends are most of it


@dataclass(frozen=True)
class Histogram:
    """How many seconds had which power: `counts` by the lower ends `watts`, and those beyond."""

    watts: tuple[float, ...]
    counts: tuple[int, ...]
    bin_watts: float
    overflow: int


@dataclass(frozen=True)
class Reading:
    """The power that a drive reported in a phase.

    `condition`: "idle", or the workload. `quantity`: `INTERVAL`, a measurement from `start_ns` to
    `stop_ns` of so many `seconds`, or `SECOND`, the last whole second before `stop_ns`.
    `step_watts`: of the report's last digit. `error_percent`: which the drive states; None: none.
    `instant_error_seconds`: by which the drive may have been started or stopped earlier or later.
    """

    run: str
    drive: str
    condition: str
    quantity: str
    start_ns: int
    stop_ns: int
    seconds: int
    watts: float
    step_watts: float
    error_percent: float | None = None
    most_watts: float | None = None
    histogram: Histogram | None = None
    instant_error_seconds: float = 0.0


INTERVAL, SECOND = "interval", "second"


@dataclass(frozen=True)
class Counter:
    """A drive's lifetime energy at an instant, and how often it had been given power."""

    run: str
    time_ns: int
    watt_hours: int
    power_cycles: int | None


@dataclass(frozen=True)
class Reports:
    """All that a drive reported in a run. `problems`: what could not be read, a line each."""

    readings: tuple[Reading, ...] = ()
    counters: tuple[Counter, ...] = ()
    problems: tuple[str, ...] = ()


def of_run(
    run: str, drive: str, workload: str, recorded: Iterable[Mapping[str, Any]], offset_ns: int
) -> Reports:
    """Take a drive's reports from a run's result.json.

    Parameters
    ----------
    recorded : iterable of mappings
        Its `power_reports`.
    offset_ns : int
        The controller's clock less the host's.

    Raises
    ------
    ArithmeticError, AttributeError, LookupError, TypeError, ValueError
        For what the host's module does not write.
    """
    readings: list[Reading] = []
    counters: list[Counter] = []
    problems: list[str] = []
    for one in recorded:
        if one["drive"] != drive:
            continue
        condition = workload if one["phase"] == PhaseName.WORKLOAD else str(one["phase"])
        counters += _counters(run, one, offset_ns)
        if one.get("problem"):
            problems.append(f"{run}: {condition}: {one['problem']}")
        readings += _readings(run, drive, condition, one, offset_ns)
    return Reports(tuple(readings), tuple(counters), tuple(problems))


def _counters(run: str, one: Mapping[str, Any], offset_ns: int) -> Iterator[Counter]:
    for health in (one.get("before"), one.get("after")):
        if health:
            yield Counter(
                run, int(health["time_ns"]) + offset_ns, int(health["watt_hours"]), health["power_cycles"]
            )


def _readings(
    run: str, drive: str, condition: str, one: Mapping[str, Any], offset_ns: int
) -> Iterator[Reading]:
    found, after = one.get("measurement"), one.get("after")
    error = None if not found else found["error_percent"]
    if found and found["seconds"] >= FEWEST_SECONDS and not found["has_gaps"]:
        bins = found["bins"]
        histogram = None
        if bins["counts"]:
            histogram = Histogram(
                tuple(map(float, bins["watts"])),
                tuple(map(int, bins["counts"])),
                float(bins["bin_watts"]),
                int(bins["overflow"]),
            )
        yield Reading(
            run, drive, condition, INTERVAL,
            int(one["start_ns"]) + offset_ns, int(one["stop_ns"]) + offset_ns,
            int(found["seconds"]), float(found["watts"]), float(found["step_watts"]), error,
            found["most_watts"], histogram, one.get("instant_error_ns", 0) / NS,
        )  # fmt: skip
    if after and after["watts"] is not None:
        at = int(after["time_ns"]) + offset_ns
        yield Reading(
            run, drive, condition, SECOND, at - round(NS), at, 1,
            float(after["watts"]), float(after["step_watts"]), error,
        )  # fmt: skip
