# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask a run's drives for their own power, phase by phase.

Only NVMe drives are asked, by log pages as they are. A drive that measures its power is started
and stopped for each phase; during a phase it gets no command, so that none wakes it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ansible.module_utils.joulerig.drives.host import Host
from ansible.module_utils.joulerig.ownpower import log as power_log

# A drive counts whole seconds, by its clock: the first one that ends may have begun a second before
# the host started it, in the phase before.
SETTLE_SECONDS = 1.0
OTHERS = "a measurement that another program started is running"


class PowerReports:
    """Reports of drives, {name: (kernel name, interface)}: in `recorded`, by phase and drive."""

    def __init__(self, drives: Mapping[str, tuple[str, str]], host: Host | None = None) -> None:
        self._host = host or Host()
        self._drives = {name: kernel for name, (kernel, interface) in drives.items() if interface == "nvme"}
        self.recorded: list[dict[str, Any]] = []

    @contextlib.contextmanager
    def phase(self, name: str, delay: float = 0.0) -> Iterator[None]:
        """Have the drives measure a phase, from `delay` seconds after its beginning on."""
        begun = [_PhaseReport(self._host, kernel, drive, name) for drive, kernel in self._drives.items()]
        for one in begun:
            one.begin(delay)
        try:
            yield
        finally:
            for one in begun:
                one.end()
            self.recorded += [one.found for one in begun]


class _PhaseReport:
    """What one drive reports of one phase. An error becomes a `problem` in what is found."""

    def __init__(self, host: Host, kernel_name: str, drive: str, phase: str) -> None:
        self._host, self._kernel_name = host, kernel_name
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self.found: dict[str, Any] = {
            "drive": drive, "phase": phase, "start_ns": 0, "stop_ns": 0, "instant_error_ns": 0,
            "before": None, "after": None, "measurement": None, "problem": "",
        }  # fmt: skip

    def begin(self, delay: float) -> None:
        if not self._ask(self._look):
            return
        if delay:
            self._timer = threading.Timer(delay, self._start)
            self._timer.daemon = True
            self._timer.start()
        else:
            self._start()

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:  # a command that the timer has begun ends before the drive is stopped
            self._ask(self._stop)

    def _look(self, descriptor: int) -> bool:
        """Read what the drive has counted so far; return whether it can be started."""
        self.found["before"] = self._health(descriptor)
        if not power_log.measures(self._host.calls.nvme_controller(descriptor)):
            return False
        if self._host.calls.nvme_feature(descriptor, power_log.FEATURE)[0] & 1:
            self.found["problem"] = OTHERS
            return False
        return True

    def _start(self) -> None:
        def start(descriptor: int) -> None:
            self.found["start_ns"] = self._command(descriptor, power_log.START)

        with self._lock:
            self._ask(start)

    def _stop(self, descriptor: int) -> None:
        if self.found["start_ns"]:
            self.found["stop_ns"] = self._command(descriptor, power_log.STOP)
            log = self._host.calls.nvme_log(descriptor, power_log.LOG, power_log.BYTES)
            self.found["measurement"] = power_log.of_measurement(log)
        self.found["after"] = self._health(descriptor)

    def _command(self, descriptor: int, action: int) -> int:
        """Start or stop the drive's measurement, and return when, in the host's clock."""
        before = time.time_ns()
        self._host.calls.set_nvme_feature(descriptor, power_log.FEATURE, action)
        took = time.time_ns() - before
        self.found["instant_error_ns"] = max(self.found["instant_error_ns"], took // 2)
        return before + took // 2

    def _health(self, descriptor: int) -> dict[str, Any]:
        log = self._host.calls.nvme_health(descriptor)
        return {"time_ns": time.time_ns(), **power_log.of_health(log)}

    def _ask(self, what: Callable[[int], Any]) -> Any:
        try:
            with self._host.opened(self._kernel_name) as descriptor:
                return what(descriptor)
        except (OSError, ValueError) as error:
            self.found["problem"] = f"{type(error).__name__}: {error}"
            return None
