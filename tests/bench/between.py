# SPDX-License-Identifier: GPL-3.0-or-later
"""Count how often a gate, a series and a bisection err, on simulated campaigns.

    python -m tests.bench.between [--count N] [--output results/bench/trust.json]

Each family is a world in which campaigns, nights or kernels differ for reasons that are no change:
days, wear, seasons, memory, own effects, ramps. `wrong`: what is named although it is not so.
`missed`: what is so and is not named. Families marked `later` were chosen after the code was
finished. Exit code: 0 if none is wrong more often than allowed, 1 if not.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joulerig.analysis.bisect.search import Design
from joulerig.analysis.compare.campaigns import COMMON, Change, describe
from joulerig.analysis.gate import levels, verdicts
from joulerig.analysis.gate.verdicts import Outcome
from joulerig.analysis.statistics import movements
from joulerig.analysis.statistics.movements import Deviation
from joulerig.analysis.statistics.ranking import sidak_level
from tests.support import ROOT
from tests.support.simulated_bisect import Rig, conclude

SEED = 45
CELLS, SPREAD = 15, 0.01
KERNELS, BLOCKS = 16, 60
MOST_WRONG = 0.05
Values = NDArray[np.float64]
Rng = np.random.Generator


@dataclass(frozen=True)
class Line:
    """Shares of simulated worlds of a family; None where there is nothing to miss.

    `blind`: of gates that failed as they could not see, with nothing named.
    """

    question: str
    family: str
    wrong: float
    missed: float | None = None
    later: bool = False
    blind: float | None = None


# --- gate: two campaigns of 15 cells


@dataclass(frozen=True)
class Pair:
    """Two campaigns to draw; standard deviations of logarithms.

    `fall`: of the first cell. `known`: whether the gate knows `day`. `tails`: degrees of freedom of
    the days' Student's t. `spreads`: greatest over least spread of runs. `lost`: share of runs.
    """

    blocks: int = 5
    allowed: float = 0.05
    day: float = 0.0
    own: float = 0.0
    fall: float = 0.0
    known: bool = False
    spread: float = SPREAD
    tails: float = math.inf
    spreads: float = 1.0
    lost: float = 0.0

    def draw(self, rng: Rng) -> Values:
        day = rng.normal() if math.isinf(self.tails) else rng.standard_t(self.tails)
        each = self.spread * self.spreads ** rng.uniform(-0.5, 0.5, (CELLS, 1))
        logs = each * rng.normal(size=(CELLS, self.blocks)) + rng.normal(0, SPREAD, self.blocks)
        logs += self.day * day + rng.normal(0, self.own, (CELLS, 1))
        lost = rng.random(logs.shape) < self.lost
        lost[:, :2] = False
        return np.where(lost, math.nan, logs)

    def judge(self, rng: Rng) -> list[verdicts.Verdict]:
        before, after = self.draw(rng), self.draw(rng)
        after[0] += math.log1p(-self.fall)
        moves = movements.move(before, after, Deviation(self.day) if self.known else None)
        names = [f"cell {cell:02}" for cell in range(CELLS)]
        changes = {name: Change(name, 1.0, 1.0, (self.blocks, self.blocks)) for name in names}
        return verdicts.judge_compared(describe(changes, names, moves), self.allowed)


def gates() -> dict[str, Pair]:
    found = {
        f"day {100 * day:g} %, {blocks} blocks, allowed {100 * allowed:g} %": Pair(blocks, allowed, day)
        for day in (0.0, 0.01, 0.02, 0.05)
        for blocks in (3, 5, 10)
        for allowed in (0.0, 0.02, 0.05)
    }
    found |= {
        f"day {100 * day:g} %, known": Pair(day=day, allowed=0.02, known=True) for day in (0.01, 0.02, 0.05)
    }
    found |= {
        f"own effects of {own:g} sd, allowed {100 * allowed:g} %": Pair(own=own * SPREAD, allowed=allowed)
        for own in (0.5, 1.0)
        for allowed in (0.0, 0.05)
    }
    found |= {
        f"a fall of {100 * fall:g} %, {blocks} blocks, runs 2 %, day 2 %": Pair(
            blocks, fall=fall, spread=0.02, day=0.02
        )
        for blocks in (2, 3, 5, 10)
        for fall in (0.1, 0.2, 0.9)
    }
    return found


LATER_GATES = {
    "days with heavy tails": Pair(day=0.02, tails=3.0, allowed=0.02),
    "spreads of 0.3 to 3 %, a fifth of the runs lost": Pair(spreads=10.0, lost=0.2, allowed=0.0),
}


def gate(name: str, pair: Pair, count: int, *, later: bool = False) -> Line:
    """Count cells said to have fallen although they did not, and gates that passed a fall."""
    rng = np.random.default_rng([SEED, *name.encode()])
    wrong = missed = blind = 0
    for _ in range(count):
        judged = pair.judge(rng)
        fell = {one.cell for one in judged if one.outcome is Outcome.FELL}
        named = {cell for cell in fell if cell != "cell 00"} if pair.fall else fell
        wrong += bool(named)
        blind += not fell and not verdicts.passes(judged)
        missed += verdicts.passes([one for one in judged if one.cell != COMMON])
    return Line("gate", name, wrong / count, missed / count if pair.fall else None, later, blind / count)


# --- series: nights of one cell, or of all together


def autoregressive(memory: float, rng: Rng, nights: int) -> Values:
    values = rng.standard_normal(nights)
    for night in range(1, nights):
        values[night] = memory * values[night - 1] + math.sqrt(1 - memory**2) * values[night]
    return values


def shifted(mean: Callable[[Values], Values]) -> Callable[[Rng, int], Values]:
    return lambda rng, nights: mean(np.arange(nights, dtype=float)) + rng.standard_normal(nights)


def seasons(rng: Rng, nights: int, height: float, period: int = 30, noise: float = 1.0) -> Values:
    angle = 2 * np.pi * (np.arange(nights) / period + rng.random())
    return height * np.sin(angle) + noise * rng.standard_normal(nights)


FLAT: dict[str, Callable[[Rng, int], Values]] = {
    "white": lambda rng, nights: rng.standard_normal(nights),
    "heavy tails": lambda rng, nights: rng.standard_t(3, nights),
    **{
        f"AR(1) {memory:g}": (lambda rng, nights, memory=memory: autoregressive(memory, rng, nights))
        for memory in (0.3, 0.5, 0.7)
    },
}
SLOW: dict[str, Callable[[Rng, int], Values]] = {  # drifts and wanders, but has no step
    "wear of 2 sd": shifted(lambda nights: 2 * nights / len(nights)),
    "wear of 4 sd": shifted(lambda nights: 4 * nights / len(nights)),
    "season of 30 nights": lambda rng, nights: seasons(rng, nights, 1.5),
}
LATER_FLAT = {
    "weekends": shifted(lambda nights: 0.8 * (nights % 7 >= 5)),
    "spread doubles half way": lambda rng, nights: (
        (1 + (np.arange(nights) >= nights // 2)) * rng.standard_normal(nights)
    ),
}
LATER_SLOW = {
    "warming that settles, 3 sd": shifted(lambda nights: 3 * (1 - np.exp(-nights / (len(nights) / 4)))),
    "two seasons at once": lambda rng, nights: seasons(rng, nights, 1.0) + seasons(rng, nights, 1.0, 90, 0.0),
}
STEPS = (3.0, 5.0)
NIGHTS = (8, 12, 24, 48)


def nights(name: str, draw: Callable, count: int, *, slow: bool = False, later: bool = False) -> list[Line]:
    """A step or a drift where the level stays; of what is slow, a step."""
    found = []
    for number in NIGHTS:
        if name.startswith("AR") and number < levels.FEWEST_TO_REMEMBER:
            continue  # independence is assumed there, and said so
        rng = np.random.default_rng([SEED, number, *name.encode()])
        courses = [levels.course(draw(rng, number)) for _ in range(count)]
        wrong = sum(bool(one.steps) or (not slow and one.drift is not None) for one in courses) / count
        missed = sum(one.drift is None and not one.wanders for one in courses) / count if slow else None
        found.append(Line("series", f"{name}, {number} nights", wrong, missed, later))
    return found


def stepped(size: float, count: int) -> list[Line]:
    """Steps half way, at the share of 5 % that each of 15 cells and all together have."""
    found, alpha = [], sidak_level(levels.ALPHA, CELLS + 1)
    for number in NIGHTS:
        rng = np.random.default_rng([SEED, number, round(size)])
        raised = size * (np.arange(number) >= number // 2)
        courses = [levels.course(raised + rng.standard_normal(number), alpha) for _ in range(count)]
        near = [any(abs(step.at - number // 2) <= 1 for step in one.steps) for one in courses]
        wrong = sum(bool(one.steps) and not right for one, right in zip(courses, near, strict=True))
        name = f"a step of {size:g} sd, {number} nights, one of {CELLS} cells"
        found.append(Line("series", name, wrong / count, 1 - sum(near) / count))
    return found


# --- bisections of 16 kernels


def kernels(
    steps: int = 0, size: float = 3.0, own: float = 0.0, ramp: float = 0.0, alternate: float = 0.0
) -> Callable[[Rng], tuple[Values, set[int]]]:
    """Draw kernels' means, and which of them are the first ones after a step."""

    def draw(rng: Rng) -> tuple[Values, set[int]]:
        at = np.arange(KERNELS)
        places = {int(place) for place in rng.choice(np.arange(1, KERNELS), steps, replace=False)}
        means = rng.normal(0, own, KERNELS) + ramp * at / (KERNELS - 1) + alternate * (at % 2)
        return means + sum(size * (at >= place) for place in places), places

    return draw


