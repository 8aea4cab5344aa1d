# SPDX-License-Identifier: GPL-3.0-or-later
"""What the dashboard's server has sent: its messages, and the newest figures of its frames."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from joulerig.rig.dashboard.web import frames
from joulerig.rig.dashboard.window import Window

HEARD_SECONDS = 5.0  # as in a page (page/link/window.ts): an older value is none
AVERAGED_SECONDS = 1.0


class Received:
    """The newest of each kind of message, and the last seconds of power and I/O."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.campaign: dict[str, Any] = {"found": False}
        self.live: dict[str, Any] = {"slowness": 1.0, "bands": [], "powerd": {"ok": False, "meters": []}}
        self.notices: list[tuple[str, str]] = []
        self.rails: list[dict[str, str]] = []
        self.drives: list[dict[str, str]] = []
        self._layout = -1
        self._windows: list[tuple[float, Window]] = []  # seconds of a bucket
        self._now_seconds, self._heard = 0.0, clock()

    @property
    def is_complete(self) -> bool:
        """Whether there was one of each."""
        return bool(self._windows) and "newest" in self.campaign

    @property
    def now_seconds(self) -> float:
        """The lab's time (UTC), which goes more slowly in slow motion."""
        return self._now_seconds + (self._clock() - self._heard) / float(self.live["slowness"])

    def take(self, message: str | bytes) -> None:
        """Take a message or a frame; one of a kind that is not known counts for nothing."""
        if isinstance(message, bytes):
            self._take_frame(frames.read(message))
            return
        content = json.loads(message)
        kind = content.pop("kind")
        if kind == "layout":
            self._layout, self.rails, self.drives = content["layout"], content["rails"], content["drives"]
            self._windows = []
        elif kind == "campaign":
            self.campaign = content
        elif kind == "live":
            self.live = content
        elif kind == "notices":
            self.notices = [(kind, text) for kind, text in content["notices"]]

    def _take_frame(self, frame: frames.Frame) -> None:
        self._now_seconds, self._heard = frame.now_seconds, self._clock()
        if frame.layout != self._layout:
            return
        if not self._windows:
            for one in frame.sections:
                channels, columns, _ = one.values.shape
                length = round(HEARD_SECONDS / one.bucket_seconds)
                self._windows.append((one.bucket_seconds, Window(channels, columns, length)))
        for (_, window), one in zip(self._windows, frame.sections, strict=True):
            window.replace(one.first, one.values.astype(np.float64))

    def watts(self, host: str, drive: str) -> float | None:
        """Return a drive's watts, of all its rails; None unless all of them are being read."""
        mine = [n for n, rail in enumerate(self.rails) if (rail["host"], rail["drive"]) == (host, drive)]
        found = [self._recent(0, channel, 0) for channel in mine]
        known = [watts for watts in found if watts is not None]
        return sum(known) if known and len(known) == len(found) else None

    def io(self, host: str, drive: str) -> list[float | None]:
        """Return reads, writes and flushes a second, and MB read and written a second."""
        for channel, one in enumerate(self.drives):
            if (one["host"], one["drive"]) == (host, drive):
                return [self._recent(1, channel, column) for column in range(5)]
        return [None] * 5

    def _recent(self, section: int, channel: int, column: int) -> float | None:
        """Return the mean of the newest second that has values."""
        if not self._windows:
            return None
        bucket_seconds, window = self._windows[section]
        row = window.read(window.start, window.end)[channel, column]
        (known,) = np.nonzero(~np.isnan(row))
        if not known.size:
            return None
        newest = row[max(known[-1] + 1 - round(AVERAGED_SECONDS / bucket_seconds), 0) : known[-1] + 1]
        return float(np.nanmean(newest))
