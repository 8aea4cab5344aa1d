# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan is expected to take: by earlier runs of the like, else by the drives' sizes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from joulerig.analysis.runs import steadiness
from joulerig.analysis.statistics import detection
from joulerig.garbage import none_collected
from joulerig.rig import workloads
from joulerig.rig.campaign.definition import FILL_BYTES_PER_SECOND, Bounds, Cost, Precondition, Work
from joulerig.rig.campaign.forecast.earlier import DECIDING, Earlier, Sample, Subject, subject_of
from joulerig.rig.campaign.plan import MeasurementPlan
from joulerig.rig.lab.model import Drive, Lab, TestHost

ASSUMED_SPREAD = 0.03  # standard deviation of log AI between the runs of a cell
FEWEST_FOR_SPREAD = 5  # degrees of freedom
LADDER = 0.1, 0.6  # how far the others of a race are behind the best, for its expected runs
SUSTAINED_BYTES_PER_SECOND = {**FILL_BYTES_PER_SECOND, "hdd": 100e6}


class Expected(Bounds):
    """What earlier runs of the like took; what none of them shows is assumed."""

    def __init__(self, earlier: Earlier, lab: Lab, use_bytes: int | None) -> None:
        self._earlier, self._lab, self._use_bytes = earlier, lab, use_bytes
        self._of_work: dict[int, Subject] = {}  # by the id of a work
        self._subjects: dict[tuple[str, ...], Subject] = {}  # by what decides: cells have it in common
        self._medians: dict[tuple[int, str], float | None] = {}  # by the id of a subject, figure
        self._known = workloads.load(lab)

    def subject(self, work: Work) -> Subject:
        """Return what decides how long a run takes."""
        if (found := self._of_work.get(id(work))) is None:
            levels = work.run.levels
            key = (work.run.host, *work.drives, *(levels.get(name, "") for name in DECIDING))
            if key not in self._subjects:
                self._subjects[key] = subject_of(work.run, self._lab, self._use_bytes)
            found = self._of_work[id(work)] = self._subjects[key]
        return found

    def _measured(self, work: Work, figure: str) -> float | None:
        subject = self.subject(work)
        key = id(subject), figure
        if key not in self._medians:
            self._medians[key] = self._earlier.median(subject, figure)
        return self._medians[key]

    def boot_seconds(self, host: TestHost) -> float:
        measured = self._earlier.boot_seconds()
        return super().boot_seconds(host) if measured is None else measured

    def load_seconds(self, work: Work) -> float:
        took, asked = self._measured(work, "load_seconds"), self._measured(work, "asked_seconds")
        return took if steadiness.ends_by_itself(took, asked) else work.workload_seconds

    def outside_seconds(self, work: Work) -> float:
        measured = self._measured(work, "outside_seconds")
        return super().outside_seconds(work) if measured is None else measured

    def bytes_per_second(self, work: Work) -> dict[str, float]:
        rate = self._measured(work, "bytes_per_second")
        if rate is None:
            rate = self._known[work.run.levels["workload"]].bytes_per_second()
        if rate is not None:
            return dict.fromkeys(work.drives, rate / len(work.drives))
        most = super().bytes_per_second(work)
        return {
            name: SUSTAINED_BYTES_PER_SECOND.get(drive.interface, most[name])
            for name, drive in work.drives.items()
        }

    def watts(self, work: Work) -> float:
        measured = self._measured(work, "watts")
        return super().watts(work) if measured is None else measured

    def precondition(self, asked: Precondition, drive: Drive, used_bytes: int) -> tuple[float, float]:
        seconds, _ = super().precondition(asked, drive, used_bytes)
        measured = self._earlier.precondition_seconds(drive.serial)
        rounds = asked.round_seconds * asked.max_rounds * SUSTAINED_BYTES_PER_SECOND[drive.interface]
        return seconds if measured is None else measured, asked.passes * used_bytes + rounds