BISECTIONS = {
    "no change": kernels(),
    **{f"a step of {size:g} sd": kernels(1, size) for size in (2.0, 3.0, 5.0)},
    **{f"no step, own effects of {own:g} sd": kernels(own=own) for own in (0.5, 1.0)},
    **{f"a step of 3 sd, own effects of {own:g} sd": kernels(1, own=own) for own in (0.5, 1.0)},
    "two steps of 2 sd": kernels(2, 2.0),
    "a ramp of 4 sd": kernels(ramp=4.0),
}
LATER_BISECTIONS = {
    "three steps of 1.5 sd": kernels(3, 1.5),
    "every second kernel 1 sd better, and a ramp of 3 sd": kernels(alternate=1.0, ramp=3.0),
}


def bisection(name: str, draw: Callable, count: int, *, later: bool = False) -> Line:
    """Another kernel than one after a step is named; or none, although there is a step."""
    rng = np.random.default_rng([SEED, *name.encode()])
    wrong = missed = steps = 0
    for _ in range(count):
        means, places = draw(rng)
        found = conclude(Rig(means.tolist(), rng, drift=0.1), Design(KERNELS, BLOCKS)).first_bad
        wrong += found is not None and found not in places
        missed += found is None
        steps += bool(places)
    return Line("bisect", name, wrong / count, missed / count if steps else None, later)


