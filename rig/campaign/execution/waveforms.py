# SPDX-License-Identifier: GPL-3.0-or-later
"""A run's volts and amps at the full sample rate, kept with it where its campaign asks for that."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from joulerig import atomic
from joulerig.rig.campaign import factors
from joulerig.rig.campaign.journal import Journal
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
    earlier process began to record. What a killed one left of others is ended.
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
    atomic.make_folder(folder)
    became: dict[str, dict[str, Any]] = {}
    for meter in () if begun else meters:
        path = (folder / f"waveform-{meter}.parquet").resolve()
        request = {"meter": meter, "path": str(path), "max_bytes": int(asked.max_megabytes * 1e6)}
        try:
            _end_orphan(meter, path)
            path.unlink(missing_ok=True)  # of an attempt that its host never began
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


def _end_orphan(meter: str, wanted: Path) -> None:
    """End a meter's recording that no process waits for: its campaign was killed.

    One to `wanted` is such a one: it is about to begin.
    """
    for one in services.powerd_status()["meters"]:
        path = Path(one["recording"])
        if one["name"] == meter and one["recording"] and (path == wanted or not _is_wanted(path)):
            services.powerd("DELETE", f"/recordings/{meter}")


def _is_wanted(recording: Path) -> bool:
    """Check whether a campaign that is being executed records a run's waveform to a file."""
    folder = recording.parent
    try:
        journal = Journal(folder.parents[1])
    except UserError:
        return False  # it was removed meanwhile
    with contextlib.closing(journal):
        return journal.executor is not None and folder.name in {run["id"] for run in journal.running()}
