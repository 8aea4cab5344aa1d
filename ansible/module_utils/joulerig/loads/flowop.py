# SPDX-License-Identifier: GPL-3.0-or-later
"""Load by flowop: a personality, a loop of writes and syncs, or a trace."""

import json
import os

from ansible.module_utils.joulerig.loads.load import Done, attend, raise_if
from ansible.module_utils.joulerig.tools import Failed

TRACE_SECONDS = 86400  # a trace ends by itself


class Workload:
    """A definition {name, program, words, texts}.

    In `words`, those of a command line, `{seconds}`, `{seed}` and the names of `texts`, files that
    are made for it, stand for what they are here.
    """

    def __init__(self, definition, surroundings):
        self._name, self._surroundings = definition["name"], surroundings
        scratch = surroundings.scratch
        meant = {"{seconds}": str(surroundings.seconds), "{seed}": str(surroundings.seed)}
        for name, text in definition["texts"].items():
            meant[name] = os.path.join(scratch, name)
            with open(meant[name], "w") as file:
                file.write(text)
        words = [meant.get(word, word) for word in definition["words"]]
        self._command = [definition["program"], *words, "--directory", surroundings.directory]
        timed = "{seconds}" in definition["words"]
        self._longest = surroundings.seconds * 3 + 300 if timed else TRACE_SECONDS
        os.makedirs(surroundings.directory, exist_ok=True)

    def lay_out(self):
        """Create the files that the load works on, without any load."""
        output = os.path.join(self._surroundings.scratch, "layout.json")
        command = [*self._command, "--layout-only", "--output", output]
        raise_if(attend("flowop", command, self._surroundings.layout_seconds, own=self._surroundings.own()))

    def load(self):
        """Load; return how it ended (Done). Its points go to the agent as it runs."""
        output = os.path.join(self._surroundings.scratch, "load.json")
        points = self._surroundings.points
        words = points.words() if points else []
        command = [*self._command, "--keep", "--output", output, *words]
        problem = attend("flowop", command, self._longest, own=self._surroundings.own())
        return read_report(output, problem, f"flowop: {self._name}")


def read_report(output, problem, who):
    """Return how a load that left its report in the file `output` ended (Done).

    Raises Failed where it left none.
    """
    try:
        with open(output) as file:
            report = json.load(file)
        start, end = report["begin_realtime_ns"], report["end_realtime_ns"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Failed(problem or f"{who}: left no report: {type(error).__name__}: {error}") from None
    if not problem and report["ended"] != "completed":
        problem = f"{who}: {report['ended']}: {report['error'] or 'it does not say why'}"
    return Done(start, end, report, problem)
