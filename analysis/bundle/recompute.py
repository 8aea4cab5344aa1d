# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign's runs recomputed from the files that each left, and compared with the journal.

Where a file is not there the journal's own figure stands, and the tally says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from joulerig import json_text
from joulerig.analysis.bundle.check import Tally
from joulerig.analysis.energy import meters
from joulerig.analysis.powercut import witness_log
from joulerig.analysis.powercut.durable import DurableWrites, durable_writes
from joulerig.analysis.powercut.folder import CUT, WITNESS_LOG
from joulerig.analysis.results import load_reports, power_points, processor, run_energy, run_file, twin_truth
from joulerig.analysis.results import phases as run_phases
from joulerig.analysis.results.campaign import Campaign, ResultsError, Run
from joulerig.analysis.results.columns import declared_columns
from joulerig.analysis.results.facts import RunFacts, compute_columns
from joulerig.analysis.results.schema import (
    WORKED,
    CampaignKind,
    IoCount,
    Performance,
    Phase,
    PhaseName,
    RailEnergy,
    Result,
    Status,
)
from joulerig.errors import UNREADABLE, JoulerigError

KINDS = {
    "phases": ("end, offset or error", "ends, offsets and errors"),
    "performance": ("figure",),
    "energy": ("figure",),
    "true joules": ("figure",),
    "joules and AI of runs": ("figure",),
    "I/O counts": ("count",),
}
_OF_TRUTH = ("true_joules", "error_percent", "device_bound_fraction")
_SINCE_VERSION_2 = {field.name for field in fields(RailEnergy) if field.default is None}


class MissingInputError(JoulerigError):
    """A run's files lack a value that is needed to recompute it."""


def recompute(campaign: Campaign) -> tuple[Campaign, dict[str, Tally]]:
    """Recompute a campaign from its runs' files, and compare the journal with the result.

    Returns the campaign as the files give it, and a tally of the comparison by kind (`KINDS`).
    """
    tallies = {kind: Tally() for kind in KINDS}
    recomputed = _CutRecomputation if campaign.kind == CampaignKind.POWER_CUT else _Recomputation
    runs = tuple(recomputed(campaign, run, tallies).run_again() for run in campaign.runs)
    return replace(campaign, runs=runs), tallies


def rails(campaign: Campaign, run: Run) -> list[run_energy.Rail]:
    """Return (drive, meter, rail) of the run's drives by the lab model.

    They are by the run's energy where the model has none.
    """
    hosts = ("hosts", run.host, "drives")
    wired = [
        (drive, str(spec.get("meter")), rail)
        for drive in campaign.drives(run)
        for rail, spec in meters.subtree(campaign.lab, *hosts, drive, "rails").items()
        if isinstance(spec, Mapping)
    ]
    return wired or list(dict.fromkeys((one.drive, one.meter, one.rail) for one in run.energy))


def json_object(path: Path) -> dict[str, Any] | None:
    """Read a JSON object from a file; None where there is no file.

    Raises ResultsError.
    """
    if not path.is_file():
        return None
    try:
        return json_text.read_object(path)
    except (OSError, ValueError) as error:
        raise ResultsError(f"{path.name}: cannot be read as JSON: {error}") from None


