# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign: a question, its factors and levels, and the plan of runs that follows from them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    create_model,
    field_validator,
    model_validator,
)

from joulerig.analysis import studies
from joulerig.analysis.compare import races
from joulerig.analysis.results.campaign import current_recipe
from joulerig.analysis.results.schema import CampaignKind, Cell
from joulerig.analysis.statistics import racing, steady_state
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
from joulerig.rig.common import paths, sizes
from joulerig.rig.common.errors import Strict, UserError, validate
from joulerig.rig.lab import definitions, filesystems, kernels, virtual
from joulerig.rig.lab.model import MIB, Drive, Lab, Name
from joulerig.rig.workloads import fio_job


class Phases(Strict):
    """Lengths of the phases that have one; prepare and precondition take what they take."""

    rest_seconds: NonNegativeInt = 5
    """Soak before idle. An SSD that was just written to folds its cache and collects garbage."""
    idle_seconds: NonNegativeInt = 5
    """The drive is mounted and nothing loads it."""
    workload_seconds: PositiveInt = 60
    """The load."""
    tail_seconds: NonNegativeInt = 5
    """After the load, still measured."""


class Waveforms(Strict):
    """Recording of each run's volts and amps at the full sample rate, with a file size limit."""

    max_megabytes: Annotated[float, Field(ge=0.1)] = 512
    """Most that one file may take."""


class Precondition(Strict):
    """What is done to a drive before its runs until it is steady; reused while valid."""

    purge: Literal["discard", "format"] = "discard"
    """How the whole drive is purged: blkdiscard, or an NVMe format."""
    passes: NonNegativeInt = 2
    """How often the drive is written, from its beginning to its end (or to `use_bytes`)."""
    job: Level = "randwrite"
    """The load of the rounds: a fio job of `workloads/precondition/`, on the raw drive."""
    round_seconds: PositiveInt = 60
    """Length of a round."""
    max_rounds: Annotated[int, Field(ge=steady_state.ROUNDS)] = 25
    """Most rounds; the drive need not get steady."""
    reuse_within: Annotated[float, Field(ge=0)] = 0.5
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


