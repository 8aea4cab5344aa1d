# SPDX-License-Identifier: GPL-3.0-or-later
"""From known volts and amps, through the Cortex-M tap, libsigrok and srcap, to powerd's joules."""

import numpy as np

from tests.support.cortex_m import RATE_HZ, Board, Steps, amps_of, pty_environment, volts_of
from tests.support.power_processes import Powerd, settings_of
from tests.support.programs import built, wait_for


def wait_for_samples(powerd, samples):
    """The meter's status when so many more samples are in it."""
    before = powerd.meter("tap")["samples"]
    return wait_for(lambda: (m := powerd.meter("tap"))["samples"] > before + samples and m, 60, "samples")


def test_joules_of_the_power_daemon_bound_the_true_energy(tmp_path, monkeypatch):
    """Known volts and amps, in steps, in real time; what a busy host misses is a gap.

    The truth counts every tick, with a value or without, so it lies between joules_low and
    joules_high, apart from one sample at each step. The bounds rest on what the rail was seen to
    draw, so it shows its least and its most before the measurement begins.
    """
    monkeypatch.setenv("LD_PRELOAD", pty_environment(tmp_path)["LD_PRELOAD"])
    levels = [(12000, 0), (12000, 3000), (11500, 8000), (12000, 1000), (11800, 6000), (12000, 0)]
    with Board(exact=False) as board:
        steps = Steps(board)
        # What went missing leaves no trace of where: it is bounded by what the supply delivers.
        rail = {"host": "h", "drive": "d"}
        rails = [
            {**rail, "rail": "12v", "volts": "CH1", "amps": "CH2", "greatest_watts": 100},
            {**rail, "rail": "3v3", "volts": "CH3", "amps": "CH4", "greatest_watts": 20},
        ]
        steps.set(r1=levels[0], r2=(3300, 0))
        powerd = Powerd(
            tmp_path,
            {
                "state_dir": str(tmp_path / "powerd"),
                "srcap": built("srcap"),
                "status_socket": str(tmp_path / "status.sock"),
                "points_per_second": 50,
                "influx": {"url": "http://127.0.0.1:9", "database": "power"},
                "meters": [
                    {
                        "name": "tap",
                        "driver": board.lines[0].driver,
                        "set": settings_of(board.lines[0].driver),
                        "sample_rate_hz": RATE_HZ,
                        "samples": "point",
                        "bandwidth_hz": RATE_HZ / 5,  # a reading stands for its whole interval
                        "silence_seconds": 5,
                        "rails": rails,
                    }
                ],
            },
        )
        try:
            powerd.wait_state("tap", "streaming", 30)
            warm_up = [max(levels, key=lambda level: level[1]), levels[0]]
            begun = wait_for_samples(powerd, RATE_HZ)
            assert [rail["joules"] for rail in begun["rails"]] == [0, 0]
            for level in warm_up + levels[1:]:
                steps.set(r1=level, r2=(3300, level[1] // 2))
                board.run(1)
                if len(steps.ticks) == 1 + len(warm_up):
                    begun = wait_for_samples(powerd, RATE_HZ)
            ended = wait_for_samples(powerd, RATE_HZ)
        finally:
            assert powerd.stop() == 0
    assert ended["restarts"] == begun["restarts"]
    assert ended["expected"] == sum(ended[kind] for kind in ("samples", "lost", "duplicate", "repeated"))
    for before, rail in zip(begun["rails"], ended["rails"], strict=True):
        number = 1 if rail["rail"] == "12v" else 2
        joules, low, high = (rail[key] - before[key] for key in ("joules", "joules_low", "joules_high"))
        # From the second setting to zero on.
        watts = [volts_of(s[number][0]) * amps_of(s[number][1]) for s in steps.settings][len(warm_up) :]
        ticks = np.diff(steps.ticks[len(warm_up) :])
        true = sum(w * t for w, t in zip(watts, ticks, strict=False)) / RATE_HZ
        at_steps = float(np.abs(np.diff(watts)).sum()) / RATE_HZ
        print(
            f"{rail['rail']}: {joules:.4f} J measured, true {true:.4f} J +- {at_steps:.4f} J, "
            f"bounds {low:.4f} to {high:.4f} J, {ended['lost'] - begun['lost']} samples lost"
        )
        assert low - at_steps <= true <= high + at_steps
        came = ended["samples"] - begun["samples"]
        assert joules > 0.5 * true * min(came / ticks.sum(), 1) > 0  # a busy host takes what it can
