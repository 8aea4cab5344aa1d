# SPDX-License-Identifier: GPL-3.0-or-later
"""The definition of a power-cut campaign, checked against the lab, and the plan made of it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from joulerig.analysis.powercut.folder import BARE, WRITER, Subject
from joulerig.analysis.results.schema import CampaignKind, Cell, Status
from joulerig.plural import counted
from joulerig.rig import power
from joulerig.rig.campaign.definition import MOST_RUNS, WATCH_SECONDS, StopRule
from joulerig.rig.common import paths
from joulerig.rig.common.errors import Strict, UserError, validate
from joulerig.rig.common.numbers import MOST_SECONDS, Count, Seed
from joulerig.rig.lab import applications, definitions, filesystems
from joulerig.rig.lab.model import Lab, Name, TestHost

UNSET = "unset"  # the level of the I/O scheduler, which a power cut leaves as it is
# That a cut takes: the host's start, reading back, checking; its drive is watched before it is
# written and before it is surveyed.
SECONDS = 90.0 + 2 * WATCH_SECONDS
LEAST_RETURN_SECONDS = 300.0  # for a start from cold, with a check of its root file system
ON_HOST = "/usr/local/sbin/durawriter"


class Pair(Strict):
    """What is cut: a drive, bare (`none`) or with a file system."""

    drive: Name
    """A drive of a test host, by its name in the inventory; it has rails, and is in no array."""
    filesystem: Annotated[str, Field(min_length=1)] = BARE
    """A file system whose definition says what to do after a power cut, or `none`."""
    mount_options: tuple[Annotated[str, Field(pattern=r"^[a-z0-9_=.-]+$")], ...] = ()
    """Mount options in addition to the file system's own, as `nobarrier`."""
    application: str = ""
    """An application whose transactions are judged, instead of writes; it needs a file system."""

    def __str__(self) -> str:
        on = " ".join([self.drive, "with", "+".join([self.filesystem, *self.mount_options])])
        return f"{self.application} on {on}" if self.application else on


class PowerCutCampaign(Strict):
    """The mapping `campaign:` of a playbook, of kind `power-cut`."""

    kind: Literal[CampaignKind.POWER_CUT]
    """`power-cut`."""
    name: Name
    """Lower case, digits, `-`, `_`, `.`. A campaign's id is its name and its start in UTC."""
    question: Annotated[str, Field(min_length=5)]
    """What the campaign is to answer; stands at the top of dashboard and report."""
    subjects: Annotated[list[Pair], Field(min_length=1)]
    """What is cut. Subjects on different drives of a host are cut together, as by a mains failure,
    which costs the host one start for all of them."""
    cuts: Count = 10
    """Power cuts of each subject."""
    seed: Seed = 1
    """Seed of the loads, and of the moments at which the power is cut."""
    off_seconds: Annotated[float, Field(gt=0, le=MOST_SECONDS)] = 1.0
    """How long the power stays off."""
    host_seconds: Annotated[float, Field(gt=0, le=MOST_SECONDS)] | None = None
    """How long a host may take to answer after its power was restored; left out: its
    `return_seconds` of the inventory, and at least 300."""
    loss_limit_percent: Annotated[float, Field(ge=0, le=100)] = 1.0
    """A cut whose meter lost more samples of a rail between first and last promise is `partial`."""
    stop: StopRule = StopRule()
    """When to give up; failed cuts count as failed runs do."""

    def returns_within(self, host: TestHost) -> float:
        """Return the seconds after which a host that does not answer is given up."""
        return self.host_seconds or max(LEAST_RETURN_SECONDS, host.returns_within)


def parse(mapping: Any, lab: Lab, source: str) -> PowerCutCampaign:
    """Return the campaign that `mapping` (of the playbook `source`) describes. Raises UserError."""
    campaign = validate(PowerCutCampaign, mapping, source, "campaign")
    known = {drive for host in lab.hosts.values() for drive in host.drives}
    cuttable = filesystems.with_power_cuts(lab)
    known_applications = applications.load(lab)
    for number, pair in enumerate(campaign.subjects):
        where = f"{source}: campaign.subjects.{number}"
        if pair.drive not in known:
            allowed = ", ".join(sorted(known))
            raise UserError(f"{where}.drive: {pair.drive!r} is no drive of a test host; allowed: {allowed}")
        if pair.filesystem != BARE and pair.filesystem not in cuttable:
            raise UserError(
                f"{where}.filesystem: {pair.filesystem!r} is unknown; allowed: {BARE}, {', '.join(cuttable)}"
            )
        name = pair.application
        if name and name not in known_applications:
            raise UserError(
                f"{where}.application: {name!r} is {definitions.allowed(name, known_applications)}"
            )
        for key in ("application", "mount_options"):
            if getattr(pair, key) and pair.filesystem == BARE:
                raise UserError(f"{where}.{key}: needs a file system; allowed: {', '.join(cuttable)}")
        if campaign.subjects.index(pair) < number:
            raise UserError(f"{where}: {pair} is there twice; once is allowed")
        for host, spec in lab.hosts.items():
            if pair.drive not in spec.drives:
                continue
            try:
                power.check_cut(lab, host, pair.drive)
            except UserError as error:
                raise UserError(f"{where}.drive: {error}") from None
            for name, array in spec.arrays.items():
                if pair.drive in array.members:
                    raise UserError(
                        f"{where}.drive: {pair.drive} of {host} is a member of {name}; allowed: others"
                    )
    return campaign


