# SPDX-License-Identifier: GPL-3.0-or-later
"""The bench of the analysis runs to its end, on a few runs, and its results agree with pandas."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.bench.bench_analysis import CELLS
from tests.support import ROOT


def test_it_measures_each_part(tmp_path):
    output = tmp_path / "analysis.json"
    command = [sys.executable, "-m", "tests.bench.bench_analysis", "--output", output]
    command += [f"--ai-runs={CELLS}", f"--report-runs={CELLS}", "--samples=1000000"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "holds: AI agrees with pandas" in done.stdout
    assert "holds: the table of cells agrees" in done.stdout
    assert "holds: the waveform's joules agree with pandas" in done.stdout
    written = json.loads(output.read_text())
    assert (written["ai_runs"], written["samples"]) == (CELLS, 1_000_000)
    assert {"ai_10000_runs_seconds", "tables_10000_runs_seconds"} <= written.keys()