class StopRule(Strict):
    """When to give up before the plan is done."""

    failures_in_a_row: PositiveInt = 5
    """Give up after so many failed runs; the others stay planned."""
    hours: PositiveFloat | None = None
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
    replicates: PositiveInt = 3
    """Runs of each cell."""
    order: Literal["random", "as-written", "racing"] = "random"
    """`random`: each replicate is a block, in its own random order. `racing`: so too, and after
    each block cells that are certainly behind the best one are run no more."""
    margin_percent: Annotated[float, Field(gt=0, lt=100)] | None = None
    """Of a race: it ends where all cells left are within so many per cent of the best one."""
    seed: NonNegativeInt = 1
    """Seed of the order and of the loads."""
    write_cache: WriteCache | None = None
    """The drives' write cache in every run; left out: as the drive has it."""
    phases: Phases = Phases()
    """Lengths of the phases."""
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
    hold_minutes: Annotated[float, Field(ge=0)] = 10
    """How long a run waits for InfluxDB and powerd before it begins without them; its energy
    arrives later."""
    stop: StopRule = StopRule()
    """When to give up."""
    study: Literal[tuple(studies.STUDIES)] | None = None
    """The published study whose claims the report judges."""
    short: dict[str, Any] | None = None
    """What the short form (`--short`) has instead: any key but `name`, `question` and `study`."""

    def bytes_used(self, size_bytes: int) -> int:
        """Return the bytes that are used of a drive or array of that size."""
        return self.use_bytes or size_bytes

    @model_validator(mode="after")
    def _can_race(self) -> Campaign:
        """Refuse keys of a race that do not go together."""
        if self.order == races.ORDER and self.replicates < racing.FEWEST_BLOCKS:
            raise ValueError(f"replicates: {self.replicates}: a race needs at least {racing.FEWEST_BLOCKS}")
        if self.order != races.ORDER and self.margin_percent is not None:
            raise ValueError(f"margin_percent: only a race has one; allowed: with order: {races.ORDER}")
        return self

    _drives_once = field_validator("drives")(each_once)

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
    """A run before it has an id. `excluded` is the reason why it will not be executed, or empty."""

    block: int
    replicate: int
    host: str
    drive: str
    levels: dict[str, str] = field(hash=False)
    excluded: str = ""

    @property
    def cell(self) -> str:
        """Return the name of the run's cell."""
        return Cell.from_levels({**self.levels, "drive": self.drive}).name

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
    allowed = sorted(set(Campaign.model_fields) - {"name", "question", "study", "short"})
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
    cells = plan_cells(campaign, lab)
    _check_precondition(campaign, lab, source)
    _check_use_bytes(campaign, cells, lab, source)
    _check_packages(cells, lab, source)
    _check_levels(cells, factors, campaign, lab, source)
    return campaign


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
    for name in campaign.drives if campaign.order == races.ORDER else ():
        if len(hosts := _drives(lab)[name]) > 1:
            raise UserError(
                f"{source}: campaign.order: {races.ORDER!r}: drive {name!r} is on {', '.join(hosts)};"
                " allowed: drives of one host each"
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
            if campaign.precondition.purge == "format" and what != "nvme":
                raise UserError(f"{source}: {key}.purge: 'format': {name!r} is {what}; allowed: discard")


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


def plan_cells(campaign: Campaign, lab: Lab) -> list[PlannedRun]:
    """Return a run of each cell, in the order in which the campaign writes its levels."""
    factors = {key: levels for key, levels in campaign.factors.model_dump().items() if levels}
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
    and the other factors are in random order within these (a split plot). The order depends on the
    campaign's seed alone.
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
        runs += block
    return runs


# What a plan assumes where nothing has been measured yet; each is an upper bound of its class of
# drives: what PCIe 5.0 x4, SATA and a channel of memory carry.
MOST_BYTES_PER_SECOND = {"nvme": 15.8e9, "sata-ssd": 0.6e9, "hdd": 0.6e9, "nvdimm": 20e9, "ram": 20e9}
MOST_WATTS = {"nvme": 25.0, "sata-ssd": 6.0, "hdd": 15.0, "nvdimm": 0.0, "ram": 0.0}
# What drives that can be preconditioned are filled with at least, as whole: their flash, not their
# link.
FILL_BYTES_PER_SECOND = {"nvme": 300e6, "sata-ssd": 100e6}
OVERHEAD_SECONDS = 10.0  # mkfs, layout and Ansible of a run


@dataclass(frozen=True)
class Cost:
    """Upper bounds of a plan; `wiped`: (host, drive, serial) of drives that lose their content.

    `preconditions`: how often a drive is preconditioned if every run writes as much as its
    interface carries.
    """

    runs: int
    excluded: int
    preconditions: int
    precondition_hours: float
    hours: float
    terabytes_written: float
    kilowatt_hours: float
    wiped: list[tuple[str, str, str]]


def precondition_cost(asked: Precondition, interface: str, used_bytes: int) -> tuple[float, float]:
    """Return upper bounds of one precondition of a drive: seconds, and bytes written.

    `used_bytes`: what passes and rounds are on.
    """
    filled, loaded = asked.passes * used_bytes, asked.round_seconds * asked.max_rounds
    seconds = filled / FILL_BYTES_PER_SECOND[interface] + loaded
    return seconds, filled + MOST_BYTES_PER_SECOND[interface] * loaded


def _preconditions(campaign: Campaign, lab: Lab, runs: list[PlannedRun]) -> Iterator[tuple[str, Drive]]:
    """Yield host and drive of each precondition that `runs` may need."""
    asked, since = campaign.precondition, {}
    factors = campaign_factors.load(lab)
    for run in runs if asked else ():
        drive = lab.hosts[run.host].drives[run.drive]
        where, used = (run.host, run.drive), campaign.bytes_used(drive.size_bytes)
        if where not in since or not asked.holds_after(since[where], used):
            since[where] = 0.0
            yield run.host, drive
        assumed = campaign_factors.estimate(factors, run.levels, campaign.phases.workload_seconds)
        since[where] += MOST_BYTES_PER_SECOND[drive.interface] * assumed.workload_seconds
        since[where] += assumed.filled_fraction * used


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


def cost(campaign: Campaign, lab: Lab, runs: list[PlannedRun]) -> Cost:
    """Return upper bounds of a plan's time, wear and energy."""
    phases = sum(campaign.phases.model_dump().values()) - campaign.phases.workload_seconds
    by_host: dict[str, float] = {}
    bytes_written = joules = precondition_seconds = 0.0
    wiped: dict[tuple[str, str, str], None] = {}
    executed = [run for run in runs if not run.excluded]
    factors, made = campaign_factors.load(lab), filesystems.load(lab)
    for host_name, boots in _boots(executed).items():
        by_host[host_name] = boots * lab.hosts[host_name].returns_within
    for run in executed:
        host = lab.hosts[run.host]
        names = lab.member_drives(run.host, *stands_on(run.drive, run.levels))
        members = {name: host.drives[name] for name in names}
        assumed = campaign_factors.estimate(factors, run.levels, campaign.phases.workload_seconds)
        size = sum(drive.size_bytes for drive in members.values())
        if campaign.use_bytes:
            copies = host.arrays[run.drive].most_copies if run.drive in host.arrays else 1
            size = min(size, campaign.use_bytes * copies)
        filled = (assumed.filled_fraction + made[run.levels["filesystem"]].mkfs_writes) * size
        loaded = assumed.workload_seconds
        slowest = min(FILL_BYTES_PER_SECOND.get(drive.interface, 1e8) for drive in members.values())
        seconds_per_run = OVERHEAD_SECONDS + phases + loaded + filled / slowest
        by_host[run.host] = by_host.get(run.host, 0.0) + seconds_per_run
        bytes_written += filled
        for name, drive in members.items():
            wiped[(run.host, name, drive.serial)] = None
            bytes_written += MOST_BYTES_PER_SECOND[drive.interface] * loaded
            joules += MOST_WATTS[drive.interface] * seconds_per_run
    preconditions = list(_preconditions(campaign, lab, executed))
    for name, drive in preconditions:
        seconds, written = precondition_cost(
            campaign.precondition, drive.interface, campaign.bytes_used(drive.size_bytes)
        )
        by_host[name] += seconds
        precondition_seconds += seconds
        bytes_written += written
        joules += MOST_WATTS[drive.interface] * seconds
    return Cost(
        runs=len(executed),
        excluded=len(runs) - len(executed),
        preconditions=len(preconditions),
        precondition_hours=precondition_seconds / 3600,
        hours=max(by_host.values(), default=0.0) / 3600,
        terabytes_written=bytes_written / 1e12,
        kilowatt_hours=joules / 3.6e6,
        wiped=list(wiped),
    )
