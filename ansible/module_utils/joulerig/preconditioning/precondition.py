# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a leased drive from end to end, and load it in rounds until it is steady."""

import os

from ansible.module_utils.joulerig import limits
from ansible.module_utils.joulerig.loads import fio, load
from ansible.module_utils.joulerig.preconditioning import steady_state
from ansible.module_utils.joulerig.tools import Failed

# The lease has flushed the device's cache; fio, which has no right to, would complain.
RAW = """[global]
invalidate=0
"""
# Buffers differ from one another, as fio makes them: a drive that compresses gains nothing.
PASS = """[pass]
filename=${JOULERIG_DEVICE}
ioengine=libaio
direct=1
iodepth=32
rw=write
bs=128k
"""


def write_whole(lease, member, use_bytes, seed, scratch):
    """Write the drive, declared as `member`, once: its first `use_bytes`, or 0: the whole of it."""
    longest = limits.seconds([member], limits.WHOLE, use_bytes)
    _load("pass", PASS, lease, 0, use_bytes, seed, scratch, longest)


def rounds(lease, job, asked, scratch, tell):
    """Load the drive in rounds until its operations a second are steady, or there were `at_most`.

    `job`: {name, text}; `asked`: {at_most, seconds, seed, before, use_bytes}, `before` being how
    many rounds there were already, `use_bytes` as of `write_whole`. Gives each round: {number, ops,
    iops, start_ns, end_ns} (host's clock), after `tell` had it.
    """
    made = []
    while len(made) < asked["at_most"]:
        number = asked["before"] + len(made) + 1
        seed = asked["seed"] + number
        done = _load(job["name"], job["text"], lease, asked["seconds"], asked["use_bytes"], seed, scratch)
        made.append(_round(number, done.start, done.end, done.report))
        tell(made[-1])
        if steady_state.judge([{"iops": one["iops"]} for one in made]).steady:
            break
    return made


def _round(number, start, end, report):
    ops = fio.counts(report)["ops"]
    milliseconds = max(job["job_runtime"] for job in report["jobs"])
    if not ops or not milliseconds:
        raise Failed(f"round {number}: the drive completed no operation")
    return {
        "number": number,
        "ops": ops,
        "iops": ops / milliseconds * 1000,
        "start_ns": start,
        "end_ns": end,
    }


def _load(name, text, lease, seconds, use_bytes, seed, scratch, longest=None):
    """Run a job on the raw drive, or on its first bytes, to its end."""
    lease.check_same()
    bound = f"size={use_bytes}\n" if use_bytes else ""
    definition = {"name": name, "job": RAW + bound + text, "environment": {"JOULERIG_DEVICE": lease.path}}
    empty = os.path.join(scratch, "empty")
    done = fio.Workload(definition, load.Surroundings(empty, seconds, seed, scratch, None)).load(longest)
    load.raise_if(done.problem)
    return done
