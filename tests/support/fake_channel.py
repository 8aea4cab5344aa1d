# SPDX-License-Identifier: GPL-3.0-or-later
"""A test host that is not there: what is asked of it is a trace, what it replies is given."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from joulerig.rig.campaign.execution.host_channel import HostGoneError
from joulerig.rig.campaign.execution.kernels import InstalledKernel
from tests.support import FIXTURES

S = 1_000_000_000
BEGIN = 1_700_000_000 * S
REPORT = json.loads((FIXTURES / "fio-fsync-two-jobs.json").read_text())
OWN = "6.1.0-40-amd64"
HZ100 = InstalledKernel("6.1.1-hz100-a", 100)
GONE = HostGoneError("ssh: broken pipe")


def phase(name: str, start: int, end: int) -> dict[str, Any]:
    return {"phase": name, "start_ns": BEGIN + start * S, "end_ns": BEGIN + end * S}


WELL = {
    "status": "ok",
    "reason": "",
    "changed": True,
    "phases": [phase("prepare", 1, 2), phase("workload", 2, 6), phase("tail", 6, 7)],
    "clock": [{"at_ns": BEGIN + at * S, "offset_ns": 0, "error_ns": 50} for at in (1, 7)],
    "report": REPORT,
}
FAILED = {"status": "failed", "reason": "fio: no space", "changed": True, "phases": []}
BOOTED = {"status": "lost", "reason": "the host booted while it ran", "cause": "booted"}
REFUSED = {"status": "refused", "reason": "bare: mounted", "changed": False, "phases": []}


class Channel:
    """A test host on which runs come to what `runs` says, in turn, and then end well.

    An entry is the reply of the run's module, an error that its call raises, or both: a call that
    is made before them. `gone`: so many attempts to reach the host fail after it went away.
    `knows`: the calls that an earlier controller began there.
    """

    def __init__(self, *runs: Any, gone: int = 0, knows: Collection[str] = ()) -> None:
        self.trace: list[str] = []
        self.said: list[str] = []
        self.requests: list[Mapping[str, Any]] = []
        self.forgotten: list[Mapping[str, Any]] = []
        self.after_run: Callable[[], None] = lambda: None
        self.seconds = 0.0
        self._runs, self._gone, self._knows = list(runs), gone, knows
        self._release, self._boots = OWN, 0

    def call(self, module: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        step: Callable[[Mapping[str, Any]], Mapping[str, Any]] = getattr(
            self, "_" + module.split("_")[-1], None
        )
        return step(arguments) if step else self._other(module)

    def reconnect(self) -> None:
        self.trace.append("reconnect")

    def say(self, text: str, mark: str = "note") -> None:
        self.said.append(f"{mark}: {text}")

    def clock(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.trace.append(f"sleep {seconds:g}")
        self.seconds += seconds

    def _run(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        name = arguments["call"][-6:]
        if not arguments["begin"]:
            self.trace.append(f"collect {name}")
            if name not in self._knows:
                return {"status": "absent", "reason": "this host does not know it"}
        else:
            self.trace.append(f"run {arguments['run'][-4:]}")
        self.requests.append(arguments)
        self.seconds += 60
        self.after_run()
        reply = self._runs.pop(0) if self._runs else WELL
        if isinstance(reply, BaseException):
            raise reply
        return reply

    def _calls(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        self.forgotten.append(arguments)
        return {"calls": []}

    def _kernel(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        if arguments.get("start"):
            self.trace.append(f"boot {arguments['release'] or 'its own'}")
            self._release, self._boots = arguments["release"] or OWN, self._boots + 1
        else:
            self.trace.append("kernel?")
        of_rig = self._release != OWN
        running = {
            "release": self._release, "tick_hertz": 100 if of_rig else 250, "of_rig": of_rig,
            "boot_id": f"boot-{self._boots}",
        }  # fmt: skip
        return {"status": "ok", "reason": "", "kernel": running}

    def _other(self, module: str) -> Mapping[str, Any]:
        self.trace.append(module.rpartition(".")[2])
        if module.endswith("ping") and self._gone:
            self._gone -= 1
            raise GONE
        return {"ping": "pong"}
