# SPDX-License-Identifier: GPL-3.0-or-later
"""Model the lab: test hosts, drives, meters, controller, from `inventory.ini` and `host_vars/`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BeforeValidator, Field, PrivateAttr, ValidationError, ValidationInfo, model_validator

from joulerig.analysis.energy.sampling import sees_all
from joulerig.plural import counted
from joulerig.rig.common import files, paths
from joulerig.rig.common.errors import (
    AddressAndPort,
    PortRange,
    Problem,
    Strict,
    UserError,
    near_miss,
    problems,
)
from joulerig.rig.common.numbers import NonNegativeFloat, PositiveFloat, PositiveInt
from joulerig.rig.lab import forms, inventory, meters
from joulerig.rig.lab.meters import connections
from joulerig.rig.lab.meters.family import Accuracy, Family, Samples, Timing, transport
from joulerig.rig.lab.switch import FOR_DRIVES, FOR_HOSTS, PowerCycle, Switch

DEFAULT_SILENCE_SECONDS = 2.0  # powerd's
# A poll meter may miss a few readings before it counts as silent.
READINGS_OF_SILENCE = 5
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$", max_length=40)]
# Serials of drives that a test host's kernel makes, by place: its own would change from one boot to
# the next.
SCSI_DEBUG = "scsi_debug-"
E820 = "e820-"
MIB = 1 << 20
# What a host may take from a reset until it answers, by whether it is virtual: servers test their
# memory and start their controllers' firmware for minutes.
RETURN_SECONDS = {True: 180, False: 600}
Read = TypeVar("Read")
LEAST_MEMBERS = {
    "linear": 2, "raid0": 2, "raid1": 2, "raid5": 3, "raid6": 4, "raid10": 2,
    "lvm-linear": 1, "lvm-striped": 2, "crypt": 1,
    "pool-single": 2, "pool-raid0": 2, "pool-raid1": 2, "pool-raid5": 3, "pool-raid6": 4, "pool-raid10": 4,
}  # fmt: skip
POOL = "pool-"
WITH_CHUNKS = ("raid0", "raid5", "raid6", "raid10", "lvm-striped")


Url = Annotated[str, Field(pattern=r"^https?://([^/\s:\[]+|\[[0-9A-Fa-f:.%]+\])(:\d+)?(/\S*)?$")]
IpAddress = Annotated[str, Field(pattern=r"^(\d{1,3}(\.\d{1,3}){3}|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*)$")]
# What people type as a number that is none: YAML has 0012 as 10.
Text = Annotated[str, BeforeValidator(forms.as_text)]


# FTDI's chips, and others, hold a byte back for up to 16 ms (AN232B-04); 2 ms for all that follows.
USB_SERIAL_LATENCY_SECONDS = 0.018


class Supply(Strict):
    """What feeds a rail: its current stays from 0 to `amps`, its volts from 0 to `volts`.

    It bounds what the meter could not see.
    """

    volts: PositiveFloat
    """Greatest volts, without a load, tolerance included."""
    amps: PositiveFloat
    """Greatest current that the supply, its limiter or its fuse lets pass."""
    ohms: NonNegativeFloat | None = None
    """Resistance from the supply to where the volts are measured."""

    @property
    def greatest_watts(self) -> float:
        return self.volts * self.amps


class Stated(Strict):
    """Volts of a rail that are stated, not measured: within `tolerance` of `volts` at all times."""

    volts: PositiveFloat
    """The rail's volts."""
    tolerance: NonNegativeFloat
    """How far they can be off; it is in the bounds of the joules."""

    @model_validator(mode="after")
    def _stays_above_nothing(self) -> Stated:
        if self.tolerance >= self.volts:
            raise ValueError(f"tolerance: {self.tolerance:g}; allowed: less than volts, {self.volts:g}")
        return self


STATED = re.compile(r"\s*(\d+\.?\d*)\s*(?:±|\+-|\+/-)\s*(\d*\.?\d+)\s*V?\s*")


class Rail(Strict):
    """One supply line of a drive, as channels of a meter.

    Exactly one of volts with amps, watts, and watt_hours. Volts are a channel of the meter; or
    `{ meter: NAME, channel: NAME }` of another one; or stated, such as `5.00 ± 0.05`.
    """

    meter: Name
    """The meter's name."""
    volts: Text | None = None
    """Channel of the rail's volts."""
    volts_meter: Name | None = None
    """The meter that has that channel; left out: the rail's."""
    stated: Stated | None = None
    """Volts that are stated instead."""
    amps: Text | None = None
    """Channel of its amps."""
    watts: Text | None = None
    """A channel of power, instead of volts and amps."""
    watt_hours: Text | None = None
    """A register that the instrument itself counts up, instead of the others."""
    supply: Supply | None = None
    """What feeds the rail."""

    @model_validator(mode="before")
    @classmethod
    def _volts_as_written(cls, data: Any) -> Any:
        """Take volts that are stated, or another meter's, apart."""
        volts = data.get("volts") if isinstance(data, dict) else None
        if isinstance(volts, int | float) and not isinstance(volts, bool):
            raise ValueError(
                f"volts: {volts} is stated without how far it can be off; allowed: such as"
                f" '{volts} ± {volts / 100:g}', or a channel's name in quotes"
            )
        if isinstance(volts, str) and (match := STATED.fullmatch(volts)):
            given = {key: value for key, value in data.items() if key != "volts"}
            return {**given, "stated": {"volts": float(match[1]), "tolerance": float(match[2])}}
        if isinstance(volts, dict):
            if volts.keys() != {"meter", "channel"}:
                raise ValueError(f"volts: has {', '.join(volts) or 'nothing'}; allowed: meter and channel")
            return {**data, "volts": volts["channel"], "volts_meter": volts["meter"]}
        return data

    @model_validator(mode="after")
    def _one_way_to_measure_it(self) -> Rail:
        keys = ("volts", "stated", "amps", "watts", "watt_hours")
        given = [key for key in keys if getattr(self, key) is not None]
        if given not in (["volts", "amps"], ["stated", "amps"], ["watts"], ["watt_hours"]):
            raise ValueError(
                f"has {' and '.join(given) or 'no channel'};"
                " allowed: 'volts' and 'amps', or 'watts' alone, or 'watt_hours' alone"
            )
        if self.volts_meter == self.meter:
            raise ValueError(f"volts: {self.volts!r} is of the same meter; allowed: the channel's name alone")
        return self

    @property
    def kind(self) -> str:
        """Return the kind of its channels in its meter: "volts" (with amps), or the only one."""
        return next(iter(self.channels))

    @property
    def channels(self) -> dict[str, str]:
        """Return the channel of each quantity in its meter: {"volts": "CH1", "amps": "CH2"}."""
        own = (
            ("amps", "watts", "watt_hours") if self.volts_meter else ("volts", "amps", "watts", "watt_hours")
        )
        return {q: getattr(self, q) for q in own if getattr(self, q) is not None}

    @property
    def meters(self) -> set[str]:
        """Return the meters that it needs: its own, and another one that has its volts."""
        return {self.meter, *([self.volts_meter] if self.volts_meter else [])}


