# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring a leased drive to a known state: purge it, write it from end to end, load it in rounds."""

import os

from ansible.module_utils.joulerig import fio, steady_state
from ansible.module_utils.joulerig.load import Surroundings, must
from ansible.module_utils.joulerig.tools import Failed, Refused, run

LEAST_BYTES_PER_SECOND = 10e6  # a drive that fills more slowly is given up
PURGE_SECONDS = 3600
# Buffers differ from one another, as fio makes them: a drive that compresses gains nothing.
FILL = """[fill]
filename=${JOULERIG_DEVICE}
ioengine=libaio
direct=1
iodepth=32
rw=write
bs=128k
"""


def purge(lease, method):
    """Have the drive forget its content: "discard" all of it, or "format" it, which only NVMe drives can."""
    device = lease.device()
    if method == "discard":
        run(["blkdiscard", "--force", device], timeout=PURGE_SECONDS)
    elif method == "format":
        if not os.path.basename(device).startswith("nvme"):
            raise Refused(f"{device}: format: is no NVMe drive; allowed: discard")
        run(["nvme", "format", device, "--force", "--ses=0"], timeout=PURGE_SECONDS)
        lease.device()  # still the drive that it was, and as large
    else:
        raise Failed(f"purge: {method!r} is unknown; allowed: discard, format")


def fill(lease, size_bytes, seed, scratch):
    """Write the whole drive once, from its beginning to its end."""
    seconds = size_bytes / LEAST_BYTES_PER_SECOND
    must(_job("fill", FILL, lease, seconds, seed, scratch).load().problem)


def rounds(lease, job, asked, scratch, tell):
    """Load the drive in rounds until its operations a second are steady, or there were `at_most`.

    `job`: {name, text}; `asked`: {at_most, seconds, seed, before}, `before` being how many rounds there were
    already. Gives each round: {number, ops, iops, start_ns, end_ns} (host's clock), after `tell` had it.
    """
    made = []
    while len(made) < asked["at_most"]:
        number = asked["before"] + len(made) + 1
        load = _job(job["name"], job["text"], lease, asked["seconds"], asked["seed"] + number, scratch)
        made.append(_round(number, load.load()))
        tell(made[-1])
        if steady_state.judge([{"iops": one["iops"]} for one in made]).steady:
            break
    return made


def _round(number, done):
    must(done.problem)
    ops = fio.counts(done.report)["ops"]
    milliseconds = max(job["job_runtime"] for job in done.report["jobs"])
    if not ops or not milliseconds:
        raise Failed(f"round {number}: the drive did not one operation")
    return {
        "number": number,
        "ops": ops,
        "iops": ops / milliseconds * 1000,
        "start_ns": done.start,
        "end_ns": done.end,
    }


def _job(name, text, lease, seconds, seed, scratch):
    for stamps in ("stamps.begin", "stamps.end"):  # of the round before
        if os.path.exists(path := os.path.join(scratch, stamps)):
            os.unlink(path)
    definition = {"name": name, "job": text, "environment": {"JOULERIG_DEVICE": lease.device()}}
    folder = os.path.join(scratch, "empty")
    return fio.Workload(definition, Surroundings(folder, round(seconds), seed, scratch, None))
