# SPDX-License-Identifier: GPL-3.0-or-later
"""The power of drives and of their host: off together, on together."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from joulerig.rig import power
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.meters import tap
from joulerig.rig.lab.model import Lab
from joulerig.rig.powercut import reach
from joulerig.rig.powercut.reach import Reach

HOLD_UP_SECONDS = 2.0  # at most that rails take to fall

Reset = Callable[[], Sequence[str]]
"""Has a host reset itself, writing nothing; gives the drives that answered it without power."""


class SpoiledError(UserError):
    """The power came back while the old kernel could still write: the cut proves nothing."""


class Power:
    """Drives of a host and the host itself, by their switches.

    A host with a switch loses its power right after its drives: a virtual one is stopped in the
    middle of its work. Another one is asked to reset itself, by `reset`, before its drives get
    their power back. A drive that had its power while the old kernel was up would be given what
    that one still has in memory, as if nothing had been lost: so drives get their power only once
    the host is shown to be down.
    """

    def __init__(
        self,
        lab: Lab,
        host: str,
        drives: Sequence[str],
        reset: Reset,
        *,
        near: Reach | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._lab, self._host, self._drives, self._reset = lab, host, drives, reset
        self._clock, self._sleep = clock, sleep
        self._virtual = lab.hosts[host].virtual is not None
        self._near = near
        self._switches = {drive: power.drive_switch(lab, host, drive) for drive in drives}
        self._plug = power.host_switch(lab, host)

    def check(self) -> None:
        """Raise UserError unless the host can be shown to be down once its power is cut."""
        if not self._virtual:
            reach.check(self._host, self._reach())

    def off(self) -> dict[str, Any]:
        """Cut; gives what the witness log keeps of it."""

        def switch(drives: list[str]) -> dict[str, int]:
            found: dict[str, int] = {}
            for drive in drives:
                if made := self._switches[drive]:
                    found |= made.off()
            return found

        side_by_side = self._without_a_unit_in_common()
        with ThreadPoolExecutor(len(side_by_side)) as pool:
            samples = {rail: at for some in pool.map(switch, side_by_side) for rail, at in some.items()}
        # Not before every rail is off: a QEMU that stops flushes its drives.
        if self._plug:
            self._plug.off()
        return {"means": self._means(), "samples": samples}

    def _means(self) -> str:
        """Return what cuts the power, for people."""
        by = {power.of_drive(self._lab, self._host, drive).shown for drive in self._drives}
        host = ", host stopped" if self._virtual else ", then the host's" if self._plug else ""
        return f"switched off by {' and '.join(sorted(by))}{host}"

    def _without_a_unit_in_common(self) -> list[list[str]]:
        """Return lists of drives that share a meter or a unit, switched one after another."""
        lists: list[tuple[frozenset[str], list[str]]] = []
        for drive, made in self._switches.items():
            unit = made.unit if made else frozenset(["host"])
            apart = [one for one in lists if not one[0] & unit]
            joined = [one for one in lists if one[0] & unit]
            together = [name for _, names in joined for name in names]
            lists = [*apart, (unit.union(*(of for of, _ in joined)), [*together, drive])]
        return [names for _, names in lists]

    def hold_up(self, drive: str) -> dict[str, dict[str, Any]]:
        """Return of each rail, by the tap, the seconds until it was down and the volts before.

        Only a tap sees it.
        """
        found: dict[str, dict[str, Any]] = {}
        if not isinstance(self._switches[drive], power.TapRails):
            return found
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
        """Bring the host down, restore the power once that is shown, and start the host.

        Raises SpoiledError where the old kernel may have had a drive back, with the power restored
        all the same; HostGoneError of `reset`.
        """
        problems = []
        try:
            if not self._plug and (back := self._reset()):
                problems.append(
                    f"{self._host}: {' and '.join(back)} answered a read while off: its switch does not cut"
                    " its power, or it came back within the old boot"
                )
            if not self._virtual:
                reach.await_down(self._host, self._reach(), self._clock, self._sleep)
        except UserError as error:
            problems.append(str(error))
        finally:
            try:
                self.restore_rails()
            finally:
                if self._plug:
                    self._plug.on()
        if problems:
            raise SpoiledError(f"the cut does not count: {'; '.join(problems)}")

    def restore_rails(self) -> None:
        """Switch every drive on, whatever its state; also the last step of a cut that failed."""
        failed = []
        for made in self._switches.values():
            try:
                if made:
                    made.on()
            except UserError as error:
                failed.append(str(error))
        if failed:
            raise UserError("; ".join(failed))

    def _reach(self) -> Reach:
        if self._near is None:
            self._near = reach.of_host(self._lab, self._host)
        return self._near
