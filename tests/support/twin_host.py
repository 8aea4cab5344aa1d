# SPDX-License-Identifier: GPL-3.0-or-later
"""A host channel to this machine, whose one drive is a real twin that the writer reaches over NBD.

The executor of power cuts runs on it as it does on a test host: writer, witness, cut and survey are
the real ones; what a kernel and a meter would do between them is not there.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from joulerig.rig.common import paths
from joulerig.rig.lab.model import Lab
from joulerig.virtuallab.standalone_twin import StandaloneTwin
from tests.support.lab_files import LabFiles
from tests.support.programs import wait_for
from tests.support.twin_switch import TwinSwitch

READY_SECONDS = 60.0  # from power on until the drive can be read
WRITER_SECONDS = 10.0  # until the writer has noticed that its drive is gone


def power_cut_lab(lab_files: LabFiles, twin: StandaloneTwin) -> Lab:
    """A lab whose drive `fast` is `twin`, and whose witness listens on this machine alone."""
    lab_files.drives["fast"]["plp"] = twin.plp
    lab_files.host["controller_address"] = "127.0.0.1"
    lab = lab_files.load()
    near = lab.controller.model_copy(update={"clock_listen": "127.0.0.1:12300"})
    return lab.model_copy(update={"controller": near})


class TwinHost(TwinSwitch):
    """Executes module joulerig_powercut's actions on `twin`; its switch is `switch`.

    `restarts`: whether the host boots after a cut, as it should.
    """

    def __init__(self, twin: StandaloneTwin) -> None:
        super().__init__(twin)
        self._boot = 1
        self.restarts = True
        self._writer: subprocess.Popen[bytes] | None = None

    def call(self, module: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        if module != "joulerig_powercut":
            return {"ping": "pong"}
        answer: dict[str, Any] = {"problem": "", "boot_id": str(self._boot)}
        if arguments["action"] == "write":
            witness = ["--witness", arguments["witness"]]
            known = {**os.environ, "JOULERIG_WITNESS_SECRET": arguments["secret"]}
            command = self._command("write", *arguments["options"], *witness)
            self._writer = subprocess.Popen(command, env=known)
        elif arguments["action"] == "survey":
            answer["survey"] = self._survey(arguments["options"])
        elif arguments["action"] == "clean":
            answer["writer"] = "not kept"
        return answer

    def on(self) -> None:
        if self._writer is not None:
            try:
                self._writer.wait(WRITER_SECONDS)
            except subprocess.TimeoutExpired:
                self._writer.kill()
                self._writer.wait()
        self._twin.power_on()
        self._boot += self.restarts

    def _command(self, action: str, *options: str) -> list[str]:
        return [str(paths.program("durawriter")), action, *options, "--nbd", f"unix:{self._twin.nbd}"]

    def _survey(self, options: Sequence[str]) -> str:
        def survey() -> subprocess.CompletedProcess[str] | None:
            done = subprocess.run(
                self._command("survey", *options), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                text=True, timeout=300,
            )  # fmt: skip
            return None if done.returncode else done

        return wait_for(survey, READY_SECONDS, "the drive can be read after power was restored").stdout