class Drive(Strict):
    """A device under test, known by its serial (and WWN where it has one) and its size."""

    interface: Literal["nvme", "sata-ssd", "hdd", "nvdimm", "ram"]
    """What kind of drive it is."""
    serial: Annotated[Text, Field(min_length=4, pattern=r"^[\x21-\x7e][\x20-\x7e]*$")]
    """Serial number, as the drive reports it; of an NVDIMM that is interleaved over several modules
    their ids, joined by `+`."""
    wwn: str | None = None
    """World-wide name, where the drive has one, in any form in which tools print it."""
    size_bytes: Annotated[PositiveInt, BeforeValidator(forms.as_bytes)]
    """Capacity."""
    model: Text | None = None
    """Model, as the drive reports it; a drive of another model is refused."""
    plp: bool = False
    """Whether it has power-loss protection."""
    wipe_blank: bool = True
    """Whether it may be wiped without `rig drives adopt` while it is blank."""
    rated_terabytes_written: PositiveFloat | None = None
    """What its maker rates it for, in TB (10^12 bytes) written: "TBW", or "DWPD" times capacity and
    days of warranty. `rig plan` says what share of it a campaign takes."""
    settle_seconds: PositiveFloat | None = None
    """Time that it takes to come to rest after a write. Campaigns wait for so long before
    they look for its idle power. Left out: not known; of a virtual drive, its profile's."""
    rails: dict[Name, Rail] = {}
    """Its supply rails by name, each with its channels."""
    switch: Switch | None = None
    """What cuts its power; left out: the power taps of its rails."""
    profile: Name | None = None
    """Virtual lab: the model of the drive."""
    description: str = ""
    """For people."""

    @model_validator(mode="before")
    @classmethod
    def _wwn_in_any_form(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or data.get("wwn") is None:
            return data
        try:
            return {**data, "wwn": forms.as_wwn(data["wwn"], data.get("interface"))}
        except ValueError as error:
            raise ValueError(f"wwn: {error}") from None

    def declared_as(self, name: str) -> dict[str, Any]:
        """Return what a test host needs to find the drive `name` and to tell it from others."""
        return {
            "name": name,
            **self.model_dump(include={"interface", "serial", "wwn", "size_bytes", "model", "wipe_blank"}),
        }

    @property
    def in_memory(self) -> bool:
        """Return whether the drive is memory of its test host: it cannot move, and has no twin."""
        return self.interface in ("nvdimm", "ram") or self.serial.startswith(SCSI_DEBUG)

    @property
    def emulated_by(self) -> str:
        """Return what emulates this drive on its host: "scsi_debug", "memmap", or ""."""
        if self.serial.startswith(SCSI_DEBUG):
            return "scsi_debug"
        return "memmap" if self.interface == "nvdimm" and self.serial.startswith(E820) else ""


class Emulated(Strict):
    """Hard disks that the kernel makes of memory, one a drive, serials scsi_debug-0, -1, ...

    They serve one request at a time, each in `access_milliseconds`, whatever its size.
    """

    by: Literal["scsi_debug"] = "scsi_debug"
    """The kernel's module."""
    access_milliseconds: Annotated[float, Field(ge=0.01, le=1000)] = 8.0
    """Duration of each request."""


class Array(Strict):
    """An array of drives of the same host; its energy is the sum over its members' rails."""

    level: Literal[
        "linear", "raid0", "raid1", "raid5", "raid6", "raid10", "lvm-linear", "lvm-striped", "crypt",
        "pool-single", "pool-raid0", "pool-raid1", "pool-raid5", "pool-raid6", "pool-raid10",
    ]  # fmt: skip
    """What it is: a level of md, a logical volume of LVM, one drive through dm-crypt, or drives
    that the file system takes itself."""
    members: Annotated[list[Name], Field(min_length=1)]
    """Names of drives of this host."""
    chunk_kib: PositiveInt = 64
    """Size of a chunk, or of a stripe of LVM."""

    @model_validator(mode="after")
    def _as_its_level(self) -> Array:
        if "chunk_kib" in self.model_fields_set and self.level not in WITH_CHUNKS:
            raise ValueError(
                f"chunk_kib: {self.chunk_kib}: {self.level} has no chunks; allowed: with"
                f" {', '.join(WITH_CHUNKS)}"
            )
        if self.level == "crypt" and len(self.members) > 1:
            raise ValueError(f"members: {counted(len(self.members), 'drive')}; crypt is of one")
        return self

    @property
    def most_copies(self) -> int:
        """Return as how many bytes one is written at most, parity included."""
        if self.level == "raid1":
            return len(self.members)
        level = self.level.removeprefix(POOL)  # in a pool raid1 is two copies, whatever it has
        return 2 if level in ("raid1", "raid5", "raid6", "raid10") else 1  # raid6 of four drives

    @property
    def pool(self) -> str:
        """Return the level at which a file system takes the drives itself; "" for a device."""
        return self.level.removeprefix(POOL) if self.level.startswith(POOL) else ""

    @property
    def holder(self) -> str:
        """Return how the kernel's names of such arrays begin."""
        return "dm-" if self.level == "crypt" or self.level.startswith("lvm-") else "md"

    def stops(self, name: str, device: str) -> str:
        """Return the command that ends an array, by its name and the kernel's."""
        if self.level.startswith("lvm-"):
            return f"vgremove joulerig_{name}"
        return f"cryptsetup close joulerig_{name}" if self.level == "crypt" else f"mdadm --stop /dev/{device}"

    @property
    def packages(self) -> list[str]:
        """Return the Debian packages that its host needs; that of md each host has."""
        if self.level.startswith("lvm-"):
            return ["lvm2"]
        return ["cryptsetup-bin"] if self.level == "crypt" else []


Package = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9+.-]+$")]


