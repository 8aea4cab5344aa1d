# SPDX-License-Identifier: GPL-3.0-or-later
"""Replies that many viewers share: one of them has each computed, and the others get the same."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

MOST_KEPT = 200


@dataclass
class _Entry:
    lock: threading.Lock = field(default_factory=threading.Lock)
    until: float = float("-inf")
    value: Any = None


class Kept:
    """Values by key, each for a time; the keys that were not asked for longest are forgotten.

    Any thread may ask. Two that ask for the same key at once share one computation.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = MOST_KEPT) -> None:
        self._clock, self._most = clock, most
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()

    def get(self, key: Hashable, seconds: float, compute: Callable[[], Any]) -> Any:
        """Return what `compute` returned for `key` at most `seconds` ago; errors are not kept."""
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            while len(self._entries) > self._most:
                self._entries.popitem(last=False)
        with entry.lock:
            if self._clock() >= entry.until:
                entry.value = compute()
                entry.until = self._clock() + seconds
            return entry.value
