# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the power states of a campaign's drives, from the files of its runs.

Only factors by which a drive rests or works in a state are looked at: a campaign without one costs
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from joulerig.analysis.power_states import checks, measured
from joulerig.analysis.power_states.checks import Check, Verdict
from joulerig.analysis.power_states.course import Rests
from joulerig.analysis.power_states.measured import Measured
from joulerig.analysis.results import power_points, run_file, waveform
from joulerig.analysis.results.campaign import Campaign, ResultsError, Run
from joulerig.analysis.results.schema import WORKED
from joulerig.analysis.runs import idle
from joulerig.analysis.runs.idle import RESTING, WORKING, Idle
from joulerig.analysis.runs.over_time import PowerOverTime, power_by_run

_UNREADABLE = (
    ArithmeticError, AttributeError, LookupError, ResultsError, TypeError, ValueError,
    power_points.PowerFileError, run_file.RunFileError, waveform.WaveformError,
)  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """What the runs of one level of a factor say of a drive.

    `condition`: what else their cell has. `rests`: of runs of which the load's power shows any.
    `awake_watts`: what such a load draws where the drive is kept awake. `never`: as in
    `checks.Rested`.
    """

    factor: str
    level: str
    condition: str
    checks: tuple[Check, ...]
    rests: tuple[Rests, ...] = ()
    awake_watts: float | None = None
    never: bool = False

    @property
    def name(self) -> str:
        return f"{self.factor}={self.level}"


@dataclass
class DriveStates:
    """A drive with its settings. `problems`: files that cannot be read, a line each."""

    host: str
    drive: str
    settings: list[Setting] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict:
        """Return the gravest verdict of its settings."""
        found = {one.verdict for setting in self.settings for one in setting.checks}
        if any(setting.never for setting in self.settings):
            found.add(Verdict.CONTRADICTED)
        order = (Verdict.CONTRADICTED, Verdict.UNDECIDED, Verdict.OBEYS)
        return next((one for one in order if one in found), Verdict.NOTHING_DECLARED)

    @property
    def findings(self) -> list[str]:
        """Return in what it does not do as it declares, a line each."""
        return [line for setting in self.settings for line in _findings(setting)]


def states(
    campaign: Campaign,
    over: Mapping[str, PowerOverTime] | None = None,
    idles: Mapping[str, Idle] | None = None,
) -> list[DriveStates]:
    """Judge each drive of a campaign that varies how drives rest or work, in the order of the runs.

    `over`, `idles`: power over time and at rest by run, where they are known already. Runs that
    failed count for nothing. A damaged file is a problem of the drive.
    """
    varied = [name for name in (*RESTING, *WORKING) if _varies(campaign, name)]
    if not varied:
        return []
    if over is None:
        over = power_by_run(campaign)[0] if any(name in WORKING for name in varied) else {}
    idles = idle.by_run(campaign) if idles is None else idles
    found: dict[tuple[str, str], DriveStates] = {}
    runs: dict[tuple[str, str], list[tuple[Run, Measured]]] = {}
    for run in campaign.runs:
        if run.status not in WORKED or run.is_control:
            continue
        for drive in campaign.drives(run):
            own = found.setdefault((run.host, drive), DriveStates(run.host, drive))
            try:
                at_rest = idles[run.id].drives.get(drive, idle.NOT_FOUND)
                one = measured.of_run(campaign, run, drive, at_rest, _may_rest(run), over.get(run.id))
            except _UNREADABLE as error:
                own.problems.append(f"{run.id}: {type(error).__name__}: {error}")
            else:
                runs.setdefault((run.host, drive), []).append((run, one))
    for key, own in found.items():
        for name in varied:
            own.settings += _settings(runs.get(key, []), name)
    return [own for own in found.values() if own.settings or own.problems]


def _varies(campaign: Campaign, name: str) -> bool:
    return any(name in run.factors for run in campaign.runs)


def _may_rest(run: Run) -> bool:
    """Return whether a factor lets the drive rest: only then its load's power is looked at."""
    return any(run.factors.get(name, awake) != awake for name, awake in RESTING.items())


def _settings(runs: Sequence[tuple[Run, Measured]], name: str) -> Iterator[Setting]:
    """Yield what each level of a factor gives, by what else the cells have."""
    groups: dict[tuple[str, ...], dict[str, list[Measured]]] = {}
    for run, one in runs:
        if name in run.factors:
            others = tuple(
                f"{key}={value}" for key, value in run.factors.items() if key not in (name, "drive")
            )
            groups.setdefault(others, {}).setdefault(str(run.factors[name]), []).append(one)
    for others, levels in groups.items():
        condition = " ".join(others)
        for level, own in levels.items():
            if name in WORKING:
                if found := checks.working(own, _limit(name, level)):
                    yield Setting(name, level, condition, found)
            elif level != RESTING[name]:
                rested = checks.rested(own, levels.get(RESTING[name], []))
                yield Setting(
                    name, level, condition, rested.checks, rested.rests, rested.awake_watts, rested.never
                )


def _limit(name: str, level: str) -> float | None:
    """Return the watts that a level of a factor limits a drive to; None where it sets no limit."""
    return float(level) if name == "power_limit" and level != "off" else None


def _findings(setting: Setting) -> Iterator[str]:
    where = f"{setting.name} ({setting.condition})"
    if setting.never:
        yield f"{where}: it does not rest in the pauses of its load, which are long enough"
    for one in setting.checks:
        if one.verdict == Verdict.CONTRADICTED:
            assert one.value is not None
            assert one.declared is not None
            unit = checks.UNITS[one.quantity]
            yield f"{where}: {one.quantity}: {one.value:.3g} {unit}; it declares {one.declared:.3g} {unit}"
