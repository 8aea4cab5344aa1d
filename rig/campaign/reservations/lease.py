# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep a campaign's reservation of one host while it is executed there."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from joulerig.rig.campaign.execution.host_channel import HostChannel, HostGoneError
from joulerig.rig.campaign.execution.host_loop import HostTakenError
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.campaign.reservations import asking

# Beyond what is under way: as long as a host keeps its background units quiet without a controller.
LEASE_SECONDS = 3600.0
LEAST_SECONDS = LEASE_SECONDS / 2
RENEW_SECONDS = 60.0  # so long a reservation that a person ended may go unnoticed between runs
RENEW_SHARE = 0.01  # of a campaign's time at most: longer where the host is slow to answer


def clock() -> float:
    """Return seconds since the controller's boot; those in which it was suspended count."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class HostLease:
    """The reservation of `host` for the campaign of a journal."""

    def __init__(
        self, journal: Journal, host: str, channel: HostChannel, clock: Callable[[], float] = clock
    ) -> None:
        self._asker = asking.in_the_name_of(host, journal)
        self._call = partial(channel.call, asking.MODULE)
        self._host, self._clock = host, clock
        self._held = False
        self._due = self._ends = -float("inf")

    def keep(self, seconds: float = 0.0) -> None:
        """Have the host for what takes so many seconds, and LEAST_SECONDS beyond that.

        The host is asked at most once in RENEW_SECONDS, and for RENEW_SHARE of the time, unless the
        time would not do. One that cannot be reached keeps the reservation that it has. Raises
        HostTakenError where another has the host, or a person ended the reservation.
        """
        now = self._clock()
        if now < self._due and now + seconds + LEAST_SECONDS <= self._ends:
            return
        lasts = seconds + LEASE_SECONDS
        asked = {**self._asker, "state": "renew" if self._held else "reserve", "seconds": lasts}
        try:
            reply = asking.ask(self._call, asked)
        except HostGoneError:
            return
        if reply.refused:
            raise HostTakenError(f"{reply.reason}; the remaining runs stay planned")
        took = self._clock() - now
        self._held, self._ends = True, now + lasts
        self._due = now + min(max(RENEW_SECONDS, took / RENEW_SHARE), LEAST_SECONDS)
