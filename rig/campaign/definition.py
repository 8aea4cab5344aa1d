# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign: a question, its factors and levels, and the plan of runs that follows from them."""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, create_model, field_validator, model_validator

from joulerig.analysis import studies
from joulerig.analysis.compare import races
from joulerig.analysis.results.campaign import current_recipe
from joulerig.analysis.results.schema import ALONE, CONTROL, CampaignKind, Cell
from joulerig.analysis.statistics import differences, steady_state
from joulerig.rig import workloads
from joulerig.rig.campaign import factors as campaign_factors
from joulerig.rig.campaign.factors import (
    Exclusion,
    Factor,
    Factors,
    Level,
    Subject,
    WriteCache,
    each_once,
    kernel_level,
    stands_on,
)
from joulerig.rig.campaign.factors.write_cache import refusal as flushes_refused
from joulerig.rig.campaign.lanes import control, rules
from joulerig.rig.campaign.policies import equivalents, failures
from joulerig.rig.common import paths, sizes
from joulerig.rig.common.errors import Strict, UserError, validate
from joulerig.rig.common.numbers import MOST_COUNT, Count, PositiveSeconds, Seconds, Seed
from joulerig.rig.lab import definitions, filesystems, kernels, virtual
from joulerig.rig.lab.model import MIB, Drive, Lab, Name, TestHost
from joulerig.rig.workloads import fio_job

MOST_HOURS = 24 * 3660
MOST_RUNS = 200_000  # of a plan, excluded ones among them


class Phases(Strict):
    """Lengths of the phases that have one; prepare and precondition take what they take."""

    rest_seconds: Seconds = 5
    """Soak before idle. An SSD that was just written to folds its cache and collects garbage."""
    idle_seconds: Seconds = 5
    """The drive is mounted and nothing loads it."""
    workload_seconds: PositiveSeconds = 60
    """The load."""
    tail_seconds: Seconds = 5
    """After the load, still measured. AI to quiescence takes 5 s of idle power to settle in it."""


class Waveforms(Strict):
    """Recording of each run's volts and amps at the full sample rate, with a file size limit."""

    max_megabytes: Annotated[float, Field(ge=0.1, le=1e9)] = 512
    """Most that one file may take."""


class Precondition(Strict):
    """What is done to a drive before its runs until it is steady; reused while valid."""

    purge: Literal["auto", "discard", "format", "sanitize", "unmap", "secure-erase"] = "discard"
    """How the whole drive is purged: blkdiscard, NVMe's format or sanitize, SCSI's UNMAP, ATA's
    secure erase, or the first that the drive says it can: format, sanitize, discard, unmap, secure
    erase."""
    passes: Annotated[int, Field(ge=0, le=1000)] = 2
    """How often the drive is written, from its beginning to its end (or to `use_bytes`)."""
    job: Level = "randwrite"
    """The load of the rounds: a fio job of `workloads/precondition/`, on the raw drive."""
    round_seconds: PositiveSeconds = 60
    """Length of a round."""
    max_rounds: Annotated[int, Field(ge=steady_state.ROUNDS, le=MOST_COUNT)] = 25
    """Most rounds; the drive need not get steady."""
    reuse_within: Annotated[float, Field(ge=0, le=1e6)] = 0.5
    """A preconditioning holds until this fraction of the drive's capacity (or of `use_bytes`) was
    written or discarded since; 0: never."""

    @model_validator(mode="before")
    @classmethod
    def _former_key(cls, data: Any) -> Any:
        """Take `passes` under the name that it had before: in journals and older playbooks."""
        return current_recipe(data) if isinstance(data, dict) and "passes" not in data else data

    def holds_after(self, written_bytes: float, capacity_bytes: int) -> bool:
        """Return whether the precondition survives that many bytes written or discarded since."""
        return self.reuse_within > 0 and written_bytes <= self.reuse_within * capacity_bytes


class HoldRules(Strict):
    """What a run waits for before it begins, and goes on by itself once it has passed."""

    drive_celsius: Annotated[float, Field(gt=0, le=1000)] | None = 60
    """A drive of the run reports at least this; null: not looked at."""
    host_load: Annotated[float, Field(gt=0, le=MOST_COUNT)] | None = 0.5
    """Something else keeps more than so many of the host's processors busy; at most
    `hold_minutes`. Not of virtual hosts. null: not looked at."""
    meters: bool = True
    """A meter of the run's rails delivers no samples; at most `hold_minutes`."""
    calibration: Literal["warn", "hold"] | None = "warn"
    """The calibration of a meter of the run's rails has expired. That does not pass: a hold ends
    with a new calibration."""


