# SPDX-License-Identifier: GPL-3.0-or-later
"""A twin started for power cuts alone: no host, no meter, only the drive's own interface."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from joulerig.rig.common import paths, wait
from joulerig.rig.common.errors import UserError
from joulerig.virtuallab import lab as virtuallab
from joulerig.virtuallab.profile import Profile

START_SECONDS = 10.0


class LoneTwin:
    """A twin of `model` with an empty drive in a temporary folder; a context manager.

    `options`: more of the plugin's parameters. Its sockets' folder has a short path, as unix sockets want.
    """

    def __init__(self, model: Profile, size_bytes: int, options: list[str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="twin-", dir=paths.run())
        place = Path(self._folder.name)
        self.nbd, self._truth = place / "nbd", place / "truth"
        command = virtuallab.twin_command(
            model, self.nbd, self._truth, place / "drive.img", size_bytes, "JRLONE0001"
        )
        self._command = [*command, *options]
        self._log = place / "log"

    def __enter__(self) -> LoneTwin:
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

        def up() -> bool:
            return virtuallab.twin_listens(self.nbd, self._truth)

        wait.until(lambda: self._process.poll() is not None or up(), START_SECONDS, 0.01)
        if self._process.poll() is not None or not up():
            words = self._log.read_text().strip().splitlines()
            self.__exit__(None, None, None)
            raise UserError(f"twin: did not come up: {words[-1] if words else 'it said nothing'}")
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

    def ask(self, request: str) -> dict[str, Any]:
        """What the twin answers on its truth socket. Raises UserError."""
        return virtuallab.ask(self._truth, request)
