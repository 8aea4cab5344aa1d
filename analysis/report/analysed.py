# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign with what several chapters of its report need, each computed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from joulerig import text
from joulerig.analysis.agreement import table as agreement
from joulerig.analysis.agreement.methods import Compared
from joulerig.analysis.audit import campaign as drive_audits
from joulerig.analysis.audit.verdict import DriveAudit
from joulerig.analysis.compare import cautions, cross_talk, temperature
from joulerig.analysis.compare import cells as comparison
from joulerig.analysis.compare.cells import Comparison
from joulerig.analysis.compare.cross_talk import CrossTalk
from joulerig.analysis.compare.more_joules import quiescent, with_processor
from joulerig.analysis.compare.more_joules.quiescent import Quiescent
from joulerig.analysis.compare.more_joules.with_processor import WithProcessor
from joulerig.analysis.compare.temperature import Warmth
from joulerig.analysis.drawing import Svg
from joulerig.analysis.energy import meters
from joulerig.analysis.power_states import campaign as states_of
from joulerig.analysis.power_states.campaign import DriveStates
from joulerig.analysis.report import answer
from joulerig.analysis.results.campaign import Campaign, ResultsError
from joulerig.analysis.runs import idle, loss_ledger, over_time, steadiness
from joulerig.analysis.runs import temperature as temperatures
from joulerig.analysis.runs.idle import Idle
from joulerig.analysis.runs.over_time import PowerOverTime
from joulerig.analysis.runs.steadiness import Steadiness
from joulerig.analysis.tables import runs_and_cells

_MOST_VALUES = 6  # of one setting; with more, the runs' own files are the place to look


@dataclass(frozen=True)
class Settings:
    """Settings in effect over the runs.

    `rows`: of each setting its name, the values with the number of runs that have each (none where
    there are too many values to list), and the number of runs that recorded it. `by_drive`: of the
    drives, by host and drive. `damaged`: which files cannot be read.
    """

    rows: list[tuple[str, list[tuple[str, int]], int]]
    by_drive: dict[tuple[str, str], dict[str, str]]
    damaged: list[str]


class Draw(Protocol):
    """What draws several figures by one function of a module, by the keywords of each call."""

    def __call__(self, function: Callable[..., Svg], calls: Sequence[Mapping[str, Any]]) -> list[Svg]: ...


def draw_here(function: Callable[..., Svg], calls: Sequence[Mapping[str, Any]]) -> list[Svg]:
    """Draw figures one after the other."""
    return [function(**keywords) for keywords in calls]


