# SPDX-License-Identifier: GPL-3.0-or-later
"""Load with an external program, through its script (workloads/programs/NAME/)."""

import json
import os
import sys

from ansible.module_utils.joulerig.loads.flowop import read_report
from ansible.module_utils.joulerig.loads.load import attend, raise_if

PYTHON = [sys.executable, "-B"]  # a script that is run leaves no file next to it


class Workload:
    """A definition {name, program, common_code, settings}.

    `program` is the path of the script, `common_code` that of the module that it imports.
    """

    def __init__(self, definition, surroundings):
        self._name, self._program, self._surroundings = (
            definition["name"],
            definition["program"],
            surroundings,
        )
        self._settings = json.dumps(definition["settings"])
        self._import_from = os.path.dirname(definition["common_code"])
        os.makedirs(surroundings.directory, exist_ok=True)

    def _command(self, command, *more):
        given = self._surroundings
        words = ["--directory", given.directory, "--seed", str(given.seed), "--settings", self._settings]
        environment = ["env", f"PYTHONPATH={self._import_from}"]
        return [*environment, *PYTHON, self._program, command, *words, *more]

    def lay_out(self):
        """Create what the program works on, without any load."""
        given = self._surroundings
        raise_if(attend(self._name, self._command("layout"), given.layout_seconds, own=given.own()))

    def load(self):
        """Load; return how it ended (Done)."""
        given = self._surroundings
        output = os.path.join(given.scratch, "load.json")
        command = self._command("load", "--seconds", str(given.seconds), "--output", output)
        # Only whole passes are done; the last one may take as long as a layout.
        problem = attend(self._name, command, given.seconds * 3 + given.layout_seconds, own=given.own())
        done = read_report(output, problem, self._name)
        if given.points:
            counts = {key: done.report.get(key) for key in ("ops", "read_bytes", "write_bytes")}
            given.points.work(counts, done.end)
        return done
