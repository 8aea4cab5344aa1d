# SPDX-License-Identifier: GPL-3.0-or-later
"""A bisection on disk: what it looks for, and the campaign of each step.

The verdict is not kept: it follows from the steps' journals (`analysis.bisect.search.replay`), so
that a bisection which was killed goes on from what was measured.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from joulerig import atomic
from joulerig.analysis import results
from joulerig.analysis.bisect import search
from joulerig.analysis.bisect.search import Block, Design, Outcome, Search
from joulerig.analysis.gate.figures import FIGURES, Figure
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import Status
from joulerig.rig.campaign import playbook as playbooks
from joulerig.rig.campaign.plan import MeasurementPlan, make_plan
from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.model import Lab

FOLDER = "bisections"  # of the results
FEWEST_LEVELS = 2
# Keys of a playbook that a step's campaign has not.
LEFT_OUT = ("study", "registered", "short", "margin_percent")
MOST_EMPTY = 3  # blocks in a row without two values
Execute = Callable[[Path, str | None], tuple[int, Path | None]]
"""Run a playbook, or resume its campaign; return exit code and folder as `playbooks.campaign`."""


BEGUN = re.compile(r"\d{8}-\d{6}")


@dataclass(frozen=True)
class Asked:
    """What a bisection looks for: a figure's step over a factor's levels, in their order."""

    definition: Mapping[str, Any]
    factor: str
    levels: tuple[str, ...]
    figure: str
    most_blocks: int

    @property
    def design(self) -> Design:
        return Design(len(self.levels), self.most_blocks)

    def as_json(self) -> dict[str, Any]:
        return {
            "definition": dict(self.definition), "factor": self.factor, "levels": list(self.levels),
            "figure": self.figure, "most_blocks": self.most_blocks,
        }  # fmt: skip


def ask(playbook: Path, lab: Lab, factor: str, figure: str, most_blocks: int) -> Asked:
    """Read what to look for from a campaign's playbook. Raises UserError."""
    source = paths.short(playbook)
    definition = playbooks.mapping(playbook)
    plan = make_plan(definition, lab, source)
    if not isinstance(plan, MeasurementPlan):
        raise UserError(f"{source}: is a campaign of power cuts; a bisection needs one that measures")
    levels = [str(level) for level in (definition.get("factors") or {}).get(factor) or []]
    if len(levels) < FEWEST_LEVELS:
        raise UserError(
            f"{source}: factors.{factor}: {', '.join(levels) or 'none'}; allowed: at least"
            f" {FEWEST_LEVELS} levels, from good to bad"
        )
    if figure not in FIGURES:
        raise UserError(f"--figure: {figure}: allowed: {', '.join(FIGURES)}")
    asked = Asked(definition, factor, tuple(levels), figure, most_blocks)
    try:
        asked.design  # noqa: B018 - its limits
    except ValueError as error:
        raise UserError(f"--blocks: {error}") from None
    for pair in itertools.pairwise(levels):  # also of cells that are excluded
        make_plan(step_definition(asked, "check", 1, pair), lab, source)
    return asked


