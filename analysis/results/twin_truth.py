# SPDX-License-Identifier: GPL-3.0-or-later
"""What the virtual lab's twins report of a run: true joules, I/O counts, and what set the pace.

A twin's entry of `truth` is its history (docs/reference/protocols/twin.md), its lists with two
entries a phase.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from joulerig.analysis.results.schema import Phase, PhaseName

Truth = Mapping[str, Mapping[str, Any]]


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
