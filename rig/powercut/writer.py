# SPDX-License-Identifier: GPL-3.0-or-later
"""The writer and the surveyor as programs of this machine: for drives that are reached over NBD."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError


def write_command(
    campaign: str, generation: int, seed: int, witness: str, nbd: Path, region_bytes: int
) -> list[str]:
    """The command of a writer on the drive behind the NBD socket."""
    return [
        str(paths.program("durawriter")), "write", "--campaign", campaign, "--generation", str(generation),
        "--seed", str(seed), "--witness", witness, "--nbd", f"unix:{nbd}",
        "--region-bytes", str(region_bytes),
    ]  # fmt: skip


def survey(campaign: str, nbd: Path, region_bytes: int, ready_seconds: float) -> str:
    """What is on the drive, tried until it is ready to be read. Raises UserError."""
    command = [
        str(paths.program("durawriter")), "survey", "--campaign", campaign, "--nbd", f"unix:{nbd}",
        "--region-bytes", str(region_bytes),
    ]  # fmt: skip
    end = time.monotonic() + ready_seconds
    while True:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        if done.returncode == 0:
            return done.stdout
        if time.monotonic() >= end:
            raise UserError(f"{done.stderr.strip()} ({ready_seconds:g} s after power was restored)")
        time.sleep(0.02)
