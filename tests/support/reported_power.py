# SPDX-License-Identifier: GPL-3.0-or-later
"""What drives of a simulated campaign report of their own power, put into its runs' result.json."""

import json

from joulerig.analysis import results
from joulerig.analysis.audit import rails
from joulerig.analysis.results import power_points

SECOND = 10**9


def add(folder, factor=1.0, error_percent=3):
    """Have the drive of each run that worked report `factor` times the power of its rails."""
    campaign = results.load(folder)
    for run in campaign.runs:
        if run.performance and (frame := power_points.read(run.folder / "power.csv")) is not None:
            power = rails.power_of(campaign, run, run.drive, frame)
            path = run.folder / "result.json"
            found = json.loads(path.read_text())
            found["power_reports"] = [
                _report(run, phase, power, factor, error_percent) for phase in ("idle", "workload")
            ]
            path.write_text(json.dumps(found, indent=1))
    return folder


def _report(run, name, power, factor, error_percent):
    phase = run.phases[name]
    start, seconds = phase.start_ns + SECOND, int(phase.seconds - 1)
    # The drive's seconds began half a second before it was started.
    begun = start - SECOND // 2
    watts = round(factor * power(begun, begun + seconds * SECOND).watts, 4)
    offset = phase.clock_offset_ns
    bins = {"bin_watts": 0.25, "watts": [0.25 * n for n in range(64)], "counts": [0] * 64, "overflow": 0}
    bins["counts"][int(watts / 0.25)] = seconds
    health = {"watt_hours": 812, "watts": None, "step_watts": None, "power_cycles": 4}
    return {
        "drive": run.drive, "phase": name, "problem": "",
        "start_ns": start - offset, "stop_ns": phase.end_ns - offset,
        "before": {"time_ns": phase.start_ns - offset, **health},
        "after": {"time_ns": phase.end_ns - offset, **health},
        "measurement": {
            "generation": 1, "is_running": False, "has_gaps": False, "seconds": seconds, "watts": watts,
            "step_watts": 1e-4, "most_watts": watts, "error_percent": error_percent, "bins": bins,
        },
    }  # fmt: skip
