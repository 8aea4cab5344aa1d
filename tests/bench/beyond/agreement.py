# SPDX-License-Identifier: GPL-3.0-or-later
"""Agreement of meters: the tap agrees with its twin, one that reads a fifth too much does not."""

from __future__ import annotations

import csv
import json

from joulerig.analysis import results
from joulerig.analysis.agreement import methods
from tests.bench.beyond import NotShownError
from tests.bench.beyond._campaigns import measured, provided
from tests.support.lab_driver import Lab

TOO_MUCH = 1.2


def show(lab: Lab) -> str:
    campaign = measured(lab, "agreement")
    loaded = results.load(lab.results / campaign)
    known = methods.of_campaign(loaded)
    [meter] = [name for name in known if name != methods.TWIN]
    file = lab.folder / "second.csv"
    with file.open("w", newline="") as content:
        rows = csv.writer(content)
        rows.writerow(methods.COLUMNS)
        for (drive, run, phase), reading in known[meter].items():
            joules = TOO_MUCH * reading.joules
            rows.writerow(["second", drive, run, phase, joules, 0.01 * joules])
    own = lab.rig("meters", "agree", campaign, "--json")
    provided(own, "rig meters agree")
    [of_twin] = json.loads(own.stdout)
    second = lab.rig("meters", "agree", campaign, "--readings", str(file), "--json")
    found = {(one["one"], one["other"]): one["found"] for one in json.loads(second.stdout)}
    false = found["second", methods.TWIN]
    bias = of_twin["found"]["bias"][0]
    if second.returncode != 1 or false["verdict"] != "differ" or not abs(bias) < 0.01:
        raise NotShownError(f"bias {bias:+.4f}; the second meter: {false['verdict']}: {false['why']}")
    return (
        f"{meter} less its twin: {100 * bias:+.2f} %, {of_twin['found']['verdict']};"
        f" one that reads a fifth too much: {false['verdict']}s by {100 * false['bias'][0]:.1f} %"
    )
