# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig hosts discover`: write a host's host_vars from what the host itself reads."""

from __future__ import annotations

from typing import Annotated

import typer

from joulerig.plural import counted
from joulerig.rig.cli.hosts.command import HostArgument
from joulerig.rig.cli.options import errors, out


def discover(
    host: HostArgument,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    show: Annotated[bool, typer.Option("--print", help="Print the file; write nothing.")] = False,
) -> None:
    """Write host_vars/HOST.yml from what a host says of its drives, for a person to review.

    Nothing on the host is changed, and no drive in the file is wiped before it is adopted.
    """
    from joulerig.rig.common import paths
    from joulerig.rig.doctor import discover as discovery

    found, path = discovery.file_of(None, host)
    one = discovery.discover(found, host)
    if show:
        out.print(one.text, end="", soft_wrap=True)
        for line in one.left_out:
            errors.print(f"{host}: left out: {line}", soft_wrap=True)
        return
    discovery.write(path, one, force=force)
    lines = [f"{host}: {counted(len(one.drives), 'drive')} written to {paths.short(path)}"]
    lines += [f"{host}: left out: {line}" for line in one.left_out]
    lines += [
        f"look through the file, then 'rig doctor {host}', 'rig up', 'rig drives look {host}' and"
        f" 'rig drives adopt {host} DRIVE'"
    ]
    for line in lines:
        out.print(line, soft_wrap=True)
