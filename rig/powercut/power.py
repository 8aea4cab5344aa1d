# SPDX-License-Identifier: GPL-3.0-or-later
"""The power of drives and of their host: off together, on together."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import virtual
from joulerig.rig.lab.meters import tap
from joulerig.rig.lab.model import Lab

HOLD_UP_SECONDS = 2.0  # at most that rails take to fall


class Power:
    """Drives of a host, switched by their taps; `reboot` restarts a physical host.

    A virtual host is stopped in the middle of its work, right after its drives' rails are off, and
    reset when they are back on. A physical one is asked to reset itself without writing anything.
    """

    def __init__(self, lab: Lab, host: str, drives: Sequence[str], reboot: Callable[[], None]) -> None:
        self._lab, self._host, self._drives, self._reboot = lab, host, drives, reboot
        self._virtual = lab.hosts[host].virtual is not None

    def off(self) -> dict[str, Any]:
        """Cut; gives what the witness log keeps of it."""

        def switch(drives: list[str]) -> dict[str, dict[str, int]]:
            return {drive: tap.switch_drive(self._lab, self._host, drive, False) for drive in drives}

        side_by_side = self._without_a_meter_in_common()
        with ThreadPoolExecutor(len(side_by_side)) as pool:
            switched = {drive: at for some in pool.map(switch, side_by_side) for drive, at in some.items()}
        # Not before every rail is off: a QEMU that stops flushes its drives.
        if self._virtual:
            virtual.stop_host(self._host)
        return {
            "means": "rails switched off by the tap" + (", host stopped" if self._virtual else ""),
            "samples": switched,
        }

    def _without_a_meter_in_common(self) -> list[list[str]]:
        """Return lists of drives that share a meter, which are switched one after another."""
        lists: list[tuple[set[str], list[str]]] = []
        for drive in self._drives:
            meters = {rail.meter for _, _, rail in self._lab.drive_rails(self._host, drive)}
            apart = [one for one in lists if not one[0] & meters]
            joined = [one for one in lists if one[0] & meters]
            together = [name for _, names in joined for name in names]
            lists = [*apart, (meters.union(*(of for of, _ in joined)), [*together, drive])]
        return [names for _, names in lists]

    def hold_up(self, drive: str) -> dict[str, dict[str, Any]]:
        """Return of each rail, by the tap, the seconds until it was down and the volts before."""
        found = {}
        for member, name, rail in self._lab.drive_rails(self._host, drive):
            end = time.monotonic() + HOLD_UP_SECONDS
            while True:
                seen = tap.hold_up(self._lab, rail)
                if seen.state == "DONE" or time.monotonic() >= end:
                    break
                time.sleep(0.05)
            found[f"{member}/{name}"] = vars(seen)
        return found

    def on(self) -> None:
        """Restore the power, and restart the host."""
        if not self._virtual:
            self._reboot()
        self.restore_rails()
        if self._virtual:
            virtual.reset_host(self._host)

    def restore_rails(self) -> None:
        """Switch every rail on, whatever its state; also the last step of a cut that failed."""
        failed = []
        for drive in self._drives:
            try:
                tap.switch_drive(self._lab, self._host, drive, True)
            except UserError as error:
                failed.append(str(error))
        if failed:
            raise UserError("; ".join(failed))
