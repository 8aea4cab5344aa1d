# SPDX-License-Identifier: GPL-3.0-or-later
"""Cut the power of a host that stays away, where its declaration asks for that, and restore it."""

from __future__ import annotations

from collections.abc import Callable

from joulerig.analysis.results.schema import EventKind
from joulerig.rig import power
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.lab.model import Lab


class PowerCycler:
    """Cycles the power of one host, at most as often in a campaign as the host declares."""

    def __init__(
        self,
        lab: Lab,
        host: str,
        journal: Journal,
        say: Callable[[str], None],
        sleep: Callable[[float], None],
    ) -> None:
        self._lab, self._host, self._journal = lab, host, journal
        self._asked = lab.hosts[host].power_cycle
        self._say, self._sleep = say, sleep

    def cycle(self, away_seconds: float) -> bool:
        """Cut and restore the power of a host that did not answer for so long; say so before.

        Return whether it was done: not for a host that does not ask for it, or had its share. The
        power is restored whatever happens in between. Raises UserError where the switch fails.
        """
        if self._asked is None:
            return False
        number, most = self._journal.power_cycles(self._host) + 1, self._asked.most
        if number > most:
            self._say(f"[{self._host}] its power was cut {most} of {most} times in this campaign: not again")
            return False
        switch = power.host_switch(self._lab, self._host)
        assert switch  # an inventory without it is refused
        declared = self._lab.hosts[self._host].switch
        seconds, by = self._asked.off_seconds, declared.shown if declared else "QEMU"
        self._say(
            f"[{self._host}] does not answer for {away_seconds:g} s: its power is CUT NOW, for {seconds:g} s"
            f" ({by}; {number} of {most} times in this campaign)"
        )
        detail = {"host": self._host, "by": by, "number": number, "away_seconds": away_seconds}
        self._journal.note(None, detail, EventKind.POWER_CYCLED)
        try:
            switch.off()
            self._sleep(seconds)
        finally:
            switch.on()
        self._say(f"[{self._host}] its power is back; it has {self._lab.hosts[self._host].returns_within} s")
        return True
