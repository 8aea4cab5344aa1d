# SPDX-License-Identifier: GPL-3.0-or-later
"""Durable writes of a log, and the interval whose energy paid for them."""

from __future__ import annotations

from dataclasses import dataclass

from joulerig.analysis.powercut.witness_log import TRANSACTION, WitnessLog, promises
from joulerig.analysis.results.schema import Performance, Phase, PhaseName


@dataclass(frozen=True)
class DurableWrites:
    """Writes of a log that were promised after its first promise and up to its last one.

    `start_ns` and `end_ns` are the instants of these two promises, UTC ns of the controller. Writes
    under the first promise are not counted, since the work for them began before it. All zero where
    there are not two promises. Of an application they are its transactions, whose bytes are unknown
    and counted as 0.
    """

    writes: int
    bytes: int
    start_ns: int
    end_ns: int
    unit: str = "durable write"

    @property
    def phase(self) -> Phase:
        """Return the interval as the workload phase of a run.

        Both instants are the controller's own: the witness is on the clock that the meters are on.
        """
        return Phase(PhaseName.WORKLOAD.value, self.start_ns, self.end_ns, 0, 0)

    @property
    def performance(self) -> Performance:
        """Return the writes as the operations of a run."""
        seconds = self.phase.seconds
        return Performance(
            seconds=seconds,
            ops=self.writes,
            read_bytes=0,
            write_bytes=self.bytes,
            syncs=None,
            ops_per_second=self.writes / seconds,
            mb_per_second=self.bytes / seconds / 1e6,
            latency_p50_seconds=None,
            latency_p99_seconds=None,
            unit=self.unit,
        )

    def joules_per_write(self, joules: float | None) -> float | None:
        """Return joules per write; None where the energy is unknown or no write is counted.

        `joules`: the drive's energy from start to end, None where nothing measured it.
        """
        return joules / self.writes if joules is not None and self.writes else None


def durable_writes(log: WitnessLog) -> DurableWrites:
    """Return what a log promised, and over which time."""
    by = promises(log)
    writes = {o.sequence: o for o in log.operations if o.sequence in by}
    instants = sorted({promise.acknowledged_utc_ns or 0 for promise in by.values()})
    if len(instants) < 2:
        return DurableWrites(0, 0, 0, 0)
    later = [s for s, promise in by.items() if (promise.acknowledged_utc_ns or 0) > instants[0]]
    unit = (
        "durable transaction" if any(writes[s].operation == TRANSACTION for s in later) else "durable write"
    )
    return DurableWrites(len(later), sum(writes[s].bytes for s in later), instants[0], instants[-1], unit)