# Of Debian: 11, 12, 13, unstable.
Release = Literal["bullseye", "bookworm", "trixie", "sid"]


class VirtualHost(Strict):
    """What a virtual test host is made of.

    It has no network to get packages from; all hosts of a lab of one release share an image with
    what any of them wants.
    """

    cpus: Annotated[int, Field(ge=1, le=4096)] = 2
    """Processors."""
    memory_mb: Annotated[int, Field(ge=512, le=1 << 24)] = 2048
    """Memory."""
    release: Release = "bookworm"
    """Release of Debian that it runs, with its kernel. The default is built fastest."""
    nvme: Literal["qemu", "twin"] = "qemu"
    """Which NVMe controller it sees: QEMU's, or the twins' own, by NVMe/TCP."""
    guest_packages: list[Package] = []
    """Debian packages of its image beyond those of file systems, programs and provisioning."""


class TestHost(Strict):
    """A machine under test: its drives and arrays."""

    __test__ = False  # not a test class, whatever pytest thinks of the name

    drives: dict[Name, Drive]
    """Its drives by name."""
    arrays: dict[Name, Array] = {}
    """md arrays of them by name."""
    virtual: VirtualHost | None = None
    """Only for a host of the virtual lab."""
    controller_address: Annotated[str, Field(pattern=r"^([0-9A-Za-z.-]+|[0-9A-Fa-f:.]+(%[0-9A-Za-z.-]+)?)$")]
    """The controller as this host sees it: a name, or an IPv4 or IPv6 address."""
    nvdimm_memmap: Annotated[str, Field(pattern=r"^\d+[KMGT]?!\d+[KMGT]?$")] | None = None
    """SIZE!START: ordinary memory that the kernel gives as an NVDIMM."""
    emulated: Emulated | None = None
    """How the kernel emulates hard disks."""
    return_seconds: Annotated[int, Field(ge=10, le=86400)] | None = None
    """How long it may take to answer after a reset, a power cut, or when it went away; left out:
    600, of a virtual host 180."""
    switch: Switch | None = None
    """What switches its power; left out: nothing does. A virtual host is QEMU's."""
    power_cycle: PowerCycle | None = None
    """Whether its power is cycled when it stays away; left out: it is not."""

    @property
    def controller_in_url(self) -> str:
        """Return the controller's address as it stands before a port."""
        return f"[{self.controller_address}]" if ":" in self.controller_address else self.controller_address

    @property
    def returns_within(self) -> int:
        """Return the seconds after which a host that does not answer is given up."""
        return self.return_seconds or RETURN_SECONDS[self.virtual is not None]

    @property
    def twins(self) -> dict[str, Drive]:
        """Return the drives of a virtual host that have a twin; drives of memory have none."""
        if not self.virtual:
            return {}
        return {name: drive for name, drive in self.drives.items() if not drive.in_memory}

    @model_validator(mode="after")
    def _switched_as_its_kind(self) -> TestHost:
        drives = {f"drives.{name}.switch": drive.switch for name, drive in self.drives.items()}
        for key, switch in {"switch": self.switch, **drives}.items():
            allowed = FOR_HOSTS if key == "switch" else FOR_DRIVES
            if not switch:
                continue
            if self.virtual and switch.by != "tap":
                raise ValueError(f"{key}.by: {switch.by!r}: the host is virtual; leave it out")
            if switch.by not in allowed:
                raise ValueError(f"{key}.by: {switch.by!r}; allowed: {', '.join(allowed)}")
            if switch.by == "host" and not self.switch:
                raise ValueError(f"{key}.by: 'host', and the host has no switch; declare one")
        if self.switch and self.switch.by == "supply" and not self.switch.meter:
            raise ValueError("switch.meter: missing; a host needs meter and output")
        if self.power_cycle and not self.virtual and not self.switch:
            raise ValueError("power_cycle: nothing switches the host; declare its 'switch' too")
        return self

    @model_validator(mode="after")
    def _consistent(self) -> TestHost:
        serials: dict[str, str] = {}
        for name, drive in self.drives.items():
            if drive.serial in serials:
                raise ValueError(
                    f"drives.{name}.serial: {drive.serial!r} is already the serial of"
                    f" {serials[drive.serial]!r}; a serial belongs to one drive, and one namespace of it is"
                    " tested"
                )
            serials[drive.serial] = name
            if self.virtual and not drive.in_memory and not drive.profile:
                raise ValueError(f"drives.{name}.profile: missing; a virtual host's drive needs a profile")
        member_of: dict[str, str] = {}
        for name, array in self.arrays.items():
            for member in array.members:
                if member not in self.drives:
                    raise ValueError(
                        f"arrays.{name}.members: {member!r} is not a drive of this host;"
                        f" allowed: {', '.join(self.drives)}"
                    )
                if self.drives[member].interface in ("nvdimm", "ram"):
                    what = {"nvdimm": "an NVDIMM", "ram": "a RAM block device"}
                    raise ValueError(
                        f"arrays.{name}.members: {member!r} is {what[self.drives[member].interface]};"
                        " allowed: other drives"
                    )
                if member in member_of:
                    raise ValueError(
                        f"arrays.{name}.members: {member!r} is already a member of {member_of[member]};"
                        " a drive belongs to one array, once"
                    )
                member_of[member] = name
            if len(array.members) < LEAST_MEMBERS[array.level]:
                raise ValueError(
                    f"arrays.{name}.members: {counted(len(array.members), 'drive')};"
                    f" {array.level} needs at least {LEAST_MEMBERS[array.level]}"
                )
        _check_nvdimms(self)
        if self.nvdimm_memmap:
            size, start = (_memory(part) for part in self.nvdimm_memmap.split("!"))
            made = {(d.serial, d.size_bytes) for d in self.drives.values() if d.interface == "nvdimm"}
            if (f"{E820}{start:#x}", size) not in made:
                raise ValueError(
                    f"nvdimm_memmap: {self.nvdimm_memmap!r} creates an NVDIMM that no drive declares,"
                    f" with serial {E820}{start:#x} and size_bytes {size}"
                )
        _check_made_by_kernel(self)
        if shared := set(self.arrays) & set(self.drives):
            raise ValueError(f"arrays.{min(shared)}: a drive has this name already")
        return self


