# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest that hangs at boot is recognised by its console, which stands still or says so."""

from __future__ import annotations

import itertools
from pathlib import Path

from joulerig.virtuallab import hosts


def test_a_guest_that_answers_is_up(tmp_path: Path):
    answers = iter([False, False, True])
    assert hosts.await_boot(lambda: next(answers), tmp_path / "console.log", 10, 5) == "up"


def test_a_guest_whose_console_stands_still_is_hung(tmp_path: Path):
    console = tmp_path / "console.log"
    console.write_text("Probing EDD")
    assert hosts.await_boot(lambda: False, console, 10, 0.2) == "hung"
    assert hosts.await_boot(lambda: False, tmp_path / "none.log", 10, 0.2) == "hung"


def test_a_guest_that_keeps_writing_is_slow_not_hung(tmp_path: Path):
    console = tmp_path / "console.log"
    lines = itertools.count()

    def writes() -> bool:
        with console.open("a") as stream:
            stream.write(f"[{next(lines)}] a line of the kernel\n")
        return False

    assert hosts.await_boot(writes, console, 1.2, 0.4) == "slow"


def test_a_guest_that_keeps_writing_of_a_stuck_processor_is_hung(tmp_path: Path):
    console = tmp_path / "console.log"
    seconds = itertools.count(22, 26)

    def writes() -> bool:
        with console.open("a") as stream:
            stream.write(f"watchdog: BUG: soft lockup - CPU#1 stuck for {next(seconds)}s! [swapper/0:1]\n")
        return False

    assert hosts.await_boot(writes, console, 30, 90) == "hung"
    assert next(seconds) == 22 + 4 * 26


def test_a_guest_whose_processor_was_stuck_for_a_while_is_waited_for(tmp_path: Path):
    console = tmp_path / "console.log"
    console.write_text("watchdog: BUG: soft lockup - CPU#0 stuck for 45s! [swapper/0:1]\n")
    answers = iter([False, False, True])
    assert hosts.await_boot(lambda: next(answers), console, 10, 90) == "up"