class RegisteredClaim(Strict):
    """The part of a study's claim that is fixed before it is measured."""

    least: Annotated[float, Field(ge=1, le=1000)] = 1.0
    """The smallest ratio that a claim of a ratio above 1 can have meant."""
    cells: Annotated[dict[Name, Level | list[Level]], Field(min_length=1)]
    """The levels of factors whose combinations are the cells that the claim names. Where one of
    them has no run that is ok, the claim is not decided."""


SlowMotion = Annotated[float, Field(ge=1, le=100)]


class Registered(Strict):
    """The terms by which a study's claims are judged, fixed before the campaign runs."""

    ladder: Annotated[list[SlowMotion], Field(min_length=2)]
    """Factors of slow motion, ascending. On a virtual lab a claim about time or energy is decided
    where two neighbouring ones agree."""
    hours: Annotated[float, Field(gt=0, le=MOST_HOURS)]
    """Limit of all attempts of the short form together: `make studies` begins none after."""
    greatest_width: Annotated[float, Field(gt=1, le=1000)]
    """An interval whose upper limit is more than so many times the lower one decides nothing."""
    claims: dict[str, RegisteredClaim]
    """Each claim of the study, by its key."""

    @field_validator("ladder")
    @classmethod
    def _ascends(cls, ladder: list[float]) -> list[float]:
        if any(one >= other for one, other in itertools.pairwise(ladder)):
            raise ValueError(f"{ladder}; allowed: each factor greater than the one before it")
        return ladder


class StopRule(Strict):
    """When to give up before the plan is done."""

    failures_in_a_row: Count = 5
    """Give up a host after so many failed runs; the others stay planned."""
    same_cause_in_a_row: Count = 5
    """Give up a host after so many runs that ended for the same cause, of whatever status but `ok`
    and `partial`, with the same reason but for numbers and the drive. Runs that the host is unable
    to execute do not count as long as they have a level in common."""
    hours: Annotated[float, Field(gt=0, le=MOST_HOURS)] | None = None
    """Start no run after so many hours."""