def _check_nvdimms(host: TestHost) -> None:
    """Check that no module of memory is in two NVDIMMs: one may be interleaved over several."""
    seen: dict[str, str] = {}
    for name, drive in host.drives.items():
        for dimm in drive.serial.split("+") if drive.interface == "nvdimm" else ():
            if (first := seen.setdefault(dimm, name)) != name:
                raise ValueError(
                    f"drives.{name}.serial: {dimm!r} is in {first} already; allowed: in one drive"
                )


def _check_made_by_kernel(host: TestHost) -> None:
    """Check drives of memory: a RAM disk is brd's first; scsi_debug's are numbered, of one size."""
    for name, drive in host.drives.items():
        if (drive.interface == "ram") != (drive.serial == "ram0"):
            raise ValueError(
                f"drives.{name}.serial: {drive.serial!r}, interface {drive.interface!r};"
                " allowed: serial 'ram0' with interface 'ram' only"
            )
        if drive.interface == "ram" and drive.size_bytes % MIB:
            raise ValueError(f"drives.{name}.size_bytes: {drive.size_bytes}; allowed: whole MiB")
    disks = {n: d for n, d in host.drives.items() if d.serial.startswith(SCSI_DEBUG)}
    if not host.emulated:
        if disks:
            raise ValueError(
                f"emulated: missing; it is needed for drives.{next(iter(disks))}, an emulated disk"
            )
        return
    wanted = [f"{SCSI_DEBUG}{number}" for number in range(len(disks))]
    if not disks or sorted(d.serial for d in disks.values()) != sorted(wanted):
        found = ", ".join(d.serial for d in disks.values()) or "none"
        raise ValueError(
            f"emulated: drives' serials are {found}; allowed: {SCSI_DEBUG}0, {SCSI_DEBUG}1 and so on"
        )
    sizes = {d.size_bytes for d in disks.values()}
    for name, drive in disks.items():
        if drive.interface != "hdd":
            raise ValueError(f"drives.{name}.interface: {drive.interface!r} with emulated; allowed: 'hdd'")
        if len(sizes) > 1 or drive.size_bytes % MIB:
            raise ValueError(
                f"drives.{name}.size_bytes: {drive.size_bytes}; allowed: whole MiB,"
                " the same for all emulated disks"
            )


def _memory(text: str) -> int:
    """Return the bytes of a size as the kernel's command line writes it: 4G, 512M, 65536."""
    return int(text.rstrip("KMGT")) * 1024 ** " KMGT".find(text[-1] if text[-1] in "KMGT" else " ")


class VirtualPort(Strict):
    """A port of a virtual power tap: port a measures its rails 1 and 2, port b its rails 3 and 4.

    `drop_blocks` makes it a broken one: the part of its 20 ms blocks of samples that it loses
    without a word.
    """

    tap: Name
    """Name of the virtual tap."""
    port: Literal["a", "b"]
    """`a` measures its rails 1 and 2, `b` its rails 3 and 4."""
    drop_blocks: Annotated[float, Field(ge=0, le=0.5)] = 0.0
    """Fraction of its 20 ms blocks of samples that a broken tap loses."""

    @property
    def tcp_port(self) -> int:
        """Return the local TCP port on which the virtual lab serves this port of the tap."""
        return files.kept_port(f"{self.tap}-{self.port}")


class TapControl(Strict):
    """Where a power tap takes its own commands while powerd has its streaming port."""

    connection: Annotated[str, Field(pattern=r"^(tcp-raw/[^/\s]+/\d+|/dev/[^/\s]+)$")]
    """Where the tap takes commands."""
    first_rail: Literal[1, 3]
    """The tap's number of the rail on CH1, CH2."""


