# SPDX-License-Identifier: GPL-3.0-or-later
"""A run as its test host is asked to execute it: the arguments of module joulerig_run, typed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt, field_serializer

from joulerig.rig import workloads
from joulerig.rig.campaign import factors
from joulerig.rig.campaign.definition import Campaign, PlannedRun
from joulerig.rig.controller import services
from joulerig.rig.lab import filesystems, virtual
from joulerig.rig.lab.filesystems import ExternalJournal
from joulerig.rig.lab.model import Lab
from joulerig.rig.workloads import place

VERSION: Literal[1] = 1  # raised whenever a host's module of the version before could not execute a request


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DeclaredDrive(_Part):
    """What the inventory declares of a drive, by which its host finds it (`Drive.declared_as`).

    `known`: by what its content is known, of what the rig made there last.
    """

    name: str
    interface: str
    serial: str
    wwn: str | None
    size_bytes: PositiveInt
    model: str | None = None
    wipe_blank: bool = True
    known: dict[str, Any] | None = None


class RequestedFileSystem(_Part):
    """How the host makes and mounts the file system; `mkfs` gets the device as last argument."""

    name: str
    type: str
    module: str | None = None
    mkfs: list[str]
    mkfs_bounded: list[str] = []
    no_discard: list[str] = []
    mount_options: list[str] = []
    dax: bool = False
    external_journal: ExternalJournal | None = None


class RequestedWorkload(BaseModel):
    """The load: `tool` (fio, flowop or program), and its arguments (`Workload.delivered`)."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str
    tool: str


class PhaseSeconds(_Part):
    """Lengths of the phases that have one; `rest` comes before `idle`."""

    rest: NonNegativeInt
    idle: NonNegativeInt
    workload: PositiveInt
    tail: NonNegativeInt

    @property
    def seconds(self) -> int:
        """Return how long they take together."""
        return self.rest + self.idle + self.workload + self.tail


class KernelFile(_Part):
    """A file under /sys or /proc/sys that a factor sets (`factors.factor.Setting`)."""

    factor: str
    path: str
    value: str
    needs: str = ""


class DriveSetting(_Part):
    """A setting of the run's drives themselves, by the factor of its name, and its level."""

    factor: str
    level: str


class RunRequest(_Part):
    """Everything that a test host needs to execute one run.

    `members`: the drive itself, or the members of the array, which the file system takes itself if
    it is a `pool`. `journal`: the drive that takes the
    file system's journal, if it is another one. `preconditioned`: mkfs must keep what the drive
    holds. `write_cache`: empty leaves the drive's unchanged. `seeks`, `free_nids`: what is traced
    during the workload. `use_bytes`: size of the file system, 0 as large as the drive. `fill`:
    fraction of it that other data fill before, `age`: how often those are deleted and written
    again. `kernel_files`: what factors set in the host's kernel for the run, `drive_settings` on
    the drives. `kernel`: release that must run; empty
    accepts any. `slowness`: seconds of the machine that a second of a virtual lab lasts while the
    run is measured. `lanes_of`: the campaign of which runs of other drives may go on at the same
    time, unless this one is `alone`.
    """

    version: Literal[1] = VERSION
    run: str
    campaign: str
    host: str
    drive: str
    array: bool
    pool: bool = False
    members: list[DeclaredDrive]
    journal: DeclaredDrive | None = None
    filesystem: RequestedFileSystem
    preconditioned: bool = False
    scheduler: str
    write_cache: str = ""
    workload: RequestedWorkload
    seeks: bool = False
    free_nids: bool = False
    use_bytes: NonNegativeInt = 0
    fill: float = 0.0
    age: float = 0.0
    kernel_files: list[KernelFile] = []
    drive_settings: list[DriveSetting] = []
    phases: PhaseSeconds
    seed: NonNegativeInt
    clock_server: str
    kernel: str = ""
    slowness: float = 1.0
    lanes_of: str = ""
    alone: bool = False

    @field_serializer("journal")
    def _empty_without_journal(self, journal: DeclaredDrive | None) -> dict[str, Any]:
        return journal.model_dump() if journal else {}

    @property
    def wall_seconds(self) -> float:
        """Return how long its phases of known length take a person who waits for them."""
        return self.phases.seconds * self.slowness

    def on_kernel(self, release: str) -> RunRequest:
        """Return the request with the release of the kernel that runs on the host."""
        return self.model_copy(update={"kernel": release})

    def knowing(self, known: Callable[[str], dict[str, Any] | None]) -> RunRequest:
        """Return the request with what each drive is known by; `known` gives it by serial."""

        def informed(drive: DeclaredDrive) -> DeclaredDrive:
            return drive.model_copy(update={"known": known(drive.serial)})

        journal = informed(self.journal) if self.journal else None
        return self.model_copy(
            update={"members": [informed(one) for one in self.members], "journal": journal}
        )

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the module call, as JSON has them."""
        return self.model_dump(mode="json")


def make_request(
    campaign: Campaign, lab: Lab, run: PlannedRun, *, run_id: str, campaign_id: str, lanes_of: str = ""
) -> RunRequest:
    """Return the request for a planned run. `lanes_of`: as the request has it.

    Raises UserError where the lab no longer has what the run names.
    """
    host = lab.hosts[run.host]
    levels = run.levels
    pool = host.arrays[run.drive].pool if run.drive in host.arrays else ""
    filesystem = filesystems.load(lab)[levels["filesystem"]].over(pool)
    workload = workloads.load(lab)[levels["workload"]]
    if campaign.precondition is not None:
        filesystem = filesystem.without_discard
    phases = {key.removesuffix("_seconds"): seconds for key, seconds in campaign.phases.model_dump().items()}
    by_factors = factors.arguments(run.subject(lab))
    arguments = {
        "write_cache": campaign.write_cache or "",
        "workload": {"name": levels["workload"], **workload.delivered(place.on_host)},
        **by_factors,
        "phases": {**phases, **by_factors.get("phases", {})},
    }
    return RunRequest(
        run=run_id,
        campaign=campaign_id,
        host=run.host,
        drive=run.drive,
        array=run.drive in host.arrays,
        pool=bool(pool),
        members=[_declared(lab, run.host, name) for name in lab.member_drives(run.host, run.drive)],
        filesystem=RequestedFileSystem(**filesystem.for_host(levels["filesystem"])),
        preconditioned=campaign.precondition is not None,
        scheduler=levels["scheduler"],
        seeks=campaign.count_seeks,
        free_nids=campaign.time_free_nids,
        use_bytes=campaign.use_bytes or 0,
        seed=campaign.seed * 1000 + run.replicate,
        clock_server=services.deployment(lab, run.host)["rig_clock_server"],
        slowness=virtual.slowness(lab, run.host, campaign.slow_motion),
        lanes_of=lanes_of,
        alone=run.alone,
        **arguments,
    )


def _declared(lab: Lab, host: str, drive: str) -> DeclaredDrive:
    return DeclaredDrive(**lab.hosts[host].drives[drive].declared_as(drive))