class Campaign(Strict):
    """The mapping `campaign:` of a playbook."""

    kind: Literal[CampaignKind.MEASUREMENT] = CampaignKind.MEASUREMENT
    """`measurement`, or `power-cut`, which has [other keys](../how-to/power-cuts.md)."""
    name: Name
    """Lower case, digits, `-`, `_`, `.`. A campaign's id is its name and its start in UTC."""
    question: Annotated[str, Field(min_length=5)]
    """What the campaign is to answer; stands at the top of dashboard and report."""
    drives: Annotated[list[Level], Field(min_length=1)]
    """Drives or arrays, by their names in the inventory."""
    factors: Factors
    """The levels of each factor."""
    exclude: list[Exclusion] = []
    """Cells that are not run, each with a reason."""
    replicates: Count = 5
    """Runs of each cell."""
    order: Literal["random", "as-written", "racing"] = "random"
    """`random`: each replicate is a block, in its own random order. `racing`: so too, and after
    each block cells that are certainly behind the best one are run no more."""
    margin_percent: Annotated[float, Field(gt=0, lt=100)] | None = None
    """Of a race: it ends where all cells left are within so many per cent of the best one."""
    seed: Seed = 1
    """Seed of the order and of the loads."""
    write_cache: WriteCache | None = None
    """The drives' write cache in every run; left out: as the drive has it."""
    phases: Phases = Phases()
    """Lengths of the phases."""
    slow_motion: SlowMotion | Literal["auto"] = 1.0
    """How many seconds a second of a virtual lab lasts from rest to tail, so that drives and not
    the emulated processor set the pace; `auto`: so many that the test host is as fast as this
    machine. Physical hosts, and virtual ones under KVM, are never slowed down."""
    loss_limit_percent: Annotated[float, Field(ge=0, le=100)] = 1.0
    """A run whose meter lost more samples of a rail in the workload phase is `partial`."""
    waveforms: Waveforms | None = None
    """Keep each run's volts and amps at the full sample rate."""
    use_bytes: sizes.Size | None = None
    """Use only the first bytes of each drive or array, such as `64 GiB`: the size of the file
    systems, and of what preconditioning fills and loads. Left out: all of it."""
    precondition: Precondition | None = None
    """What is done to a drive before its runs; left out: nothing."""
    count_seeks: bool = False
    """Count, from the kernel's trace, how often a drive's requests do not follow each other. Costs
    CPU time per request: for hard disks."""
    time_free_nids: bool = False
    """Time f2fs's fsync, and its search for free node numbers, by probes in the kernel."""
    hold_minutes: Annotated[float, Field(ge=0, le=60 * MOST_HOURS)] = 10
    """How long a run waits for InfluxDB, powerd, its meters and an idle host before it begins
    without them; the energy that powerd has arrives later."""
    holds: HoldRules = HoldRules()
    """What else a run waits for before it begins."""
    stop: StopRule = StopRule()
    """When to give up."""
    on_failure: dict[str, str] = dict(failures.DEFAULTS)
    """What follows an attempt that did not work, by its cause: `retry N`, `skip`, `hold` or `stop`;
    causes that are left out keep their default."""
    equivalent_hosts: bool = False
    """Whether hosts that have a drive of the campaign alike (name, model, interface, size, PLP,
    rails) execute the planned runs of one that is set aside."""
    side_by_side: bool = False
    """Whether drives of one host run at the same time, each on its own rails. In each block, one
    cell of each drive is also run alone on its host: the control for cross-talk."""
    study: Literal[tuple(studies.STUDIES)] | None = None
    """The published study whose claims the report judges."""
    registered: Registered | None = None
    """Rules by which those claims are judged; required with `study`."""
    short: dict[str, Any] | None = None
    """Values of the short form (`--short`): any key but `name`, `question`, `study` and
    `registered`."""

    def levels(self, factor: str) -> list[str]:
        """Return the levels of a factor; none where the campaign does not vary it."""
        found: list[str] = self.drives if factor == "drive" else getattr(self.factors, factor)
        return found

    def bytes_used(self, size_bytes: int) -> int:
        """Return the bytes that are used of a drive or array of that size."""
        return self.use_bytes or size_bytes

    @property
    def varied(self) -> list[str]:
        """Return the factors of which there are several levels, the drive among them."""
        return [name for name in self.known_factors if len(self.levels(name)) > 1]

    @property
    def known_factors(self) -> tuple[str, ...]:
        """Return the factors that a campaign can vary, the drive among them."""
        return ("drive", *type(self.factors).model_fields)

    @model_validator(mode="after")
    def _can_race(self) -> Campaign:
        """Refuse keys of a race that do not go together."""
        if self.order == races.ORDER and self.replicates < differences.FEWEST_BLOCKS:
            raise ValueError(
                f"replicates: {self.replicates}: a race needs at least {differences.FEWEST_BLOCKS}"
            )
        if self.order != races.ORDER and self.margin_percent is not None:
            raise ValueError(f"margin_percent: only a race has one; allowed: with order: {races.ORDER}")
        return self

    _drives_once = field_validator("drives")(each_once)
    _each_cause = field_validator("on_failure", mode="before")(failures.complete)

    @model_validator(mode="after")
    def _is_registered(self) -> Campaign:
        """Refuse a study without a registration of each of its claims, before it runs."""
        if (self.study is None) != (self.registered is None):
            raise ValueError("study and registered: one without the other; allowed: both or none")
        if self.study is None or self.registered is None:
            return self
        known = [claim.key for claim in studies.STUDIES[self.study].claims]
        if sorted(known) != sorted(self.registered.claims):
            found = ", ".join(self.registered.claims) or "none"
            raise ValueError(f"registered.claims: {found}; allowed: each of {', '.join(known)}")
        for key, claim in self.registered.claims.items():
            for factor in claim.cells:
                if factor not in self.known_factors:
                    raise ValueError(f"registered.claims.{key}.cells: {factor!r} is no factor of a campaign")
        if self.slow_motion not in self.registered.ladder:
            rungs = ", ".join(f"{k:g}" for k in self.registered.ladder)
            raise ValueError(f"slow_motion: {self.slow_motion}; allowed: of the registered ladder, {rungs}")
        return self

    @model_validator(mode="after")
    def _said_once(self) -> Campaign:
        """Refuse a key that says for every run what a factor varies."""
        for name, factor in campaign_factors.shipped().items():
            key = factor.replaces
            if key and getattr(self, key) and getattr(self.factors, name):
                raise ValueError(f"{key}: is a factor of this campaign as well; allowed: one of the two")
        return self


def model(known: Mapping[str, Factor]) -> type[Campaign]:
    """Return the model of a campaign that can name these factors."""
    if known.keys() == campaign_factors.shipped().keys():
        return Campaign
    factors, exclusion = campaign_factors.models(known)
    fields: dict[str, Any] = {"factors": (factors, ...), "exclude": (list[exclusion], [])}  # type: ignore[valid-type]
    return create_model("Campaign", __base__=Campaign, __doc__=Campaign.__doc__, **fields)