class Meter(Strict):
    """An instrument that libsigrok reads, or a capturer.

    rig/lab/meters/families and captured have a file for each driver that this rig has been checked
    with; its values stand for what is left out here.
    """

    driver: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    """libsigrok's driver, or a capturer."""
    command: Annotated[list[Text], Field(min_length=1)] | None = None
    """With `driver: command`: the program that prints samples, and its arguments."""
    connection: Annotated[str, Field(pattern=r"^\S+$")] | None = None
    """libsigrok's `conn`: `tcp-raw/HOST/PORT`, `/dev/serial/by-id/NAME`, `usbtmc/BUS.ADDRESS`."""
    serialcomm: Annotated[str, Field(pattern=r"^\d+/[5-8][neo][12](/[^:\s]*)?$")] | None = None
    """Serial line, such as `9600/8n1`."""
    options: dict[
        Annotated[str, Field(pattern=r"^[a-z_]+$")], Annotated[Text, Field(pattern=r"^[^:\s]+$")]
    ] = {}
    """Further scan options of the driver."""
    virtual: VirtualPort | None = None
    """A port of a virtual power tap, instead of `connection`."""
    control: TapControl | None = None
    """Where a power tap takes commands while powerd has its streaming port."""
    timing: Timing | None = None
    """`stream`: has its own sample clock. `poll`: readings have times of arrival only."""
    sample_rate_hz: PositiveFloat | None = None
    """Samples, or with `poll` readings, of each channel per second."""
    samples: Samples | None = None
    """`window-mean`: a sample is the mean of its window. `point`: of an instant."""
    bandwidth_hz: PositiveFloat | None = None
    """Greatest frequency that the filter of a stream of points passes. At half of the sample rate
    or less the points show all of a rail's power; else its supply alone bounds what is between."""
    silence_seconds: Annotated[float, Field(ge=0.2, le=3600)] | None = None
    """Without samples for this long, the meter counts as silent."""
    clock_ppm: Annotated[float, Field(ge=1, le=1000)] | None = None
    """The sample clock is off its rate by this at most; what is beyond counts as lost samples."""
    latency_seconds: Annotated[float, Field(ge=0, le=10)] | None = None
    """Greatest constant delay from a sample to its arrival."""
    set: dict[str, Text] = {}
    """Settings by libsigrok's key, made before the capture."""
    serial: Text | None = None
    """The instrument's serial. One that reports another is refused."""
    accuracy: dict[Literal["volts", "amps", "watts"], Accuracy] = {}
    """Its class by quantity, or the name of a published one."""
    full_scale: dict[Literal["volts", "amps", "watts"], PositiveFloat] = {}
    """By quantity: a reading of this magnitude or more, before calibration, is over range."""
    description: str = ""
    """For people."""

    _family: Family = PrivateAttr()

    @property
    def family(self) -> Family:
        """Return the family of instruments that it is of."""
        return self._family

    @model_validator(mode="before")
    @classmethod
    def _as_its_family(cls, data: Any, info: ValidationInfo) -> Any:
        if not isinstance(data, dict) or not isinstance(data.get("driver"), str):
            return data
        families = _families(info)
        family = families.family(data["driver"])
        known: dict[str, Any] = {"timing": family.timing, "samples": family.samples}
        if family.silence_seconds != DEFAULT_SILENCE_SECONDS:
            known["silence_seconds"] = family.silence_seconds
        connection = str(data.get("connection"))
        if connection.startswith("/dev/ttyUSB") or connections.is_link(connection):
            known["latency_seconds"] = USB_SERIAL_LATENCY_SECONDS
        given = {key: value for key, value in data.items() if value is not None}
        if isinstance(name := given.get("accuracy"), str):
            if name not in families.accuracy:
                raise ValueError(
                    f"accuracy: {name!r} is unknown; allowed: {', '.join(families.accuracy)},"
                    " or a mapping by volts, amps, watts"
                )
            given["accuracy"] = families.accuracy[name]
        return {**known, **given}

    @model_validator(mode="after")
    def _as_its_family_allows(self, info: ValidationInfo) -> Meter:
        families = _families(info)
        family = self._family = families.family(self.driver)
        if self.driver not in families.by_driver:
            there = meters.other.drivers()
            if there and self.driver not in there:
                raise ValueError(
                    f"driver: {self.driver!r} is not a driver of this libsigrok, and no capturer"
                    f"{families.hint(self.driver)} allowed: {', '.join(families.by_driver)},"
                    " or another that 'sigrok-cli -L' lists; a program of your own: driver: command"
                )
        if family.timing is None:
            for key in ("timing", "sample_rate_hz"):
                if getattr(self, key) is None:
                    raise ValueError(f"{key}: missing; driver {self.driver!r} has no default for it")
        if family.program and not self.command:
            raise ValueError("command: missing; allowed: a list, the program and its arguments")
        if self.command and not family.program:
            raise ValueError(f"command: only with driver: command, not with {self.driver}")
        if self.virtual and not family.power_tap:
            taps = ", ".join(name for name, one in families.by_driver.items() if one.power_tap)
            raise ValueError(f"driver: {self.driver!r}: a virtual tap speaks {taps}; allowed: {taps}")
        if self.control and not family.power_tap:
            raise ValueError(f"control: only for power taps; driver {self.driver} has no switch")
        if self.timing == "stream" and family.timing == "poll" and not family.may_stream:
            raise ValueError(f"timing: 'stream': {self.driver} has no sample clock; allowed: 'poll'")
        if self.bandwidth_hz and (self.timing, self.samples) != ("stream", "point"):
            raise ValueError("bandwidth_hz: only of a stream of points (timing: stream, samples: point)")
        return self

    @property
    def sees_all(self) -> bool:
        """Return whether its samples show all that a rail draws."""
        return sees_all(self.timing, self.samples, self.sample_rate_hz, self.bandwidth_hz)

    @model_validator(mode="after")
    def _one_way_to_reach_it(self) -> Meter:
        allowed = self.family.transports
        if not allowed:
            if self.connection or self.virtual:
                raise ValueError(
                    f"connection: {self.connection!r}: driver {self.driver} needs none; leave it out"
                )
        elif (self.connection is None) == (self.virtual is None) and not (
            self.virtual is None and self.family.finds_it
        ):
            raise ValueError("needs exactly one of 'connection' and 'virtual'")
        if self.connection and ":" in self.connection and not connections.is_link(self.connection):
            raise ValueError(_with_colon(self.connection))
        if self.connection and "any" not in allowed and transport(self.connection) not in allowed:
            ways = {"serial": "/dev/ttyUSB0", "usbtmc": "usbtmc/BUS.ADDRESS"}
            examples = ", ".join(ways.get(way, f"{way}/HOST/PORT") for way in allowed)
            raise ValueError(
                f"connection: {self.connection!r}: driver {self.driver} does not support it;"
                f" allowed: {examples}"
            )
        if self.serialcomm and self.connection and self.connection.startswith("tcp"):
            raise ValueError("serialcomm: only for serial lines; 'connection' is not one")
        return self


def _with_colon(connection: str) -> str:
    """Return why libsigrok, which separates options by colons, does not take a connection."""
    way = "tcp-raw/HOST/PORT, with a host's name of DNS or of /etc/hosts instead of an IPv6 address"
    return f"connection: {connection!r} has a colon, which libsigrok does not take; allowed: {way}"


