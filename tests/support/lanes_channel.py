# SPDX-License-Identifier: GPL-3.0-or-later
"""A test host with several drives at work at once, in a time that tests can foretell.

Each lane of an executor is a thread. Time goes on to the end of the next call, or sleep, once all
lanes wait for one: so what happens, and in which order, is the same every time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

from joulerig.rig.campaign.execution.host_channel import HostGoneError
from tests.support.fake_channel import OWN, WELL


class Timeline:
    """Seconds, the same for all threads that wait here. The thread that made it waits for none."""

    def __init__(self) -> None:
        self.now = 0.0
        self._maker, self._changed = threading.current_thread(), threading.Condition()
        self._waits: dict[threading.Thread, tuple[float, int]] = {}
        self._number = 0

    def wait(self, seconds: float) -> None:
        """Return once it is so many seconds later."""
        me = threading.current_thread()
        if me is self._maker:
            self.now += seconds
            return
        with self._changed:
            self._number += 1
            self._waits[me] = self.now + seconds, self._number
            self._changed.notify_all()
            # A lane that ends does not say so: it is looked for.
            while not self._is_next(me):
                self._changed.wait(0.002)
            self.now = max(self.now, self._waits.pop(me)[0])

    def _is_next(self, me: threading.Thread) -> bool:
        lanes = {one for one in threading.enumerate() if one.name in self.lanes}
        return lanes <= self._waits.keys() and min(self._waits, key=lambda one: self._waits[one]) is me

    lanes: Collection[str] = ()


class LanesChannel:
    """A host on which a run of a drive lasts as `lasts` says and ends as `runs` says, else well.

    `runs`: by the last four digits of a run's id, replies or errors in turn. `knows`: calls that an
    earlier controller began there. `trace`: (second, what begins or ends). `busy`: the most runs
    that were in progress at once.
    """

    def __init__(
        self,
        lasts: Mapping[str, float],
        runs: Mapping[str, list[Any]] = {},
        knows: Collection[str] = (),
    ) -> None:
        self.timeline = Timeline()
        self.timeline.lanes = lasts.keys()
        self.trace: list[str] = []
        self.said: list[str] = []
        self.requests: list[Mapping[str, Any]] = []
        self.asked: list[Mapping[str, Any]] = []
        self.after_run: Callable[[str], None] = lambda run: None
        self.away_until = 0.0
        self._lasts, self._runs, self._knows = lasts, {key: list(one) for key, one in runs.items()}, knows
        self._at_work: dict[str, bool] = {}
        self.together: list[set[str]] = []

    def another(self) -> LanesChannel:
        return self

    def reconnect(self) -> None:
        pass

    def say(self, text: str, mark: str = "note") -> None:
        self.said.append(f"{mark}: {text}")

    def clock(self) -> float:
        return self.timeline.now

    def sleep(self, seconds: float) -> None:
        self.timeline.wait(seconds)

    def call(self, module: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.timeline.now < self.away_until:
            raise HostGoneError("ssh: no route to host")
        if module == "joulerig_run":
            return self._run(arguments)
        self.asked.append({"module": module, **arguments})
        if module == "joulerig_kernel":
            running = {"release": OWN, "tick_hertz": 250, "of_rig": False, "boot_id": "boot-0"}
            return {"status": "ok", "reason": "", "kernel": running}
        return {"calls": []}

    def _run(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        run, drive = arguments["run"][-4:], arguments["drive"]
        if not arguments["begin"] and arguments["call"][-6:] not in self._knows:
            return {"status": "absent", "reason": "this host does not know it"}
        word = "begins" if arguments["begin"] else "goes on"
        self.trace.append(f"{self.timeline.now:g} {drive} {run} {word}" + " alone" * arguments["alone"])
        self.requests.append(arguments)
        if self._at_work and (arguments["alone"] or any(self._at_work.values())):
            raise AssertionError(f"{drive} is not alone: {list(self._at_work)}")
        self._at_work[drive] = arguments["alone"]
        self.together.append(set(self._at_work))
        try:
            self.timeline.wait(self._lasts[drive])
        finally:
            del self._at_work[drive]
        self.trace.append(f"{self.timeline.now:g} {drive} {run} ends")
        self.after_run(run)
        replies = self._runs.get(run, [])
        reply = replies.pop(0) if replies else WELL
        if isinstance(reply, BaseException):
            raise reply
        return dict(reply)
