# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare what a drive declares of its power states with what was measured.

An interval is Student's over the runs at 95 %, widened by what no run averages out: the meters'
limits, what a trace resolves, the width of a latency's bin. A drive is found to disobey only where
a wider interval, whose error is 1 % over all comparisons of a setting, lies above the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from joulerig.analysis.audit.checks import FALSE_ACCUSATIONS
from joulerig.analysis.power_states.course import Rests
from joulerig.analysis.power_states.declared import Rest
from joulerig.analysis.power_states.measured import Measured
from joulerig.analysis.statistics.interval import Interval, student

ALLOWED = 0.1
"""Beyond what is declared: of what a state promises to save, and of times. A host adds to both."""
LATENCY_BIN = 1 / 64  # of a latency: the width of fio's bins


class Verdict(StrEnum):
    """What measurements say of a drive's declaration."""

    OBEYS = "obeys"
    CONTRADICTED = "contradicted"
    UNDECIDED = "undecided"
    NOTHING_DECLARED = "nothing declared"


class Quantity(StrEnum):
    """What is measured of a state or of a rest."""

    WORKING = "greatest 10 s at work"
    AT_REST = "power at rest"
    SAVED = "saved at rest"
    RESTS_AFTER = "rests after"
    LEAVING = "leaving a rest takes"
    COST = "a rest costs"
    BREAK_EVEN = "break-even rest"


UNITS = {
    Quantity.WORKING: "W",
    Quantity.AT_REST: "W",
    Quantity.SAVED: "W",
    Quantity.RESTS_AFTER: "s",
    Quantity.LEAVING: "s",
    Quantity.COST: "J",
    Quantity.BREAK_EVEN: "s",
}


@dataclass(frozen=True)
class Check:
    """A quantity over the runs of a setting.

    `state`: the number of the power state that it is of, where the drive declares one. `value` is
    None without a run that shows it, `why` not; `interval` with a single run. `declared`: what the
    drive says, `bound`: up to where it obeys.
    """

    quantity: Quantity
    runs: int
    value: float | None
    interval: Interval | None
    state: int | None = None
    declared: float | None = None
    bound: float | None = None
    verdict: Verdict = Verdict.NOTHING_DECLARED
    why: str = ""


@dataclass(frozen=True)
class _Values:
    """Values of a quantity by run, and how far all of them may be off together.

    `why`: why there are none.
    """

    quantity: Quantity
    values: Sequence[float]
    limit: float
    state: int | None = None
    declared: float | None = None
    bound: float | None = None
    why: str = ""


@dataclass(frozen=True)
class Rested:
    """The checks of a setting that lets a drive rest.

    `rests`: of the runs that have any. `awake_watts`: the load's, without any. `never`: whether the
    drive should have rested in the pauses of its load, and did not.
    """

    checks: tuple[Check, ...]
    rests: tuple[Rests, ...] = ()
    awake_watts: float | None = None
    never: bool = False


def rested(runs: Sequence[Measured], reference: Sequence[Measured]) -> Rested:
    """Judge the runs in which a drive may rest, by those in which it may not (may be empty)."""
    rest = next((one.declared.rest for one in runs if one.declared.rest), None)
    found = _idle(runs, reference, rest)
    pairs = [(one, awake, one.rests(awake)) for one in runs if (awake := _awake(one, reference)) is not None]
    with_rests = [(one, awake, rests) for one, awake, rests in pairs if rests is not None]
    if with_rests:
        found += _pauses(with_rests, reference, rest)
    never = (
        bool(pairs) and not with_rests and rest is not None and _had_to_rest([one for one, *_ in pairs], rest)
    )
    level = sum(awake for _, awake, _ in pairs) / len(pairs) if pairs else None
    return Rested(_judged(found), tuple(rests for *_, rests in with_rests), level, never)


def working(runs: Sequence[Measured], limit: float | None = None) -> tuple[Check, ...]:
    """Judge the greatest power over 10 s by what the state that the drive works in allows.

    Or by the `limit` in watts that it was given.
    """
    known = [one for one in runs if one.greatest is not None and one.load is not None]
    if not known:
        return ()
    state = known[0].declared.working
    share = _meter_share(known)
    values = [one.greatest for one in known if one.greatest is not None]
    watts = limit if limit is not None else state.watts if state else None
    number = state.number if state else None
    return _judged([_Values(Quantity.WORKING, values, share * max(values), number, watts, watts)])


def _meter_share(runs: Sequence[Measured]) -> float:
    """Return the greatest limit of the meters' error of a load's power, relative to it."""
    loads = [one.load for one in runs if one.load is not None and one.load.watts > 0]
    return max((one.limit_watts / one.watts for one in loads), default=0.0)


def _awake(one: Measured, reference: Sequence[Measured]) -> float | None:
    """Return what the drive draws under the same load where it never rests."""
    return _paired(one, reference, lambda other: other.load.watts if other.load else None)


