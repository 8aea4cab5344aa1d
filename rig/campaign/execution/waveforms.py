# SPDX-License-Identifier: GPL-3.0-or-later
"""A run's volts and amps at the full sample rate, kept beside it where its campaign asks for that."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from joulerig.rig.campaign import factors
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common import files
from joulerig.rig.common.errors import UserError
from joulerig.rig.controller import services
from joulerig.rig.lab.model import Lab


@contextlib.contextmanager
def recorded(journal: Journal, run: Mapping[str, Any], lab: Lab) -> Iterator[None]:
    """Record the meters of the run's drive while the body executes, if the campaign has `waveforms`.

    One file a meter, `waveform-METER.parquet` in the run's folder (`analysis.results.waveform.read` reads
    it), and
    `waveforms.json`: by meter what powerd says of its file, or why there is none. A recording that fails does
    not touch the run: its energy does not come from it.
    """
    asked = journal.campaign["definition"].get("waveforms")
    drives = factors.stands_on(run["drive"], run["factors"])
    meters = sorted({rail.meter for _, _, rail in lab.rails_of(run["host"], *drives)}) if asked else []
    if not meters:
        yield
        return
    place = journal.folder / "runs" / run["id"]
    place.mkdir(parents=True, exist_ok=True)
    became: dict[str, dict[str, Any]] = {}
    for meter in meters:
        request = {
            "meter": meter,
            "path": str((place / f"waveform-{meter}.parquet").resolve()),
            "max_bytes": int(asked["max_megabytes"] * 1e6),
        }
        try:
            services.powerd("POST", "/recordings", request)
        except UserError as error:
            became[meter] = {"error": str(error)}
    try:
        yield
    finally:
        for meter in meters:
            if meter in became:
                continue
            try:
                answer = services.powerd("DELETE", f"/recordings/{meter}")
                became[meter] = {**answer, "path": f"waveform-{meter}.parquet"}
            except UserError as error:
                became[meter] = {"error": str(error)}
        files.replace(place / "waveforms.json", json.dumps(became, indent=1))
