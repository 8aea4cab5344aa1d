# SPDX-License-Identifier: GPL-3.0-or-later
"""One real step of two kernels: whose timer ticks ten times as often takes the processor longer.

The first time on a machine the kernels are built, a quarter of an hour each. The search is killed
once on its way, and goes on.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

from tests.bench.beyond import NotShownError
from tests.bench.beyond._campaigns import FIELDS, provided
from tests.support.lab_driver import Lab

KERNELS = ["hz100", "hz1000"]
HOURS = 3


def show(lab: Lab) -> str:
    factors = {"filesystem": ["ext4"], "scheduler": ["none"], "workload": ["randread"], "kernel": KERNELS}
    playbook = str(lab.playbook(**{**FIELDS, "name": "bisect", "drives": ["ram"], "factors": factors}))
    options = ("--figure", "speed", "--blocks", "14")
    killed = lab.start_rig("bisect", playbook, *options, stdout=subprocess.DEVNULL)
    kept = lab.results / "bisections" / "bisect.json"
    try:
        deadline = time.monotonic() + 3600 * HOURS
        while sum(name.startswith("bisect-") for name in lab.campaigns()) < 2:
            if killed.poll() is not None or time.monotonic() > deadline:
                raise NotShownError("the search ended, or stood still, before its second step")
            time.sleep(1)  # a step takes minutes; nothing here announces one
    finally:
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
    before = json.loads(kept.read_text())["steps"]
    done = lab.rig("bisect", playbook, *options, "--json", timeout=3600 * HOURS)
    provided(done, "rig bisect")
    found = json.loads(done.stdout)
    if found["first_bad"] != KERNELS[-1] or found["blocks"] <= len(before):
        raise NotShownError(f"{found['outcome']}, first bad: {found['first_bad']}")
    change = found["changes"]["speed"]
    ends = " to ".join(f"{100 * change[end]:+.1f}" for end in ("low", "high"))
    return f"{KERNELS[-1]} after {found['blocks']} blocks: speed {100 * change['ratio']:+.1f} % ({ends} %)"
