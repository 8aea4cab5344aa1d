# SPDX-License-Identifier: GPL-3.0-or-later
"""The power of a test host that hangs, by what its declaration `power_cycle` names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from joulerig.rig.lab import virtual
from joulerig.rig.lab.model import Lab
from joulerig.rig.lab.power import labgrid_outlet


class Switch(Protocol):
    """Switches a host's power. Both methods raise UserError."""

    def off(self) -> None:
        """Cut the power."""

    def on(self) -> None:
        """Restore the power; the host starts."""


class VirtualPlug:
    """The plug of a virtual host: its processors stop, and it is reset and boots (QMP)."""

    def __init__(self, host: str) -> None:
        self._host = host

    def off(self) -> None:
        virtual.stop_host(self._host)

    def on(self) -> None:
        virtual.reset_host(self._host)


def switch(lab: Lab, host: str) -> Switch:
    """Return the switch of a host that declares one. Raises UserError where it cannot be used."""
    asked = lab.hosts[host].power_cycle
    assert asked is not None
    return VirtualPlug(host) if asked.by == "qemu" else labgrid_outlet.Outlet(host, asked)


def check(lab: Lab, hosts: Iterable[str]) -> None:
    """Check that the switches which these hosts declare can be used. Raises UserError."""
    for host in hosts:
        if host in lab.hosts and lab.hosts[host].power_cycle:
            switch(lab, host)
