# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the dashboard's background tasks going: a failure is counted and shown, and ends none."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any

RESTART_SECONDS = 2.0
LONGEST_REASON = 200
log = logging.getLogger(__name__)


class Supervisor:
    """The failures of background tasks, by task; used from any thread."""

    def __init__(self) -> None:
        self._failures: dict[str, tuple[int, str]] = {}
        self._lock = threading.Lock()

    def failed(self, task: str, error: Exception, about: str = "") -> None:
        """Count and log a failure of a task that goes on; `about`: what it was doing."""
        reason = ascii(" ".join(f"{about} {type(error).__name__}: {error}".split())[:LONGEST_REASON])[1:-1]
        with self._lock:
            self._failures[task] = self._failures.get(task, (0, ""))[0] + 1, reason
        log.warning("%s: %s", task, reason, exc_info=error)

    def failures(self) -> list[dict[str, Any]]:
        """Return each task that has failed: how often, and why the last time."""
        with self._lock:
            return [
                {"task": task, "count": count, "reason": reason}
                for task, (count, reason) in sorted(self._failures.items())
            ]

    async def keep(
        self, task: str, run: Callable[[], Coroutine[Any, Any, None]], pause: float = RESTART_SECONDS
    ) -> None:
        """Run a task until it ends or is cancelled; begin it again a moment after it failed."""
        while True:
            try:
                return await run()
            except Exception as error:
                self.failed(task, error)
                await asyncio.sleep(pause)