def _families(info: ValidationInfo) -> meters.Families:
    """Return the families of meters that the inventory's lab has, or the shipped ones."""
    return info.context if isinstance(info.context, meters.Families) else meters.shipped()


class Influx(Strict):
    """InfluxDB. Without `url` the rig starts influxd as the user's own process."""

    url: Url | None = None
    """An InfluxDB that runs already; left out: the rig starts its own."""
    listen: IpAddress | None = None
    """The address of this machine at which the rig's own listens; left out: the one at which all
    hosts reach the controller."""
    url_from_hosts: Url | None = None
    """The same as test hosts reach it, if that differs."""
    database: Name = "joulerig"
    """Prefix of the names of its databases, or on 2.x of its buckets: NAME_power,
    NAME_results, NAME_host_HOST for each test host."""
    username: str = "joulerig"
    """User; InfluxDB 2.x and 3.x ignore it."""
    token_file: Path | None = None
    """File with the token, or on 1.x the password."""
    host_username: str | None = None
    """User that test hosts write as; `{host}` in it is the host's name; left out: `username`."""
    host_token_file: Path | None = None
    """File with the token or password that a test host gets, which can write the host's database
    alone; `{host}` in its name is the host's name. With `url`, `rig up` needs it."""

    @model_validator(mode="after")
    def _token_with_url(self) -> Influx:
        for key in ("host_username", "host_token_file"):
            if getattr(self, key) is not None and not self.url:
                raise ValueError(f"{key}: only with 'url'; the rig's own server gives each host its own")
        if self.listen and self.url:
            raise ValueError("listen: only of the rig's own server; leave 'url' or 'listen' out")
        if self.url and not self.token_file:
            raise ValueError(
                "token_file: missing; with 'url' it names the file that holds the token or password"
            )
        return self


Happening = Literal["begun", "failed", "held", "set-aside", "paused", "stopped", "abandoned", "finished"]
"""What can happen to a campaign (rig/dashboard/notifications/happenings.py)."""


class Webhook(Strict):
    """An address to which JSON is posted when something happens to a campaign."""

    url: Url
    """Of the receiver, such as a chat program's incoming webhook; never shown."""
    on: tuple[Happening, ...] = get_args(Happening)
    """Which kinds of happenings."""


class Grafana(Strict):
    """A Grafana that runs already, on which `playbooks/grafana.yml` puts the lab's dashboards."""

    url: Url
    """Where its HTTP API is reached from the controller."""
    token_file: Path
    """File with the token of a service account that may write data sources, folders, dashboards."""
    influxdb_url: Url | None = None
    """InfluxDB as Grafana reaches it; left out: as the controller does."""
    influxdb_username: str = "grafana"
    """User of an InfluxDB of yours that can only read; the rig's own server has `grafana`."""
    influxdb_token_file: Path | None = None
    """File with that user's password or token. With `influxdb.url` it is needed."""
    uid: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=30)] = "joulerig"
    """Of the data source and the folder; the dashboards' begin with it. Each lab of a Grafana has
    another."""
    title: Annotated[str, Field(min_length=1, max_length=60)] = "Joulerig"
    """What the lab is called there."""


class Controller(Strict):
    """The machine that runs the lab: its meters, InfluxDB, interval between stored points."""

    influxdb: Influx = Influx()
    """Where points are stored."""
    meters: dict[Name, Meter] = {}
    """Meters by name."""
    points_per_second: Annotated[int, Field(ge=1, le=1000)] = 100
    """Power points stored per second and rail."""
    notifications: tuple[Webhook, ...] = ()
    """Who is notified of what happens to campaigns."""
    grafana: Grafana | None = None
    """The Grafana that shows the lab; left out: none."""
    clock_listen: AddressAndPort = "127.0.0.1:0"
    """ADDRESS:PORT (UDP) at which test hosts measure their clocks' offset; port 0: any."""
    witness_ports: PortRange | None = None
    """FIRST-LAST (TCP), one for each drive, which test hosts reach in power cuts; left out: any."""


class Lab(Strict):
    """Everything the inventory describes. `hosts` by name, in the inventory's order."""

    inventory: Path
    """What Ansible takes as one: a file, or a folder."""
    controller: Controller
    hosts: dict[Name, TestHost]

    _read: dict[Callable[[Lab], Any], Any] = PrivateAttr(default_factory=dict)

    def once(self, read: Callable[[Lab], Read]) -> Read:
        """Return `read(self)`, a reader of the lab's own definitions, which is called once only.

        A plan asks for them for each of its cells.
        """
        if read not in self._read:
            self._read[read] = read(self)
        found: Read = self._read[read]
        return found

    def without_secrets(self) -> dict[str, Any]:
        """Return the lab as JSON data, for a journal or a page: nothing in it opens a door."""
        return self.model_dump(
            mode="json",
            exclude={
                "inventory": True,
                # A webhook's address is a secret.
                "controller": {
                    "influxdb": {"token_file", "host_token_file"},
                    "notifications": True,
                    "grafana": True,
                },
                # Their URLs may hold passwords.
                "hosts": {"__all__": {"switch": True, "drives": {"__all__": {"switch"}}}},
            },
        )

    @property
    def folder(self) -> Path:
        """Return the folder that has the lab's own definitions, calibrations and host_vars."""
        return inventory.folder_of(self.inventory)

    @property
    def virtual(self) -> bool:
        return any(host.virtual for host in self.hosts.values())

    @property
    def guest_packages(self) -> list[str]:
        """Return the packages that the virtual hosts need in the images they share."""
        hosts = [host.virtual for host in self.hosts.values() if host.virtual]
        return sorted({name for host in hosts for name in host.guest_packages})

    def connection(self, meter: str) -> str | None:
        """Return libsigrok's conn of a meter; None for one that has none."""
        spec = self.controller.meters[meter]
        return f"tcp-raw/127.0.0.1/{spec.virtual.tcp_port}" if spec.virtual else spec.connection

    def drive_rails(self, host: str, *names: str) -> list[tuple[str, str, Rail]]:
        """Return (drive, rail name, rail) of these drives and of the members of arrays."""
        drives = self.hosts[host].drives
        return [
            (m, name, rail)
            for m in self.member_drives(host, *names)
            for name, rail in drives[m].rails.items()
        ]

    def meter_channels(self, meter: str) -> dict[str, str]:
        """Return the quantity (volts, amps, watts, watt_hours) of each channel of `meter`."""
        rails = self.meter_rails(meter)
        own = {ch: quantity for *_, rail in rails for quantity, ch in rail.channels.items()}
        return {**own, **dict.fromkeys(self.lent_channels(meter), "volts")}

    def lent_channels(self, meter: str) -> list[str]:
        """Return the channels of `meter` that are the volts of other meters' rails."""
        drives = (drive for host in self.hosts.values() for drive in host.drives.values())
        rails = (rail for drive in drives for rail in drive.rails.values())
        return [rail.volts for rail in rails if rail.volts_meter == meter and rail.volts]

    def meter_rails(self, meter: str) -> list[tuple[str, str, str, Rail]]:
        """Return (host, drive, rail name, rail) of each rail that `meter` measures."""
        return [
            (host, drive, name, rail)
            for host, spec in self.hosts.items()
            for drive, model in spec.drives.items()
            for name, rail in model.rails.items()
            if rail.meter == meter
        ]

    def member_drives(self, host: str, *names: str) -> list[str]:
        """Return the drives that these consist of: themselves, or an array's members."""
        arrays = self.hosts[host].arrays
        return [m for name in names for m in (arrays[name].members if name in arrays else [name])]

    def block_devices(self, host: str, *names: str) -> list[str]:
        """Return the drives and arrays that are devices: themselves, or a pool's members."""
        arrays = self.hosts[host].arrays
        pools = {name for name in names if name in arrays and arrays[name].pool}
        return [m for name in names for m in (arrays[name].members if name in pools else [name])]


