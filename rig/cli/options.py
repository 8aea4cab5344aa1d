# SPDX-License-Identifier: GPL-3.0-or-later
"""What the sub-commands share: the terminal, common options, the lab."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ParamSpec

import typer
from rich.console import Console

if TYPE_CHECKING:
    from joulerig.rig.lab.model import Lab

P = ParamSpec("P")

out = Console(highlight=False, width=None if sys.stdout.isatty() else 120)

CampaignArgument = Annotated[
    str | None, typer.Argument(metavar="[CAMPAIGN]", help="Campaign id (default: the newest).")
]
PlaybookArgument = Annotated[
    Path, typer.Argument(help="A campaign's playbook, or the name of a shipped one.")
]
ShortOption = Annotated[bool, typer.Option("--short", help="Run the campaign's short form.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def load_lab() -> Lab:
    """Return the lab that the inventory describes. Raises UserError."""
    from joulerig.rig.lab import model

    return model.load()


def alone(name: str) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Let a command work only while no other of this decorator starts or stops the lab's processes.

    Two at once would each stop what the other starts. Raises UserError.
    """

    def decorated(command: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(command)
        def executed(*args: P.args, **options: P.kwargs) -> None:
            from joulerig.rig.common import files, paths

            with files.sole(paths.run() / "lab.lock", name):
                command(*args, **options)

        return executed

    return decorated
