# SPDX-License-Identifier: GPL-3.0-or-later
"""The virtual lab as `rig` sees it: the one module of `rig` that knows `joulerig.virtuallab`.

Each function imports the virtual lab when it is called, and answers for a physical lab or host
without it. A bench therefore never loads code that starts QEMU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from joulerig.rig.lab import packages as needed
from joulerig.rig.lab.model import Lab


class TruthSource(Protocol):
    """The exact figures of virtual drives, against which measurements are checked.

    Both methods raise UserError where the drive's twin does not answer. The replies are those of
    docs/reference/protocols/twin.md ("Twin").
    """

    def state(self, host: str, drive: str) -> dict[str, Any]:
        """Return what the drive draws, has counted and lost until now, and its health."""
        ...

    def history(self, host: str, drive: str, instants_ns: Sequence[int]) -> dict[str, Any]:
        """Return joules and counters at each of `instants_ns` (UTC); lists in the same order."""
        ...


def up(lab: Lab, report: Callable[[str], object]) -> None:
    """Start the virtual lab and wait for its hosts. Raises UserError, also where there is none."""
    from joulerig.virtuallab import lab as virtuallab

    virtuallab.up(lab, report)


def down() -> list[str]:
    """Stop the virtual lab; return the names of its processes."""
    from joulerig.virtuallab import lab as virtuallab

    return virtuallab.down()


def is_up(lab: Lab) -> bool:
    """Return whether every host of the virtual lab runs."""
    from joulerig.virtuallab import lab as virtuallab

    return virtuallab.is_up(lab)


def status(lab: Lab) -> dict[str, dict[str, Any]]:
    """Return the virtual lab's `processes` with their states, and its `twins` with their power."""
    from joulerig.virtuallab import lab as virtuallab

    return virtuallab.status(lab)


def ssh_command(host: str) -> list[str]:
    """Return the command that logs in to a virtual host."""
    from joulerig.virtuallab import lab as virtuallab

    return virtuallab.ssh_command(host)


def missing_packages(lab: Lab, host: str, packages: Iterable[str]) -> list[str]:
    """Return those of `packages` that a host can't have.

    The image of a virtual host holds all that it ever has; a physical host installs what is
    missing.
    """
    if not lab.hosts[host].virtual:
        return []
    from joulerig.virtuallab import image

    there = {*image.PACKAGES, *needed.for_guests(lab)}
    return [name for name in packages if name not in there]


def truth_source(lab: Lab, host: str) -> TruthSource | None:
    """Return the exact figures of a host's drives; None for a physical host."""
    if not lab.hosts[host].virtual:
        return None
    from joulerig.virtuallab import twins

    return twins


def stop_host(host: str) -> None:
    """Stop a virtual host's processors at once, as a power failure does. Raises UserError."""
    from joulerig.virtuallab import hosts

    hosts.stop(host)


def reset_host(host: str) -> None:
    """Let a stopped virtual host boot. Raises UserError."""
    from joulerig.virtuallab import hosts

    hosts.reset(host)


def guest_module() -> str:
    """Return the C source of the kernel module that virtual hosts need."""
    from joulerig.virtuallab import image

    return image.GUEST
