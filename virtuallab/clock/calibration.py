# SPDX-License-Identifier: GPL-3.0-or-later
"""How much slower a virtual host's processor is than this machine's own.

A fixed loop of the shell takes so many times longer there; each by its own clock, the lab at the
machine's pace. With the lab's clock that many times slower, the host is to its drives as fast
as this machine would be.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from joulerig.rig.common import files
from joulerig.rig.common.errors import UserError

TURNS = 5_000
TIMES = 5  # the fastest counts: a busy machine only makes a loop longer
LOOP = (
    f"for n in $(seq {TIMES}); do begin=$(date +%s%N); i=0;"
    f" while [ $i -lt {TURNS} ]; do i=$((i+1)); done; echo $(($(date +%s%N) - begin)); done"
)
TIMEOUT_SECONDS = 120.0
KEPT = "processor.json"  # in a host's folder


@dataclass(frozen=True)
class Processor:
    """QEMU's accelerator, and seconds of the loop in the guest and on this machine."""

    accelerator: str
    guest_seconds: float
    machine_seconds: float

    @property
    def slowness(self) -> float:
        """Return how many seconds of the machine a second of the lab should last; at least 1.

        Under KVM, where the guest's processors are the machine's, nothing else is possible.
        """
        if self.accelerator == "kvm":
            return 1.0
        return max(1.0, round(self.guest_seconds / self.machine_seconds, 1))


def measure(accelerator: str, login: Sequence[str]) -> Processor:
    """Measure a host that `login`, with a command behind it, executes commands on.

    Raises UserError.
    """
    machine = _fastest(["sh", "-c", LOOP])
    return Processor(accelerator, _fastest([*login, LOOP]), machine)


def _fastest(command: Sequence[str]) -> float:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=True,
        )
        return min(int(word) for word in done.stdout.split()) / 1e9
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise UserError(f"slow motion: the host's processor cannot be timed: {error}") from None


def keep(folder: Path, found: Processor) -> None:
    """Keep in a host's folder what was measured."""
    files.replace(folder / KEPT, json.dumps(asdict(found)))


def kept(folder: Path) -> Processor | None:
    """Return what was measured when the host booted; None where it was not."""
    try:
        return Processor(**json.loads((folder / KEPT).read_text()))
    except (OSError, TypeError, ValueError):
        return None
