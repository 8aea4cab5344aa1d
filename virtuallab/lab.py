# SPDX-License-Identifier: GPL-3.0-or-later
"""Start, stop and inspect the virtual lab: twins, power taps, test hosts."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from joulerig.rig.common import paths, supervisor, wait
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import packages
from joulerig.rig.lab.model import Lab, TestHost, VirtualHost
from joulerig.virtuallab import accelerator, hosts, image, nvme, profile, taps, twins
from joulerig.virtuallab.clock import calibration, shared

PROCESSES = ("host-", "tap-", "twin-", "lab-clock")  # what the names of the lab's processes begin with


def folder() -> Path:
    """Return the folder in which the virtual lab keeps its drives, disks and keys."""
    return paths.var() / "lab"


def up(lab: Lab, report: Callable[[str], object] = print) -> None:
    """Start the virtual lab and wait until its hosts answer over SSH.

    What runs already is left alone. Raises UserError.
    """
    virtual = _virtual_hosts(lab)
    for program in ("nbdkit", "qemu-system-x86_64", "qemu-img"):
        if not shutil.which(program):
            raise UserError(f"{program}: not found; 'make setup' gets it")
    for built in ("nbdkit-twin-plugin.so", "power_tap", shared.LIBRARY):
        if not paths.program(built).exists():
            raise UserError(f"{paths.short(paths.program(built))}: not built; 'make build' builds it")
    profiles = profile.load_all(lab)
    releases = _releases(virtual)
    images = build_images(lab, report)
    hosts.make_keys(folder())
    how = accelerator.choose(next(iter(images.values())))
    if how == "kvm":
        shared.remove()
    else:
        shared.prepare()
    supervisor.start(
        twins.process(name, key, drive, folder() / "drives", profiles, is_controller=key in nvme.drives(host))
        for name, host in virtual.items()
        for key, drive in host.twins.items()
    )
    supervisor.start(taps.process(lab, tap) for tap in taps.names(lab))
    if how != "kvm":
        supervisor.start([_clock_keeper(virtual)])
    states = supervisor.states()
    booting = [name for name in virtual if states.get(hosts.process_name(name)) != "RUNNING"]
    for suite, guest in images.items():
        if names := [name for name in booting if releases[name] == suite]:
            report(f"booting {', '.join(names)} under {how.upper()} (kernel {guest.release})")
    supervisor.start(
        hosts.process(name, host, images[releases[name]], how, folder(), profiles)
        for name, host in virtual.items()
    )
    hosts.write_ssh_config(folder(), virtual)
    for name in virtual:
        hosts.await_ssh(folder(), name, report)
    for name in booting:
        calibration.keep(folder() / name, calibration.measure(how, ssh_command(name)))


def build_images(lab: Lab, report: Callable[[str], object] = print) -> dict[str, image.Image]:
    """Return the image of each release that the lab's hosts have; build those that the cache lacks.

    Raises UserError.
    """
    wanted = packages.for_guests(lab)
    suites = sorted(set(_releases(_virtual_hosts(lab)).values()))
    return {suite: image.build(wanted, suite, report) for suite in suites}


def _virtual_hosts(lab: Lab) -> dict[str, TestHost]:
    """Return the lab's virtual hosts. Raises UserError where it has none."""
    virtual = {name: host for name, host in lab.hosts.items() if host.virtual}
    if not virtual:
        raise UserError(f"{paths.short(lab.inventory)}: describes no virtual host")
    return virtual


def _releases(virtual: Mapping[str, TestHost]) -> dict[str, str]:
    return {name: (host.virtual or VirtualHost()).release for name, host in virtual.items()}


def _clock_keeper(names: Iterable[str]) -> supervisor.Program:
    """Describe the process that slows the lab's clock down while a host asks for it."""
    sockets = {name: hosts.clock_socket(name) for name in names}
    command = [sys.executable, "-m", "joulerig.virtuallab.clock.keeper", "--page", str(shared.page())]
    for name, socket in sockets.items():
        command += ["--listen", f"{name}={socket}"]
    return supervisor.Program(
        "lab-clock", command, ready=lambda: all(map(wait.listens, sockets.values())), priority=250
    )


def processor(host: str) -> calibration.Processor | None:
    """Return how fast a host's processor was when it booted; None where it never did."""
    return calibration.kept(folder() / host) if paths.has_state() else None


def down() -> list[str]:
    """Shut down and stop the virtual lab; return the names of its processes.

    Its drives keep their data.
    """
    hosts.shut_down(folder())
    return supervisor.stop(lambda name: name.startswith(PROCESSES))


def is_up(lab: Lab) -> bool:
    """Return whether every virtual host's process runs."""
    if not paths.has_state():
        return False
    states = supervisor.states()
    names = [hosts.process_name(name) for name, host in lab.hosts.items() if host.virtual]
    return all(states.get(name) == "RUNNING" for name in names)


def status(lab: Lab) -> dict[str, dict[str, Any]]:
    """Return the state of each process, and each twin's reply to `state`.

    A reply is None where a twin gives none.
    """
    states = {name: state for name, state in supervisor.states().items() if name.startswith(PROCESSES)}
    replies: dict[str, Any] = {}
    for host, spec in lab.hosts.items():
        for drive in spec.twins:
            try:
                replies[f"{host}/{drive}"] = twins.state(host, drive)
            except UserError:
                replies[f"{host}/{drive}"] = None
    return {"processes": states, "twins": replies}


def ssh_command(host: str) -> list[str]:
    """Return the command that logs in to a virtual host."""
    return hosts.ssh_command(folder(), host)
