# SPDX-License-Identifier: GPL-3.0-or-later
"""Model the lab: test hosts, drives, meters, controller, from `inventory.ini` and `host_vars/`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    PrivateAttr,
    ValidationInfo,
    model_validator,
)

from joulerig.plural import counted
from joulerig.rig.common import files, paths
from joulerig.rig.common.errors import AddressAndPort, Strict, UserError, validate
from joulerig.rig.lab import meters
from joulerig.rig.lab.meters.family import Accuracy, Family, Samples, Timing, transport

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
LEAST_MEMBERS = {"raid0": 2, "raid5": 3, "raid6": 4, "raid10": 2}


Url = Annotated[str, Field(pattern=r"^https?://[^/\s:]+(:\d+)?(/\S*)?$")]


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
    ohms: Annotated[float, Field(ge=0)] | None = None
    """Resistance from the supply to where the volts are measured."""

    @property
    def greatest_watts(self) -> float:
        return self.volts * self.amps


class Rail(Strict):
    """One supply line of a drive, as channels of a meter.

    Exactly one of volts with amps, watts, and watt_hours.
    """

    meter: Name
    """The meter's name."""
    volts: str | None = None
    """Channel of the rail's volts."""
    amps: str | None = None
    """Channel of its amps."""
    watts: str | None = None
    """A channel of power, instead of volts and amps."""
    watt_hours: str | None = None
    """A register that the instrument itself counts up, instead of the others."""
    supply: Supply | None = None
    """What feeds the rail."""

    @model_validator(mode="after")
    def _one_way_to_measure_it(self) -> Rail:
        given = [key for key in ("volts", "amps", "watts", "watt_hours") if getattr(self, key) is not None]
        if given not in (["volts", "amps"], ["watts"], ["watt_hours"]):
            raise ValueError(
                f"has {' and '.join(given) or 'no channel'};"
                " allowed: 'volts' and 'amps', or 'watts' alone, or 'watt_hours' alone"
            )
        return self

    @property
    def kind(self) -> str:
        """Return the kind of its channels: "volts" (with amps), "watts" or "watt_hours"."""
        return next(kind for kind in ("volts", "watts", "watt_hours") if getattr(self, kind) is not None)

    @property
    def channels(self) -> dict[str, str]:
        """Return the channel of each quantity: {"volts": "CH1", "amps": "CH2"}."""
        quantities = ("volts", "amps", "watts", "watt_hours")
        return {q: getattr(self, q) for q in quantities if getattr(self, q) is not None}


class Drive(Strict):
    """A device under test, known by its serial (and WWN where it has one) and its size."""

    interface: Literal["nvme", "sata-ssd", "hdd", "nvdimm", "ram"]
    """What kind of drive it is."""
    serial: Annotated[str, Field(min_length=4, pattern=r"^[\x21-\x7e][\x20-\x7e]*$")]
    """Serial number, as the drive reports it."""
    wwn: Annotated[str, Field(pattern=r"^(eui|naa|t10|uuid|nvme)\.[0-9a-zA-Z.-]+$")] | None = None
    """World-wide name, where the drive has one."""
    size_bytes: PositiveInt
    """Capacity."""
    model: str | None = None
    """Model, as the drive reports it; a drive of another model is refused."""
    plp: bool = False
    """Whether it has power-loss protection."""
    rated_terabytes_written: PositiveFloat | None = None
    """What its maker rates it for, in TB (10^12 bytes) written: "TBW", or "DWPD" times capacity and
    days of warranty. `rig plan` says what share of it a campaign takes."""
    rails: dict[Name, Rail] = {}
    """Its supply rails by name, each with its channels."""
    profile: Name | None = None
    """Virtual lab: the model of the drive."""
    description: str = ""
    """For people."""

    def declared_as(self, name: str) -> dict[str, Any]:
        """Return what a test host needs to find the drive `name` and to tell it from others."""
        return {
            "name": name,
            **self.model_dump(include={"interface", "serial", "wwn", "size_bytes", "model"}),
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
    """An md array of drives of the same host; its energy is the sum over its members' rails."""

    level: Literal["raid0", "raid5", "raid6", "raid10"]
    """RAID level."""
    members: Annotated[list[Name], Field(min_length=2)]
    """Names of drives of this host."""
    chunk_kib: PositiveInt = 64
    """Chunk size."""

    @property
    def most_copies(self) -> int:
        """Return as how many bytes one is written at most, parity included."""
        return 1 if self.level == "raid0" else 2  # raid10, and raid6 of four drives


Package = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9+.-]+$")]