class Analysed:
    """A campaign, its comparisons and its tables. `draw`: what draws several figures.

    Properties may raise ResultsError on a damaged file.
    """

    def __init__(self, campaign: Campaign, draw: Draw = draw_here) -> None:
        self.campaign = campaign
        self.draw = draw

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """Return the comparisons, one by drive and workload."""
        return comparison.compare_cells(self.campaign)

    @cached_property
    def idles(self) -> Mapping[str, Idle]:
        """Return what drives draw at rest, by run."""
        return idle.by_run(self.campaign)

    @cached_property
    def _over_time(self) -> tuple[dict[str, PowerOverTime], list[str]]:
        return over_time.power_by_run(self.campaign)

    @property
    def over_time(self) -> Mapping[str, PowerOverTime]:
        """Return power and performance over the workload phase, by run."""
        return self._over_time[0]

    @property
    def damaged_traces(self) -> list[str]:
        """Return which files of power or progress cannot be read."""
        return self._over_time[1]

    @cached_property
    def cells(self) -> list[dict[str, Any]]:
        """Return the rows of the table of cells."""
        return runs_and_cells.cells(self.campaign, self.comparisons, self.over_time, self.idles).to_dicts()

    @cached_property
    def runs(self) -> list[dict[str, Any]]:
        """Return the rows of the table of runs."""
        return runs_and_cells.runs(self.campaign, self.over_time, self.idles).to_dicts()

    @cached_property
    def groups(self) -> list[answer.Group]:
        """Return the cells by the comparison that they belong to."""
        return answer.groups(self.comparisons, self.cells)

    @cached_property
    def cross_talk(self) -> list[CrossTalk]:
        """Return how runs side by side differ from runs alone; empty without control runs."""
        return cross_talk.estimate(self.campaign)

    @property
    def cross_talk_warning(self) -> str:
        """Return what is to be said of that before any figure; empty where nothing was seen."""
        return cross_talk.warning(self.cross_talk)

    @property
    def loss_warnings(self) -> list[str]:
        """Return the comparisons whose cells lost notably different shares of their samples."""
        return [f"{one.name}: {one.uneven_losses}" for one in self.comparisons if one.uneven_losses]

    @cached_property
    def quiescent(self) -> list[Quiescent]:
        """Return the comparisons by AI and by AI to quiescence."""
        return quiescent.compare(self.campaign, self.comparisons, self.over_time, self.idles)

    @cached_property
    def with_processor(self) -> list[WithProcessor]:
        """Return the comparisons by AI and with the processors' joules; empty without RAPL."""
        return with_processor.compare(self.campaign, self.comparisons)

    @cached_property
    def steadiness(self) -> dict[str, Steadiness]:
        """Return whether each run's load was steady, by run."""
        return steadiness.by_run(self.campaign, self.over_time)

    @cached_property
    def warmth(self) -> list[Warmth]:
        """Return how warm the drives of each comparison's runs were."""
        return temperature.compare(self.campaign, self.comparisons, temperatures.by_run(self.campaign))

    @cached_property
    def audits(self) -> list[DriveAudit]:
        """Return what the rails say of the drives' own reports of power."""
        return drive_audits.audits(self.campaign)

    @cached_property
    def agreement(self) -> list[Compared]:
        """Return how methods agree where a drive has more than meters and a twin."""
        return agreement.compared(self.campaign)

    @cached_property
    def power_states(self) -> list[DriveStates]:
        """Return whether the drives obey what they declare of their power states."""
        return states_of.states(self.campaign, self.over_time, self.idles)

    @cached_property
    def cautions(self) -> list[str]:
        """Return what is to be said before any answer."""
        return cautions.cautions(
            self.campaign, self.comparisons, self.quiescent, self.steadiness, self.warmth
        )

    @cached_property
    def has_truth(self) -> bool:
        """Return whether any run has true joules, as runs on virtual drives have."""
        return any(run["true_joules"] is not None for run in self.runs)

    @cached_property
    def expired_runs(self) -> set[str]:
        """Return the runs whose joules rest on a calibration past its date."""
        return {run["run"] for run in self.runs if run["calibration"] == "expired"}

    @cached_property
    def settings(self) -> Settings:
        """Return the settings that the runs had in effect."""
        return _settings(self.campaign)

    @cached_property
    def expired(self) -> str:
        """Return which calibrations that the figures rest on are expired; empty where none is."""
        provenance, found = self.campaign.provenance, []
        for meter in loss_ledger.meter_ledgers(self.campaign):
            if meters.expired(provenance, meter.meter, meter.last_ns):
                date = meters.calibration(provenance, meter.meter).get("expires", "on an unknown date")
                found.append(f"calibration of {meter.meter} expired {date}")
        return f"{meters.EXPIRED} {'; '.join(found)}." if found else ""


def _settings(campaign: Campaign) -> Settings:
    values: dict[str, Counter[str]] = {}
    by_drive: dict[tuple[str, str], dict[str, str]] = {}
    damaged = []
    for run in campaign.runs:
        try:
            settings = run.settings
        except ResultsError as error:
            damaged.append(str(error))
            continue
        found = settings.get("drive")
        if isinstance(found, dict):  # one drive's, or by drive
            several = all(isinstance(value, dict) for value in found.values())
            for drive, own in found.items() if several else [(campaign.drives(run)[0], found)]:
                by_drive.setdefault((run.host, drive), {}).update(text.flat(own))
        for name, value in text.flat({k: v for k, v in settings.items() if k != "drive"}).items():
            values.setdefault(name, Counter())[value] += 1
    rows = [(name, sorted(counter.items()), counter.total()) for name, counter in sorted(values.items())]
    few = [(name, found if len(found) <= _MOST_VALUES else [], total) for name, found, total in rows]
    return Settings(few, by_drive, damaged)
