# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: RUF009 (column() returns a dataclasses.field)
"""Declare a run's record: the journal's tables and columns, statuses, phases and kinds of event.

This is the only such declaration. The journal's SQL and its upgrades (`results/journal.py`), the
data classes that a reader gets, the columns of exports with their units and meaning, and the
reference page are made from it. To add a column, add one line below with `since` one more than
`journal.VERSION` is now. `source` says how its value follows from what a run left
(`results/facts.py`); that line is then all:

    errors: int | None = column(
        "", "Failed jobs.", since=9, source=lambda run: run.report["errors"]
    )
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from joulerig.analysis.energy.indicator import moved
from joulerig.analysis.energy.interval import EnergyBudget
from joulerig.analysis.results.columns import Column, column, declared_columns


class Name(StrEnum):
    """A name from a closed list, with what it means."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> Self:
        one = str.__new__(cls, value)
        one._value_ = value
        one.meaning = meaning
        return one


class CampaignKind(Name):
    """What the runs of a campaign are."""

    MEASUREMENT = "measurement", "executions of a workload, each measured"
    POWER_CUT = "power-cut", "power cuts under a writer, after each of which its promises are checked"


class Status(Name):
    """What became of a run. Of an attempt it only worsens."""

    PLANNED = "planned", "to come"
    RUNNING = "running", "being executed"
    OK = "ok", "done, with everything that could be measured"
    PARTIAL = (
        "partial",
        "the workload ran, but its energy is not complete, a drive throttled, or a clock was set",
    )
    FAILED = "failed", "an error ended it"
    LOST = "lost", "the test host went away; a resumed campaign runs it again"
    REFUSED = "refused", "the test host must not do it; nothing was touched"
    NOT_RUN = "not-run", "the test host cannot do this level, or is busy"
    EXCLUDED = "excluded", "the campaign's author left the cell out"


FINISHED = (
    Status.OK,
    Status.PARTIAL,
    Status.FAILED,
    Status.LOST,
    Status.REFUSED,
    Status.NOT_RUN,
    Status.EXCLUDED,
)
WORKED = (Status.OK, Status.PARTIAL)


class PhaseName(Name):
    """An interval inside a run, in the order in which they come."""

    PREPARE = "prepare", "lease of the drive, mkfs, mount, settings"
    SETUP = "setup", "the workload's files are laid out, caches dropped, the drive soaks"
    IDLE = "idle", "the mounted file system is left alone"
    WORKLOAD = "workload", "the load"
    TAIL = "tail", "sync, and what the drive still does afterwards"


class Cause(Name):
    """Why an attempt at a run ended."""

    COMPLETED = "completed", "it came to its end"
    ERROR = "error", "something on the test host went wrong"
    REFUSED = "refused", "the test host must not do it"
    UNABLE = "unable", "the test host cannot do this level"
    BUSY = "busy", "something else was using the test host"
    INTERRUPTED = "interrupted", "it was asked to end, by a person or by the host's shutdown"
    BOOTED = "booted", "the test host booted meanwhile"
    HOST_GONE = "host-gone", "the test host did not come back; it may still have an outcome"
    CONTROLLER = "controller", "the controller's process ended, and it could not go on without"
    CLOCK = "clock", "a clock was set while it ran, so that its times and energy are wrong"
    UNRECORDED = "unrecorded", "its results could not be kept"


# What may be over the next time: such runs are planned again when their campaign is resumed.
PASSING = (
    Cause.REFUSED,
    Cause.BUSY,
    Cause.INTERRUPTED,
    Cause.BOOTED,
    Cause.HOST_GONE,
    Cause.CONTROLLER,
    Cause.UNRECORDED,
    Cause.CLOCK,
)


FORMER_PHASES = {"precondition": PhaseName.SETUP.value}  # before version 6 of the journal


class PreconditioningPhase(Name):
    """An interval of preconditioning a raw drive, before the run's own phases."""

    PURGE = "purge", "the drive forgets what it holds"
    PASSES = "passes", "the whole drive is written, once a pass"
    ROUNDS = "rounds", "the load that is repeated until the drive is steady"


class Asked(Name):
    """What a person asked the executors of a campaign."""

    PAUSE = "pause", "to begin no run until they are asked to go on"
    STOP = "stop", "to finish what runs, and end"