@dataclass(frozen=True)
class PlannedRun:
    """A run before it has an id. `excluded` is the reason why it will not be executed, or empty.

    `alone`: it is one for the control of cross-talk, during which nothing else runs on its host.
    """

    block: int
    replicate: int
    host: str
    drive: str
    levels: dict[str, str] = field(hash=False)
    excluded: str = ""
    alone: bool = False

    @property
    def cell(self) -> str:
        """Return the name of the run's cell."""
        return Cell.from_levels({**self.journaled_levels, "drive": self.drive}).name

    @property
    def journaled_levels(self) -> dict[str, str]:
        """Return the levels by which the journal knows the run: its control is one."""
        return {**self.levels, CONTROL: ALONE} if self.alone else self.levels

    def subject(self, lab: Lab) -> Subject:
        """Return the run as a factor's functions see it."""
        return Subject(lab, self.host, self.drive, self.levels)


def precondition_jobs() -> dict[str, Path]:
    """Return the fio job files that a drive can be preconditioned with."""
    return {path.stem: path for path in sorted((paths.share() / "workloads" / "precondition").glob("*.fio"))}


def short_form(mapping: Any, source: str) -> dict[str, Any]:
    """Return the short form of a campaign: `mapping` with the keys under `short` replaced.

    Of a mapping (factors, phases ...) only the keys named there are replaced. Raises UserError.
    """
    short = mapping.get("short") if isinstance(mapping, dict) else None
    if not isinstance(short, dict):
        raise UserError(f"{source}: campaign.short: missing; leave out --short to run the full campaign")
    allowed = sorted(set(Campaign.model_fields) - {"name", "question", "study", "registered", "short"})
    for key in short:
        if key not in allowed:
            raise UserError(f"{source}: campaign.short: unknown key {key!r}; allowed: {', '.join(allowed)}")
    found = {key: value for key, value in mapping.items() if key != "short"}
    for key, value in short.items():
        both = isinstance(value, dict) and isinstance(found.get(key), dict)
        found[key] = {**found[key], **value} if both else value
    return {**found, "name": f"{mapping.get('name')}-short"}


def parse(mapping: Any, lab: Lab, source: str, *, short: bool = False) -> Campaign:
    """Return the campaign, or its short form, that the playbook's `mapping` describes.

    It is checked against the lab. Raises UserError, naming `source`.
    """
    if short:
        mapping = short_form(mapping, source)
    factors = campaign_factors.load(lab)
    campaign = validate(model(factors), mapping, source, "campaign")
    if campaign.short is not None:
        validate(model(factors), short_form(mapping, source), f"{source}, short", "campaign")
    for name, factor in factors.items():
        if factor.known is not None:
            _known(source, f"factors.{name}", campaign.factors.levels(name), factor.known(lab))
    _known(source, "drives", campaign.drives, _drives(lab))
    levels = {"drive": campaign.drives, **campaign.factors.model_dump()}
    for number, exclusion in enumerate(campaign.exclude):
        for factor, named in exclusion.named.items():
            allowed = levels[factor]
            for level in named:
                if level not in allowed:
                    raise UserError(
                        f"{source}: campaign.exclude.{number}.{factor}: {level!r} is not a level of this"
                        f" campaign; allowed: {', '.join(allowed) or 'none; the campaign has no such factor'}"
                    )
    _check_race(campaign, lab, source)
    _check_equivalents(campaign, lab, source)
    _check_runs(campaign, lab, source)
    cells = plan_cells(campaign, lab)
    rules.check(campaign, cells, factors, lab, source)
    _check_precondition(campaign, lab, source)
    _check_use_bytes(campaign, cells, lab, source)
    _check_packages(cells, lab, source)
    _check_levels(cells, factors, campaign, lab, source)
    return campaign


def _check_runs(campaign: Campaign, lab: Lab, source: str) -> None:
    """Refuse a plan of more than `MOST_RUNS`, before it is made. Raises UserError."""
    there = _drives(lab)
    cells = math.prod(map(len, _varied(campaign).values())) * sum(
        len(there[drive]) for drive in campaign.drives
    )
    if (runs := cells * campaign.replicates) > MOST_RUNS:
        raise UserError(
            f"{source}: campaign.replicates: {campaign.replicates} of {cells} cells are {runs} runs;"
            f" allowed: at most {MOST_RUNS} runs"
        )


def _check_levels(
    cells: list[PlannedRun], factors: Mapping[str, Factor], campaign: Campaign, lab: Lab, source: str
) -> None:
    """Refuse a campaign whose host or drive cannot have a level in a cell that is not excluded."""
    for run in cells:
        if run.excluded:
            continue
        subject = run.subject(lab)
        for name, level in run.levels.items():
            if why := factors[name].refusal(level, subject):
                raise UserError(f"{source}: campaign.factors.{name}: {why}")
        if campaign.write_cache and (why := flushes_refused(campaign.write_cache, subject)):
            raise UserError(f"{source}: campaign.write_cache: {why}")


