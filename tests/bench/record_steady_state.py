# SPDX-License-Identifier: GPL-3.0-or-later
"""Record how drives reach steady state: a twin is filled, then written at random in rounds.

`python tests/bench/record_steady_state.py` rewrites tests/fixtures/steady_state.json (a minute).
"""

from __future__ import annotations

import json
import tempfile
import time
from typing import Any

from joulerig.virtuallab import profile, twin_parameters
from tests.support import FIXTURES
from tests.support.nbd_load import load
from tests.support.twins import Twin, twin_of

RECORDING = FIXTURES / "steady_state.json"
# Profile and size. Flash ten times slower than its own: the twin sets the pace, not the machine it
# runs on.
RECORDED = {
    "full consumer SATA": ("sata-consumer", "96M"),
    "full consumer NVMe": ("nvme-consumer", "192M"),
    "full enterprise NVMe": ("nvme-enterprise", "256M"),
}
SLOWED = ("program_ns", "slc_program_ns", "erase_ns", "page_read_ns")
ROUNDS, SECONDS = 20, 1.0


def watts_over(twin: Twin, work: Any) -> tuple[Any, float]:
    """What `work` gives, and the mean power of all rails meanwhile."""
    joules, began = sum(twin.joules().values()), time.monotonic()
    done = work()
    return done, (sum(twin.joules().values()) - joules) / (time.monotonic() - began)


def slow(name: str) -> dict[str, int]:
    """A profile's times of its flash, ten times as long."""
    words = dict(word.split("=", 1) for word in twin_parameters.from_profile(profile.load(name)))
    return {key: 10 * int(words[key]) for key in SLOWED if key in words}


def record(name: str, size: str) -> list[dict[str, float]]:
    """Rounds of a twin that was filled before: {"iops", "watts"} of each."""
    rounds = []
    with tempfile.TemporaryDirectory() as folder, twin_of(folder, name, size, **slow(name)) as twin:
        megabytes = int(size.removesuffix("M"))
        twin.io(*(f"write -q -P 85 {at}M 8M" for at in range(0, megabytes, 8)))
        for number in range(ROUNDS):
            done, watts = watts_over(
                twin, lambda seed=number + 1: load(twin, "randwrite", depth=16, seconds=SECONDS, seed=seed)
            )
            rounds.append({"iops": round(done.iops, 1), "watts": round(watts, 4)})
    return rounds


def main() -> None:
    made = {name: record(*how) for name, how in RECORDED.items()}
    lines = [
        f"{json.dumps(name)}: [\n" + ",\n".join(f"  {json.dumps(one)}" for one in rounds) + "\n]"
        for name, rounds in made.items()
    ]
    RECORDING.parent.mkdir(exist_ok=True)
    RECORDING.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