class VirtualHost(Strict):
    """What a virtual test host is made of.

    It has no network to get packages from; all hosts of a lab share an image with what any of them
    wants.
    """

    cpus: PositiveInt = 2
    """Processors."""
    memory_mb: Annotated[int, Field(ge=512)] = 2048
    """Memory."""
    guest_packages: list[Package] = []
    """Debian packages of its image beyond those of file systems, programs and provisioning."""


class PowerCycle(Strict):
    """How the power of a host that hangs is cut and restored; without this it never is.

    A host that stays away for `return_seconds` is switched off and on, and waited for again.
    """

    by: Literal["qemu", "labgrid"]
    """`qemu`: a virtual host is reset. `labgrid`: an outlet, by one of labgrid's power drivers."""
    model: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")] | None = None
    """labgrid's driver, such as `gude` or `shelly_gen2`."""
    host: Annotated[str, Field(pattern=r"^\S+$")] | None = None
    """Where the unit is: its address, or its URL, as labgrid's driver takes it."""
    index: NonNegativeInt | None = None
    """The outlet."""
    port: PositiveInt | None = None
    """TCP port of the unit; left out: the driver's."""
    off_seconds: Annotated[float, Field(ge=1, le=600)] = 10
    """How long the power stays off."""
    most: PositiveInt = 2
    """How often in one campaign."""

    @model_validator(mode="after")
    def _as_its_switch_needs(self) -> PowerCycle:
        keys = ("model", "host", "index", "port")
        if self.by == "labgrid":
            for key in keys[:3]:
                if getattr(self, key) is None:
                    raise ValueError(f"{key}: missing; labgrid needs {', '.join(keys[:3])}")
        for key in keys if self.by == "qemu" else ():
            if getattr(self, key) is not None:
                raise ValueError(f"{key}: {getattr(self, key)!r}: only with by: labgrid; leave it out")
        return self

    @property
    def shown(self) -> str:
        """Return what switches, for people."""
        if self.by == "qemu":
            return "QEMU"
        return without_password(f"{self.model} at {self.host}, outlet {self.index}")


def without_password(text: str) -> str:
    """Return a text without the user and password of the URLs in it."""
    return re.sub(r"//[^/@\s]+@", "//", text)