def _check_race(campaign: Campaign, lab: Lab, source: str) -> None:
    """Refuse a race in which a cell would have several runs in a block. Raises UserError."""
    if campaign.order != races.ORDER:
        return
    there = _drives(lab)
    for name in campaign.drives:
        if len(hosts := there[name]) > 1:
            raise UserError(
                f"{source}: campaign.order: {races.ORDER!r}: drive {name!r} is on {', '.join(hosts)};"
                " allowed: drives of one host each"
            )


def _check_equivalents(campaign: Campaign, lab: Lab, source: str) -> None:
    """Refuse `equivalent_hosts` where no two hosts have a drive alike. Raises UserError."""
    if not campaign.equivalent_hosts or equivalents.sharing(lab, campaign.drives):
        return
    there = _drives(lab)
    found = []
    for name in campaign.drives:
        first, *others = there[name]
        if others:
            why = equivalents.difference(lab, first, others[0], name)
            found.append(f"{name!r} of {first} and {others[0]} differ in {why}")
        else:
            found.append(f"{name!r} is on {first} alone")
    raise UserError(
        f"{source}: campaign.equivalent_hosts: {'; '.join(found)}; allowed: with a drive of one name that"
        " two hosts have alike"
    )


def _check_precondition(campaign: Campaign, lab: Lab, source: str) -> None:
    """Check that every drive of the campaign can be preconditioned as asked. Raises UserError."""
    if campaign.precondition is None:
        return
    key = "campaign.precondition"
    _known(source, "precondition.job", [campaign.precondition.job], precondition_jobs())
    fio_job.load(precondition_jobs()[campaign.precondition.job], fio_job.DEVICE)
    for name in campaign.drives:
        for host in _drives(lab)[name]:
            drive = lab.hosts[host].drives.get(name)
            what = drive.interface if drive else "an array"
            if what not in FILL_BYTES_PER_SECOND:
                able = [n for n, d in lab.hosts[host].drives.items() if d.interface in FILL_BYTES_PER_SECOND]
                allowed = f"nvme or sata-ssd: {', '.join(able) or 'none'}"
                raise UserError(f"{source}: {key}: {name!r} of {host} is {what}; allowed: {allowed}")
            purge = campaign.precondition.purge
            if purge not in PURGES[what]:
                allowed = ", ".join(PURGES[what])
                raise UserError(f"{source}: {key}.purge: {purge!r}: {name!r} is {what}; allowed: {allowed}")


def _check_use_bytes(campaign: Campaign, cells: list[PlannedRun], lab: Lab, source: str) -> None:
    """Check that every drive and file system of the campaign can have that size.

    Of an array, the smallest member counts. Raises UserError.
    """
    asked, key = campaign.use_bytes, f"{source}: campaign.use_bytes"
    if asked is None:
        return
    shown = sizes.show(asked)
    if asked % MIB:
        raise UserError(f"{key}: {shown}; allowed: whole MiB")
    executed = [run for run in cells if not run.excluded]
    for run in executed:
        drives = lab.hosts[run.host].drives
        for name in lab.member_drives(run.host, run.drive):
            if asked > (most := drives[name].size_bytes):
                raise UserError(
                    f"{key}: {shown}: {name!r} of {run.host} has {most} bytes; allowed: at most as many"
                )
    known = filesystems.load(lab)
    for name in dict.fromkeys(run.levels["filesystem"] for run in executed):
        if not known[name].mkfs_bounded:
            able = ", ".join(one for one, definition in known.items() if definition.mkfs_bounded)
            raise UserError(f"{key}: {name!r} is always as large as its drive; allowed: {able}")
        if asked < (least := known[name].least_bytes):
            raise UserError(f"{key}: {shown}: {name!r} needs at least {sizes.show(least)}")


def _check_packages(cells: list[PlannedRun], lab: Lab, source: str) -> None:
    """Check that virtual hosts, which can install none, have the workloads' packages.

    Raises UserError.
    """
    known = workloads.load(lab)
    for workload, host in dict.fromkeys(
        (run.levels["workload"], run.host) for run in cells if not run.excluded
    ):
        missing = virtual.missing_packages(lab, host, known[workload].needed_packages())
        if missing:
            raise UserError(
                f"{source}: campaign.factors.workload: {workload!r} needs {', '.join(missing)}, which the"
                f" image of {host} lacks; allowed: with these in virtual.guest_packages of its host_vars"
            )


