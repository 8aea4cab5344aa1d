# SPDX-License-Identifier: GPL-3.0-or-later
"""The loss ledger of a campaign's meters.

expected = samples + lost + duplicate + repeated + over_range + impossible, over all phases. A
rail's samples are counted between the points that enclose a phase, so that the samples of a point
between two phases count in both; each phase's own ledger balances by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import RailEnergy


@dataclass(frozen=True)
class Ledger:
    """Sums over the rails of one meter, or over one rail of it.

    `duplicate`, `repeated`, `surplus`, `over_range`, `impossible` and `worst_gap_seconds` are None
    where a run's journal does not have them.

    `phases`: how many there are, `without`: of these without joules. `unaccounted`: the sum of the
    magnitudes of what each phase's ledger is off by: losses of one must not cancel against
    another's. `last_ns`: when the last of them began.
    """

    meter: str
    drive: str
    rail: str
    phases: int
    without: int
    samples: int
    expected: int
    lost: int
    duplicate: int | None
    repeated: int | None
    surplus: int | None
    over_range: int | None
    impossible: int | None
    gap_seconds: float
    worst_gap_seconds: float | None
    unaccounted: int | None
    last_ns: int | None

    @property
    def balanced(self) -> bool | None:
        """Return whether the ledger balances; None where a part of it is not known."""
        return None if self.unaccounted is None else self.unaccounted == 0


def meter_ledgers(campaign: Campaign) -> list[Ledger]:
    """Return a ledger for each meter; `drive` and `rail` are empty."""
    return _grouped(campaign, by_rail=False)


def rail_ledgers(campaign: Campaign) -> list[Ledger]:
    """Return a ledger for each rail, in order of meter, drive, rail."""
    return _grouped(campaign, by_rail=True)


def _grouped(campaign: Campaign, *, by_rail: bool) -> list[Ledger]:
    found: dict[tuple[str, str, str], list[tuple[Run, RailEnergy]]] = {}
    for run in campaign.runs:
        for rail in run.energy:
            key = (rail.meter, rail.drive, rail.rail) if by_rail else (rail.meter, "", "")
            found.setdefault(key, []).append((run, rail))
    return [_ledger(key, found[key]) for key in sorted(found)]


def _ledger(key: tuple[str, str, str], phases: list[tuple[Run, RailEnergy]]) -> Ledger:
    rails = [rail for _, rail in phases]
    off = [rail.unaccounted for rail in rails]
    worst = [rail.worst_gap_seconds for rail in rails]
    begun = [run.phases[rail.phase].start_ns for run, rail in phases if rail.phase in run.phases]
    return Ledger(
        *key,
        phases=len(rails),
        without=sum(rail.joules is None for rail in rails),
        samples=sum(rail.samples for rail in rails),
        expected=sum(rail.expected for rail in rails),
        lost=sum(rail.lost for rail in rails),
        duplicate=_sum(rail.duplicate for rail in rails),
        repeated=_sum(rail.repeated for rail in rails),
        surplus=_sum(rail.surplus for rail in rails),
        over_range=_sum(rail.over_range for rail in rails),
        impossible=_sum(rail.impossible for rail in rails),
        gap_seconds=sum(rail.gap_seconds for rail in rails),
        worst_gap_seconds=None if None in worst else max(worst),
        unaccounted=None if None in off else sum(abs(count) for count in off),
        last_ns=max(begun, default=None),
    )


def _sum(values: Iterable[int | None]) -> int | None:
    values = list(values)
    return None if None in values else sum(values)