# What an inventory's variables can be of the lab's.
KEYS = frozenset({*Controller.model_fields, *TestHost.model_fields})


def load(path: Path | None = None) -> Lab:
    """Return the lab that an inventory (default: JOULERIG_INVENTORY, or the checkout's) describes.

    Variables are found as Ansible finds them (host_vars, group_vars, inventory). Raises UserError.
    """
    lab, found = examine(read(path))
    if found or lab is None:
        raise UserError(str(found[0]))
    return lab


def read(path: Path | None = None) -> inventory.Inventory:
    """Return the variables of an inventory that are the lab's. Raises UserError."""
    return inventory.read(path or paths.inventory(), KEYS)


def examine(found: inventory.Inventory) -> tuple[Lab | None, list[Problem]]:
    """Return the lab that an inventory describes, and every problem there is.

    With problems the lab lacks what has them, and is None where nothing is left. Raises UserError
    for a file next to the inventory that cannot be read.
    """
    source = found.source(found.controller)
    values = _ours(found, found.controller, Controller)
    controller, wrong, out = _examine(Controller, values, source, meters.available(found.folder))
    hosts: dict[str, TestHost] = {}
    for name in found.test_hosts:
        host, more, _ = _examine(TestHost, _ours(found, name, TestHost), found.source(name))
        wrong += [*_misspelt(found, name, TestHost), *more]
        if host:
            hosts[name] = host
    wrong = [*_misspelt(found, found.controller, Controller), *wrong]
    if controller is None:
        return None, wrong
    lab = Lab(inventory=found.path, controller=controller, hosts=hosts)
    wrong += _check_meters(lab, found, without=out)
    lab, more = _with_rates(lab, source)
    return lab, [*wrong, *more, *_check_serials(lab, found), *_check_clock(lab, source)]


Described = TypeVar("Described", Controller, TestHost)


def _examine(
    model: type[Described], values: Mapping[str, Any], source: str, context: Any = None
) -> tuple[Described | None, list[Problem], set[str]]:
    """Return what `values` describe, every problem in them, and the entries that were left out.

    What has a problem is left out, so that the rest is looked at as well.
    """
    rest = {key: dict(value) if isinstance(value, Mapping) else value for key, value in values.items()}
    wrong: list[Problem] = []
    out: set[str] = set()
    while True:
        try:
            return model.model_validate(rest, context=context), wrong, out
        except ValidationError as error:
            new = problems(error, source)
        wrong += [one for one in new if one not in wrong]
        removed = {one for problem in new for one in _leave_out(rest, problem)}
        if not removed:
            return None, wrong, out
        out |= removed


def _leave_out(values: dict[str, Any], problem: Problem) -> Iterator[str]:
    """Take away the drive, array or meter that a problem is about, and yield its name."""
    text = f"{problem.key}."
    for group, entries in values.items():
        if not isinstance(entries, dict) or not text.startswith(f"{group}."):
            continue
        below = text.removeprefix(f"{group}.")
        about = [name for name in entries if below.startswith(f"{name}.")]
        for name in about:
            del entries[name]
            yield name
        arrays = values.get("arrays") if group == "drives" else None
        for array, spec in [*arrays.items()] if isinstance(arrays, dict) else []:
            members = spec.get("members") if isinstance(spec, dict) else None
            if isinstance(members, list) and set(about).intersection(members):
                del arrays[array]


def _ours(found: inventory.Inventory, host: str, model: type[Strict]) -> dict[str, Any]:
    """Return those variables of a host that are the lab's; Ansible's and the user's own are not."""
    return {key: value for key, value in found.values[host].items() if key in model.model_fields}


def _misspelt(found: inventory.Inventory, host: str, model: type[Strict]) -> Iterator[Problem]:
    """Yield the variables of a host that nothing reads, and whose names are nearly the lab's."""
    for key in found.values[host]:
        if key not in KEYS and (meant := near_miss(key, model.model_fields)):
            text = f"unknown key; did you mean {meant!r}? allowed: {', '.join(sorted(model.model_fields))}"
            yield Problem(found.source(host), key, text)


