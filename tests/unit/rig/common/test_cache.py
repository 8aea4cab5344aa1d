# SPDX-License-Identifier: GPL-3.0-or-later
"""What takes long to make is made once, by one process, and is whole or absent."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from joulerig.rig.common import cache


def content(target: Path) -> str | None:
    return (target / "text").read_text() if (target / "text").is_file() else None


def written(text: str):
    def make(work: Path, done: Path) -> None:
        (work / "rest").write_text("of the work")
        done.mkdir()
        (done / "text").write_text(text)

    return make


def test_it_is_made_once_and_nothing_of_the_work_is_left(tmp_path):
    target = tmp_path / "images" / "a"
    assert cache.build_once(target, lambda: content(target), written("first")) == "first"
    assert cache.build_once(target, lambda: content(target), written("second")) == "first"
    assert sorted(path.name for path in target.parent.iterdir()) == ["a", "a.lock"]


def test_one_that_fails_leaves_nothing_and_the_next_can_make_it(tmp_path):
    target = tmp_path / "a"

    def failing(work: Path, done: Path) -> None:
        done.mkdir()
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        cache.build_once(target, lambda: content(target), failing)
    assert [path.name for path in tmp_path.iterdir()] == ["a.lock"]
    assert cache.build_once(target, lambda: content(target), written("now")) == "now"


def test_two_that_ask_at_once_wait_for_each_other(tmp_path):
    target = tmp_path / "a"
    begun, go_on, made = threading.Event(), threading.Event(), []

    def slow(work: Path, done: Path) -> None:
        begun.set()
        assert go_on.wait(30)
        written("slow")(work, done)
        made.append("slow")

    def second() -> None:
        found.append(cache.build_once(target, lambda: content(target), written("second")))

    found: list[str] = []
    one = threading.Thread(target=cache.build_once, args=(target, lambda: content(target), slow))
    one.start()
    assert begun.wait(30)
    other = threading.Thread(target=second)
    other.start()
    assert content(target) is None
    go_on.set()
    one.join()
    other.join()
    assert (made, found) == (["slow"], ["slow"])


KILLED = """
import os, pathlib, signal, sys
from joulerig.rig.common import cache
def make(work, done):
    (work / "tree").mkdir()
    os.kill(os.getpid(), signal.SIGKILL)
cache.build_once(pathlib.Path(sys.argv[1]), lambda: None, make)
"""


def test_what_a_killed_one_left_is_removed_by_the_next(tmp_path):
    target = tmp_path / "a"
    assert subprocess.run([sys.executable, "-c", KILLED, target]).returncode < 0
    assert len(list(tmp_path.glob(".a-*/tree"))) == 1
    removed = []

    def discard(work: Path) -> None:
        removed.append(work)
        shutil.rmtree(work)

    assert cache.build_once(target, lambda: content(target), written("now"), discard) == "now"
    assert len(removed) == 2  # the killed one's, and its own
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "a.lock"]
