# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig measure -- COMMAND`: joules, watts and I/O of drives while a command runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from joulerig.rig.cli.options import JsonOption, errors, load_lab, out
from joulerig.rig.common.errors import UserError

if TYPE_CHECKING:
    from joulerig.rig.cli.measure.measured import DriveEnergy
    from joulerig.rig.lab.model import Lab


def measure(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="The command.")],
    on: Annotated[
        str, typer.Option(metavar="HOST", help="Test host to execute it on (default: this machine).")
    ] = "",
    drive: Annotated[
        list[str] | None,
        typer.Option(metavar="[HOST/]DRIVE", help="Drive to measure (default: all with rails)."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Execute a command and show what drives drew meanwhile; ends with the exit code of it."""
    from joulerig.rig.cli.measure import measured

    lab = load_lab()
    host, drives = chosen(lab, on, drive or [])
    done = measured.on_host(command, lab, on) if on else measured.here(command, lab)
    if done.output:
        errors.print(done.output.removesuffix("\n"), soft_wrap=True)
    found = measured.energies(lab, host, drives, done.phase, done.clock_steps)
    if as_json:
        print(measured.as_json(command, on or "controller", host, done, found))
    else:
        for one in found:
            out.print(line(one, done.phase.seconds), soft_wrap=True)
    raise typer.Exit(done.code)


def chosen(lab: Lab, on: str, names: list[str]) -> tuple[str, list[str]]:
    """Return the host, and its drives that are measured. Raises UserError."""
    if on and on not in lab.hosts:
        raise UserError(f"--on {on!r}: is no test host; allowed: {', '.join(lab.hosts)}")
    hosts = {name.partition("/")[0] for name in names if "/" in name} | ({on} if on else set())
    if not hosts and len(lab.hosts) == 1:
        hosts = set(lab.hosts)
    if len(hosts) != 1:
        allowed = ", ".join(lab.hosts)
        raise UserError(f"--drive: name the drives of one host, as HOST/DRIVE; hosts: {allowed}")
    [host] = hosts
    if host not in lab.hosts:
        raise UserError(f"--drive: {host!r} is no test host; allowed: {', '.join(lab.hosts)}")
    known = {**lab.hosts[host].drives, **lab.hosts[host].arrays}
    drives = list(dict.fromkeys(name.rpartition("/")[2] for name in names))
    for name in drives:
        if name not in known:
            raise UserError(f"--drive {name!r}: is no drive of {host}; allowed: {', '.join(known)}")
    drives = drives or [name for name, spec in lab.hosts[host].drives.items() if spec.rails]
    if not drives:
        raise UserError(f"{host}: none of its drives has a rail; allowed with --drive: {', '.join(known)}")
    return host, drives


def line(found: DriveEnergy, seconds: float) -> str:
    """Return what a drive drew and did in one line."""
    if found.joules is None:
        words = f"no joules: {'; '.join(found.why)}"
    else:
        bounds = "no bounds"
        if found.joules_low is not None and found.joules_high is not None:
            bounds = f"[{found.joules_low:.6g}, {found.joules_high:.6g}]"
        words = f"{found.joules:.6g} J {bounds}, {found.joules / seconds:.4g} W for {seconds:.3f} s"
        words += "".join(f" ({one})" for one in found.why)
    if io := found.io:
        words += f", {io['reads']} reads ({io['read_bytes'] / 1e6:.4g} MB)"
        words += f", {io['writes']} writes ({io['write_bytes'] / 1e6:.4g} MB), {io['flushes']} flushes"
    return f"{found.drive}: {words}"
