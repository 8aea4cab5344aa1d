# SPDX-License-Identifier: GPL-3.0-or-later
"""The virtual lab as `rig` sees it: the one module of `rig` that knows `joulerig.virtuallab`.

Each function imports the virtual lab when it is called, and answers for a physical lab or host
without it. A bench therefore never loads code that starts QEMU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from joulerig.rig.lab import packages as needed
from joulerig.rig.lab.model import Lab

ASSUMED_SLOWNESS = 20.0  # of a virtual host under TCG, before it is measured


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


def build_images(lab: Lab, report: Callable[[str], object]) -> None:
    """Build the images of the virtual lab's hosts. Raises UserError, also where there is none."""
    from joulerig.virtuallab import lab as virtuallab

    virtuallab.build_images(lab, report)


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


def clock_environment(lab: Lab) -> dict[str, str]:
    """Return the variables by which a program of the controller has the virtual lab's clock.

    A physical lab has the machine's clock, and so has a virtual lab under KVM.
    """
    if not lab.virtual:
        return {}
    from joulerig.virtuallab.clock import shared

    return shared.environment()


def clock(*, is_virtual: bool) -> Callable[[], int]:
    """Return what gives a lab's time, ns since 1970 UTC; of a physical lab the machine's."""
    if not is_virtual:
        return time.time_ns
    from joulerig.virtuallab.clock import shared

    return shared.now_ns


def slowness(lab: Lab, host: str, asked: float | Literal["auto"]) -> float:
    """Return how long (s) a second of the lab lasts while a run of a host is measured.

    `asked`: what its campaign asks for; `auto`: so that the host is as fast as this machine. 1 for
    a physical host, and under KVM; of a virtual host that never booted, an assumption.
    """
    if not lab.hosts[host].virtual:
        return 1.0
    from joulerig.virtuallab import lab as virtuallab

    found = virtuallab.processor(host)
    if found and found.accelerator == "kvm":
        return 1.0
    if asked == "auto":
        return found.slowness if found else ASSUMED_SLOWNESS
    return asked


def processors(lab: Lab) -> dict[str, dict[str, Any]]:
    """Return how fast each virtual host's processor is, of those that have booted.

    Keys: accelerator, guest_seconds and machine_seconds of one loop, slowness (their ratio).
    """
    hosts = [name for name, host in lab.hosts.items() if host.virtual]
    if not hosts:
        return {}
    from joulerig.virtuallab import lab as virtuallab

    known = {name: virtuallab.processor(name) for name in hosts}
    return {name: {**vars(one), "slowness": one.slowness} for name, one in known.items() if one}


def slowness_now(*, is_virtual: bool = True) -> float:
    """Return how long (s) a second of the virtual lab lasts now; of a physical lab 1."""
    if not is_virtual:
        return 1.0
    from joulerig.virtuallab.clock import shared

    return shared.slowness()


def mean_slowness(lab: Lab, intervals: Sequence[tuple[int, int]]) -> list[float | None]:
    """Return how long (s) a second of the lab lasted, on average, in each interval (ns UTC).

    1 in a physical lab; None where it is not known.
    """
    if not lab.virtual:
        return [1.0] * len(intervals)
    from joulerig.virtuallab.clock import shared

    return shared.mean_slowness(intervals)


def missing_packages(lab: Lab, host: str, packages: Iterable[str]) -> list[str]:
    """Return those of `packages` that a host can't have.

    The image of a virtual host holds all that it ever has, save what its release lacks; a physical
    host installs what is missing.
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


def record_writes(
    profile: str,
    size_bytes: int,
    definition: Mapping[str, Any],
    command: Sequence[str],
    transactions: int,
    seed: int,
    log: Path,
) -> int:
    """Log what the writer's `command` writes to a twin; return the acknowledged transactions.

    Raises UserError, also where this machine has no loop devices.
    """
    from joulerig.virtuallab.blocklog import record

    return record.record(profile, size_bytes, definition, command, transactions, seed, log)


def settle_seconds(lab: Lab, host: str, drive: str) -> float | None:
    """Return how long a virtual drive takes to come to rest, by its profile; None: of no other."""
    spec = lab.hosts[host].drives[drive]
    if spec.profile is None:
        return None
    from joulerig.virtuallab import profile

    return profile.load(spec.profile, known=profile.load_all(lab)).settle_seconds(spec.size_bytes)


def stop_host(host: str) -> None:
    """Stop a virtual host's processors at once, as a power failure does. Raises UserError."""
    from joulerig.virtuallab import hosts

    hosts.stop(host)


def reset_host(host: str) -> None:
    """Let a stopped virtual host boot. Raises UserError."""
    from joulerig.virtuallab import hosts

    hosts.reset(host)


def fit_table(path: Path, base: str, description: str) -> dict[str, Any]:
    """Fit a twin's profile to a CSV table of a drive's rates and watts. Raises UserError.

    Returns what `joulerig.virtuallab.fit.report.fit_table` says.
    """
    from joulerig.virtuallab.fit import report

    return report.fit_table(path, base, description)


def fit_loads(
    loads: Iterable[tuple[Mapping[str, object], Mapping[str, float]]],
    base: str,
    description: str,
    source: str,
) -> dict[str, Any]:
    """Fit a twin's profile to loads, each a table's cells by column and watts by rail.

    As `fit_table`; `source` says what they are. Raises UserError.
    """
    from joulerig.virtuallab.fit import report

    return report.fit_loads(loads, base, description, source)


def guest_module() -> str:
    """Return the C source of the module that a kernel of virtual hosts needs before Linux 6.11."""
    from joulerig.virtuallab import image

    return image.GUEST