@dataclass(frozen=True)
class Difference:
    """How far all others must be behind the best to be separated from it (statistics.detection).

    A fraction of the best of `compared` cells; None where the design detects nothing. `spread`: the
    standard deviation of log AI between runs of a cell; `runs`: how many earlier runs it is from, 0
    where it is assumed. `share`: of a race, the fraction of its runs that are executed if the
    others are `LADDER` behind the best; None where the cells do not race.
    """

    smallest: float | None
    compared: int
    spread: float
    runs: int
    share: float | None


@dataclass(frozen=True)
class Forecast:
    """What a plan is expected to take, and at most.

    `measured_runs`: how many earlier runs of the like there are; `measured_share`: the fraction of
    the plan's runs that they stand for; `measured_joules`: whether they have all of its energy.
    """

    expected: Cost
    at_most: Cost
    measured_runs: int
    measured_share: float
    measured_joules: bool
    difference: Difference


@none_collected()
def forecast(plan: MeasurementPlan, earlier: Earlier) -> Forecast:
    """Return what a plan will take, by what earlier runs took."""
    assumed = Expected(earlier, plan.lab, plan.campaign.use_bytes)
    works = list(plan.works.values())
    used: set[int] = set()
    covered = with_joules = total = 0
    for work, times in works:
        alike = earlier.alike(assumed.subject(work))
        used.update(map(id, alike))
        total += times
        covered += times if alike else 0
        with_joules += times if any(one.watts is not None for one in alike) else 0
    return Forecast(
        expected=plan.cost_as(assumed),
        at_most=plan.cost(),
        measured_runs=len(used),
        measured_share=covered / total if total else 0.0,
        measured_joules=total > 0 and with_joules == total,
        difference=_difference(plan, [work for work, _ in works], assumed, earlier),
    )


def _difference(plan: MeasurementPlan, works: list[Work], assumed: Expected, earlier: Earlier) -> Difference:
    """Return what the design detects between the cells that are compared with each other."""
    compared, blocks = max(plan.groups.values(), default=0), plan.campaign.replicates
    cells = {(assumed.subject(work).drives, tuple(sorted(work.run.levels.items()))) for work in works}
    same = [one for one in earlier.samples if (one.subject.drives, one.levels) in cells]
    spread, count = _spread(same)
    race = plan.race()
    if compared < 2:
        return Difference(None, compared, spread, count, None)
    if race is None:
        return Difference(detection.smallest_fixed(compared, blocks, spread), compared, spread, count, None)
    first, last = LADDER
    behind = [first + (last - first) * number / max(1, compared - 2) for number in range(compared - 1)]
    return Difference(
        detection.smallest_in_race(compared, race, spread),
        compared,
        spread,
        count,
        detection.expected_share(behind, race, spread),
    )


def _spread(samples: list[Sample]) -> tuple[float, int]:
    """Return the standard deviation of log AI within a campaign's cells, and of how many runs.

    Blocks are not taken out, so where they differ it is too large rather than too small. With too
    few runs the assumed one, of 0 runs.
    """
    cells: dict[tuple[object, ...], list[float]] = {}
    for one in samples:
        if one.work_per_joule is not None and one.work_per_joule > 0:
            key = one.campaign, one.subject.drives, one.levels
            cells.setdefault(key, []).append(math.log(one.work_per_joule))
    several = [values for values in cells.values() if len(values) > 1]
    degrees = sum(len(values) - 1 for values in several)
    if degrees < FEWEST_FOR_SPREAD:
        return ASSUMED_SPREAD, 0
    squares = sum(statistics.variance(values) * (len(values) - 1) for values in several)
    return math.sqrt(squares / degrees), sum(map(len, several))


def share_of_rating(cost: Cost, lab: Lab) -> Mapping[tuple[str, str], float]:
    """Return the fraction of its rated writes that a plan costs each drive that declares them."""
    found = {}
    for (host, name), amount in cost.written.items():
        if rated := lab.hosts[host].drives[name].rated_terabytes_written:
            found[host, name] = amount / (1e12 * rated)
    return found
