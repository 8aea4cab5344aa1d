# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig bisect PLAYBOOK`: the first kernel that does less work per joule."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from joulerig.analysis.gate.figures import DEFAULT, FIGURES
from joulerig.rig.cli.options import JsonOption, PlaybookArgument, complain, errors, load_lab, out

if TYPE_CHECKING:
    from joulerig.analysis.bisect.search import Search
    from joulerig.rig.bisect.session import Session

UNDECIDED = 1  # exit code


def bisect(
    playbook: PlaybookArgument,
    factor: Annotated[
        str, typer.Option(metavar="FACTOR", help="Whose levels are searched, as written, good to bad.")
    ] = "kernel",
    figure: Annotated[
        str, typer.Option(metavar="FIGURE", help=f"What changes: {', '.join(FIGURES)}.")
    ] = DEFAULT,
    blocks: Annotated[
        int, typer.Option(min=1, max=10_000, help="Most blocks: two levels, each once in each cell.")
    ] = 60,
    restart: Annotated[bool, typer.Option("--restart", help="Begin a new one.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Show how far it has come; measure nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Find the level of a factor, such as a kernel, from which on a figure is another one.

    Goes on where it stopped. Exit code 1: no level was found.
    """
    from joulerig.rig.bisect import session as sessions
    from joulerig.rig.campaign import playbook as playbooks
    from joulerig.rig.common import paths
    from joulerig.rig.controller import services as controller

    described = load_lab()
    asked = sessions.ask(paths.playbook(playbook), described, factor, figure, blocks)
    session = sessions.Session.open(asked, restart=restart and not show)

    shown = errors if as_json else out

    def execute(step: Path, resume: str | None) -> tuple[int, Path | None]:
        try:
            return playbooks.campaign(step, described.inventory, resume, shown)
        except playbooks.Interrupted:
            complain(f"interrupted; 'rig bisect {playbook}' goes on")
            raise typer.Exit(130) from None

    if show:
        found = session.search()
    else:
        controller.check(described)
        found = sessions.finish(session, execute, lambda now: _progress(session, now))
    if as_json:
        print(json.dumps(described_as_json(session, found), indent=1))
    else:
        for line in lines(session, found):
            out.print(line, soft_wrap=True)
    if not show and found.first_bad is None:
        raise typer.Exit(UNDECIDED)


def _progress(session: Session, found: Search) -> None:
    errors.print(lines(session, found)[0], soft_wrap=True)


def lines(session: Session, found: Search) -> list[str]:
    """Return the verdict for a person: how far, which level, and what the figures do there."""
    from joulerig.analysis.bisect.search import Outcome

    levels, budget = session.asked.levels, session.asked.most_blocks
    left = ", ".join(levels[index] for index in found.possible)
    head = f"{found.blocks} of at most {budget} blocks"
    match found.outcome:
        case Outcome.FOUND:
            assert found.first_bad is not None
            bad, good = levels[found.first_bad], levels[found.first_bad - 1]
            seen = f"confirmed by {found.confirming} blocks of these two; " if found.confirming else ""
            first = f"{bad} is the first bad one, {good} the last good one; {seen}{head}"
        case Outcome.ENDS_ALIKE:
            first = f"{levels[0]} and {levels[-1]} do not differ; {head}{_interval(found)}"
        case Outcome.SPREAD:
            first = f"the change is spread over several levels; the largest one may be at {left}; {head}"
        case Outcome.BUDGET_SPENT:
            first = f"not decided: the first bad one is among {left}; {head}"
        case _:
            measured = " and ".join(levels[index] for index in found.measure)
            what = "to confirm" if found.confirming else "next"
            first = f"{head}: the first bad one is among {left}; {what}: {measured}"
    return [first, *(_figure_lines(session, found.first_bad) if found.first_bad else [])]


def _interval(found: Search) -> str:
    from joulerig.rig.bisect.session import percent

    if found.step is None or found.low is None or found.high is None:
        return ""
    return f"; {percent(found.step)} ({percent(found.low)} to {percent(found.high)})"


def _figure_lines(session: Session, first_bad: int) -> list[str]:
    from joulerig.rig.bisect.session import percent

    said = []
    for name, step in figures(session, first_bad).items():
        if step is not None:
            middle, low, high = step
            said.append(f"  {FIGURES[name].title}: {percent(middle)} ({percent(low)} to {percent(high)})")
    return said


def figures(session: Session, first_bad: int) -> dict[str, tuple[float, float, float] | None]:
    """Return the step of each figure at a level, as logarithms with their 95 % interval."""
    from joulerig.analysis.bisect import search

    count = len(session.asked.levels)
    return {
        name: search.step_at(session.blocks(figure), count, first_bad) for name, figure in FIGURES.items()
    }


def described_as_json(session: Session, found: Search) -> dict[str, Any]:
    """Return the verdict, and the campaign of each step."""
    levels = session.asked.levels
    campaigns = [session.campaign(number) for number in range(1, len(session.steps) + 1)]
    steps = {} if found.first_bad is None else figures(session, found.first_bad)
    return {
        "factor": session.asked.factor, "figure": session.asked.figure, "levels": list(levels),
        "outcome": str(found.outcome), "blocks": found.blocks, "most_blocks": session.asked.most_blocks,
        "first_bad": None if found.first_bad is None else levels[found.first_bad],
        "last_good": None if found.first_bad is None else levels[found.first_bad - 1],
        "possible": [levels[index] for index in found.possible],
        "probabilities": dict(zip(levels, found.probabilities, strict=False)),
        "changes": {
            name: dict(zip(("ratio", "low", "high"), map(math.expm1, step), strict=True))
            for name, step in steps.items() if step is not None
        },
        "campaigns": [folder.name if folder else None for folder in campaigns],
    }  # fmt: skip