class TestHost(Strict):
    """A machine under test: its drives and arrays."""

    __test__ = False  # not a test class, whatever pytest thinks of the name

    drives: dict[Name, Drive]
    """Its drives by name."""
    arrays: dict[Name, Array] = {}
    """md arrays of them by name."""
    virtual: VirtualHost | None = None
    """Only for a host of the virtual lab."""
    controller_address: Annotated[str, Field(pattern=r"^[0-9A-Za-z.-]+$")]
    """The controller as this host sees it."""
    nvdimm_memmap: Annotated[str, Field(pattern=r"^\d+[KMGT]?!\d+[KMGT]?$")] | None = None
    """SIZE!START: ordinary memory that the kernel gives as an NVDIMM."""
    emulated: Emulated | None = None
    """How the kernel emulates hard disks."""
    return_seconds: Annotated[int, Field(ge=10, le=86400)] | None = None
    """How long it may take to answer after a reset, a power cut, or when it went away; left out:
    600, of a virtual host 180."""
    power_cycle: PowerCycle | None = None
    """What switches its power when it stays away; left out: nothing does."""

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
        wanted = "qemu" if self.virtual else "labgrid"
        if self.power_cycle and self.power_cycle.by != wanted:
            kind = "virtual" if self.virtual else "physical"
            raise ValueError(
                f"power_cycle.by: {self.power_cycle.by!r}: the host is {kind}; allowed: {wanted}"
            )
        return self

    @model_validator(mode="after")
    def _consistent(self) -> TestHost:
        serials: dict[str, str] = {}
        for name, drive in self.drives.items():
            if drive.serial in serials:
                raise ValueError(
                    f"drives.{name}.serial: {drive.serial!r} is already the serial of"
                    f" {serials[drive.serial]!r}; a serial belongs to one drive"
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
        nvdimms = [name for name, drive in self.drives.items() if drive.interface == "nvdimm"]
        if len(nvdimms) > 1:
            raise ValueError(f"drives: {', '.join(nvdimms)}: NVDIMMs; allowed: one per host")
        if self.nvdimm_memmap:
            size, start = (_memory(part) for part in self.nvdimm_memmap.split("!"))
            made = {(d.serial, d.size_bytes) for d in self.drives.values() if d.interface == "nvdimm"}
            if made != {(f"{E820}{start:#x}", size)}:
                raise ValueError(
                    f"nvdimm_memmap: {self.nvdimm_memmap!r} creates an NVDIMM that no drive declares,"
                    f" with serial {E820}{start:#x} and size_bytes {size}"
                )
        _check_made_by_kernel(self)
        if shared := set(self.arrays) & set(self.drives):
            raise ValueError(f"arrays.{min(shared)}: a drive has this name already")
        return self


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
    """An instrument that libsigrok reads.

    rig/lab/meters/families has a file for each driver that this rig has been checked with; its
    values stand for what is left out here.
    """

    driver: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    """libsigrok's driver."""
    # libsigrok separates options by colons, so a value cannot hold one.
    connection: Annotated[str, Field(pattern=r"^[^:\s]+$")] | None = None
    """libsigrok's `conn`: `tcp-raw/HOST/PORT`, `/dev/ttyUSB0`, `usbtmc/BUS.ADDRESS`."""
    serialcomm: Annotated[str, Field(pattern=r"^\d+/[5-8][neo][12](/[^:\s]*)?$")] | None = None
    """Serial line, such as `9600/8n1`."""
    options: dict[
        Annotated[str, Field(pattern=r"^[a-z_]+$")], Annotated[str, Field(pattern=r"^[^:\s]+$")]
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
    silence_seconds: Annotated[float, Field(ge=0.2, le=3600)] | None = None
    """Without samples for this long, the meter counts as silent."""
    clock_ppm: Annotated[float, Field(ge=1, le=1000)] | None = None
    """The sample clock is off its rate by this at most; what is beyond counts as lost samples."""
    latency_seconds: Annotated[float, Field(ge=0, le=10)] | None = None
    """Greatest constant delay from a sample to its arrival."""
    set: dict[str, str] = {}
    """Settings by libsigrok's key, made before the capture."""
    serial: str | None = None
    """The instrument's serial, where it does not report one."""
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
        if str(data.get("connection")).startswith("/dev/ttyUSB"):
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
                    f"driver: {self.driver!r} is not a driver of this libsigrok;"
                    f" allowed: {', '.join(families.by_driver)}, or another that 'sigrok-cli -L' lists"
                )
            for key in ("timing", "sample_rate_hz"):
                if getattr(self, key) is None:
                    raise ValueError(f"{key}: missing; driver {self.driver!r} has no default for it")
        if self.virtual and not family.power_tap:
            taps = ", ".join(name for name, one in families.by_driver.items() if one.power_tap)
            raise ValueError(f"driver: {self.driver!r}: a virtual tap speaks {taps}; allowed: {taps}")
        if self.control and not family.power_tap:
            raise ValueError(f"control: only for power taps; driver {self.driver} has no switch")
        if self.timing == "stream" and family.timing == "poll":
            raise ValueError(f"timing: 'stream': {self.driver} has no sample clock; allowed: 'poll'")
        return self

    @model_validator(mode="after")
    def _one_way_to_reach_it(self) -> Meter:
        allowed = self.family.transports
        if not allowed:
            if self.connection or self.virtual:
                raise ValueError(
                    f"connection: {self.connection!r}: driver {self.driver} needs none; leave it out"
                )
        elif (self.connection is None) == (self.virtual is None):
            raise ValueError("needs exactly one of 'connection' and 'virtual'")
        if self.connection and self.connection.startswith("/dev/") and self.connection.count("/") > 2:
            raise ValueError(
                f"connection: {self.connection!r} is a symbolic link, which libserialport does"
                " not follow; allowed: the device itself, such as /dev/ttyACM0"
            )
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


def _families(info: ValidationInfo) -> meters.Families:
    """Return the families of meters that the inventory's lab has, or the shipped ones."""
    return info.context if isinstance(info.context, meters.Families) else meters.shipped()


class Influx(Strict):
    """InfluxDB. Without `url` the rig starts Debian's influxd as the user's own process."""

    url: Url | None = None
    """An InfluxDB that runs already; left out: the rig starts Debian's."""
    url_from_hosts: Url | None = None
    """The same as test hosts reach it, if that differs."""
    database: Name = "joulerig"
    """Database; on 2.x and 3.x the bucket."""
    username: str = "joulerig"
    """User; InfluxDB 2.x and 3.x ignore it."""
    token_file: Path | None = None
    """File with the token, or on 1.x the password."""

    @model_validator(mode="after")
    def _token_with_url(self) -> Influx:
        if self.url and not self.token_file:
            raise ValueError(
                "token_file: missing; with 'url' it names the file that holds the token or password"
            )
        return self


class Controller(Strict):
    """The machine that runs the lab: its meters, InfluxDB, interval between stored points."""

    influxdb: Influx = Influx()
    """Where points are stored."""
    meters: dict[Name, Meter] = {}
    """Meters by name."""
    points_per_second: Annotated[int, Field(ge=1, le=1000)] = 100
    """Power points stored per second and rail."""
    clock_listen: AddressAndPort = "127.0.0.1:0"
    """ADDRESS:PORT (UDP) at which test hosts measure their clocks' offset; port 0: any."""


class Lab(Strict):
    """Everything the inventory describes. `hosts` by name, in the inventory's order."""

    inventory: Path
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

    @property
    def virtual(self) -> bool:
        return any(host.virtual for host in self.hosts.values())

    @property
    def guest_packages(self) -> list[str]:
        """Return the packages that the virtual hosts need in the image they share."""
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
        return {ch: quantity for *_, rail in rails for quantity, ch in rail.channels.items()}

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


def load(inventory: Path | None = None) -> Lab:
    """Return the lab that `inventory` (default: JOULERIG_INVENTORY, or the checkout's) describes.

    Variables are found as Ansible finds them (host_vars, group_vars, inventory). Raises UserError.
    """
    from ansible.errors import AnsibleError
    from ansible.inventory.manager import InventoryManager
    from ansible.parsing.dataloader import DataLoader
    from ansible.vars.manager import VariableManager

    inventory = inventory or paths.inventory()
    if not inventory.is_file():
        raise UserError(f"{inventory}: no such inventory; set JOULERIG_INVENTORY")
    try:
        loader = DataLoader()
        # Else host_vars/ of the working directory would overrule those next to the inventory.
        loader.set_basedir(str(inventory.parent))
        manager = InventoryManager(loader=loader, sources=[str(inventory)])
        variables = VariableManager(loader=loader, inventory=manager)
        groups = manager.get_groups_dict()
        for group in ("controller", "test_hosts"):
            if not groups.get(group):
                raise UserError(
                    f"{paths.short(inventory)}: group [{group}] has no host; allowed: one or more"
                )
        if len(groups["controller"]) != 1:
            raise UserError(
                f"{paths.short(inventory)}: group [controller]: {groups['controller']}: allowed: one host"
            )
        controller_name = groups["controller"][0]
        of = {
            name: variables.get_vars(host=manager.get_host(name))
            for name in [controller_name, *groups["test_hosts"]]
        }
    except AnsibleError as error:
        where = _origin(error) or paths.short(inventory)
        raise UserError(f"{where}: {' '.join(str(error).split())}") from None
    controller = validate(
        Controller,
        _ours(of[controller_name], Controller),
        _file(inventory, controller_name),
        context=meters.available(inventory.parent),
    )
    hosts = {
        name: validate(TestHost, _ours(of[name], TestHost), _file(inventory, name))
        for name in groups["test_hosts"]
    }
    lab = Lab(inventory=inventory, controller=controller, hosts=hosts)
    _check_meters(lab)
    lab = _with_rates(lab, _file(inventory, controller_name))
    _check_serials(lab)
    _check_clock(lab, _file(inventory, controller_name))
    return lab


def _origin(error: BaseException) -> str:
    """Return the FILE:LINE of Ansible's error, or of the error below it; "" if it names none."""
    from ansible._internal._datatag._tags import Origin

    for one in (error, error.__context__):
        found = getattr(one, "obj", None)
        origin = found if isinstance(found, Origin) else Origin.get_tag(found)
        if origin and origin.path:
            return f"{paths.short(Path(origin.path))}:{origin.line_num}"
    return ""


def _ours(variables: dict[str, Any], model: type[Strict]) -> dict[str, Any]:
    """Return those variables of a host that are the lab's, as plain data; ignore Ansible's."""
    from ansible.parsing.ajson import AnsibleJSONEncoder

    ours = {key: value for key, value in variables.items() if key in model.model_fields}
    return json.loads(json.dumps(ours, cls=AnsibleJSONEncoder))


def _file(inventory: Path, host: str) -> str:
    for suffix in (".yml", ".yaml", "/main.yml", ""):
        path = inventory.parent / "host_vars" / f"{host}{suffix}"
        if path.is_file():
            return paths.short(path)
    return f"{paths.short(inventory)}: {host}"


def _check_serials(lab: Lab) -> None:
    """Check that a drive is in one host only.

    Drives of memory are known by their place: equal hosts have equal ones.
    """
    seen: dict[str, str] = {}
    for host, model in lab.hosts.items():
        for name, drive in model.drives.items():
            if drive.in_memory:
                continue
            if drive.serial in seen:
                where = f"{_file(lab.inventory, host)}: drives.{name}.serial"
                raise UserError(f"{where}: {drive.serial!r} is already the serial of {seen[drive.serial]}")
            seen[drive.serial] = f"{host}/{name}"


def _check_clock(lab: Lab, source: str) -> None:
    physical = [name for name, host in lab.hosts.items() if not host.virtual]
    listen = lab.controller.clock_listen
    if physical and listen.startswith(("127.", "localhost:", "[::1]:")):
        raise UserError(
            f"{source}: clock_listen: {listen!r}: the physical host {physical[0]} cannot reach it;"
            " allowed: an address of the lab's network, or 0.0.0.0, and a port"
        )


def _check_meters(lab: Lab) -> None:
    taken: dict[tuple[str, str], str] = {}
    for host, model in lab.hosts.items():
        for drive, spec in model.drives.items():
            for rail, wiring in spec.rails.items():
                where = f"{_file(lab.inventory, host)}: drives.{drive}.rails.{rail}"
                if wiring.meter not in lab.controller.meters:
                    allowed = ", ".join(lab.controller.meters) or "none is declared"
                    raise UserError(
                        f"{where}.meter: {wiring.meter!r} is not a meter of the controller;"
                        f" allowed: {allowed}"
                    )
                driver = lab.controller.meters[wiring.meter].driver
                family = lab.controller.meters[wiring.meter].family
                if why := family.refuse_rail(wiring.kind):
                    raise UserError(f"{where}.{wiring.kind}: {wiring.meter} ({driver}) {why}")
                if wiring.kind == "watt_hours" and lab.controller.meters[wiring.meter].timing != "poll":
                    raise UserError(
                        f"{where}.watt_hours: {wiring.meter} is a 'stream'; a register needs timing: poll"
                    )
                for quantity, channel in wiring.channels.items():
                    if family.channels and not family.channels.fullmatch(channel):
                        raise UserError(
                            f"{where}.{quantity}: {channel!r}: {driver} has no such channel;"
                            f" allowed: {family.channels_text}"
                        )
                    first = taken.setdefault((wiring.meter, channel), f"{host}/{drive}/{rail}")
                    if first != f"{host}/{drive}/{rail}":
                        raise UserError(
                            f"{where}: channel {channel} of {wiring.meter} already measures {first}"
                        )
                if wiring.volts is not None and wiring.volts == wiring.amps:
                    raise UserError(
                        f"{where}.amps: {wiring.amps!r} is also the volts channel; they must differ"
                    )


def _with_rates(lab: Lab, source: str) -> Lab:
    """Return `lab` with every meter's rate, which depends on the number of channels in use."""
    settled: dict[str, Meter] = {}
    reached: dict[str, str] = {}
    for name, meter in lab.controller.meters.items():
        where = f"{source}: meters.{name}"
        if meter.connection and (first := reached.setdefault(meter.connection, name)) != name:
            raise UserError(
                f"{where}.connection: {meter.connection!r} is also that of {first}; they must differ"
            )
        family = meter.family
        channels = max(1, len(lab.meter_channels(name)))
        changes: dict[str, Any] = {}
        rate = meter.sample_rate_hz
        if rate is None:
            rate = changes["sample_rate_hz"] = family.rate(channels, meter)
        if rate is None:
            raise UserError(f"{where}.sample_rate_hz: missing; driver {meter.driver} has no default for it")
        fastest = family.fastest(channels, meter)
        if fastest is not None and rate > fastest * 1.01:
            raise UserError(
                f"{where}.sample_rate_hz: {rate:g}: {meter.driver} cannot sample"
                f" {counted(channels, 'channel')} that fast; allowed: up to {fastest:.4g}"
            )
        if meter.silence_seconds is None and meter.timing == "poll":
            changes["silence_seconds"] = max(DEFAULT_SILENCE_SECONDS, READINGS_OF_SILENCE / rate)
        settled[name] = meter.model_copy(update=changes)
    controller = lab.controller.model_copy(update={"meters": settled})
    return lab.model_copy(update={"controller": controller})