def make_subjects(campaign: PowerCutCampaign, lab: Lab) -> list[Subject]:
    """Return a subject for each pair on each host that has its drive."""
    after = filesystems.with_power_cuts(lab)
    found = []
    for pair in campaign.subjects:
        for host, spec in lab.hosts.items():
            if pair.drive in spec.drives:
                bare = pair.filesystem == BARE
                more = [*pair.mount_options, pair.application]
                found.append(
                    Subject(
                        name="-".join(filter(None, [host, pair.drive, pair.filesystem, *more])),
                        host=host,
                        drive=pair.drive,
                        filesystem="" if bare else pair.filesystem,
                        plp=spec.drives[pair.drive].plp,
                        atomic_rename=bare or after[pair.filesystem].atomic_rename,
                        fsync_flushes=bare or after[pair.filesystem].fsync_flushes,
                        mount_options=",".join(pair.mount_options),
                        application=pair.application,
                    )
                )
    return found


def groups(subjects: list[Subject]) -> list[list[Subject]]:
    """Return the subjects that can be cut together: of one host, no two of a group on one drive."""
    found: list[list[Subject]] = []
    for subject in subjects:
        for group in found:
            alike = group[0].host == subject.host
            if alike and all(other.drive != subject.drive for other in group):
                group.append(subject)
                break
        else:
            found.append([subject])
    return found


@dataclass(frozen=True)
class PowerCutPlan:
    """A power-cut campaign as validated against a lab, and what it cuts.

    A run is one cut of one subject, and the cut's number is its replicate. The runs of a block
    of a host are cut together.
    """

    campaign: PowerCutCampaign
    lab: Lab
    subjects: tuple[Subject, ...]

    kind = CampaignKind.POWER_CUT

    @property
    def groups(self) -> list[list[Subject]]:
        """Subjects that are cut together, in their order."""
        return groups(list(self.subjects))

    def cuts(self) -> int:
        """Return how often the power of a host is cut."""
        return self.campaign.cuts * len(self.groups)

    def hours(self) -> float:
        """Return about how long that takes: hosts do not wait for each other."""
        on_host: dict[str, int] = {}
        for group in self.groups:
            on_host[group[0].host] = on_host.get(group[0].host, 0) + self.campaign.cuts
        return max(on_host.values(), default=0) * (SECONDS + self.campaign.off_seconds) / 3600

    def wiped(self) -> list[tuple[str, str, str]]:
        """Return (host, drive, serial) of the drives that lose their content."""
        drives = dict.fromkeys((one.host, one.drive) for one in self.subjects)
        return [(host, drive, self.lab.hosts[host].drives[drive].serial) for host, drive in drives]

    def rows(self, campaign_id: str) -> Iterator[dict[str, Any]]:
        """Yield the journal's row of each run, in order of execution."""
        ordinal = 0
        blocks: dict[str, int] = {}
        for group in self.groups:
            host = group[0].host
            for number in range(1, self.campaign.cuts + 1):
                blocks[host] = blocks.get(host, 0) + 1
                for subject in group:
                    ordinal += 1
                    levels = {
                        "filesystem": subject.filesystem_level,
                        "scheduler": UNSET,
                        "workload": subject.writer,
                    }
                    yield {
                        "id": f"{campaign_id}-{ordinal:04d}",
                        "ordinal": ordinal,
                        "block": blocks[host],
                        "replicate": number,
                        "host": host,
                        "drive": subject.drive,
                        **levels,
                        "cell": Cell.from_levels({"drive": subject.drive, **levels}).name,
                        "factors": json.dumps(levels),
                        "status": Status.PLANNED,
                        "reason": "",
                    }

    def provenance(self) -> dict[str, Any]:
        """Return what the checker has to know of each subject, whatever the lab is later."""
        return {"subjects": [dataclasses.asdict(subject) for subject in self.subjects]}


def make_plan(mapping: Any, lab: Lab, source: str) -> PowerCutPlan:
    """Return the plan of a mapping of kind `power-cut`, of the playbook `source`.

    Raises UserError.
    """
    campaign = parse(mapping, lab, source)
    subjects = tuple(make_subjects(campaign, lab))
    if (runs := campaign.cuts * len(subjects)) > MOST_RUNS:
        raise UserError(
            f"{source}: campaign.cuts: {campaign.cuts} of {counted(len(subjects), 'subject')} are"
            f" {counted(runs, 'run')};"
            f" allowed: at most {MOST_RUNS} runs"
        )
    return PowerCutPlan(campaign, lab, subjects)


def deployment(campaign: PowerCutCampaign, lab: Lab) -> dict[str, Any]:
    """Return what test hosts need for power cuts, as joulerig.rig.workloads.deployment does.

    Raises UserError where the writer is not built.
    """
    program = paths.program(WRITER)
    if not program.exists():
        raise UserError(f"{paths.short(program)}: not built; 'make build' builds it")
    files = [{"src": str(program), "dest": ON_HOST, "mode": "0755"}]
    known = applications.load(lab)
    used = {one.application: known[one.application] for one in campaign.subjects if one.application}
    copied = {path: place for one in used.values() for path, place in one.files().items()}
    files += [{"src": str(path), "dest": place, "mode": "0755"} for path, place in copied.items()]
    return {"campaign_programs": files, "campaign_packages": applications.packages(used)}
