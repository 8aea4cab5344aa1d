# SPDX-License-Identifier: GPL-3.0-or-later
"""Check an application in every state that a power cut may leave its drive in, up to a budget.

Each state is an image, which is mounted by a loop device of this machine, as after a power cut, and
read by the application's checker.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from joulerig.analysis.powercut import transactions, write_log
from joulerig.analysis.powercut.crash_states import Chosen, choose, epochs
from joulerig.analysis.powercut.transactions import BROKEN
from joulerig.analysis.powercut.write_log import Write
from joulerig.plural import counted
from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError

TOKEN = "0" * 32  # of the only recording on its drive
SECONDS = 120.0  # for mounting or reading one state
MANY = 10**6  # from here on a number of states is shown rounded
SHOWN = 10  # broken states that are described


@dataclass(frozen=True)
class Broken:
    """A state in which a promise is broken: which of `volatile` writes had landed."""

    epoch: int
    landed: tuple[int, ...]
    volatile: int
    what: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"before flush {self.epoch + 1}, {len(self.landed)} of {counted(self.volatile, 'volatile write')}"
            f" landed: {', '.join(self.what)}"
        )


@dataclass
class Found:
    """What came out: `possible` is the number of states, which are the budget's at most."""

    epochs: int = 0
    possible: int = 0
    states: int = 0
    acknowledged: int = 0
    unmountable: int = 0
    fates: Counter[str] = field(default_factory=Counter)
    broken: list[Broken] = field(default_factory=list)

    @property
    def statement(self) -> str:
        possible = str(self.possible) if self.possible < MANY else f"{self.possible:.2g}"
        tried = f"{self.states} of {possible} states before {counted(self.epochs, 'flush', 'flushes')}"
        if not self.broken:
            return (
                f"no promise is broken in {tried} ({counted(self.acknowledged, 'transaction')} acknowledged)."
            )
        fates = ", ".join(f"{number} {fate}" for fate, number in sorted(self.fates.items()))
        return f"breaks its promise in {len(self.broken)} of {tried}: transactions {fates}."

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "broken": [vars(one) for one in self.broken], "statement": self.statement}


def writer(action: str, application: Sequence[str]) -> list[str]:
    """Return the command by which the writer runs or checks an application on this machine."""
    words = [word for one in application for word in ("--application", one)]
    program = str(paths.program("durawriter"))
    return [program, action, "--campaign", TOKEN, "--generation", "1", *words]


def check(
    log: Path,
    size_bytes: int,
    definition: Mapping[str, Any],
    application: Sequence[str],
    budget: int,
    seed: int,
    progress: Callable[[int], object] = lambda states: None,
) -> Found:
    """Check the states of a log. Raises UserError, WriteLogError."""
    found = Found()
    everything = list(epochs(write_log.read(log)))
    chosen = choose(everything, budget, seed)
    if not chosen:
        raise UserError(f"{log}: no mark 'begin N' in it: no transaction to check")
    begun = [one for one in everything if one.has_begun]
    found.epochs, found.possible = len(begun), sum(2 ** len(one.volatile) for one in begun)
    found.acknowledged = len(begun[-1].known.acknowledged)
    with tempfile.TemporaryDirectory(prefix="states-", dir=paths.run()) as folder:
        base = Path(folder) / "durable"
        with base.open("wb") as image:
            image.truncate(size_bytes)
        at = 0
        for one in chosen:
            with base.open("r+b") as image:
                for epoch in everything[at : one.number + 1]:
                    _apply(image, epoch.durable)
            at = one.number + 1
            for landed in one.landed:
                _check_state(found, base, one, landed, definition, application)
                progress(found.states)
    return found


def _apply(image: Any, writes: Sequence[Write]) -> None:
    for write in writes:
        image.seek(write.offset)
        image.write(write.data)


def _check_state(
    found: Found,
    base: Path,
    chosen: Chosen,
    landed: tuple[int, ...],
    definition: Mapping[str, Any],
    application: Sequence[str],
) -> None:
    image = base.with_name("state")
    subprocess.run(["cp", "--sparse=always", str(base), str(image)], check=True)
    with image.open("r+b") as file:
        _apply(file, [chosen.epoch.volatile[number] for number in landed])
    with contextlib.ExitStack() as undo:
        folder = _mount(undo, image, definition)
        found.states += 1
        found.unmountable += folder is None
        survey = _read(writer("survey", application), folder) if folder else ""
    fates = list(transactions.judge(chosen.epoch.known, transactions.parse(survey)))
    broken = [(number, fate) for number, fate in fates if fate in BROKEN]
    if broken:
        found.fates.update(str(fate) for _, fate in broken)
        what = tuple(f"{number} {fate}" for number, fate in broken)
        found.broken.append(Broken(chosen.number, landed, len(chosen.epoch.volatile), what))


def _mount(undo: contextlib.ExitStack, image: Path, definition: Mapping[str, Any]) -> str | None:
    """Mount an image, which replays its journal; return where, None if it cannot be.

    Programs that run as another user reach it.
    """
    folder = undo.enter_context(tempfile.TemporaryDirectory(prefix="joulerig-mount-"))
    options = ",".join(["loop", *definition["mount_options"]])
    command = ["mount", "-t", definition["type"], "-o", options, str(image), folder]
    if subprocess.run(command, capture_output=True, timeout=SECONDS).returncode:
        return None
    undo.callback(subprocess.run, ["umount", folder], check=True, timeout=SECONDS)
    return folder


def _read(command: Sequence[str], folder: str) -> str:
    done = subprocess.run(
        [*command, "--directory", folder], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=SECONDS, check=False,
    )  # fmt: skip
    if done.returncode:
        raise UserError(f"read back: {done.stderr.strip()}")
    return done.stdout


def lines(found: Found) -> Iterator[str]:
    """Yield what is shown: the statement, and the first broken states."""
    yield found.statement
    yield from (f"  {one}" for one in found.broken[:SHOWN])
    if len(found.broken) > SHOWN:
        yield f"  and {len(found.broken) - SHOWN} more"
    if found.unmountable:
        yield f"  {counted(found.unmountable, 'state')} could not be mounted"