@dataclass
class Session:
    """A bisection and its steps: the levels of each, as indices."""

    asked: Asked
    file: Path
    begun: str
    steps: list[tuple[int, ...]] = field(default_factory=list)

    @classmethod
    def open(cls, asked: Asked, *, restart: bool = False) -> Session:
        """Return the bisection of that name: the one on disk, or a new one. Raises UserError."""
        file = paths.results() / FOLDER / f"{asked.definition['name']}.json"
        begun = f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
        if restart or not file.exists():
            return cls(asked, file, begun)
        try:
            found = json.loads(file.read_text())
            steps = [tuple(int(level) for level in step) for step in found["steps"]]
            begun, known = str(found["begun"]), found["asked"]
            if not BEGUN.fullmatch(begun):
                raise ValueError(f"begun: {begun!r:.40} is no time")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"{paths.short(file)}: cannot be read: {error}; --restart begins a new one"
            ) from None
        if known != json.loads(json.dumps(asked.as_json())):
            raise UserError(
                f"{paths.short(file)}: looks for something else, or the playbook was changed; restore it,"
                " or begin a new one by --restart"
            )
        return cls(asked, file, begun, steps)

    def blocks(self, figure: Figure | None = None) -> list[Block]:
        """Return what was measured, by step; of the figure that is looked for, or of another.

        A step without a campaign, or with one that has not ended, is not among them.
        """
        wanted = figure or FIGURES[self.asked.figure]
        found = []
        for number, step in enumerate(self.steps, start=1):
            folder = self.campaign(number)
            loaded = folder and results.load(folder)
            if loaded and loaded.finished_ns is not None:
                found.append(_block(loaded, self.asked, step, wanted))
        return found

    def search(self) -> Search:
        """Return how far it has come, by what was measured."""
        return search.replay(self.blocks(), self.asked.design)

    def campaign(self, number: int) -> Path | None:
        """Return the results of a step; None where it has not begun."""
        pattern = f"{self.step_name(number)}-*/journal.sqlite"
        return next((path.parent for path in sorted(paths.results().glob(pattern))), None)

    def step_name(self, number: int) -> str:
        return f"{self.asked.definition['name']}-{self.begun}-{number:03d}"

    def advance(self, execute: Execute) -> Search:
        """Measure the next block, or what is left of one that was interrupted; return the search.

        Raises UserError where the campaign of a step does not come to its end.
        """
        blocks = self.blocks()
        if len(blocks) == len(self.steps):
            self.steps.append(search.replay(blocks, self.asked.design).measure)
            self._keep()
        number = len(self.steps)
        begun = self.campaign(number)
        name, levels = self.step_name(number), [self.asked.levels[level] for level in self.steps[-1]]
        playbook = self.file.with_suffix("") / f"{name}.yml"
        atomic.make_folder(playbook.parent)
        _write(playbook, step_definition(self.asked, name, number, levels))
        code, folder = execute(playbook, begun.name if begun else None)
        blocks = self.blocks()
        if len(blocks) < number:
            said = f" (exit code {code})" if code else ""
            where = paths.short(folder) if folder else name
            raise UserError(f"{where}: did not come to its end{said}; the same command goes on with it")
        if len(blocks) >= MOST_EMPTY and all(len(one.values) < FEWEST_LEVELS for one in blocks[-MOST_EMPTY:]):
            raise UserError(
                f"{name}: the last {MOST_EMPTY} blocks have no two values to compare: see 'rig results'"
            )
        return search.replay(blocks, self.asked.design)

    def _keep(self) -> None:
        atomic.make_folder(self.file.parent)
        content = {"begun": self.begun, "asked": self.asked.as_json(), "steps": [list(s) for s in self.steps]}
        atomic.write(self.file, json.dumps(content, indent=1).encode())


def finish(session: Session, execute: Execute, report: Callable[[Search], object]) -> Search:
    """Measure until the search has ended; `report` each state."""
    found = session.search()
    while found.outcome is Outcome.GOES_ON:
        report(found)
        found = session.advance(execute)
    return found


def step_definition(asked: Asked, name: str, number: int, levels: Sequence[str]) -> dict[str, Any]:
    """Return the campaign of a step: one block, in which the levels are next to each other."""
    made = copy.deepcopy({key: value for key, value in asked.definition.items() if key not in LEFT_OUT})
    made["factors"][asked.factor] = list(levels)
    seed = int(asked.definition.get("seed", 1)) + number
    return {**made, "name": name, "replicates": 1, "order": "random", "seed": seed}


def _write(path: Path, definition: Mapping[str, Any]) -> None:
    play = {
        "name": "A step of a bisection",
        "ansible.builtin.import_playbook": str(paths.share() / "playbooks" / "campaign.yml"),
        "vars": {"campaign": dict(definition)},
    }
    atomic.write(path, yaml.safe_dump([play], sort_keys=False).encode())


def _block(campaign: Campaign, asked: Asked, step: Sequence[int], figure: Figure) -> Block:
    """Return the mean logarithm over a level's cells, of each level all of whose cells have one."""
    values: dict[int, float] = {}
    for index in step:
        runs = [
            run
            for run in campaign.without_controls.runs
            if _level(run, asked.factor) == asked.levels[index] and run.status != Status.EXCLUDED
        ]
        found = [figure.of(run) for run in runs]
        if runs and None not in found:
            values[index] = fmean(math.log(value) for value in found if value is not None)
    return Block(values)


def _level(run: Run, factor: str) -> str:
    return str(run.factors.get(factor, getattr(run, factor, "")))


def percent(logarithm: float) -> str:
    """Return a step as a change in per cent: "-4.2 %"."""
    return re.sub(r"^-(0\.0+) ", r"\1 ", f"{100 * math.expm1(logarithm):+.1f} %")