class _Recomputation:
    """The recomputation of one run; each step uses the recomputed results of those before."""

    def __init__(self, campaign: Campaign, run: Run, tallies: Mapping[str, Tally]) -> None:
        self.campaign, self.run, self.tallies = campaign, run, tallies
        self.answer = self._file("result.json", "phases")
        self.load = self._file("load.json", "performance")
        self.truth = self._file("truth.json", "true joules")
        self.clock_steps: list[str] = []

    def run_again(self) -> Run:
        phases = self._phases()
        performance = self._performance(phases)
        energy = self._energy(phases, performance)
        energy = self._truth(phases, energy)
        result = self._result(phases, performance, energy)
        performance, result = self._computed_columns(phases, performance, energy, result)
        io = self._io(phases)
        return replace(self.run, phases=phases, performance=performance, energy=energy, result=result, io=io)

    def _phases(self) -> dict[str, Phase]:
        tally, stored = self.tallies["phases"], self.run.phases
        if self.answer is None:
            return self._stands(tally, stored, "result.json")
        try:
            recorded = self.answer.get("phases"), self.answer.get("clock")
            found = run_phases.on_controller_time(*recorded) if all(recorded) else []
            self._note_steps(recorded[1] or [], self.answer)
            # How slow the lab was is the controller's own record: no host can say.
            again = {
                phase.phase: replace(phase, slowness=stored[phase.phase].slowness)
                if phase.phase in stored
                else phase
                for phase in found
            }
        except UNREADABLE as error:
            return self._unreadable(tally, stored, "result.json", error)
        if not stored and self.run.status not in WORKED:
            return stored  # what came could not be kept; the run says so
        for name in dict.fromkeys([*stored, *again]):
            for part in ("start_ns", "end_ns", "clock_offset_ns", "clock_error_ns"):
                values = (getattr(of.get(name), part, None) for of in (stored, again))
                tally.same(f"{self.run.id}: phase {name}: {part}", *values)
        return again

    def _note_steps(self, clock: Sequence[Mapping[str, Any]], recorded: Mapping[str, Any]) -> None:
        """Note how clocks were set: such a run is partial, has no joules, and does not count."""
        self.clock_steps = run_phases.clock_steps(clock, recorded.get("controller_step_ns") or 0)
        if self.clock_steps and self.run.status == Status.OK:
            what = f"{self.run.id}: status ({'; '.join(self.clock_steps)})"
            self.tallies["phases"].same(what, Status.OK, Status.PARTIAL)

    def _performance(self, phases: Mapping[str, Phase]) -> Performance | None:
        tally, stored = self.tallies["performance"], self.run.performance
        if self.load is None:
            return self._stands(tally, stored, "load.json")
        if PhaseName.WORKLOAD not in phases or (stored is None and self.run.status not in WORKED):
            return stored
        try:
            load = phases[PhaseName.WORKLOAD]
            seconds = (load.end_ns - load.start_ns) / 1e9
            row = load_reports.performance(self._tool(), self.load, seconds)
            again = Performance(**row)
        except MissingInputError as error:
            tally.unchecked.append(f"{self.run.id}: {error}")
            return stored
        except UNREADABLE as error:
            return self._unreadable(tally, stored, "load.json", error)
        self._fields(tally, "performance", stored, again, _with_source(Performance))
        return again

    def _tool(self) -> str:
        """Return the load tool: as the host's module was asked, else by its report's format."""
        asked = meters.subtree(self.answer or {}, "invocation", "module_args", "workload").get("tool")
        tool = asked or load_reports.detect_tool(self.load or {})
        if tool is None:
            raise MissingInputError(
                "result.json does not name what loaded, and load.json's format is unknown"
            )
        return str(tool)

    def _energy(self, phases: Mapping[str, Phase], performance: Performance | None) -> tuple[RailEnergy, ...]:
        tally, stored = self.tallies["energy"], self.run.energy
        if performance is None or (not stored and self.run.status != Status.OK):
            return stored  # without a load's report, or where InfluxDB could not be asked, none was made
        try:
            frame = power_points.read(self.run.folder / "power.csv")
            if frame is None:
                self._stands(tally, [one for one in stored if one.joules is not None], "power.csv")
                return stored
            again = self._energy_rows(frame, list(phases.values()))
        except (*UNREADABLE, power_points.PowerFileError) as error:
            return self._unreadable(tally, stored, "power.csv", error)
        before = {_key(one): one for one in stored}
        after = {_key(one): one for one in again}
        for key in dict.fromkeys([*before, *after]):
            left_out = set(_OF_TRUTH)
            if key in before and before[key].duplicate is None:
                left_out |= _SINCE_VERSION_2
            self._fields(tally, " ".join(key), before.get(key), after.get(key), left_out)
        order = [key for key in before if key in after] + [key for key in after if key not in before]
        return tuple(after[key] for key in order)

    def _energy_rows(self, frame: Any, phases: Sequence[Phase]) -> list[RailEnergy]:
        found = run_energy.phase_energies(
            frame,
            phases,
            rails(self.campaign, self.run),
            host=self.run.host,
            lab=self.campaign.lab,
            provenance=self.campaign.provenance,
            clock_steps=self.clock_steps,
        )
        true = {_key(one): one.true_joules for one in self.run.energy}
        rows = [RailEnergy(**run_energy.row(*parts)) for parts in found]
        return [replace(one, true_joules=true.get(_key(one))) for one in rows]

    def _truth(self, phases: Mapping[str, Phase], energy: tuple[RailEnergy, ...]) -> tuple[RailEnergy, ...]:
        tally = self.tallies["true joules"]
        known = [one for one in energy if one.true_joules is not None]
        if self.truth is None:
            self._stands(tally, known, "truth.json")
            return energy
        if not energy:
            return energy
        rows = [{**vars(one), "true_joules": None} for one in energy]
        try:
            twin_truth.add_truth(rows, list(phases.values()), self.truth)
        except UNREADABLE as error:
            return self._unreadable(tally, energy, "truth.json", error)
        for one, row in zip(energy, rows, strict=True):
            tally.same(
                f"{self.run.id}: {' '.join(_key(one))}: true_joules", one.true_joules, row["true_joules"]
            )
        return tuple(RailEnergy(**row) for row in rows)

    def _result(
        self,
        phases: Mapping[str, Phase],
        performance: Performance | None,
        energy: tuple[RailEnergy, ...],
    ) -> Result | None:
        tally, stored = self.tallies["joules and AI of runs"], self.run.result
        if performance is None or (stored is None and self.run.status != Status.OK):
            return stored
        whole = {one.drive for one in energy} == set(self.campaign.drives(self.run))
        try:
            row = run_energy.result(
                [vars(one) for one in energy] if whole else [],
                vars(performance),
                corrected_too=stored is None or stored.joules is None or stored.corrected_joules is not None,
            )
            bound = stored.device_bound_fraction if stored else None
            if self.truth is not None:
                bound = twin_truth.device_bound(list(phases.values()), self.truth)
        except UNREADABLE as error:
            return self._unreadable(tally, stored, "truth.json", error)
        again = Result(**row, device_bound_fraction=bound, cpu_joules=self._cpu_joules(phases, stored))
        self._fields(tally, "workload", stored, again, _with_source(Result))
        return again

    def _computed_columns(
        self,
        phases: Mapping[str, Phase],
        performance: Performance | None,
        energy: tuple[RailEnergy, ...],
        result: Result | None,
    ) -> tuple[Performance | None, Result | None]:
        """Recompute the columns that declare their source."""
        pairs: list[tuple[str, Any, Any]] = [
            ("performance", self.run.performance, performance),
            ("joules and AI of runs", self.run.result, result),
        ]
        if self.load is None or self.answer is None or performance is None:
            return performance, result
        given = RunFacts(
            report=self.load,
            settings=self._file("settings.json", "performance") or {},
            outcome=self.answer,
            phases=phases,
            performance=_without_computed(performance),
            energy=[vars(one) for one in energy],
        )
        done = []
        for kind, stored, again in pairs:
            if again is not None and stored is not None:
                # A row that is older than the column has no value; one cannot be missing otherwise.
                values = {
                    name: None if getattr(stored, name) is None else value
                    for name, value in compute_columns(type(again), given)[0].items()
                }
                for name, value in values.items():
                    self.tallies[kind].same(f"{self.run.id}: {name}", getattr(stored, name), value)
                again = replace(again, **values)
            done.append(again)
        return done[0], done[1]

    def _cpu_joules(self, phases: Mapping[str, Phase], stored: Result | None) -> float | None:
        tally, kept = self.tallies["joules and AI of runs"], stored.cpu_joules if stored else None
        try:
            counted = processor.read(self.run.folder)
        except run_file.RunFileError as error:
            return self._unreadable(tally, kept, processor.FILE, error)
        if counted is None:
            return None if kept is None else self._stands(tally, kept, processor.FILE)
        workload = phases.get(PhaseName.WORKLOAD)
        return None if workload is None else processor.joules(counted, workload)

    def _io(self, phases: Mapping[str, Phase]) -> dict[str, IoCount]:
        tally, stored = self.tallies["I/O counts"], dict(self.run.io)
        recorded: dict[str, Mapping[str, Any] | None] = {}
        try:
            if "host" in stored and self.answer is not None:
                recorded["host"] = self.answer.get("counters") or {}
            if "twin" in stored and self.truth is not None:
                drives = len(self.campaign.drives(self.run))
                recorded["twin"] = twin_truth.twin_io(list(phases.values()), self.truth, drives) or {}
            names = [field.name for field in fields(IoCount) if field.name != "source"]
            again = {
                source: IoCount(source, **{name: counts.get(name) for name in names})
                for source, counts in recorded.items()
            }
        except UNREADABLE as error:
            return self._unreadable(tally, stored, "result.json or truth.json", error)
        for source, counts in again.items():
            self._fields(tally, f"I/O by {source}", stored[source], counts)
        return stored | again

    def _fields(
        self,
        tally: Tally,
        what: str,
        stored: Any,
        again: Any,
        left_out: set[str] | frozenset[str] = frozenset(),
    ) -> None:
        """Compare two data classes of one type field by field; one of them may be None."""
        for name in vars(stored if stored is not None else again):
            if name not in left_out:
                values = (getattr(one, name, None) for one in (stored, again))
                tally.same(f"{self.run.id}: {what}: {name}", *values)

    def _file(self, name: str, kind: str) -> dict[str, Any] | None:
        try:
            return json_object(self.run.folder / name)
        except ResultsError as error:
            self.tallies[kind].offenders.append(f"{self.run.id}: {error}")
            return None

    def _stands(self, tally: Tally, stored: Any, file: str) -> Any:
        """Return the journal's value, as no file is there to recompute it; note it as unchecked."""
        if stored:
            tally.unchecked.append(f"{self.run.id} has no {file} that can be read")
        return stored

    def _unreadable(self, tally: Tally, stored: Any, file: str, error: Exception) -> Any:
        message = " ".join(str(error).split()).replace(f"{self.run.folder}/", "")[:160]
        tally.offenders.append(f"{self.run.id}: {file}: cannot be read: {type(error).__name__}: {message}")
        return stored