class EventKind(Name):
    """What happened."""

    CREATED = "created", "the campaign was planned"
    STATUS = "status", "a run's status changed: from, to, reason"
    ASKED = "asked", "a person asked the executors: to pause, to stop, to go on"
    RESUMED = "resumed", "a run was planned again: what it was"
    TAKEN_OVER = "taken-over", "a process took the campaign over from a silent one: from, by"
    BEGUN = "begun", "a process began to execute the runs of a host: host, process"
    SET_ASIDE = "set-aside", "no further run is begun on a host until a resumption: host, why"
    MOVED = "moved", "a planned run went to an equivalent host: from, to, serials"
    POWER_CYCLED = "power-cycled", "a host's power was cut and restored: host, by, number, away_seconds"
    HOLD = "hold", "a run waits before it begins: condition, why; or no longer, with why empty"
    LOOK = "look", "what was decided in a race after a whole block: who is out, and why"
    SETTLED = "settled", "what arrived later completed a run's energy: from, to, reason"
    FINISHED = "finished", "the campaign is over: how many runs have each status"
    PRECONDITIONING = "preconditioning", "a drive is preconditioned for a run: how far, and why"
    NOTE = "note", "anything else worth knowing later"


@dataclass(frozen=True)
class CampaignRow:
    """The campaign."""

    id: str = column("", "<name>-<UTC yyyymmdd-hhmmss>", constraint="PRIMARY KEY")
    name: str = column("", "Name, as the campaign's author gave it.")
    question: str = column("", "The question that it is to answer.")
    created_ns: int = column("ns", "When it was planned, UTC.")
    finished_ns: int | None = column("ns", "When it was over, UTC; NULL: it is not.")
    definition: dict[str, Any] = column("", "JSON: the campaign as validated, defaults filled in.")
    lab: dict[str, Any] = column("", "JSON: the lab model as it was, without secrets.")
    virtual: bool = column("", "Whether some test host is a virtual one: every figure must say so.")
    provenance: dict[str, Any] = column("", "JSON: versions of the controller's tools, git revision, seed.")
    kind: str = column(
        "", "What its runs are.", since=7, default=CampaignKind.MEASUREMENT.value, values=CampaignKind
    )
    executor: str | None = column(
        "", "Identity of the process that executes it, or did last; NULL: it never began.", since=8
    )
    asked: str | None = column("", "What its executors are asked; NULL: to go on.", since=8, values=Asked)
    heartbeat_ns: int | None = column(
        "ns", "When that process was last known to be alive, UTC; NULL: it has ended.", since=13
    )


def seconds_between(start_ns: int, end_ns: int) -> float:
    """Return the seconds from one instant to another one."""
    return (end_ns - start_ns) * 1e-9


def ai_joules(joules: float | None, corrected_joules: float | None) -> float | None:
    """Return the joules that mean power and work per joule of a run are of."""
    return joules if corrected_joules is None else corrected_joules


CELL_FACTORS = ("drive", "filesystem", "scheduler", "workload")
"""The factors that every cell has."""

Levels = tuple[tuple[str, str], ...]
"""(factor, level) of further factors, in the order in which a campaign has them."""


@dataclass(frozen=True)
class Cell:
    """A cell: the level of each factor, equal for replicates.

    `further`: the levels of the factors beyond `CELL_FACTORS`.
    """

    drive: str
    filesystem: str
    scheduler: str
    workload: str
    further: Levels = ()

    @classmethod
    def from_levels(cls, levels: Mapping[str, Any]) -> Self:
        """Return the cell of these levels, by factor.

        Raises KeyError where one of `CELL_FACTORS` is missing.
        """
        further = ((name, str(level)) for name, level in levels.items() if name not in CELL_FACTORS)
        drive, filesystem, scheduler, workload = (str(levels[name]) for name in CELL_FACTORS)
        return cls(drive, filesystem, scheduler, workload, tuple(further))

    @property
    def name(self) -> str:
        """Return the cell's name in the journal and in exports; no program takes it apart."""
        always = (self.drive, self.filesystem, self.scheduler, self.workload)
        return "/".join([*always, *level_texts(self.further)])

    @property
    def combination(self) -> str:
        """Return what a comparison varies, for people."""
        return f"{self.filesystem} with {self.scheduler}"


CONTROL, ALONE = "control", "alone"
"""Factor and level of a run for the control of cross-talk: nothing else ran on its host."""


def is_control(levels: Mapping[str, Any]) -> bool:
    """Return whether a run with these levels is one for the control of cross-talk."""
    return levels.get(CONTROL) == ALONE


def level_texts(levels: Levels) -> list[str]:
    """Return "factor=level" of each."""
    return [f"{name}={level}" for name, level in levels]


