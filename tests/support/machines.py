# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes that pose as those of other machines: another machine-id, and a host name."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import traceback
from collections.abc import Callable
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUTS = 0x20000, 0x4000000
can_pose = (
    shutil.which("unshare") is not None
    and Path("/etc/machine-id").is_file()
    and subprocess.run(["unshare", "--mount", "--uts", "true"], capture_output=True).returncode == 0
)


class Machine:
    """A machine of this name, whose processes do `work` in a fork of this one."""

    def __init__(self, folder: Path, number: str, name: str) -> None:
        self._id, self._name, self._said = folder / f"machine-{number}", name, folder / f"said-{number}"
        self._id.write_text(number * 32 + "\n")
        self.pid = 0

    def start(self, work: Callable[[], object]) -> int:
        """Begin `work`; return the process that does it."""
        self._said.write_text("")
        self.pid = os.fork()
        if not self.pid:
            try:
                self._pose()
                work()
                os._exit(0)
            except BaseException as error:
                self._said.write_text(f"{error}\n{traceback.format_exc()}")
                os._exit(1)
        return self.pid

    def join(self) -> str:
        """Wait for the end of the work; return the error that ended it, on one line, or nothing."""
        _, status = os.waitpid(self.pid, 0)
        assert status in (0, 1 << 8), signal.Signals(status & 0x7F)
        return self._said.read_text().partition("\n")[0]

    def do(self, work: Callable[[], object]) -> str:
        """Do `work` to its end, as `join`."""
        self.start(work)
        return self.join()

    def _pose(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNS | CLONE_NEWUTS):
            raise OSError(ctypes.get_errno(), "unshare")
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        subprocess.run(["mount", "--bind", str(self._id), "/etc/machine-id"], check=True)
        name = self._name.encode()
        if libc.sethostname(name, len(name)):
            raise OSError(ctypes.get_errno(), "sethostname")