class _CutRecomputation(_Recomputation):
    """The recomputation of one power cut.

    Phase and performance follow from what its witness log promised.
    """

    def __init__(self, campaign: Campaign, run: Run, tallies: Mapping[str, Tally]) -> None:
        super().__init__(campaign, run, tallies)
        self.durable = self._durable()

    def _durable(self) -> DurableWrites | None:
        path = self.run.folder / WITNESS_LOG
        try:
            return durable_writes(witness_log.read(path)) if path.is_file() else None
        except (OSError, witness_log.WitnessLogError) as error:
            self._unreadable(self.tallies["phases"], None, WITNESS_LOG, error)
            return None

    def _phases(self) -> dict[str, Phase]:
        tally, stored = self.tallies["phases"], self.run.phases
        if self.durable is None or self.run.status not in WORKED:
            self._stands(tally, stored, WITNESS_LOG)
            return stored
        try:
            self._note_steps([], self._file(CUT, "phases") or {})
        except UNREADABLE as error:
            self._unreadable(tally, stored, CUT, error)
        again = {PhaseName.WORKLOAD.value: self.durable.phase} if self.durable.writes else {}
        for name in dict.fromkeys([*stored, *again]):
            self._fields(tally, f"phase {name}", stored.get(name), again.get(name))
        return again

    def _performance(self, phases: Mapping[str, Phase]) -> Performance | None:
        tally, stored = self.tallies["performance"], self.run.performance
        if self.durable is None or self.run.status not in WORKED:
            self._stands(tally, stored, WITNESS_LOG)
            return stored
        again = self.durable.performance if phases else None
        if stored is not None or again is not None:
            self._fields(tally, "performance", stored, again)
        return again

    def _computed_columns(
        self,
        phases: Mapping[str, Phase],
        performance: Performance | None,
        energy: tuple[RailEnergy, ...],
        result: Result | None,
    ) -> tuple[Performance | None, Result | None]:
        return performance, result  # they come from what a workload's module returned


def _with_source(record: type[Any]) -> set[str]:
    return {name for name, one in declared_columns(record).items() if one.source is not None}


def _without_computed(one: Any) -> dict[str, Any]:
    left_out = _with_source(type(one))
    return {name: value for name, value in vars(one).items() if name not in left_out}


def _key(one: RailEnergy) -> tuple[str, str, str, str]:
    return one.phase, one.drive, one.meter, one.rail