def _check_serials(lab: Lab, found: inventory.Inventory) -> Iterator[Problem]:
    """Yield drives that are in two hosts, and WWNs of two drives.

    Drives of memory are known by their place: equal hosts have equal ones.
    """
    for key in ("serial", "wwn"):
        seen: dict[str, str] = {}
        for host, model in lab.hosts.items():
            for name, drive in model.drives.items():
                value = getattr(drive, key)
                if drive.in_memory or value is None:
                    continue
                first = seen.setdefault(value, f"{host}/{name}")
                if first != f"{host}/{name}":
                    text = f"{value!r} is already the {key} of {first}; allowed: that of this drive"
                    yield Problem(found.source(host), f"drives.{name}.{key}", text)


def _check_clock(lab: Lab, source: str) -> Iterator[Problem]:
    physical = [name for name, host in lab.hosts.items() if not host.virtual]
    listen = lab.controller.clock_listen
    if physical and listen.startswith(("127.", "localhost:", "[::1]:")):
        yield Problem(
            source,
            "clock_listen",
            f"{listen!r}: the physical host {physical[0]} cannot reach it;"
            " allowed: an address of the lab's network, or 0.0.0.0, and a port",
        )


def _check_meters(lab: Lab, found: inventory.Inventory, without: set[str]) -> Iterator[Problem]:
    """Yield what is wrong with rails, but for those of meters that are wrong themselves."""
    taken: dict[tuple[str, str], str] = {}
    for host, model in lab.hosts.items():
        for drive, spec in model.drives.items():
            for rail, wiring in spec.rails.items():
                if wiring.meters & without:
                    continue
                where = f"drives.{drive}.rails.{rail}"
                for key, text in _check_rail(lab, wiring, f"{host}/{drive}/{rail}", taken):
                    yield Problem(found.source(host), where + key, text)


def _check_rail(
    lab: Lab, wiring: Rail, name: str, taken: dict[tuple[str, str], str]
) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a rail: (the key below it, what it is).

    `taken`: the rail that each channel of a meter measures.
    """
    if wiring.meter not in lab.controller.meters:
        allowed = ", ".join(lab.controller.meters) or "none is declared"
        yield ".meter", f"{wiring.meter!r} is not a meter of the controller; allowed: {allowed}"
        return
    meter = lab.controller.meters[wiring.meter]
    driver, family = meter.driver, meter.family
    if why := family.refuse_rail(wiring.kind):
        yield f".{wiring.kind}", f"{wiring.meter} ({driver}) {why}"
        return
    if wiring.kind == "watt_hours" and meter.timing != "poll":
        yield ".watt_hours", f"{wiring.meter} is a 'stream'; a register needs timing: poll"
    if wiring.volts_meter:
        yield from _check_lender(lab, wiring)
    elif wiring.volts is not None and wiring.volts == wiring.amps:
        yield ".amps", f"{wiring.amps!r} is also the volts channel; they must differ"
        return
    for quantity, channel in wiring.channels.items():
        if family.channels and not family.channels.fullmatch(channel):
            allowed = family.channels_text
            yield f".{quantity}", f"{channel!r}: {driver} has no such channel; allowed: {allowed}"
        first = taken.setdefault((wiring.meter, channel), name)
        if first != name:
            yield "", f"channel {channel} of {wiring.meter} already measures {first}"


def _check_lender(lab: Lab, wiring: Rail) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a rail whose volts are another meter's."""
    lender = lab.controller.meters.get(wiring.volts_meter or "")
    if lender is None:
        allowed = ", ".join(lab.controller.meters)
        yield ".volts", f"{wiring.volts_meter!r} is not a meter of the controller; allowed: {allowed}"
        return
    if lender.family.channels and not lender.family.channels.fullmatch(wiring.volts or ""):
        allowed = lender.family.channels_text
        yield ".volts", f"{wiring.volts!r}: {lender.driver} has no such channel; allowed: {allowed}"
    if lab.controller.meters[wiring.meter].timing != "poll":
        text = (
            f"{wiring.volts_meter} has the volts, and the amps of {wiring.meter} are a stream; allowed:"
            " amps of a meter with timing: poll, or volts that are stated: 5.00 ± 0.05"
        )
        yield ".volts", text


def _with_rates(lab: Lab, source: str) -> tuple[Lab, list[Problem]]:
    """Return `lab` with every meter's rate, and what is wrong with rates and connections.

    A rate depends on the number of channels in use.
    """
    settled: dict[str, Meter] = {}
    reached: dict[str, str] = {}
    wrong: list[Problem] = []
    for name, meter in lab.controller.meters.items():
        settled[name] = meter

        def refuse(key: str, text: str, name: str = name) -> None:
            wrong.append(Problem(source, f"meters.{name}.{key}", text))

        if meter.connection and (first := reached.setdefault(meter.connection, name)) != name:
            refuse("connection", f"{meter.connection!r} is also that of {first}; they must differ")
        family = meter.family
        channels = max(1, len(lab.meter_channels(name)))
        changes: dict[str, Any] = {}
        rate = meter.sample_rate_hz
        if rate is None:
            rate = changes["sample_rate_hz"] = family.rate(channels, meter)
        if rate is None:
            refuse("sample_rate_hz", f"missing; driver {meter.driver} has no default for it")
            continue
        fastest = family.fastest(channels, meter)
        if fastest is not None and rate > fastest * 1.01:
            refuse(
                "sample_rate_hz",
                f"{rate:g}: {meter.driver} cannot sample"
                f" {counted(channels, 'channel')} that fast; allowed: up to {fastest:.4g}",
            )
        if meter.command and "/" in meter.command[0]:
            changes["command"] = [str(lab.folder / meter.command[0]), *meter.command[1:]]
        if meter.silence_seconds is None and meter.timing == "poll":
            changes["silence_seconds"] = max(DEFAULT_SILENCE_SECONDS, READINGS_OF_SILENCE / rate)
        settled[name] = meter.model_copy(update=changes)
    wrong += [Problem(source, f"meters.{name}.connection", text) for name, text in connections.alike(settled)]
    controller = lab.controller.model_copy(update={"meters": settled})
    return lab.model_copy(update={"controller": controller}), wrong
