# SPDX-License-Identifier: GPL-3.0-or-later
"""Switch the power of test hosts and of drives, by what their declaration `switch` names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import switch as declared
from joulerig.rig.lab import virtual
from joulerig.rig.lab.meters import tap
from joulerig.rig.lab.model import Lab
from joulerig.rig.power import ipmi, labgrid_outlet, program, redfish, supply

Samples = Mapping[str, int]  # of a tap, by "drive/rail": the sample in which it was switched


class Switch(Protocol):
    """Switches the power of a host or of a drive.

    `off` and `on` return when it is switched, as far as the switch reports that, and raise
    UserError. `unit`: what one thing is asked at a time.
    """

    unit: frozenset[str]

    def off(self) -> Samples:
        """Cut the power; return the taps' samples, where it is one."""

    def on(self) -> None:
        """Restore the power; a host starts."""

    def state(self) -> declared.State | None:
        """Return what the switch reports; None where it cannot be asked."""


class VirtualPlug:
    """The plug of a virtual host: its processors stop, and it is reset and boots (QMP)."""

    def __init__(self, host: str) -> None:
        self._host = host
        self.unit = frozenset([f"qemu {host}"])

    def off(self) -> Samples:
        virtual.stop_host(self._host)
        return {}

    def on(self) -> None:
        virtual.reset_host(self._host)

    def state(self) -> None:
        return None


class TapRails:
    """The rails of a drive, switched by their power taps. Raises UserError where one has no tap."""

    def __init__(self, lab: Lab, host: str, drive: str) -> None:
        self._lab, self._host, self._drive = lab, host, drive
        self.unit = frozenset(rail.meter for _, _, rail in tap.rails(lab, host, drive))

    def off(self) -> Samples:
        return tap.switch_drive(self._lab, self._host, self._drive, False)

    def on(self) -> None:
        tap.switch_drive(self._lab, self._host, self._drive, True)

    def state(self) -> None:
        return None


def host_switch(lab: Lab, host: str) -> Switch | None:
    """Return the switch of a host; None where it has none. Raises UserError."""
    spec = lab.hosts[host]
    if spec.virtual:
        return VirtualPlug(host)
    return _made(lab, spec.switch, f"{host}: switch") if spec.switch else None


def drive_switch(lab: Lab, host: str, drive: str) -> Switch | None:
    """Return the switch of a drive; None where its host's is its own. Raises UserError."""
    asked = of_drive(lab, host, drive)
    if asked.by == "host":
        return None
    if asked.by == "tap":
        return TapRails(lab, host, drive)
    return _made(lab, asked, f"{host}: drives.{drive}.switch", lab.drive_rails(host, drive))


def of_drive(lab: Lab, host: str, drive: str) -> declared.Switch:
    """Return what a drive declares; one that declares nothing is switched by its rails' taps."""
    return lab.hosts[host].drives[drive].switch or declared.Switch(by="tap")


def _made(lab: Lab, asked: declared.Switch, where: str, rails: Iterable[supply.OfDrive] = ()) -> Switch:
    match asked.by:
        case "labgrid":
            return labgrid_outlet.Outlet(asked, where)
        case "ipmi":
            return ipmi.Controller(asked, where)
        case "redfish":
            return redfish.Controller(asked, where)
        case "supply":
            return supply.Outputs(lab, asked, where, rails)
    return program.Programs(lab, asked, where)


def check(lab: Lab, hosts: Iterable[str]) -> None:
    """Check the switches of hosts whose power may be cycled. Raises UserError."""
    for host in hosts:
        if host in lab.hosts and lab.hosts[host].power_cycle:
            host_switch(lab, host)


def check_cut(lab: Lab, host: str, drive: str) -> None:
    """Check that a drive's power can be cut, its host with it. Raises UserError."""
    spec = lab.hosts[host]
    if not spec.drives[drive].rails and not spec.drives[drive].switch:
        raise UserError(
            f"{drive} of {host} has neither rails on a power tap nor a 'switch', so its power cannot be cut"
        )
    drive_switch(lab, host, drive)
    host_switch(lab, host)
