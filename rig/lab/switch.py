# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare what switches the power of a test host, or of a drive."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, model_validator

from joulerig.rig.common.errors import Strict
from joulerig.rig.common.numbers import NonNegativeInt, PositiveInt

State = Literal["on", "off"]  # of the power behind a switch
Argument = Annotated[str, Field(min_length=1)]
# Of each kind: the keys that it needs, and those that it may have besides.
KEYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "tap": ((), ()),
    "supply": ((), ("meter", "output")),
    "host": ((), ()),
    "labgrid": (("model", "host", "index"), ("port",)),
    "ipmi": (("host",), ("username", "password_file", "port")),
    "redfish": (("host",), ("username", "password_file", "system")),
    "command": (("off", "on"), ("state",)),
}
FOR_HOSTS = ("labgrid", "ipmi", "redfish", "supply", "command")
FOR_DRIVES = ("tap", "supply", "labgrid", "command", "host")


class Switch(Strict):
    """What switches a host's power, or a drive's. `by` decides which of the other keys it has.

    `tap`: the power tap of the drive's rails. `supply`: the output of a programmable supply, by
    libsigrok. `host`: the drive is off when its host is. `labgrid`: an outlet or a relay, by one of
    labgrid's power drivers. `ipmi`, `redfish`: the host's BMC. `command`: programs of your own.
    """

    by: Literal["tap", "supply", "host", "labgrid", "ipmi", "redfish", "command"]
    """What it is: of a host `labgrid`, `ipmi`, `redfish`, `supply` or `command`; of a drive `tap`,
    `supply`, `labgrid`, `command` or `host`."""
    model: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")] | None = None
    """labgrid's driver, such as `gude` or `shelly_gen2`."""
    host: Annotated[str, Field(pattern=r"^\S+$")] | None = None
    """Where the unit or the BMC is: an address, or a URL where labgrid's driver, or Redfish, has
    one."""
    index: NonNegativeInt | None = None
    """labgrid's number of the outlet."""
    port: PositiveInt | None = None
    """Its TCP or UDP port; left out: the usual one."""
    meter: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")] | None = None
    """The supply's name among the controller's meters; left out: that of the drive's rails."""
    output: Annotated[str, Field(pattern=r"^[^\s.=]+$")] | None = None
    """Its output, as libsigrok names it (`1`); left out: those of the drive's rails (V1: `1`)."""
    username: Argument | None = None
    """User of the BMC."""
    password_file: Argument | None = None
    """File with that user's password, readable by you alone."""
    system: Argument | None = None
    """Redfish's path of the host; left out: the only one of `/redfish/v1/Systems`."""
    off: Annotated[list[Argument], Field(min_length=1)] | None = None
    """The program that cuts the power, and its arguments."""
    on: Annotated[list[Argument], Field(min_length=1)] | None = None
    """The program that restores it."""
    state: Annotated[list[Argument], Field(min_length=1)] | None = None
    """A program that prints `on` or `off`; left out: the other two are believed."""

    @model_validator(mode="after")
    def _has_what_its_kind_needs(self) -> Switch:
        needed, optional = KEYS[self.by]
        for key in needed:
            if getattr(self, key) is None:
                raise ValueError(f"{key}: missing; by: {self.by} needs {', '.join(needed)}")
        for key in type(self).model_fields:
            if key not in ("by", *needed, *optional) and (value := getattr(self, key)) is not None:
                where = ", ".join(kind for kind, keys in KEYS.items() if key in (*keys[0], *keys[1]))
                raise ValueError(f"{key}: {value!r}: only with by: {where}; leave it out")
        if (self.meter is None) != (self.output is None):
            raise ValueError("output: needs 'meter' too; allowed: both, or neither for the drive's rails")
        if self.by == "redfish" and not str(self.host).startswith(("http://", "https://")):
            raise ValueError(f"host: {self.host!r}; allowed: the BMC's URL, such as https://192.168.40.8")
        return self

    @property
    def shown(self) -> str:
        """Return what switches, for people."""
        match self.by:
            case "tap":
                return "the tap"
            case "supply":
                return f"output {self.output} of {self.meter}" if self.meter else "the supply's outputs"
            case "host":
                return "the host's power"
            case "labgrid":
                return without_password(f"{self.model} at {self.host}, outlet {self.index}")
            case "ipmi":
                return f"the BMC at {self.host}"
            case "redfish":
                return without_password(f"the BMC at {self.host}")
        return " ".join((self.off or [""])[:1])


class PowerCycle(Strict):
    """How the power of a host that hangs is cut and restored; without this it never is.

    A host that stays away for `return_seconds` is switched off and on by its `switch`, and waited
    for again. A virtual host is reset by QEMU.
    """

    off_seconds: Annotated[float, Field(ge=1, le=600)] = 10
    """How long the power stays off."""
    most: PositiveInt = 2
    """How often in one campaign."""


def without_password(text: str) -> str:
    """Return a text without the user and password of the URLs in it."""
    return re.sub(r"//[^/@\s]+@", "//", text)
