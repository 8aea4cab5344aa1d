# SPDX-License-Identifier: GPL-3.0-or-later
"""Conditions of the controller: InfluxDB, powerd and its meters, their calibration, the disk."""

from __future__ import annotations

import datetime
import shutil

from joulerig.rig.campaign import factors
from joulerig.rig.campaign.execution.holds import Condition, Run, error_of
from joulerig.rig.campaign.opening import OpenCampaign
from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.controller import influxdb, services
from joulerig.rig.lab.meters import calibration

LEAST_FREE_BYTES = 256 * 2**20  # beyond what the recordings of a run may take


def conditions(campaign: OpenCampaign) -> list[Condition]:
    """Return the conditions under which a run of a campaign can be measured and kept."""
    seconds, asked = 60 * campaign.definition.hold_minutes, campaign.definition.holds
    late = "'rig settle' completes energy that arrives later"
    found = [
        Condition("InfluxDB", lambda _: error_of(lambda: influxdb.check(campaign.lab)), seconds, late),
        Condition("powerd", lambda _: error_of(services.powerd_status), seconds, late),
        _disk(campaign),
    ]
    if asked.meters:
        found.append(
            Condition(
                "meters",
                lambda run: _silent(campaign, run),
                seconds,
                "runs have no energy of it",
                of_drive=True,
            )
        )
    if asked.calibration is not None:
        patience = None if asked.calibration == "hold" else 0.0
        found.append(Condition("calibration", lambda run: _expired(campaign, run), patience, of_drive=True))
    return found


def _disk(campaign: OpenCampaign) -> Condition:
    folder, asked = campaign.journal.folder, campaign.definition.waveforms
    recorded = asked.max_megabytes * 1e6 if asked else 0

    def check(_: Run) -> str:
        least = LEAST_FREE_BYTES + recorded * len(campaign.lab.controller.meters)
        free = shutil.disk_usage(folder).free
        if free >= least:
            return ""
        return f"{paths.short(folder)}: {free / 1e6:.0f} MB are free, a run needs {least / 1e6:.0f} MB"

    return Condition("disk", check)


def _silent(campaign: OpenCampaign, run: Run) -> str:
    """Describe the first meter on the run's rails that delivers no samples now."""
    try:
        known = {meter["name"]: meter for meter in services.powerd_status()["meters"]}
    except UserError:
        return ""  # another condition
    for name in _meters(campaign, run):
        if name not in known:
            return f"meter {name}: powerd does not have it; 'rig up' configures it"
        if (state := known[name]["state"]) != "streaming":
            reason = known[name].get("reason")
            return f"meter {name} is {state}" + (f": {reason}" if reason else "")
    return ""


def _expired(campaign: OpenCampaign, run: Run) -> str:
    today = datetime.datetime.now(datetime.UTC).date()
    for name in _meters(campaign, run):
        try:
            found = calibration.summary(campaign.lab, name, today)
        except UserError as error:
            return str(error)
        if found["state"] == "expired":
            return f"meter {name}: calibration expired {found['reason']}; 'rig meters calibrate' renews it"
    return ""


def _meters(campaign: OpenCampaign, run: Run) -> list[str]:
    drives = factors.stands_on(run["drive"], run["factors"])
    rails = campaign.lab.drive_rails(run["host"], *drives)
    return sorted({name for _, _, rail in rails for name in rail.meters})
