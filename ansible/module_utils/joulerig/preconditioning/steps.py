# SPDX-License-Identifier: GPL-3.0-or-later
"""The work of module joulerig_precondition: a drive brought to a known state, step by step."""

import contextlib
import shutil
import tempfile

from ansible.module_utils.joulerig import (
    fence,
    host_lock,
    leftovers,
    limits,
    phases,
    provenance,
    tools,
)
from ansible.module_utils.joulerig.clocks import offset
from ansible.module_utils.joulerig.drives import blockqueue, wipe_lease
from ansible.module_utils.joulerig.drives.writers import Writer
from ansible.module_utils.joulerig.preconditioning import precondition, purges

NOTHING = {"write_bytes": 0, "discard_bytes": 0}


def execute(p, result):
    """Fill `result` step by step, so that an error leaves what was known by then."""
    with contextlib.ExitStack() as undo:
        # An earlier call, whose controller went away, may still purge, write or load the drive.
        lane = host_lock.lane_of(p)
        longest = limits.seconds([p["member"]], limits.WHOLE)
        undo.enter_context(host_lock.HostLock(longest, lane=lane))
        result["taken_down"] = leftovers.take_down(lane=lane)
        result["clock"].append(offset.measure(p["clock_server"]))
        tags = {"campaign": p["campaign"], "run": p["run"], "host": p["host"], "drive": p["drive"]}
        recorder = phases.Phases(p["agent_socket"], tags, result["clock"][0])
        scratch = tempfile.mkdtemp(prefix="joulerig-")
        undo.callback(shutil.rmtree, scratch, ignore_errors=True)
        left = leftovers.Leftovers(lane=lane)
        undo.callback(left.clear)
        lease = wipe_lease.lease_drive(p["member"])
        undo.callback(lambda: result.update(made=lease.identity))
        undo.enter_context(lease)
        name = lease.name
        fence.enter({lease.path: lease.number}, {})
        left.fenced([lease])
        write_cache = p["write_cache"] or None
        blockqueue.check(name, "none", write_cache)
        chosen = purges.choose(lease, p["purge"], p["member"]) if p["purge"] else None
        result["changed"] = True
        lease.begin(writer=Writer("fio"))
        result["settings"] = blockqueue.apply(undo, name, "none", write_cache, leftovers=left)
        blockqueue.count(undo, name, leftovers=left)
        before = blockqueue.written(name)
        try:
            _steps(p, lease, chosen, recorder, scratch, result)
        finally:
            after = blockqueue.written(name)
            result["touched"] = {key: after[key] - before[key] for key in after}
        result["health"] = provenance.health(name, p["member"]["interface"])
        result["clock"].append(offset.measure(p["clock_server"]))


def _steps(p, lease, chosen, recorder, scratch, result):
    if chosen:
        result["settings"]["purge"] = chosen
        with recorder.phase(phases.PURGE):
            purges.purge(lease, p["purge"], chosen, p["member"])
        result["purged"] = chosen["method"]
    if p["passes"]:
        with recorder.phase(phases.PASSES):
            for _ in range(p["passes"]):
                precondition.write_whole(lease, p["member"], p["use_bytes"], p["seed"], scratch)
                result["filled"] += 1
    asked = {
        "at_most": p["rounds"],
        "seconds": p["round_seconds"],
        "seed": p["seed"],
        "before": p["rounds_before"],
        "use_bytes": p["use_bytes"],
    }
    at_most = p["rounds_before"] + p["rounds"]

    def tell(one):
        result["rounds"].append(one)
        recorder.round(one, at_most)

    with recorder.phase(phases.ROUNDS):
        precondition.rounds(lease, p["job"], asked, scratch, tell)


def empty():
    """Return the result of a preconditioning of which nothing is done."""
    return {
        "changed": False,
        "status": tools.OK,
        "reason": "",
        "purged": "",
        "filled": 0,
        "rounds": [],
        "clock": [],
        "touched": NOTHING,
        "settings": {},
        "taken_down": [],
        "made": None,
    }
