# SPDX-License-Identifier: GPL-3.0-or-later
"""A host channel to this machine's kernel, whose one drive is a twin behind a loop device.

A power cut of the twin costs a remount instead of a host's start: the
file system is unmounted while the drive has no power, which drops what the kernel had in memory.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import applications
from joulerig.virtuallab.blocklog.device import PATIENCE_SECONDS, LoopDevice, make, mounted, run
from joulerig.virtuallab.standalone_twin import StandaloneTwin
from tests.support.programs import wait_for
from tests.support.twin_switch import TwinSwitch

# From power on until the drive can be read: a device that a process of another test looks at, as
# those that list all disks do, is given back after PATIENCE_SECONDS.
READ_SECONDS = 3 * PATIENCE_SECONDS
# A host that goes down leaves no process: those that an application started go with its writer.
_ALL_END_WITH_IT = ["unshare", "--pid", "--fork"]


class LoopHost(TwinSwitch):
    """Executes module joulerig_powercut's actions on `twin`, with file systems of this kernel."""

    def __init__(self, twin: StandaloneTwin) -> None:
        super().__init__(twin)
        self._boot = 1
        self._work = contextlib.ExitStack()
        self._writer: subprocess.Popen[bytes] | None = None
        self._words = paths.run() / "writer.log"

    def call(self, module: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        if module != "joulerig_powercut":
            return {"ping": "pong"}
        answer: dict[str, Any] = {"problem": "", "boot_id": str(self._boot)}
        definition = arguments["filesystem"]
        match arguments["action"]:
            case "prepare":
                with LoopDevice(self._twin.nbd) as device:
                    make(device, definition)
            case "write":
                self._write(definition, arguments)
            case "survey":
                answer |= self._survey(definition, arguments)
            case "clean":
                self._take_down()
                answer["writer"] = self._words.read_text().strip()
        return answer

    def _write(self, definition: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
        device = self._work.enter_context(LoopDevice(self._twin.nbd))
        folder = self._work.enter_context(mounted(device, definition))
        known = {**os.environ, "JOULERIG_WITNESS_SECRET": arguments["secret"]}
        command = [*_ALL_END_WITH_IT, *self._command("write", arguments["options"]), "--directory", folder]
        command += ["--witness", arguments["witness"]]
        with self._words.open("w") as log:
            self._writer = subprocess.Popen(
                command, env=known, stdin=subprocess.DEVNULL, stderr=log, start_new_session=True
            )

    def _survey(self, definition: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
        with LoopDevice(self._twin.nbd) as device:
            with contextlib.ExitStack() as undo:
                try:
                    folder = undo.enter_context(mounted(device, definition))
                except UserError as error:
                    return {"survey": "", "lost": str(error)}
                done = run(*self._command("survey", arguments["options"]), "--directory", folder)
            check = [*arguments["after"]["check"], device.path]
            return {"survey": done.stdout, "check": {"command": check, **_checked(check)}}

    def _command(self, action: str, options: Sequence[str]) -> list[str]:
        shipped = applications.shipped().values()
        here = {place: str(path) for one in shipped for path, place in one.files().items()}
        return [str(paths.program("durawriter")), action, *(here.get(word, word) for word in options)]

    def on(self) -> None:
        """Take down what is mounted, as a host without power does, and give the drive its power."""
        self._take_down()
        self._twin.power_on()
        self._boot += 1
        wait_for(self._is_ready, READ_SECONDS, "the drive can be read after power was restored")

    def _take_down(self) -> None:
        if self._writer is not None:
            _kill_all(self._writer)
            self._writer.wait(PATIENCE_SECONDS)
            self._writer = None
        self._work.close()

    def _is_ready(self) -> bool:
        """Read from the twin, by a new device with nothing remembered; print why it cannot be."""
        with LoopDevice(self._twin.nbd) as device:
            read = ["dd", f"if={device.path}", "of=/dev/null", "bs=4096", "count=1", "iflag=direct"]
            done = subprocess.run(read, capture_output=True, text=True, timeout=READ_SECONDS)
        print(done.stderr if done.returncode else "", end="")
        return done.returncode == 0


def _kill_all(unshare: subprocess.Popen[bytes]) -> None:
    """Kill a namespace's first process: it ends once the others have, and `unshare` then."""
    children = Path(f"/proc/{unshare.pid}/task/{unshare.pid}/children")
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        for pid in children.read_text().split() or [unshare.pid]:
            os.kill(int(pid), signal.SIGKILL)


def _checked(command: Sequence[str]) -> dict[str, Any]:
    done = run(*command, check=False)
    return {"exit": done.returncode, "last_lines": (done.stdout + done.stderr).splitlines()[-1:]}
