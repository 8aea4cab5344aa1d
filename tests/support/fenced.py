# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes in a fence, as a killed call leaves them, and services of the host that are in none."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

from tests.support import ROOT
from tests.support.programs import wait_for

BEGIN = f"""
import json, os, subprocess, sys
import ansible.module_utils
ansible.module_utils.__path__.append({str(ROOT / "ansible" / "module_utils")!r})
from ansible.module_utils.joulerig import fence
from ansible.module_utils.joulerig.loads import load
"""
# With a mount namespace as services with PrivateTmp or ProtectSystem have, and as containers.
SERVICES = (
    ["unshare", "--mount"],
    ["unshare", "--mount", "--propagation", "slave"],
    ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts", "--ipc", "--net"],
)


def namespace(process: int | str = "self") -> int:
    return os.stat(f"/proc/{process}/ns/mnt").st_ino


def fenced_process(*command: str) -> tuple[subprocess.Popen[bytes], str]:
    """Start a process in a new fence; return it with the fence's name."""
    from ansible.module_utils.joulerig import fence

    program = "fence.enter({}, {}); os.execvp(sys.argv[1], sys.argv[1:])"
    process = subprocess.Popen([sys.executable, "-c", BEGIN + program, *command])
    return process, wait_for(lambda: fence.name(process.pid), 20, "its fence")


@contextlib.contextmanager
def services(number: int | None = None) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run a service of each kind; the first one's namespace has `number`, if that is given."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        if number is not None:  # of one that ended, which the kernel gives again after a moment
            wait_for(lambda: _starts_with(number, started), 30, "the number is given again")
        started += [_start(command) for command in SERVICES]
        yield started
    finally:
        for one in started:
            _end(one)


def _starts_with(number: int, started: list[subprocess.Popen[bytes]]) -> bool:
    service = _start(SERVICES[0])
    if namespace(service.pid) != number:
        _end(service)
        return False
    started.append(service)
    return True


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    own, service = namespace(), subprocess.Popen([*command, "sleep", "60"])
    wait_for(lambda: namespace(service.pid) != own, 10, "its namespace")
    return service


def _end(service: subprocess.Popen[bytes]) -> None:
    service.kill()
    service.wait()
