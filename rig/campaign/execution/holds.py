# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run is held for before it begins: conditions of the controller that pass.

A run that begins without InfluxDB or powerd costs the drive's wear and has no energy until both are
back; one that begins with a full disk has no results.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from joulerig.rig.campaign.opening import OpenCampaign
from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.controller import influxdb, services

LOOK_SECONDS = 5.0
LEAST_FREE_BYTES = 256 * 2**20  # beyond what the recordings of a run may take


@dataclass(frozen=True)
class Condition:
    """`check` says what is wrong, or nothing. `seconds`: how long a run waits; None: for ever."""

    name: str
    check: Callable[[], str]
    seconds: float | None = None


class Holds:
    """Holds runs while a condition is not met. `clock`, `sleep`: time.monotonic and time.sleep.

    What lasted longer than its time is waited for again only once it was met in between: a run
    after the other would wait that long.
    """

    def __init__(
        self,
        conditions: Sequence[Condition],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._conditions, self._clock, self._sleep = conditions, clock, sleep
        self._given_up: set[str] = set()

    def wait(self, say: Callable[[str], None], stopped: Callable[[], bool]) -> None:
        """Wait until every condition is met or has had its time, or it is `stopped`."""
        for condition in self._conditions:
            self._wait(condition, say, stopped)

    def _wait(self, condition: Condition, say: Callable[[str], None], stopped: Callable[[], bool]) -> None:
        why = condition.check()
        if why and condition.name not in self._given_up:
            say(f"waiting: {why}")
            began = self._clock()
            while why and not stopped():
                if condition.seconds is not None and self._clock() - began >= condition.seconds:
                    say(f"{why}: going on without it; 'rig settle' completes energy that arrives later")
                    self._given_up.add(condition.name)
                    return
                self._sleep(LOOK_SECONDS)
                why = condition.check()
            if not why:
                say(f"{condition.name}: is back")
        if not why:
            self._given_up.discard(condition.name)


def of_controller(campaign: OpenCampaign) -> list[Condition]:
    """Return the conditions under which a run of a campaign can be measured and kept."""
    asked = campaign.definition
    folder = campaign.journal.folder
    recorded = asked.waveforms.max_megabytes * 1e6 if asked.waveforms else 0

    def disk() -> str:
        least = LEAST_FREE_BYTES + recorded * len(campaign.lab.controller.meters)
        free = shutil.disk_usage(folder).free
        if free >= least:
            return ""
        return f"{paths.short(folder)}: {free / 1e6:.0f} MB are free, a run needs {least / 1e6:.0f} MB"

    return [
        Condition("InfluxDB", _words(lambda: influxdb.check(campaign.lab)), 60 * asked.hold_minutes),
        Condition("powerd", _words(services.powerd_status), 60 * asked.hold_minutes),
        Condition("disk", disk),
    ]


def _words(call: Callable[[], object]) -> Callable[[], str]:
    """Return a function that gives the error of a call in words; empty where it has none."""

    def check() -> str:
        try:
            call()
        except UserError as error:
            return str(error)
        return ""

    return check