def _drives(lab: Lab) -> dict[str, list[str]]:
    """Return, by name of a drive or array, the hosts that have it."""
    found: dict[str, list[str]] = {}
    for host, spec in lab.hosts.items():
        for name in [*spec.drives, *spec.arrays]:
            found.setdefault(name, []).append(host)
    return found


def _known(source: str, key: str, values: list[str], allowed: Mapping[str, Any]) -> None:
    for value in values:
        if value not in allowed:
            raise UserError(f"{source}: campaign.{key}: {value!r} is {definitions.allowed(value, allowed)}")


def _varied(campaign: Campaign) -> dict[str, list[str]]:
    """Return the levels of each factor that a campaign varies."""
    return {key: levels for key, levels in campaign.factors.model_dump().items() if levels}


def plan_cells(campaign: Campaign, lab: Lab) -> list[PlannedRun]:
    """Return a run of each cell, in the order in which the campaign writes its levels."""
    factors = _varied(campaign)
    hosts = _drives(lab)
    combinations = [
        dict(zip(factors, levels, strict=True)) for levels in itertools.product(*factors.values())
    ]
    found = []
    for drive in campaign.drives:
        for host in hosts[drive]:
            for levels in combinations:
                every = {"drive": drive, **levels}
                reason = next((one.reason for one in campaign.exclude if one.matches(every)), "")
                found.append(PlannedRun(1, 1, host, drive, levels, reason))
    return found


def plan(campaign: Campaign, lab: Lab) -> list[PlannedRun]:
    """Return every run in order of execution: randomised blocks of one replicate of every cell.

    Randomised blocks keep a drift of the rig from looking like an effect of a factor. Where the
    kernel is one, its levels follow each other in a random order within a block, each booted once,
    and the other factors are in random order within these (a split plot). Where drives run side by
    side, each block has its control runs. The order depends on the campaign's seed alone.
    """
    cells = plan_cells(campaign, lab)
    runs = []
    generator = random.Random(campaign.seed)
    for replicate in range(1, campaign.replicates + 1):
        block = [
            PlannedRun(replicate, replicate, run.host, run.drive, run.levels, run.excluded) for run in cells
        ]
        booted = list(campaign.factors.levels("kernel"))
        if campaign.order != "as-written":
            generator.shuffle(block)
            generator.shuffle(booted)
        if booted:
            block.sort(key=lambda run: booted.index(run.levels["kernel"]))
        if campaign.side_by_side:
            block = control.with_controls(block, generator)
        runs += block
    return runs


# What a plan assumes where nothing has been measured yet; each is an upper bound of its class of
# drives: what PCIe 5.0 x4, SATA and a channel of memory carry.
MOST_BYTES_PER_SECOND = {"nvme": 15.8e9, "sata-ssd": 0.6e9, "hdd": 0.6e9, "nvdimm": 20e9, "ram": 20e9}
MOST_WATTS = {"nvme": 25.0, "sata-ssd": 6.0, "hdd": 15.0, "nvdimm": 0.0, "ram": 0.0}
# What drives that can be preconditioned are filled with at least, as whole: their flash, not their
# link.
FILL_BYTES_PER_SECOND = {"nvme": 300e6, "sata-ssd": 100e6}
PURGES = {
    "nvme": ("auto", "discard", "format", "sanitize"),
    "sata-ssd": ("auto", "discard", "unmap", "secure-erase"),
}
OVERHEAD_SECONDS = 10.0  # mkfs, layout and Ansible of a run
# In which a host watches the drives of a call before it changes them
# (module_utils/joulerig/drives/uses/stillness.py): all of a run's in the same second.
WATCH_SECONDS = 1.0


@dataclass(frozen=True)
class Work:
    """A planned run as the figures of a plan see it.

    `declared_seconds`: rest, idle and tail. `filled_bytes`: what is written before the load.
    `slowness`: seconds of the machine that a second of a virtual lab lasts in these phases.
    """

    run: PlannedRun
    drives: Mapping[str, Drive]
    declared_seconds: float
    workload_seconds: float
    filled_bytes: float
    slowness: float = 1.0


