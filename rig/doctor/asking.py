# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask test hosts what they are (module joulerig_facts), by a playbook that changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from joulerig.rig.campaign import events, playbook
from joulerig.rig.campaign.launch.handed import Handed
from joulerig.rig.common.bounded import (
    MOST_ENTRIES,
    Line,
    Lines,
    Nanoseconds,
    Part,
    Returned,
    Whole,
    Word,
)

Level = Annotated[int, Field(ge=-1000, le=2**127)]
Number = Annotated[float, Field(ge=0, le=1e12)]


class System(Part):
    """The system of a host, and the user that playbooks run as."""

    kernel: Line
    machine: Line
    python: Annotated[list[Whole], Field(min_length=2, max_length=2)]
    distribution: Line
    family: Line
    version: Line
    user: Whole
    systemd: bool
    memory_bytes: Whole
    controller: Line
    command_line: Line


class Clock(Part):
    """A host's time, and who keeps it."""

    now_ns: Nanoseconds
    kept_by: Lines
    synchronised: bool = True
    error_microseconds: Nanoseconds = 0


class IdleState(Part):
    """A sleep of its processors."""

    name: Line | None
    latency_microseconds: Whole
    disabled: bool


class Processor(Part):
    """The power management of its processors."""

    driver: Line | None
    governors: dict[Word, Whole]
    turbo: bool | None
    idle_driver: Line | None
    idle_states: Annotated[list[IdleState], Field(max_length=MOST_ENTRIES)]
    idle_latency_limits: Lines = []


class Buses(Part):
    """The power management of PCIe links and NVMe drives."""

    aspm: Word | None
    apst_latency: Line | None
    nvme_multipath: bool = False


class Interrupts(Part):
    """The interrupts, and irqbalance, which moves them."""

    balanced: bool


class Reserved(Part):
    """A reservation, for people."""

    owner: Line
    purpose: Line
    campaign: Line


class Users(Part):
    """The users of a host, and the programs that run there."""

    reservations: Annotated[list[Reserved], Field(max_length=MOST_ENTRIES)]
    runs: Lines
    logged_in: Lines
    load: Number
    processors: Whole | None
    machines: Lines


class Lacking(Part):
    """The checks of a drive's use that a host cannot make, and why it cannot fence a load in."""

    checks: Annotated[list[Word], Field(max_length=64)]
    fence: Line


class Machine(Part):
    """A host, by subject."""

    system: System
    clock: Clock
    processor: Processor
    buses: Buses
    interrupts: Interrupts
    units: dict[Word, Line]
    space: dict[Annotated[str, Field(pattern=r"^/[A-Za-z0-9_./-]*$", max_length=128)], Whole]
    users: Users
    lacking: Lacking
    unreached: dict[Line, Line]


class Own(Part):
    """The facts that a disk reports; those that it does not report are left out."""

    power_states: Level | None = None
    autonomous: bool | None = None
    several_ports: bool | None = None
    write_cache: bool | None = None
    latency_tolerance: Line | None = None
    critical_warning: Level | None = None
    temperature_celsius: Level | None = None
    available_spare: Level | None = None
    spare_threshold: Level | None = None
    percentage_used: Level | None = None
    media_errors: Level | None = None
    apm: Level | None = None
    extended_power: bool | None = None
    passed: bool | None = None


class Disk(Part):
    """A whole disk of a host."""

    device: Word
    transport: Word
    model: Line | None
    serial: Line | None
    wwn: Line | None
    size_bytes: Whole
    sector_bytes: Whole | None
    rotates: bool
    removable: bool
    read_only: bool
    use: Line
    schedulers: Annotated[list[Word], Field(max_length=64)]
    write_cache: Line | None
    paths: Annotated[list[Word], Field(max_length=64)]
    namespaces: Whole
    runtime_pm: dict[Word, Word]
    link_power: Word | None
    own: Own


class Nvdimm(Part):
    """A region of persistent memory."""

    serial: Line
    size_bytes: Whole
    devices: Annotated[list[Word], Field(max_length=64)]
    use: Line


class Declared(Part):
    """A declared drive: its device, and why a campaign would refuse it, or empty."""

    device: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.!-]*$", max_length=128)]
    problem: Line


class Reply(Returned):
    """Reply of module joulerig_facts."""

    machine: Machine
    disks: Annotated[list[Disk], Field(max_length=MOST_ENTRIES)]
    declared: Annotated[dict[Word, Declared], Field(max_length=MOST_ENTRIES)]
    nvdimms: Annotated[list[Nvdimm], Field(max_length=MOST_ENTRIES)]


@dataclass(frozen=True)
class Facts:
    """A host: `machine` by subject, its `disks` and `nvdimms`, and `declared` drives by name."""

    machine: Mapping[str, Any]
    disks: list[dict[str, Any]]
    declared: Mapping[str, Mapping[str, str]]
    nvdimms: list[dict[str, Any]] = field(default_factory=list)


def ask(inventory: Path, asked: Handed) -> dict[str, Facts | str]:
    """Return each host's facts, by name; of one that could not be asked, the reason.

    `asked`: arguments of joulerig_facts, by host. Raises UserError where none could be asked for a
    reason that is not a host's.
    """
    found = playbook.replies(
        "facts.yml", inventory, log="facts.log", asked=asked, event=events.FACTS, model=Reply
    )
    return {
        host: one if isinstance(one, str) else Facts(**one.model_dump(exclude_unset=True))
        for host, one in found.items()
    }
