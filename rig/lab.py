# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab: test hosts, drives, meters and controller, as `inventory.ini` and `host_vars/` describe them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt, field_validator, model_validator

from rig import paths
from rig.errors import Strict, UserError, validate

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$", max_length=40)]
SOLID_STATE = ("nvme", "sata-ssd")


class Rail(Strict):
    """One supply line of a drive, measured as a volts channel and an amps channel of a meter."""

    meter: Name
    volts: str
    amps: str


class Drive(Strict):
    """A device under test, known by its serial (and WWN where it has one) and its size."""

    interface: Literal["nvme", "sata-ssd", "hdd", "nvdimm"]
    serial: Annotated[str, Field(min_length=4, pattern=r"^[\x21-\x7e][\x20-\x7e]*$")]
    wwn: Annotated[str, Field(pattern=r"^(eui|naa|t10|uuid|nvme)\.[0-9a-zA-Z.-]+$")] | None = None
    size_bytes: PositiveInt
    plp: bool = False
    rails: dict[Name, Rail] = {}
    profile: Name | None = None
    description: str = ""


class Array(Strict):
    """An md array of drives of the same host; its energy is the sum over its members' rails."""

    level: Literal["raid0", "raid5", "raid6", "raid10"]
    members: Annotated[list[Name], Field(min_length=2)]
    chunk_kib: PositiveInt = 64


class VirtualHost(Strict):
    """What a virtual test host is made of."""

    cpus: PositiveInt = 2
    memory_mb: Annotated[int, Field(ge=512)] = 2048


class TestHost(Strict):
    """A machine under test: its drives and arrays. `virtual` is set for a host of the virtual lab."""

    __test__ = False  # not a test class, whatever pytest thinks of the name

    drives: dict[Name, Drive]
    arrays: dict[Name, Array] = {}
    virtual: VirtualHost | None = None
    controller_address: str | None = None

    @model_validator(mode="after")
    def _consistent(self) -> TestHost:
        serials: dict[str, str] = {}
        for name, drive in self.drives.items():
            if drive.serial in serials:
                raise ValueError(
                    f"drives.{name}.serial: {drive.serial!r} is already that of {serials[drive.serial]!r};"
                    " a serial belongs to one drive"
                )
            serials[drive.serial] = name
            if self.virtual and drive.interface != "nvdimm" and not drive.profile:
                raise ValueError(f"drives.{name}.profile: missing; a virtual host's drive needs a profile")
        for name, array in self.arrays.items():
            for member in array.members:
                if member not in self.drives:
                    raise ValueError(
                        f"arrays.{name}.members: {member!r} is no drive of this host;"
                        f" allowed: {', '.join(self.drives)}"
                    )
        if shared := set(self.arrays) & set(self.drives):
            raise ValueError(f"arrays.{min(shared)}: the name is already that of a drive")
        return self


class VirtualPort(Strict):
    """A port of a virtual power tap: port a measures its rails 1 and 2, port b its rails 3 and 4."""

    tap: Name
    port: Literal["a", "b"]


class Meter(Strict):
    """A sigrok device. Exactly one of `connection` (libsigrok's conn) and `virtual`."""

    driver: Literal["hameg-hmo"]
    connection: str | None = None
    serialcomm: str | None = None
    virtual: VirtualPort | None = None
    sample_rate_hz: PositiveFloat
    samples: Literal["window-mean", "point"] = "window-mean"
    description: str = ""

    @model_validator(mode="after")
    def _one_way_to_reach_it(self) -> Meter:
        if (self.connection is None) == (self.virtual is None):
            raise ValueError("needs exactly one of 'connection' and 'virtual'")
        return self


class Influx(Strict):
    """InfluxDB. Without `url` the rig starts Debian's influxd as the user's own process."""

    url: Annotated[str, Field(pattern=r"^https?://")] | None = None
    url_from_hosts: Annotated[str, Field(pattern=r"^https?://")] | None = None
    database: Name = "joulerig"
    username: str = "joulerig"
    token_file: Path | None = None

    @model_validator(mode="after")
    def _token_with_url(self) -> Influx:
        if self.url and not self.token_file:
            raise ValueError(
                "token_file: missing; with 'url' it names the file that holds the token or password"
            )
        return self


class Controller(Strict):
    """The machine that drives the lab: its meters, InfluxDB, and how often power points are stored."""

    influxdb: Influx = Influx()
    meters: dict[Name, Meter] = {}
    points_per_second: Annotated[int, Field(ge=1, le=1000)] = 100
    clock_listen: str = "127.0.0.1:0"

    @field_validator("clock_listen")
    @classmethod
    def _address_and_port(cls, value: str) -> str:
        address, _, port = value.rpartition(":")
        if not address or not port.isdigit() or int(port) > 65535:
            raise ValueError(f"{value!r} is not ADDRESS:PORT; port 0 picks a free one")
        return value