def _paired(
    one: Measured, reference: Sequence[Measured], value: Callable[[Measured], float | None]
) -> float | None:
    """Return a value of the reference's run in the same block, else its mean."""
    found = {other.block: got for other in reference if (got := value(other)) is not None}
    if not found:
        return None
    return found.get(one.block, sum(found.values()) / len(found))


def _idle(runs: Sequence[Measured], reference: Sequence[Measured], rest: Rest | None) -> list[_Values]:
    idle = [one.idle for one in runs if one.idle is not None]
    state = rest.deepest if rest else None
    number = state.number if state else None
    watts = state.watts if state else None
    if not idle:
        why = next((one.no_idle for one in runs if one.no_idle), "")
        return [_Values(Quantity.AT_REST, [], 0.0, number, watts, watts, why)] if why else []
    limit = max(one.limit_watts for one in idle)
    awake = [one.idle.watts for one in reference if one.idle is not None]
    bound = None
    if watts is not None:
        spare = sum(awake) / len(awake) - watts if awake else watts
        bound = watts + ALLOWED * max(spare, 0.0)
    found = [_Values(Quantity.AT_REST, [one.watts for one in idle], limit, number, watts, bound)]
    saved = [
        before - one.idle.watts
        for one in runs
        if one.idle is not None
        and (before := _paired(one, reference, lambda other: other.idle.watts if other.idle else None))
        is not None
    ]
    return [*found, _Values(Quantity.SAVED, saved, 0.0, number)] if saved else found


def _pauses(
    found: Sequence[tuple[Measured, float, Rests]], reference: Sequence[Measured], rest: Rest | None
) -> list[_Values]:
    first = rest.first.number if rest else None
    deepest = rest.deepest.number if rest else None
    step = max(rests.resolution_seconds for *_, rests in found)
    after = [rests.awake_seconds for *_, rests in found]
    begins = rest.deepest.exit_seconds + rest.idle_seconds + rest.first.entry_seconds if rest else None
    values = [_Values(Quantity.RESTS_AFTER, after, step, first, begins, _allowed(begins, step))]
    late = [
        (one.latency_seconds - before, one.latency_seconds)
        for one, *_ in found
        if one.latency_seconds is not None
        and (before := _paired(one, reference, lambda other: other.latency_seconds)) is not None
    ]
    if late:
        width = LATENCY_BIN * max(whole for _, whole in late)
        leaves = rest.deepest.exit_seconds if rest else None
        bound = _allowed(leaves, width)
        values.append(_Values(Quantity.LEAVING, [more for more, _ in late], width, deepest, leaves, bound))
    share = _meter_share(reference)
    costs = [_cost(rests, awake) for _, awake, rests in found]
    saved = [awake - rests.rest_watts for _, awake, rests in found]
    limit = share * max(map(abs, costs)) + step * max(saved)
    values.append(_Values(Quantity.COST, costs, limit, deepest))
    pays = [cost / watts for cost, watts in zip(costs, saved, strict=True)]
    values.append(_Values(Quantity.BREAK_EVEN, pays, limit / min(saved), deepest))
    return values


def _cost(rests: Rests, awake_watts: float) -> float:
    """Return the joules of a cycle beyond those of a drive that is at once in its state and back.

    That is: awake outside of rests, at the power of the deepest state all through them. What the
    operations take is in both. It pays where a rest is longer than this over what rest saves (L.
    Benini and others, A survey of design techniques for system-level dynamic power management, IEEE
    Transactions on VLSI Systems 8(3), 2000, 299-316: break-even time).
    """
    at_once = awake_watts * rests.awake_seconds + rests.rest_watts * rests.rest_seconds
    return rests.cycle_joules - at_once


def _had_to_rest(runs: Sequence[Measured], rest: Rest) -> bool:
    """Return whether all runs' pauses were long enough, and their power traced."""
    least = 2 * (rest.idle_seconds + rest.deepest.entry_seconds + rest.deepest.exit_seconds)
    return all(
        one.pause_seconds is not None and one.pause_seconds > least and len(one.power.watts) for one in runs
    )


def _allowed(declared: float | None, resolution: float) -> float | None:
    return None if declared is None else declared * (1 + ALLOWED) + resolution


def _judged(found: Sequence[_Values]) -> tuple[Check, ...]:
    tests = sum(one.bound is not None for one in found)
    return tuple(_check(one, tests) for one in found)


def _check(one: _Values, tests: int) -> Check:
    count = len(one.values)
    mean = sum(one.values) / count if count else None
    if count < 2:
        verdict = Verdict.NOTHING_DECLARED if one.bound is None else Verdict.UNDECIDED
        return Check(one.quantity, count, mean, None, one.state, one.declared, one.bound, verdict, one.why)
    interval = student(one.values).widened(one.limit)
    if one.bound is None:
        verdict = Verdict.NOTHING_DECLARED
    elif student(one.values, 1 - FALSE_ACCUSATIONS / tests).widened(one.limit).low > one.bound:
        verdict = Verdict.CONTRADICTED
    else:
        verdict = Verdict.OBEYS if interval.high <= one.bound else Verdict.UNDECIDED
    return Check(one.quantity, count, mean, interval, one.state, one.declared, one.bound, verdict)
