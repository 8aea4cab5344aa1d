# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a shipped application here, as durawriter does."""

from __future__ import annotations

import subprocess
from pathlib import Path

from joulerig.rig.lab import applications


def transact(name: str, folder: Path, answers: int) -> list[str]:
    """Run an application that is given so many answers; return the lines that it prints."""
    command = [*applications.shipped()[name].command(here=True), "run", str(folder), "7"]
    done = subprocess.run(command, input="ok\n" * answers, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def found_in(name: str, folder: Path) -> tuple[list[str], int]:
    """Return the lines that an application's checker prints, and its exit code."""
    command = [*applications.shipped()[name].command(here=True), "check", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.stdout.splitlines(), done.returncode


def check_contract(name: str, folder: Path) -> None:
    """Assert that an application says what it does line by line, and finds what it committed."""
    lines = transact(name, folder, 40)  # the 41st line has no answer
    assert len(lines) == 41
    assert lines[::2] == [f"begin {number}" for number in range(1, 22)]
    ends = [line.split() for line in lines[1::2]]
    assert {word for word, _ in ends} == {"commit", "rollback"}
    assert [int(number) for _, number in ends] == list(range(1, 21))
    committed = [f"found {number}" for word, number in ends if word == "commit"]
    assert found_in(name, folder) == (committed, 0)
