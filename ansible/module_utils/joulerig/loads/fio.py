# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a fio job file as a load: fio time-stamps its I/O and reports its progress every second."""

import contextlib
import json
import os
import re
import time

from ansible.module_utils.joulerig.loads.load import Done, attend, raise_if
from ansible.module_utils.joulerig.tools import Failed

# fio runs these in the job, after set-up and before its first (after its last) I/O: start-up is not
# load. It redirects their output itself, so that a redirection of ours would stay empty: hence tee.
STAMPS = """[global]
exec_prerun=date +%s%N | tee -a {stamps}.begin
exec_postrun=date +%s%N | tee -a {stamps}.end
"""
# What a job says on the same output, in the midst of a report too.
CHATTER = re.compile(r" : Saving output of (pre|post)run in ")


# What makes a job ask the drive itself for what is done.
POLLED = re.compile(r"^\s*hipri\s*(=\s*(1|true)\s*)?$", re.MULTILINE)


def polls(job: str) -> bool:
    """Return whether a job file's I/O is polled."""
    return bool(POLLED.search(job))


class Workload:
    """A definition {name, job, environment}.

    `job` is the text of a fio job file; `environment` is not needed. The job file reads its
    surroundings from the environment, as any fio job file can: JOULERIG_DIRECTORY,
    JOULERIG_SECONDS, JOULERIG_SEED, and what `environment` adds.
    """

    def __init__(self, definition, surroundings):
        self._name, self._job, self._surroundings = definition["name"], definition["job"], surroundings
        self._environment = {
            **os.environ,
            "LC_ALL": "C",
            "JOULERIG_DIRECTORY": surroundings.directory,
            "JOULERIG_SECONDS": str(surroundings.seconds),
            "JOULERIG_SEED": str(surroundings.seed),
            **definition.get("environment", {}),
        }
        os.makedirs(surroundings.directory, exist_ok=True)

    def _fio(self, preamble, label, timeout, tell=None):
        """Run fio; return why it did not end well, or an empty text, and its progress."""
        scratch = self._surroundings.scratch
        job, output = os.path.join(scratch, f"{label}.fio"), os.path.join(scratch, f"{label}.json")
        with open(job, "w") as file:
            file.write(preamble + self._job)
        progress = Progress(output, tell)
        command = ["fio", "--output-format=json+", *(["--status-interval=1"] if tell else []), job]
        with open(output, "w") as file:
            problem = attend(
                "fio",
                command,
                timeout,
                progress.look,
                self._surroundings.own(),
                stdout=file,
                env=self._environment,
                cwd=scratch,
            )
        return problem, progress

    def lay_out(self):
        """Create the job's files and write them whole, without any load."""
        raise_if(self._fio("[global]\ncreate_only=1\n", "layout", self._surroundings.layout_seconds)[0])

    def load(self, longest=None):
        """Load; return how it ended (Done).

        `longest`: seconds after which it counts as hung; left out, by its length.
        """
        stamps = os.path.join(self._surroundings.scratch, "stamps")
        for one in (stamps + ".begin", stamps + ".end"):  # of a load before
            with contextlib.suppress(FileNotFoundError):
                os.unlink(one)
        points = self._surroundings.points
        problem, progress = self._fio(
            STAMPS.format(stamps=stamps),
            "load",
            longest or self._surroundings.seconds * 3 + 300,
            points.work if points else None,
        )
        report = progress.report
        problem = problem or self._own_problem(progress)
        if not report or not report.get("jobs"):
            raise Failed(problem or f"fio: {self._name}: its report has no job")
        start, end = _stamps(stamps + ".begin"), _stamps(stamps + ".end")
        if problem:
            end = end or [time.time_ns()]
        if not start or not end:
            raise Failed(problem or f"fio: {self._name}: left no time stamp of its load")
        return Done(min(start), max(end), report, problem)

    def _own_problem(self, progress):
        """Return what the report of a fio that ended well says went wrong.

        An empty text where nothing did.
        """
        if progress.report is None:
            return f"fio: {self._name}: its output is not JSON: {progress.other_words[:200]!r}"
        for job in progress.report.get("jobs", []):
            if job.get("error"):
                return f"fio: {self._name}: job {job.get('jobname')}: {os.strerror(job['error'])}"
        return ""


class Progress:
    """fio's reports as it writes them to the file `output`.

    Each report is of all so far, the last one of the load. `tell(counts, at)`, where there is one,
    gets what came since the one before. `report`: the newest; None if that is not JSON.
    `other_words`: the other lines on the same output.
    """

    def __init__(self, output, tell=None):
        self._output, self._tell = output, tell
        self._place, self._part, self._lines = 0, "", []
        self._reported = {}
        self.report, self.other_words = None, ""

    def look(self):
        """Read what came since the last look."""
        with open(self._output) as file:
            file.seek(self._place)
            lines = (self._part + file.read()).split("\n")
            self._place = file.tell()
        self._part = lines.pop()
        for line in lines:
            self._take(line)

    def _take(self, line):
        if line == "{" or self._lines:
            if not CHATTER.search(line):
                self._lines.append(line)
        else:
            self.other_words += line + "\n"
        if line == "}" and self._lines:
            text, self._lines = "\n".join(self._lines), []
            try:
                self.report = json.loads(text)
            except ValueError:
                self.report, self.other_words = None, text
            else:
                self._tell_since(self.report.get("timestamp_ms", 0) * 1_000_000)

    def _tell_since(self, at):
        if self._tell and self.report.get("jobs"):
            now = counts(self.report)
            self._tell({key: value - self._reported.get(key, 0) for key, value in now.items()}, at)
            self._reported = now


def counts(report):
    """Add up {ops, read_bytes, write_bytes} of a report over all of its jobs."""
    ways = [job[way] for job in report["jobs"] for way in ("read", "write")]
    return {
        "ops": sum(way["total_ios"] for way in ways),
        "read_bytes": sum(job["read"]["io_bytes"] for job in report["jobs"]),
        "write_bytes": sum(job["write"]["io_bytes"] for job in report["jobs"]),
    }


def _stamps(path):
    """Read the times in a file of stamps; none where there is none."""
    try:
        with open(path) as file:
            return [int(line) for line in file.read().split()]
    except (OSError, ValueError):
        return []
