# SPDX-License-Identifier: GPL-3.0-or-later
"""The sample clock of a 20 kS/s instrument while all processors of the controller are busy."""

import os
import subprocess
import sys
import time

from tests.support.power_processes import SRCAP, Emulator, Powerd, settings_of

RATE = 20_000
RESIDUAL_BAR_SECONDS = 100e-6
READINGS, READINGS_APART_SECONDS = 20, 2


def test_clock_residual_stays_below_100_us_with_all_processors_busy(tmp_path):
    (tmp_path / "password").write_text("none")
    with Emulator(rate=RATE, ppm=30) as instrument:
        instrument.run_with_real_time_priority()
        config = {
            "state_dir": str(tmp_path / "powerd"),
            "srcap": SRCAP,
            "status_socket": str(tmp_path / "s.sock"),
            # Nothing answers there: the writer's retries are part of the load.
            "influx": {
                "url": "http://127.0.0.1:9",
                "database": "none",
                "username": "none",
                "password_file": str(tmp_path / "password"),
            },
            "meters": [
                {
                    "name": "tap",
                    "driver": instrument.driver,
                    "set": settings_of(instrument.driver),
                    "sample_rate_hz": RATE,
                    "samples": "window-mean",
                    "rails": [{"rail": "12v", "host": "h", "drive": "d", "volts": "CH1", "amps": "CH2"}],
                }
            ],
        }
        powerd = Powerd(tmp_path, config)
        busy = [
            subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)
        ]
        try:
            powerd.wait_state("tap", "streaming", 15)
            residuals = []
            for _ in range(READINGS):
                time.sleep(READINGS_APART_SECONDS)
                residuals.append(powerd.meter("tap")["clock_residual_seconds"])
            meter = powerd.meter("tap")
        finally:
            for process in busy:
                process.kill()
                process.wait()
            powerd.stop()
    # The first seconds have little to fit; the last half of them is what a run would be measured
    # by.
    settled = residuals[len(residuals) // 2 :]
    assert 0 < max(settled) < RESIDUAL_BAR_SECONDS, residuals
    assert abs(meter["clock_drift_ppm"] - 30) < 10
    assert meter["lost"] == 0
    assert meter["surplus"] == 0
