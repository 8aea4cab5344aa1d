# SPDX-License-Identifier: GPL-3.0-or-later
"""The twins of a lab's drives: how one is started, and what its control socket reports.

The module is a `TruthSource` (rig/lab/virtual.py): `state` and `history` are its two methods.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from joulerig.rig.common import paths, supervisor, wait
from joulerig.rig.common.errors import RIG_UP, UserError
from joulerig.rig.lab.model import Drive
from joulerig.virtuallab import nvme, profile, twin_parameters
from joulerig.virtuallab.clock import shared

REPLY_SECONDS = 5.0


def control_socket(host: str, drive: str) -> Path:
    """Return the path of a twin's control socket (docs/reference/protocols/twin.md)."""
    return paths.run() / f"{host}-{drive}.control"


def nbd_socket(host: str, drive: str) -> Path:
    """Return the path of the socket on which a twin serves its drive."""
    return paths.run() / f"{host}-{drive}.nbd"


def state(host: str, drive: str) -> dict[str, Any]:
    """Return what a twin draws, has counted and reports of its health now. Raises UserError."""
    return request(control_socket(host, drive), "state")


def history(host: str, drive: str, instants_ns: Sequence[int]) -> dict[str, Any]:
    """Return a twin's joules and counters at each of `instants_ns` (UTC). Raises UserError.

    A twin that was restarted does not know the time before, and refuses.
    """
    return request(control_socket(host, drive), f"history {' '.join(map(str, instants_ns))}")


def request(path: Path, line: str) -> dict[str, Any]:
    """Send a request to the twin with the control socket `path`; return its reply.

    Raises UserError.
    """
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(REPLY_SECONDS)
            connection.connect(str(path))
            connection.sendall(line.encode() + b"\n")
            with connection.makefile("rb") as stream:
                reply: dict[str, Any] = json.loads(stream.readline())
    except (FileNotFoundError, ConnectionRefusedError):
        raise UserError(f"{paths.short(path)}: the twin does not answer; {RIG_UP}") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{paths.short(path)}: the twin does not answer: {error}") from None
    if "error" in reply:
        raise UserError(f"{paths.short(path)}: {line.split()[0]}: {reply['error']}")
    return reply


def command(
    model: profile.Profile, nbd: Path, control: Path, backing: Path, size_bytes: int, serial: str
) -> list[str]:
    """Return the command that runs a twin of `model`."""
    return [
        "nbdkit", "--foreground", "--exit-with-parent", "--threads", str(twin_parameters.THREADS),
        "--unix", str(nbd),
        str(paths.program("nbdkit-twin-plugin.so")), f"file={backing}", f"size={size_bytes}",
        f"serial={serial}", f"control={control}", *twin_parameters.from_profile(model),
    ]  # fmt: skip


def listens(nbd: Path, control: Path) -> bool:
    """Return whether a twin accepts connections on both of its sockets."""
    return wait.listens(control) and wait.listens(nbd)


def process(
    host: str,
    name: str,
    drive: Drive,
    folder: Path,
    profiles: Mapping[str, profile.Profile] | None = None,
    *,
    is_controller: bool = False,
) -> supervisor.Program:
    """Describe the process of a drive's twin, whose backing file lies in `folder`.

    `profiles`: those that the drive can name; by default the shipped ones. `is_controller`: it is
    the NVMe controller that the host sees. Raises UserError.
    """
    where = f"host_vars/{host}.yml: drives.{name}"
    model = profile.load(drive.profile or "", f"{where}.profile", profiles)
    if missing := set(drive.rails) - set(model.rails):
        raise UserError(
            f"{where}.rails: profile {drive.profile!r} has no rail {min(missing)!r};"
            f" allowed: {', '.join(model.rails)}"
        )
    interface = "nvme" if drive.interface == "nvme" else "sata"
    if interface != model.interface or drive.plp != model.plp:
        raise UserError(
            f"{where}: interface {drive.interface!r}, plp {drive.plp}: profile {drive.profile!r} is"
            f" {model.interface}, plp {model.plp}"
        )
    backing = folder / f"{host}-{name}.img"
    backing.parent.mkdir(parents=True, exist_ok=True)
    control, nbd = control_socket(host, name), nbd_socket(host, name)
    return supervisor.Program(
        f"twin-{host}-{name}",
        command(model, nbd, control, backing, drive.size_bytes, drive.serial)
        + (nvme.parameters(host, name, drive, model) if is_controller else []),
        ready=lambda: listens(nbd, control),
        priority=100,
        restart=False,
        sockets=(nbd, control),
        environment=shared.environment(),
    )
