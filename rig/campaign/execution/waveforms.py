# SPDX-License-Identifier: GPL-3.0-or-later
"""A run's volts and amps at the full sample rate, kept with it where its campaign asks for that."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from joulerig.rig.campaign import factors
from joulerig.rig.campaign.opening import OpenCampaign
from joulerig.rig.common import files
from joulerig.rig.common.errors import UserError
from joulerig.rig.controller import services


@contextlib.contextmanager
def recorded(campaign: OpenCampaign, run: Mapping[str, Any], *, begun: bool = False) -> Iterator[None]:
    """Record the meters of the run's drive while the body executes, if the campaign asks for it.

    One file a meter, `waveform-METER.parquet` in the run's folder (`analysis.results.waveform.read`
    reads it), and `waveforms.json`: by meter what powerd says of its file, or why there is none. A
    recording that fails does not touch the run: its energy does not come from it. `begun`: an
    earlier process began to record.
    """
    asked = campaign.definition.waveforms
    drives = factors.stands_on(run["drive"], run["factors"])
    meters = (
        sorted({rail.meter for _, _, rail in campaign.lab.drive_rails(run["host"], *drives)}) if asked else []
    )
    if asked is None or not meters:
        yield
        return
    folder = campaign.folder(run)
    folder.mkdir(parents=True, exist_ok=True)
    became: dict[str, dict[str, Any]] = {}
    for meter in () if begun else meters:
        request = {
            "meter": meter,
            "path": str((folder / f"waveform-{meter}.parquet").resolve()),
            "max_bytes": int(asked.max_megabytes * 1e6),
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
        files.replace(folder / "waveforms.json", json.dumps(became, indent=1))
