# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a tool; where it fails, its exit code and the line that names the error become the reason."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any

# Statuses of a run, as the controller declares them with their meaning
# (analysis/results/schema.py); a test compares.
OK, FAILED, LOST, REFUSED, NOT_RUN = "ok", "failed", "lost", "refused", "not-run"

# What tools print before the error: who they are, what they are about to do.
PREAMBLE = re.compile(
    r"""^mke2fs\ \d                  # mke2fs 1.47.0 (5-Feb-2023)
      | F2FS-tools: | ^Info:
      | \(nilfs-utils
      | ^\S*mkfs\S*\ (version\ )?\d  # mkfs.reiserfs 3.6.27
      | Operation\ forced,
      | ^NOTE:""",
    re.VERBOSE,
)
SYSTEM_ERRORS = tuple(os.strerror(number) for number in errno.errorcode)


# Numbers of system calls, on every architecture.
PIDFD_SEND_SIGNAL, PIDFD_OPEN = 424, 434


class Refused(Exception):
    """The host must not do this; nothing was touched. The text is the reason."""


class Unable(Refused):
    """The host cannot do this level. The text is the reason."""


class Busy(Unable):
    """Something else is using the host. The text is the reason."""


class Failed(Exception):
    """Something went wrong on the way. The text is the reason."""


def describe(error: BaseException) -> tuple[str, str]:
    """Return the status that an error gives a run, and the reason.

    Where putting things back failed too, the reason has both errors, the first one first.
    """
    found = [error]
    while error.__context__ is not None and not error.__suppress_context__:
        error = error.__context__
        found.insert(0, error)
    status = FAILED
    if all(isinstance(one, Refused) for one in found):
        status = NOT_RUN if isinstance(found[0], Unable) else REFUSED
    return status, "; then: ".join(str(one) for one in found)


def run(
    command: Sequence[str],
    timeout: float = 600,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    pass_fds: Sequence[int] = (),
    is_well: Callable[[int, str], bool] = lambda code, output: code == 0,
) -> str:
    """Run `command` (a list) and return its standard output.

    `pass_fds`: descriptors that it gets. `is_well`: whether it did what it was asked, by exit code
    and standard output. Raises Failed, with the line that names the error, where it did not.
    """
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",  # labels on drives are bytes
            timeout=timeout,
            env=env,
            cwd=cwd,
            pass_fds=pass_fds,
        )
    except FileNotFoundError:
        raise not_found(command) from None
    except subprocess.TimeoutExpired:
        raise Failed(f"{command[0]}: still running after {timeout:.0f} s") from None
    if not is_well(done.returncode, done.stdout):
        raise Failed(complaint(command[0], done.returncode, done.stderr + "\n" + done.stdout))
    return done.stdout


def not_found(command: Sequence[str]) -> Failed:
    """Return the error of a host that has no such program."""
    return Failed(
        f"{command[0]}: not found on this host; playbooks/provision.yml or the campaign's own installs it"
    )


def complaint(who: str, code: int, output: str) -> str:
    """Return why a tool ended with a bad exit code: the line of its output that names the error.

    That is the first one that ends with an error of the system's, else the first after the tool's
    preamble; of a Python traceback the last.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if any(line.startswith("Traceback (") for line in lines):
        lines.reverse()
    else:
        lines = [line for line in lines if not PREAMBLE.search(line)] or lines
        lines.sort(key=lambda line: not line.rstrip(".").endswith(SYSTEM_ERRORS))
    return f"{who}: exit {code}: {lines[0] if lines else 'no output'}"


def run_json(command: Sequence[str], timeout: float = 60) -> Any:
    """Run a tool and return its JSON output; None where it gave none.

    Some devices do not answer every query.
    """
    try:
        return json.loads(_output(command, timeout)[0])
    except ValueError:
        return None


def process_descriptor(process: int, flags: int = 0) -> int:
    """Return a descriptor that can be read once a process has ended.

    Raises ProcessLookupError where it has, OSError where the kernel does not know the flags.
    """
    if hasattr(os, "pidfd_open"):  # since Python 3.9
        return os.pidfd_open(process, flags)
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = int(libc.syscall(PIDFD_OPEN, process, flags))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return descriptor


def send_signal(descriptor: int, number: int) -> None:
    """Send a signal to the process of a `process_descriptor`.

    Raises ProcessLookupError where it has ended: no other process gets it.
    """
    if hasattr(signal, "pidfd_send_signal"):  # since Python 3.9
        signal.pidfd_send_signal(descriptor, number)
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(PIDFD_SEND_SIGNAL, descriptor, number, None, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def version(command: Sequence[str]) -> str | None:
    """Return the first line of what `command` says of its version, or None."""
    output, errors = _output(command, 20)
    words = (output or errors).strip().splitlines()
    return words[0].strip() if words else None


def _output(command: Sequence[str], timeout: float) -> tuple[str, str]:
    """Run a tool and return what it printed, whatever its exit code; "" where it cannot."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "", ""
    return done.stdout, done.stderr