@dataclass(frozen=True)
class RunRow:
    """One row a run, in order of execution."""

    id: str = column(
        "", "<campaign>-<ordinal, 4 digits>; it is InfluxDB's tag `run`.", constraint="PRIMARY KEY"
    )
    ordinal: int = column("", "Position in the order of execution within a host.", constraint="UNIQUE")
    block: int = column("", "Block of the randomisation (= replicate).")
    replicate: int = column("", "Which repetition of its cell.")
    host: str = column("", "Test host, as the inventory names it.")
    drive: str = column("", "Drive, as the inventory names it.")
    filesystem: str = column("", "File system.")
    scheduler: str = column("", "I/O scheduler.")
    workload: str = column("", "Workload.")
    cell: str = column("", "drive/filesystem/scheduler/workload, then further factors: equal for replicates.")
    factors: dict[str, Any] = column("", "JSON: every factor's level.")
    status: str = column("", "What became of the run.", values=Status)
    reason: str = column(
        "", "Why the status is not ok; of an ok run, what is to be known of it.", constraint="DEFAULT ''"
    )
    started_ns: int | None = column("ns", "When the run began, UTC.")
    ended_ns: int | None = column("ns", "When the run ended, UTC.")

    @property
    def key(self) -> Cell:
        """Return the run's cell."""
        own = {name: getattr(self, name) for name in CELL_FACTORS}
        return Cell.from_levels({**self.factors, **own})


@dataclass(frozen=True)
class Attempt:
    """One row an execution of a run, of which the last one counts."""

    number: int = column("", "Which attempt at the run, from 1.", since=8)
    started_ns: int = column("ns", "When it began, UTC.", since=8)
    ended_ns: int | None = column("ns", "When its end was known, UTC; NULL: it is not.", since=8)
    status: str = column("", "What became of it.", since=8, values=Status)
    cause: str | None = column(
        "", "Why it ended; NULL: it has not, or that was not kept.", since=8, values=Cause
    )
    reason: str = column("", "Why its status is not ok.", since=8, constraint="DEFAULT ''")


@dataclass(frozen=True)
class Phase:
    """One row a phase of a run, on the controller's clock."""

    phase: str = column("", f"{', '.join(list(PhaseName)[:-1])} or {PhaseName.TAIL}.")
    start_ns: int = column("ns", "When the phase began, UTC.")
    end_ns: int = column("ns", "When the phase ended, UTC.")
    clock_offset_ns: int = column("ns", "Controller's clock less the test host's, added to the host's times.")
    clock_error_ns: int = column("ns", "How far that offset can be wrong.")
    slowness: float | None = column(
        "",
        "How many seconds of the machine a second of a virtual lab lasted, on average; 1: no slow motion;"
        " blank: not known.",
        since=12,
        default=1.0,
    )

    @property
    def seconds(self) -> float:
        return seconds_between(self.start_ns, self.end_ns)


@dataclass(frozen=True)
class Performance:
    """One row a run: its workload phase, by the load's report; NULL where that has no figure."""

    seconds: float = column("s", "Length of the workload phase.")
    ops: int = column("", "Operations of the workload phase.")
    read_bytes: int | None = column("B", "Bytes that the workload read; blank: its report does not say.")
    write_bytes: int | None = column("B", "Bytes that the workload wrote; blank: its report does not say.")
    syncs: int | None = column("", "Calls that made data durable.")
    ops_per_second: float = column("1/s", "Operations per second.")
    mb_per_second: float | None = column("MB/s", "Bytes read and written per second, MB = 10^6 bytes.")
    latency_p50_seconds: float | None = column("s", "Median latency: of the syncs where there are any.")
    latency_p99_seconds: float | None = column("s", "99 % quantile of that latency.")
    unit: str = column("", "What one of the ops is.", since=4, default="operation")
    figure_name: str | None = column(
        "", "Figure of merit by which an external program is known; blank: it has none.", since=4
    )
    figure_unit: str | None = column("", "The figure of merit's unit.", since=4)
    figure: float | None = column("figure_unit", "The figure of merit.", since=4)
    figure_better: str | None = column("", "Whether a higher or a lower figure of merit is better.", since=4)

    @property
    def bytes_moved(self) -> int | None:
        return moved(self.read_bytes, self.write_bytes)