class Lab(Strict):
    """Everything the inventory describes. `hosts` by name, in the inventory's order."""

    inventory: Path
    controller: Controller
    hosts: dict[Name, TestHost]

    @property
    def virtual(self) -> bool:
        return any(host.virtual for host in self.hosts.values())

    def rails_of(self, host: str, drive: str) -> list[tuple[str, str, Rail]]:
        """(drive, rail name, rail) of a drive, or of all members of an array."""
        members = [drive]
        if drive in self.hosts[host].arrays:
            members = self.hosts[host].arrays[drive].members
        return [(m, name, rail) for m in members for name, rail in self.hosts[host].drives[m].rails.items()]


def load(inventory: Path | None = None) -> Lab:
    """The lab that `inventory` (default: the checkout's, or JOULERIG_INVENTORY) describes.

    Variables are found as Ansible finds them (host_vars, group_vars, inventory). Raises UserError.
    """
    from ansible.errors import AnsibleError
    from ansible.inventory.manager import InventoryManager
    from ansible.parsing.dataloader import DataLoader
    from ansible.vars.manager import VariableManager

    inventory = inventory or paths.inventory()
    if not inventory.is_file():
        raise UserError(f"{inventory}: no such inventory; JOULERIG_INVENTORY or --inventory names one")
    try:
        loader = DataLoader()
        # Else host_vars/ of the working directory would overrule those beside the inventory.
        loader.set_basedir(str(inventory.parent))
        manager = InventoryManager(loader=loader, sources=[str(inventory)])
        variables = VariableManager(loader=loader, inventory=manager)
        groups = manager.get_groups_dict()
        for group in ("controller", "test_hosts"):
            if not groups.get(group):
                raise UserError(
                    f"{paths.short(inventory)}: group [{group}] has no host; it needs at least one"
                )
        if len(groups["controller"]) != 1:
            raise UserError(
                f"{paths.short(inventory)}: group [controller]: {groups['controller']}: one host is allowed"
            )
        controller_name = groups["controller"][0]
        of = {
            name: variables.get_vars(host=manager.get_host(name))
            for name in [controller_name, *groups["test_hosts"]]
        }
    except AnsibleError as error:
        raise UserError(f"{paths.short(inventory)}: {' '.join(str(error).split())}") from None
    controller = validate(
        Controller, _ours(of[controller_name], Controller), _file(inventory, controller_name)
    )
    hosts = {
        name: validate(TestHost, _ours(of[name], TestHost), _file(inventory, name))
        for name in groups["test_hosts"]
    }
    lab = Lab(inventory=inventory, controller=controller, hosts=hosts)
    _check_meters(lab)
    return lab


def _ours(variables: dict[str, Any], model: type[Strict]) -> dict[str, Any]:
    """Those variables of a host that are the lab's, as plain data: the rest is Ansible's and the user's."""
    import json

    from ansible.parsing.ajson import AnsibleJSONEncoder

    ours = {key: value for key, value in variables.items() if key in model.model_fields}
    return json.loads(json.dumps(ours, cls=AnsibleJSONEncoder))


def _file(inventory: Path, host: str) -> str:
    for suffix in (".yml", ".yaml", "/main.yml", ""):
        path = inventory.parent / "host_vars" / f"{host}{suffix}"
        if path.is_file():
            return paths.short(path)
    return f"{paths.short(inventory)}: {host}"


def _check_meters(lab: Lab) -> None:
    taken: dict[tuple[str, str], str] = {}
    for host, model in lab.hosts.items():
        for drive, spec in model.drives.items():
            for rail, wiring in spec.rails.items():
                where = f"{_file(lab.inventory, host)}: drives.{drive}.rails.{rail}"
                if wiring.meter not in lab.controller.meters:
                    allowed = ", ".join(lab.controller.meters) or "none is declared"
                    raise UserError(
                        f"{where}.meter: {wiring.meter!r} is no meter of the controller; allowed: {allowed}"
                    )
                for channel in (wiring.volts, wiring.amps):
                    first = taken.setdefault((wiring.meter, channel), f"{host}/{drive}/{rail}")
                    if first != f"{host}/{drive}/{rail}":
                        raise UserError(
                            f"{where}: channel {channel} of {wiring.meter} already measures {first}"
                        )
                if wiring.volts == wiring.amps:
                    raise UserError(
                        f"{where}.amps: {wiring.amps!r} is the volts channel too; they must differ"
                    )
