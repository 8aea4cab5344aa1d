# SPDX-License-Identifier: GPL-3.0-or-later
"""Which kernel a host runs, and how it comes to run the one that a run asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from joulerig.rig.common import wait
from joulerig.rig.lab.kernels import INSTALLED

# From one kernel to the other, services and all: a virtual host without KVM takes 90; or back again, where it
# could not be reached for three minutes (joulerig-kernel-guard.service).
BOOT_SECONDS = 600.0
ATTEMPTS = 2


@dataclass(frozen=True)
class Ready:
    """A kernel that lies on the host, ready to be started."""

    release: str
    tick_hertz: int


class Boots:
    """The kernels of one host.

    `call` executes joulerig_kernel there and gives its answer; `look` does so over a connection of its own
    once all is up that the boot starts, None where the host does not answer; `say` shows a line.
    """

    def __init__(
        self,
        host: str,
        ready: Mapping[str, Ready],
        call: Callable[[Mapping[str, Any]], Mapping[str, Any]],
        look: Callable[[], Mapping[str, Any] | None],
        say: Callable[[str], None],
    ):
        self._host, self._ready, self._call, self._look, self._say = host, ready, call, look, say
        self._running: Mapping[str, Any] | None = None
        self._cannot: dict[str, dict[str, Any]] = {}

    @property
    def release(self) -> str:
        """Of the kernel that ran when the host was last asked; empty where it has to be asked again."""
        return self._running["release"] if self._running else ""

    @property
    def boot(self) -> str:
        """Id of the boot in which the host was last asked; empty where it has to be asked again."""
        return self._running["boot_id"] if self._running else ""

    def forget(self) -> None:
        """The host may have booted: ask it again."""
        self._running = None

    def ensure(self, level: str) -> dict[str, Any] | None:
        """Have the host run the kernel `level`; None when it does, else the answer of a run that can't be."""
        if answer := self._cannot.get(level):
            return answer
        if self._running is None:
            told = self._call({})
            if told.get("status") != "ok":
                return _answer("failed", _reason(told))
            self._running = told["kernel"]
        if self._is(level):
            return None
        wanted = "" if level == INSTALLED else self._ready[level].release
        for attempt in range(ATTEMPTS):
            again = ", once more" if attempt else ""
            self._say(f"[{self._host}] starting kernel {level!r}{f', {wanted}' if wanted else ''}{again}")
            if answer := self._start(level, wanted):
                return answer
            if self._is(level):
                return None
            told = (
                f"{self._running['release']} with {self._running['tick_hertz']} ticks a second runs instead"
            )
            if self._running["of_rig"]:  # it did start; else the host came back from where nobody reached it
                break
        return self._never(level, "failed", told)

    def _start(self, level: str, wanted: str) -> dict[str, Any] | None:
        """Boot, and find out what runs then; an answer as that of `ensure` where that does not come about."""
        assert self._running is not None
        before, self._running = self._running["boot_id"], None
        told = self._call({"start": True, "release": wanted})
        if told.get("status") != "ok":
            return self._never(level, told.get("status", "failed"), _reason(told))

        def booted() -> bool:
            found = self._look()
            if found and found.get("status") == "ok" and found["kernel"]["boot_id"] != before:
                self._running = found["kernel"]
            return self._running is not None

        if not wait.until(booted, BOOT_SECONDS, 2.0):
            return self._never(level, "failed", f"not back {BOOT_SECONDS:g} s after it started this kernel")
        return None

    def _is(self, level: str) -> bool:
        assert self._running is not None
        if level == INSTALLED:
            return not self._running["of_rig"]
        wanted = self._ready[level]
        return (self._running["release"], self._running["tick_hertz"]) == (wanted.release, wanted.tick_hertz)

    def _never(self, level: str, status: str, why: str) -> dict[str, Any]:
        """It is not tried again for every run of this level."""
        self._cannot[level] = _answer(status, f"kernel {level!r}: {why}")
        return self._cannot[level]


def _reason(told: Mapping[str, Any]) -> str:
    return " ".join(str(told.get("reason") or told.get("msg") or "the module call failed").split())[:300]


def _answer(status: str, reason: str) -> dict[str, Any]:
    return {"status": status, "reason": reason, "phases": []}