@dataclass(frozen=True)
class RailEnergy:
    """One row a phase and rail of a run that is measured: energy, its bounds, the loss ledger.

    From `joules_low` on: analysis.energy.interval.IntervalEnergy's; None where it is not known.
    """

    phase: str = column("", "The phase.")
    meter: str = column("", "Meter, as the inventory names it.")
    rail: str = column("", "Supply rail of the drive.")
    drive: str = column("", "Drive, as the inventory names it; of an array the member.")
    joules: float | None = column("J", "Energy as measured; blank: no measurement.")
    true_joules: float | None = column("J", "What the virtual drive says it drew; blank on a physical lab.")
    samples: int = column("", "Samples that are in the joules.")
    expected: int = column("", "Samples that there should be: those in the ledger's books together.")
    lost: int = column("", "Samples that did not come.")
    gap_seconds: float = column("s", "Time in which nothing was measured.")
    joules_low: float | None = column(
        "J",
        "The least the energy can have been: limits of gaps, ends and V x I, and the meter at k = 2;"
        " blank: nothing bounds a part of it.",
        since=2,
    )
    joules_high: float | None = column("J", "The most the energy can have been, likewise.", since=2)
    gap_low_joules: float | None = column("J", "What the gaps drew at least; not in joules.", since=2)
    gap_high_joules: float | None = column("J", "What the gaps drew at most.", since=2)
    interpolation_joules: float | None = column(
        "J", "What the power between the points around the two ends leaves open, either way.", since=2
    )
    alignment_joules: float | None = column(
        "J", "What the two ends' own instants leave open, either way.", since=2
    )
    product_joules: float | None = column(
        "J", "How much too high mean volts times mean amps can be.", since=2
    )
    meter_joules: float | None = column(
        "J", "Expanded uncertainty (k = 2) of the meter; blank: its class is not stated.", since=2
    )
    volt_seconds: float | None = column("V s", "Integral of the volts over the phase.", since=2)
    amp_seconds: float | None = column("A s", "Integral of the amps over the phase.", since=2)
    duplicate: int | None = column("", "Samples that came a second time in place of lost ones.", since=2)
    repeated: int | None = column("", "Samples in which the instrument held an old value.", since=2)
    surplus: int | None = column(
        "", "Samples beyond the time that passed; not in the expected ones.", since=2
    )
    worst_gap_seconds: float | None = column(
        "s", "The longest time between two points without a measurement.", since=2
    )
    over_range: int | None = column("", "Samples beyond what the instrument can measure.", since=10)
    impossible: int | None = column(
        "", "Samples of far more power than the rail's supply delivers; not in joules.", since=14
    )
    spread_watts: float | None = column(
        "W", "Greatest less least power of a point's samples, the median over the points.", since=14
    )
    sampled_joules: float | None = column(
        "J",
        "Half of the 95 % interval of the joules as a sample, of a polled meter; blank: its readings are not"
        " shown to be at random instants.",
        since=14,
    )

    @property
    def unaccounted(self) -> int | None:
        """Return the samples expected that no column of the ledger has; 0 where it balances.

        None where parts are not known.
        """
        if self.duplicate is None or self.repeated is None:
            return None
        booked = self.samples + self.lost + self.duplicate + self.repeated
        return self.expected - booked - (self.over_range or 0) - (self.impossible or 0)

    @property
    def corrected_joules(self) -> float | None:
        """Return the joules in the middle of what gaps and V x I leave open; None without any."""
        return None if self.joules is None else self.joules + self.budget.correction

    @property
    def budget(self) -> EnergyBudget:
        return EnergyBudget(
            self.gap_low_joules,
            self.gap_high_joules,
            self.interpolation_joules,
            self.alignment_joules,
            self.meter_joules,
            self.product_joules,
        )


