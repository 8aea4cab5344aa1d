# SPDX-License-Identifier: GPL-3.0-or-later
"""What the sub-commands share: the terminal, common options, the lab."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ParamSpec

import typer

from joulerig.rig.cli.terminal import Terminal
from joulerig.rig.common.bounded import printable

if TYPE_CHECKING:
    from joulerig.rig.lab.model import Lab

P = ParamSpec("P")

out = Terminal(width=None if sys.stdout.isatty() else 120)
errors = Terminal(stderr=True)

CampaignArgument = Annotated[
    str | None, typer.Argument(metavar="[CAMPAIGN]", help="Campaign id (default: the newest).")
]
PlaybookArgument = Annotated[
    Path, typer.Argument(help="A campaign's playbook, or the name of a shipped one.")
]
ShortOption = Annotated[bool, typer.Option("--short", help="Run the campaign's short form.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def finite(value: float | None) -> float | None:
    """Refuse a number that is none, which is neither above a least nor below a greatest one."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value}; allowed: a number")
    return value


def complain(text: str) -> None:
    """Print a text as one line of `rig` to stderr."""
    errors.print(f"rig: {printable(text)}", soft_wrap=True)


def load_lab() -> Lab:
    """Return the lab that the inventory describes. Raises UserError."""
    from joulerig.rig.lab import model

    return model.load()


def alone(name: str) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Let a command start or stop the lab's processes only while nothing else needs them.

    That is another command of this decorator, as each would stop what the other starts, or a
    campaign that is executed. Raises UserError.
    """

    def decorated(command: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(command)
        def executed(*args: P.args, **options: P.kwargs) -> None:
            from joulerig.rig.campaign import hosts
            from joulerig.rig.common import files, paths

            with files.sole(paths.run() / "lab.lock", name):
                hosts.raise_if_executing(name)
                command(*args, **options)

        return executed

    return decorated
