# SPDX-License-Identifier: GPL-3.0-or-later
"""A twin's NBD export as a block device of this machine's kernel.

nbdfuse (Debian: libnbd-bin) shows the export as a file, over which there is a loop device. A flush
of the device is one of the twin. Nothing of it is remembered by the next device: with the file,
the kernel drops what it had read.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from joulerig.rig.common import paths, wait
from joulerig.rig.common.errors import UserError

PATIENCE_SECONDS = 60.0  # for a step that takes a fraction of a second on an idle machine
TOOLS = {"nbdfuse": "libnbd-bin", "losetup": "mount"}  # with their Debian packages
DEVICES = ("/dev/fuse", "/dev/loop-control")


def missing() -> str:
    """Return what this machine lacks for such a device; empty: nothing."""
    if os.geteuid() != 0:
        return "needs root, for loop devices"
    lacks = [f"{tool} (Debian: {package})" for tool, package in TOOLS.items() if not shutil.which(tool)]
    lacks += [path for path in DEVICES if not Path(path).exists()]
    return f"needs {', '.join(lacks)}" if lacks else ""


def run(*command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. Raises UserError where it hangs and, with `check`, fails."""
    try:
        done = subprocess.run(
            command, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=PATIENCE_SECONDS, env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise UserError(f"{command[0]}: still running after {PATIENCE_SECONDS:g} s") from None
    if check and done.returncode:
        raise UserError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done


def make(device: LoopDevice, filesystem: Mapping[str, Any]) -> None:
    """Make a file system on a device, without discarding. Raises UserError."""
    chosen = uuid.uuid4()
    forms = {"{uuid}": str(chosen), "{label}": chosen.hex[:16], "{volume_id}": chosen.hex[:8]}
    command = [*filesystem["mkfs"], *filesystem["no_discard"]]
    for name, text in forms.items():
        command = [word.replace(name, text) for word in command]
    run(*command, device.path)


@contextlib.contextmanager
def mounted(device: LoopDevice, filesystem: Mapping[str, Any]) -> Iterator[str]:
    """Mount a device's file system, as a test host is given it, in a new folder; yield that.

    Programs that run as another user reach it. It is unmounted at the end, whatever its drive says.
    Raises UserError.
    """
    options = ",".join(filesystem["mount_options"]) or "defaults"
    with tempfile.TemporaryDirectory(prefix="joulerig-mount-") as folder:
        run("mount", "-t", filesystem["type"], "-o", options, device.path, folder)
        try:
            yield folder
        finally:
            _unmount(folder)


def _unmount(folder: str) -> None:
    """Unmount what is mounted on a folder; nothing may be. A device's opener may still look at it.

    What stays in use is no longer seen at the folder, and ends with the last who uses it.
    """
    if not wait.until(lambda: not _is_busy(run("umount", folder, check=False)), PATIENCE_SECONDS):
        run("umount", "--lazy", folder, check=False)


def _is_busy(done: subprocess.CompletedProcess[str]) -> bool:
    return done.returncode != 0 and "busy" in done.stderr


class LoopDevice:
    """A loop device over the export at the socket `nbd`; a context manager. `path`: the device.

    Raises UserError where this machine cannot have it.
    """

    def __init__(self, nbd: Path) -> None:
        self._nbd = nbd
        self.path = ""

    def __enter__(self) -> LoopDevice:
        if problem := missing():
            raise UserError(f"a twin as a block device: {problem}")
        self._folder = tempfile.TemporaryDirectory(prefix="nbd-", dir=paths.run())
        file = Path(self._folder.name) / "nbd"
        self._fuse = subprocess.Popen(
            ["nbdfuse", self._folder.name, f"nbd+unix:///?socket={self._nbd}"],
            stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            wait.until(lambda: file.exists() or self._fuse.poll() is not None, PATIENCE_SECONDS, 0.01)
            self.path = run("losetup", "--show", "--find", str(file)).stdout.strip()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        if self.path:
            run("losetup", "--detach", self.path, check=False)
        _unmount(self._folder.name)
        try:
            self._fuse.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._fuse.kill()
            self._fuse.wait()
        self._folder.cleanup()
