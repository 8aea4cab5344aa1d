# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands that start and stop a lab's processes: no two at once."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from joulerig.rig.common import files, paths
from joulerig.rig.common.errors import UserError

HOLD = """\
import time
from joulerig.rig.common import files, paths

with files.sole(paths.run() / "lab.lock", "rig lab up"):
    print("held", flush=True)
    time.sleep(60)
"""
COMMANDS = [("up",), ("down",), ("lab", "up"), ("lab", "down")]


def rig(*words):
    command = [sys.executable, "-c", "from joulerig.rig.cli.main import main; main()", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_second_one_is_refused_in_one_line_and_starts_nothing(state, words):
    with files.sole(paths.run() / "lab.lock", "rig up"):
        done = rig(*words)
    assert done.returncode != 0
    [line] = done.stderr.splitlines()
    assert f"'rig up', process {os.getpid()}, has not ended" in line
    assert not (paths.run() / "supervisor.sock").exists()


def test_the_next_one_works_once_the_first_has_ended_also_where_it_was_killed(state):
    with subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout.readline() == "held\n"
        second = files.sole(paths.run() / "lab.lock", "rig down")
        with pytest.raises(UserError, match=f"'rig lab up', process {first.pid}, has not ended"):
            second.__enter__()
        first.kill()
    done = rig("down")
    assert (done.returncode, done.stdout) == (0, "nothing was running\n")