def gates_lines(count: int) -> list[Line]:
    found = [gate(name, pair, count) for name, pair in gates().items()]
    return found + [gate(name, pair, count, later=True) for name, pair in LATER_GATES.items()]


def series_lines(count: int) -> list[Line]:
    found = []
    for families, slow, later in (
        (FLAT, False, False), (SLOW, True, False), (LATER_FLAT, False, True), (LATER_SLOW, True, True),
    ):  # fmt: skip
        for name, draw in families.items():
            found += nights(name, draw, count, slow=slow, later=later)
    return found + [line for size in STEPS for line in stepped(size, count)]


def bisect_lines(count: int) -> list[Line]:
    """Search a quarter as often, as a search takes as long as hundreds of tests."""
    searches = max(count // 4, 1)
    found = [bisection(name, draw, searches) for name, draw in BISECTIONS.items()]
    return found + [bisection(name, draw, searches, later=True) for name, draw in LATER_BISECTIONS.items()]


QUESTIONS = {"gate": gates_lines, "series": series_lines, "bisect": bisect_lines}


def rates(count: int) -> list[Line]:
    """Simulate `count` pairs of campaigns and series a line, and a quarter as many bisections."""
    return [line for simulate in QUESTIONS.values() for line in simulate(count)]


def figures(lines: list[Line]) -> dict[str, Any]:
    """Return the entries of trust.json."""
    questions = dict.fromkeys(line.question for line in lines)
    return {
        "between_campaigns_wrong_worst": {
            question: max(line.wrong for line in lines if line.question == question) for question in questions
        },
        "between_campaigns": [asdict(line) for line in lines],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=400, help="of each line")
    parser.add_argument("--only", choices=QUESTIONS, help="keep the other lines of the file")
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "bench" / "trust.json")
    given = parser.parse_args()
    kept = json.loads(given.output.read_text()) if given.output.exists() else {}
    lines = QUESTIONS[given.only](given.count) if given.only else rates(given.count)
    for line in lines:
        more = "" if line.missed is None else f", missed {100 * line.missed:5.1f} %"
        more += "" if line.blind is None else f", blind {100 * line.blind:5.1f} %"
        print(f"{line.question:7} {line.family:62} wrong {100 * line.wrong:4.1f} %{more}")
    if given.only:
        former = (Line(**one) for one in kept.get("between_campaigns", []))
        lines += [line for line in former if line.question != given.only]
    found = figures(lines)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps({**kept, **found}, indent=1) + "\n")
    worst = found["between_campaigns_wrong_worst"]
    print("; ".join(f"{question}: wrong {share:.3f} at most" for question, share in worst.items()))
    return int(max(worst.values()) > MOST_WRONG)


if __name__ == "__main__":
    sys.exit(main())
