# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest that hangs at boot is recognised by a console that stands still."""

from __future__ import annotations

import itertools
from pathlib import Path

from joulerig.virtuallab import hosts


def test_a_guest_that_answers_is_up(tmp_path: Path):
    answers = iter([False, False, True])
    assert hosts.await_boot(lambda: next(answers), tmp_path / "console.log", 10, 5) == "up"


def test_a_guest_whose_console_stands_still_is_silent(tmp_path: Path):
    console = tmp_path / "console.log"
    console.write_text("Probing EDD")
    assert hosts.await_boot(lambda: False, console, 10, 0.2) == "silent"
    assert hosts.await_boot(lambda: False, tmp_path / "none.log", 10, 0.2) == "silent"


def test_a_guest_that_keeps_writing_is_slow_not_silent(tmp_path: Path):
    console = tmp_path / "console.log"
    lines = itertools.count()

    def writes() -> bool:
        with console.open("a") as stream:
            stream.write(f"[{next(lines)}] a line of the kernel\n")
        return False

    assert hosts.await_boot(writes, console, 1.2, 0.4) == "slow"