@dataclass(frozen=True)
class Result:
    """One row a run: energy of its workload phase, all rails together, and work per joule.

    A sum is NULL where a rail's part is not known.
    """

    joules: float | None = column("J", "Energy as measured; blank where a rail's is missing.")
    true_joules: float | None = column("J", "What the virtual drive says it drew; blank on a physical lab.")
    error_percent: float | None = column("%", "Measured less true joules, of the true ones.")
    mean_watts: float | None = column("W", "Mean power of the workload phase, all rails of the drive.")
    ai_ops_per_joule: float | None = column(
        "1/J", "AI: operations per joule of the workload phase, all rails of the drive."
    )
    ai_mb_per_joule: float | None = column("MB/J", "AI: megabytes read and written per joule.")
    joules_low: float | None = column(
        "J", "The least the energy can have been, by what is known of gaps, ends and the meter.", since=2
    )
    joules_high: float | None = column("J", "The most the energy can have been, likewise.", since=2)
    device_bound_fraction: float | None = column(
        "",
        "Fraction of the workload phase in which a virtual drive's model set the pace, 0 to 1.",
        since=3,
    )
    cpu_joules: float | None = column(
        "J",
        "Energy of the test host's processor packages in the workload phase, whatever ran there (RAPL);"
        " blank: the host has none, or drives were loaded side by side.",
        since=5,
    )
    corrected_joules: float | None = column(
        "J",
        "Energy as measured, with the middle of what its gaps drew, less half of product_joules: mean_watts"
        " and AI are of it; blank in a journal of before: they are of the joules as measured.",
        since=11,
    )
    sampled_joules: float | None = column(
        "J", "Half of the 95 % interval of the joules as a sample, of polled meters alone.", since=14
    )

    @property
    def ai_joules(self) -> float | None:
        """Return the joules that mean power and work per joule are of."""
        return ai_joules(self.joules, self.corrected_joules)

    @property
    def truth_within(self) -> bool | None:
        """Return whether the true joules lie from low to high; None where one is not known."""
        if self.true_joules is None or self.joules_low is None or self.joules_high is None:
            return None
        return self.joules_low <= self.true_joules <= self.joules_high


@dataclass(frozen=True)
class IoCount:
    """One row a run and who counted: I/O of the workload phase."""

    source: str = column(
        "",
        "iod (block layer of the test host), host (the module's own reading), twin (the virtual drive); with"
        " an external journal the sum, and `iod DRIVE` each drive's own.",
    )
    reads: int | None = column("", "Read requests.")
    read_bytes: int | None = column("B", "Bytes read.")
    writes: int | None = column("", "Write requests, empty flush requests among them.")
    write_bytes: int | None = column("B", "Bytes written.")
    flushes: int | None = column("", "Flush requests.")
    discards: int | None = column("", "Discard requests.")
    fua_writes: int | None = column("", "Writes that were to be durable at their end.")
    journal_transactions: int | None = column("", "Transactions that the file system's journal committed.")


@dataclass(frozen=True)
class EventRow:
    """What happened, in order; rows are only ever added."""

    seq: int = column("", "Position in the order.", constraint="PRIMARY KEY AUTOINCREMENT")
    time_ns: int = column("ns", "When it happened, UTC.")
    run: str | None = column("", "The run that it concerns; NULL: the campaign.")
    event: str = column("", "What kind of event it is.", values=EventKind)
    detail: dict[str, Any] = column("", "JSON.")


@dataclass(frozen=True)
class Table:
    """A table of the journal. `key`: its primary key where a column does not say so itself.

    A table whose key begins with `run` has that column first, which the data class does not have.
    """

    name: str
    record: type[Any]
    key: tuple[str, ...] = ()
    order: str = "rowid"

    def __post_init__(self) -> None:
        computed = [name for name, one in self.columns.items() if one.source is not None]
        if computed and self.key != ("run",):
            raise ValueError(
                f"table {self.name}: column {computed[0]} declares a source; only tables with one row a"
                " run can have such columns"
            )

    @property
    def since(self) -> int:
        """Return the version of the journal from which on there is this table."""
        return min(one.since for one in self.columns.values() if one.name != "run")

    @property
    def per_run(self) -> bool:
        return self.key[:1] == ("run",)

    @property
    def columns(self) -> dict[str, Column]:
        run = {"run": Column("run", "str", False, "", "The run's id.", constraint="REFERENCES run(id)")}
        return {**(run if self.per_run else {}), **declared_columns(self.record)}

    @property
    def about(self) -> str:
        return (self.record.__doc__ or "").splitlines()[0]


TABLES = {
    table.name: table
    for table in (
        Table("campaign", CampaignRow),
        Table("run", RunRow, order="ordinal"),
        Table("attempt", Attempt, key=("run", "number"), order="run, number"),
        Table("phase", Phase, key=("run", "phase"), order="start_ns"),
        Table("performance", Performance, key=("run",)),
        Table("energy", RailEnergy, key=("run", "phase", "meter", "rail", "drive")),
        Table("result", Result, key=("run",)),
        Table("io", IoCount, key=("run", "source")),
        Table("event", EventRow, order="seq"),
    )
}
PER_RUN = tuple(table.name for table in TABLES.values() if table.per_run)
OF_COUNTED_ATTEMPT = tuple(name for name in PER_RUN if name != "attempt")
"""The tables that hold what the attempt that counts came to."""
ONE_ROW_A_RUN = tuple(table for table in TABLES.values() if table.key == ("run",))