class Bounds:
    """What a plan assumes of its runs at most; `forecast.expected` has what it expects of them."""

    def boot_seconds(self, host: TestHost) -> float:
        """Return the seconds of a boot into another kernel."""
        return host.returns_within

    def load_seconds(self, work: Work) -> float:
        """Return the seconds of the workload phase."""
        return work.workload_seconds

    def outside_seconds(self, work: Work) -> float:
        """Return the seconds of a run outside the phases whose length the campaign declares."""
        slowest = min(FILL_BYTES_PER_SECOND.get(drive.interface, 1e8) for drive in work.drives.values())
        return OVERHEAD_SECONDS + WATCH_SECONDS + work.filled_bytes / slowest

    def bytes_per_second(self, work: Work) -> dict[str, float]:
        """Return what the load writes to each of the run's drives."""
        return {name: MOST_BYTES_PER_SECOND[drive.interface] for name, drive in work.drives.items()}

    def watts(self, work: Work) -> float:
        """Return the mean power of the run's drives together."""
        return sum(MOST_WATTS[drive.interface] for drive in work.drives.values())

    def precondition(self, asked: Precondition, drive: Drive, used_bytes: int) -> tuple[float, float]:
        """Return the seconds of a precondition of that much of a drive, and the bytes written."""
        seconds, written = precondition_cost(asked, drive.interface, used_bytes)
        return seconds + WATCH_SECONDS, written


@dataclass(frozen=True)
class Cost:
    """Time, wear and energy of a plan, by what is assumed of its runs.

    `seconds` and `runs_of`: by host. `written`: bytes by (host, drive), for each drive that loses
    its content. `preconditions`: how often a drive is preconditioned if every run writes as much as
    is assumed. `controls`: how many of the runs are for the control of cross-talk.
    `seconds_in_turn`: by host, if its runs without these followed each other.
    """

    runs: int
    excluded: int
    preconditions: int
    precondition_hours: float
    seconds: Mapping[str, float]
    runs_of: Mapping[str, int]
    written: Mapping[tuple[str, str], float]
    kilowatt_hours: float
    wiped: list[tuple[str, str, str]]
    controls: int
    seconds_in_turn: Mapping[str, float]

    @property
    def hours_in_turn(self) -> float:
        """Return the hours that runs one after the other would take, without a control."""
        return max(self.seconds_in_turn.values(), default=0.0) / 3600

    @property
    def hours(self) -> float:
        """Return the hours until the last host is done."""
        return max(self.seconds.values(), default=0.0) / 3600

    @property
    def terabytes_written(self) -> float:
        """Return what is written to all drives together."""
        return sum(self.written.values()) / 1e12


def precondition_cost(asked: Precondition, interface: str, used_bytes: int) -> tuple[float, float]:
    """Return upper bounds of one precondition of a drive: seconds, and bytes written.

    `used_bytes`: what passes and rounds are on.
    """
    filled, loaded = asked.passes * used_bytes, asked.round_seconds * asked.max_rounds
    seconds = filled / FILL_BYTES_PER_SECOND[interface] + loaded
    return seconds, filled + MOST_BYTES_PER_SECOND[interface] * loaded


Works = Mapping[tuple[str, ...], tuple[Work, int]]


def works(campaign: Campaign, lab: Lab, runs: Iterable[PlannedRun]) -> Works:
    """Return the work of each cell that is executed, and how often it is; by `_cell_key`."""
    first: dict[tuple[str, ...], PlannedRun] = {}
    times: Counter[tuple[str, ...]] = Counter()
    for run in runs:
        if not run.excluded:
            key = _cell_key(run)
            first.setdefault(key, run)
            times[key] += 1
    factors = campaign_factors.load(lab)
    made = filesystems.load(lab)
    declared = sum(campaign.phases.model_dump().values()) - campaign.phases.workload_seconds

    @functools.cache
    def used(host: str, drive: str, *stands: str) -> tuple[dict[str, Drive], int]:
        """Return the drives that a run stands on, and how many bytes of them it uses."""
        spec = lab.hosts[host]
        drives = {name: spec.drives[name] for name in lab.member_drives(host, *stands)}
        size = sum(one.size_bytes for one in drives.values())
        if campaign.use_bytes:
            copies = spec.arrays[drive].most_copies if drive in spec.arrays else 1
            size = campaign.use_bytes * copies
        return drives, size

    @functools.cache
    def slowness(host: str) -> float:
        return virtual.slowness(lab, host, campaign.slow_motion)

    found = {}
    for key, run in first.items():
        drives, size = used(run.host, run.drive, *stands_on(run.drive, run.levels))
        assumed = campaign_factors.estimate(factors, run.levels, campaign.phases.workload_seconds)
        filled = (assumed.written_fraction + made[run.levels["filesystem"]].mkfs_writes) * size
        work = Work(run, drives, declared, assumed.workload_seconds, filled, slowness(run.host))
        found[key] = work, times[key]
    return found


def _cell_key(run: PlannedRun) -> tuple[str, ...]:
    return (run.host, run.drive, *run.levels.values())


