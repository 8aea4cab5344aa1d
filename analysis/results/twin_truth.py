# SPDX-License-Identifier: GPL-3.0-or-later
"""What the virtual lab's twins report of a run: true joules, I/O counts, and what set the pace.

A twin's entry of `truth` is its history (docs/reference/protocols/twin.md), its lists with two
entries a phase. Which instants these are, the twins' own operations decide (`clock_shift_ns`): an
error of the clock between host and controller would otherwise move what was measured and the truth
alike, and never show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from joulerig.analysis.results.schema import Phase, PhaseName

Truth = Mapping[str, Mapping[str, Any]]

# How far around the ends of the load its first and last operation are looked for.
EDGE_NS = 2_000_000_000
GRID_NS = 10_000_000
# What an end found on that grid, of a load whose operations are not evenly spaced, can be wrong by.
TOLERANCE_NS = 50_000_000
LEAST_OPERATIONS = 20  # outside of the phase: fewer can be another program's
OPERATIONS = ("reads", "writes", "flushes", "discards")  # of a twin's counters


def load_instants(load: Phase, now_ns: int) -> NDArray[np.int64]:
    """Return the instants (UTC ns, rising) at which `clock_shift_ns` needs the twins' counts.

    A grid around each end of the workload phase, none of it after `now_ns`, and the ends of the
    phase's middle half.
    """
    quarter = (load.end_ns - load.start_ns) // 4
    reach = min(EDGE_NS, quarter)
    steps = np.arange(-reach, reach + 1, GRID_NS)
    found = np.concatenate(
        [load.start_ns + steps, [load.start_ns + quarter, load.end_ns - quarter], load.end_ns + steps]
    )
    return np.unique(found[found <= now_ns]).astype(np.int64)


def clock_shift_ns(load: Phase, times_ns: ArrayLike, operations: ArrayLike) -> int:
    """Return how much later than the twins' own operations the workload phase is, in ns.

    Parameters
    ----------
    load : Phase
        The workload phase, on the controller's axis by the host's clock and its measured offset.
    times_ns, operations : arrays of int, one length
        Instants (`load_instants`) and how many operations the run's twins had completed by each.

    Returns
    -------
    int
        0 where the phase holds the load's operations, or where these do not tell: too few, or going
        on before or after a phase of that length (a file system writes back what the load left).
        Else the least shift that makes the phase hold them.

    Notes
    -----
    The load's operations lie within the phase: its length L is right whatever the offset of the
    host's clock. With the first at f and the last at l, by the twins' clock, the phase begins
    between l - L and f. With r the mean rate of the phase's middle half, f is where
    n(t) - r t / 2 is least around the beginning, l where it is greatest around the end: the change
    between a rate below and one above r / 2 (E. S. Page, Biometrika 41, 1954). A few operations of
    another program around an end do not move them.
    """
    times, counts = np.asarray(times_ns, dtype=np.int64), np.asarray(operations, dtype=float)
    quarter = (load.end_ns - load.start_ns) // 4
    first, last = (int(np.searchsorted(times, at)) for at in (load.start_ns + quarter, load.end_ns - quarter))
    if last >= len(times) or times[last] <= times[first] or counts[last] <= counts[first]:
        return 0
    rate = (counts[last] - counts[first]) / (times[last] - times[first])
    walk = counts - rate / 2 * (times - times[0])
    begins = int(np.argmin(walk[: first + 1]))
    ends = last + int(np.argmax(walk[last:]))
    least, most = load.start_ns - int(times[begins]), load.end_ns - int(times[ends])
    if least > most + TOLERANCE_NS:
        return 0
    shift = (least + most) // 2 if least > most else min(max(0, least), most)

    def completed(start_ns: int, end_ns: int) -> float:
        before, after = np.interp([start_ns, end_ns], times, counts)
        return float(after - before)

    outside = (
        completed(int(times[begins]), load.start_ns)
        if shift > 0
        else completed(load.end_ns, int(times[ends]))
    )
    return shift if abs(shift) > TOLERANCE_NS and outside >= LEAST_OPERATIONS else 0


def add_truth(rows: list[dict[str, Any]], phases: Sequence[Phase], truth: Truth) -> None:
    """Fill in `true_joules` of the `energy` rows."""
    joules = {
        (phase.phase, member, rail["name"]): rail["joules"][2 * index + 1] - rail["joules"][2 * index]
        for member, answer in truth.items()
        for index, phase in enumerate(phases)
        for rail in answer["rails"]
    }
    for row in rows:
        row["true_joules"] = joules.get((row["phase"], row["drive"], row["rail"]))


def twin_io(phases: Sequence[Phase], truth: Truth, members: int) -> dict[str, Any] | None:
    """Return the journal's `io` row of the workload phase as the twins counted.

    The counts of an array's members are summed. None unless every one of the `members` has an
    answer.
    """
    if not truth or len(truth) != members:
        return None
    index = [phase.phase for phase in phases].index(PhaseName.WORKLOAD)
    counters = ("reads", "read_bytes", "writes", "write_bytes", "flushes", "discards", "fua_writes")
    rise = {
        name: sum(a["counters"][name][2 * index + 1] - a["counters"][name][2 * index] for a in truth.values())
        for name in counters
    }
    return {"source": "twin", **rise}


def device_bound(phases: Sequence[Phase], truth: Truth) -> float | None:
    """Return the part of the workload phase in which the work waited for a twin's model of time.

    A fraction, 0 to 1; of several drives the greatest. The rest waited for the host's processor.
    None without twins.
    """
    loads = [index for index, phase in enumerate(phases) if phase.phase == PhaseName.WORKLOAD]
    if not truth or not loads:
        return None
    (index,) = loads
    length = phases[index].end_ns - phases[index].start_ns

    def device_bound(answer: Mapping[str, Any]) -> float:
        before, after = answer["counters"]["device_bound_ns"][2 * index : 2 * index + 2]
        return min(1.0, float(after - before) / length)

    return max(device_bound(answer) for answer in truth.values()) if length > 0 else None
