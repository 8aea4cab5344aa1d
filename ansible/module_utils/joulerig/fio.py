# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a fio job file: once to lay out its files, once to load; its I/O is time-stamped from within fio."""

import json
import os

from ansible.module_utils.joulerig.tools import Failed, run

# fio runs these in the job, after set-up and before its first (after its last) I/O: start-up is not load.
# It redirects their output itself, so that a redirection of ours would stay empty: hence tee.
STAMPS = """[global]
exec_prerun=date +%s%N | tee -a {stamps}.begin
exec_postrun=date +%s%N | tee -a {stamps}.end
"""


class Workload:
    """A fio job in a folder of the file system under test.

    The job file reads its surroundings from the environment, as any fio job file can: JOULERIG_DIRECTORY,
    JOULERIG_SECONDS, JOULERIG_SEED; `more` of it by name.
    """

    def __init__(self, name, job, directory, seconds, seed, scratch, more=None):
        self.name, self._job, self._seconds, self._scratch = name, job, seconds, scratch
        self._environment = {
            **os.environ,
            "LC_ALL": "C",
            "JOULERIG_DIRECTORY": directory,
            "JOULERIG_SECONDS": str(seconds),
            "JOULERIG_SEED": str(seed),
            **(more or {}),
        }
        os.makedirs(directory, exist_ok=True)

    def _fio(self, preamble, label, timeout):
        job = os.path.join(self._scratch, f"{label}.fio")
        output = os.path.join(self._scratch, f"{label}.json")
        with open(job, "w") as file:
            file.write(preamble + self._job)
        run(
            ["fio", "--output-format=json+", f"--output={output}", job],
            timeout=timeout,
            env=self._environment,
            cwd=self._scratch,
        )
        with open(output) as file:
            text = file.read()
        # fio puts warnings before the JSON on the same output.
        try:
            return json.loads(text[text.index("{") :])
        except ValueError:
            raise Failed(f"fio: {self.name}: its output is not JSON: {text.strip()[:200]!r}") from None

    def lay_out(self):
        """Create the job's files and write them whole, without any load."""
        self._fio("[global]\ncreate_only=1\n", "layout", 3600)

    def load(self):
        """Run the load; gives (start_ns, end_ns, fio's own report), times of the host's clock."""
        stamps = os.path.join(self._scratch, "stamps")
        report = self._fio(STAMPS.format(stamps=stamps), "load", self._seconds * 3 + 300)
        for job in report.get("jobs", []):
            if job.get("error"):
                raise Failed(f"fio: {self.name}: job {job.get('jobname')}: {os.strerror(job['error'])}")
        if not report.get("jobs"):
            raise Failed(f"fio: {self.name}: its report has no job")
        return min(_stamps(stamps + ".begin")), max(_stamps(stamps + ".end")), report


def counts(report):
    """{ops, read_bytes, write_bytes} of a report, over all of its jobs."""
    ways = [job[way] for job in report["jobs"] for way in ("read", "write")]
    return {
        "ops": sum(way["total_ios"] for way in ways),
        "read_bytes": sum(job["read"]["io_bytes"] for job in report["jobs"]),
        "write_bytes": sum(job["write"]["io_bytes"] for job in report["jobs"]),
    }


def _stamps(path):
    try:
        with open(path) as file:
            if stamps := [int(line) for line in file.read().split()]:
                return stamps
    except (OSError, ValueError) as error:
        raise Failed(f"fio: left no time stamp of its load: {error}") from None
    raise Failed(f"fio: left no time stamp of its load: {path} is empty")