def _bytes_written(work: Work, assumed: Bounds) -> dict[str, float]:
    """Return what a run writes to each of its drives."""
    size = sum(drive.size_bytes for drive in work.drives.values())
    rates, seconds = assumed.bytes_per_second(work), assumed.load_seconds(work)
    return {
        name: rates[name] * seconds + work.filled_bytes * drive.size_bytes / size
        for name, drive in work.drives.items()
    }


def _preconditions(
    campaign: Campaign, lab: Lab, runs: list[PlannedRun], written: Mapping[tuple[str, ...], float]
) -> Iterator[int]:
    """Yield the position of each run that may need a precondition.

    `written`: by cell, what a run writes to the drive.
    """
    asked = campaign.precondition
    since: dict[tuple[str, str], float] = {}
    if asked is None:
        return
    for position, run in enumerate(runs):
        where = run.host, run.drive
        used = campaign.bytes_used(lab.hosts[run.host].drives[run.drive].size_bytes)
        if where not in since or not asked.holds_after(since[where], used):
            since[where] = 0.0
            yield position
        since[where] += written[_cell_key(run)]


def _boots(runs: list[PlannedRun]) -> dict[str, int]:
    """Return how often each host boots for `runs`.

    Whenever a run's kernel is not the previous run's.
    """
    found: dict[str, int] = {}
    now: dict[str, str] = {}
    for run in runs:
        wanted = kernel_level(run.levels)
        if wanted != now.get(run.host, kernels.INSTALLED):
            found[run.host] = found.get(run.host, 0) + 1
        now[run.host] = wanted
    return found


def cost(
    campaign: Campaign,
    lab: Lab,
    runs: Sequence[PlannedRun],
    assumed: Bounds | None = None,
    cells: Works | None = None,
) -> Cost:
    """Return a plan's time, wear and energy as `assumed`; by default the upper bounds of all.

    `cells`: the `works` of the runs, where they are known.
    """
    assumed = assumed or Bounds()
    executed = [run for run in runs if not run.excluded]
    cells = works(campaign, lab, executed) if cells is None else cells
    seconds = {
        host: boots * assumed.boot_seconds(lab.hosts[host])
        for host, boots in (_boots(executed) if campaign.levels("kernel") else {}).items()
    }
    runs_of: Counter[str] = Counter()
    written: dict[tuple[str, str], float] = {}
    took: dict[tuple[str, ...], float] = {}  # how long a run takes, by cell
    to_drive: dict[tuple[str, ...], float] = {}  # what a run writes to its own drive, by cell
    joules = precondition_seconds = 0.0
    for key, (work, times) in cells.items():
        host = work.run.host
        outside, phases = assumed.outside_seconds(work), work.declared_seconds + assumed.load_seconds(work)
        took[key] = outside + work.slowness * phases
        runs_of[host] += times
        seconds[host] = seconds.get(host, 0.0) + times * took[key]
        joules += times * assumed.watts(work) * (outside + phases)
        amounts = _bytes_written(work, assumed)
        to_drive[key] = amounts.get(work.run.drive, 0.0)
        for name, amount in amounts.items():
            written[host, name] = written.get((host, name), 0.0) + times * amount
    preconditions = list(_preconditions(campaign, lab, executed, to_drive))
    before: dict[int, float] = {}  # how long the precondition before a run takes
    for position in preconditions:
        host, name = executed[position].host, executed[position].drive
        drive = lab.hosts[host].drives[name]
        assert campaign.precondition is not None
        lasts, amount = assumed.precondition(
            campaign.precondition, drive, campaign.bytes_used(drive.size_bytes)
        )
        seconds[host] += lasts
        before[position] = lasts
        precondition_seconds += lasts
        written[host, name] += amount
        joules += MOST_WATTS[drive.interface] * lasts
    in_turn = seconds
    if campaign.side_by_side:
        others = [run for run in executed if not run.alone]
        turned = campaign.model_copy(update={"side_by_side": False})
        in_turn = dict(cost(turned, lab, others, assumed).seconds)
        lasting = [
            (run, took[_cell_key(run)] + before.get(position, 0.0)) for position, run in enumerate(executed)
        ]
        seconds = {
            host: control.seconds_in_lanes(
                [(run.drive, lasts, run.alone) for run, lasts in lasting if run.host == host]
            )
            for host in seconds
        }
    return Cost(
        runs=len(executed),
        excluded=len(runs) - len(executed),
        preconditions=len(preconditions),
        precondition_hours=precondition_seconds / 3600,
        seconds=seconds,
        runs_of=runs_of,
        written=written,
        kilowatt_hours=joules / 3.6e6,
        wiped=[(host, name, lab.hosts[host].drives[name].serial) for host, name in written],
        controls=sum(run.alone for run in executed),
        seconds_in_turn=in_turn,
    )
