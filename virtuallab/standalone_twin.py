# SPDX-License-Identifier: GPL-3.0-or-later
"""A twin without host, meter or supervisor, for power cuts at it.

It is the drive's own interface alone.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from joulerig.rig.common import paths, wait
from joulerig.rig.common.errors import UserError
from joulerig.virtuallab import profile, twins

START_SECONDS = 10.0


class StandaloneTwin:
    """A twin with the profile `profile_name` and an empty drive in a temporary folder.

    It is a context manager. `options` are extra parameters of the plugin, `key=value` each. `nbd`
    is the socket that serves the drive; its folder has a short path, as unix sockets need. `plp`:
    whether the drive has power-loss protection.
    """

    def __init__(self, profile_name: str, size_bytes: int, options: list[str]) -> None:
        model = profile.load(profile_name, "--profile")
        self.plp = model.plp
        self._folder = tempfile.TemporaryDirectory(prefix="twin-", dir=paths.run())
        folder = Path(self._folder.name)
        self.nbd, self._control = folder / "nbd", folder / "control"
        command = twins.command(
            model, self.nbd, self._control, folder / "drive.img", size_bytes, "JRLONE0001"
        )
        self._command = [*command, *options]
        self._log = folder / "log"

    def __enter__(self) -> StandaloneTwin:
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

        def up() -> bool:
            return twins.listens(self.nbd, self._control)

        wait.until(lambda: self._process.poll() is not None or up(), START_SECONDS, 0.01)
        if self._process.poll() is not None or not up():
            lines = self._log.read_text().strip().splitlines()
            self.__exit__(None, None, None)
            raise UserError(f"twin: did not come up: {lines[-1] if lines else 'no output'}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    def power_off(self) -> dict[str, Any]:
        """Cut the drive's power; return what the twin lost. Raises UserError."""
        return twins.request(self._control, "power off")

    def power_on(self) -> None:
        """Give the drive its power back. Raises UserError."""
        twins.request(self._control, "power on")

    def mark(self, text: str) -> None:
        """Put a mark into the log of the drive's writes. Raises UserError where there is none."""
        twins.request(self._control, f"mark {text}")

    def history(self, start_ns: int, end_ns: int) -> dict[str, Any]:
        """Return the twin's joules and counters at two UTC instants. Raises UserError."""
        return twins.request(self._control, f"history {start_ns} {end_ns}")
