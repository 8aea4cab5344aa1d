# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs that tests start: where they are, where they may listen, and how they end."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.support import ROOT

T = TypeVar("T")
POLL_SECONDS = 0.02


def built(name: str) -> str:
    """Return the path of a program of ours; fail, saying how to build it, where it is missing."""
    path = ROOT / "build" / name
    if not path.is_file():
        pytest.fail(f"build/{name} is not there: make build", pytrace=False)
    return str(path)


def installed(name: str, package: str) -> str:
    """Return the path of a system program; fail, naming its package, where it is missing."""
    path = shutil.which(name)
    if path is None:
        pytest.fail(f"{name} is not installed: apt-get install -y {package}", pytrace=False)
    return path


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """A port of 127.0.0.1 that no process has at this moment."""
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for(condition: Callable[[], T | None], seconds: float, what: str) -> T:
    """The first value of the condition that is true."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"after {seconds} s still not: {what}"
        time.sleep(POLL_SECONDS)


def processor_seconds(pid: int) -> float:
    """Return the time that all threads of a process have taken of the processors."""
    words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    user, system = (int(word) for word in words[11:13])
    return (user + system) / os.sysconf("SC_CLK_TCK")


def descendants(pid: int) -> list[int]:
    """Return the processes that a process started, and those that they started, youngest last."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            fields = stat.read_text().rpartition(")")[2].split()
            parents[int(stat.parent.name)] = int(fields[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def end(process: subprocess.Popen[Any], seconds: float = 10) -> int:
    """End a process by SIGTERM and return its exit code; fail if only SIGKILL helps."""
    try:
        process.terminate()
        process.wait(seconds)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                pipe.close()
    return process.returncode
