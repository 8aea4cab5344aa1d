# SPDX-License-Identifier: GPL-3.0-or-later
"""Which lanes of a host may be in a run at the same time."""

from __future__ import annotations


class Gate:
    """Lets several lanes in together, or one that is to be alone.

    A lane that asks to be alone is let in once the others have left, before any of them is let in
    again. It is used by one thread at a time (`turn.Turn`).
    """

    def __init__(self) -> None:
        self._inside: dict[str, bool] = {}  # by lane, whether it is alone
        self._asking: list[str] = []  # to be alone, the longest first
        self._revived: float | None = None
        self.closed = False
        """Whether no lane is let in any more."""

    def enter(self, lane: str, *, alone: bool) -> bool:
        """Let a lane in, if it may be now; return whether it is inside."""
        if lane in self._inside:
            return True
        if alone:
            if lane not in self._asking:
                self._asking.append(lane)
            if self._inside or self._asking[0] != lane:
                return False
            self._asking.remove(lane)
        elif self._asking or any(self._inside.values()):
            return False
        self._inside[lane] = alone
        return True

    def let_in(self, lane: str, *, alone: bool) -> None:
        """Let a lane in whatever others are: its run is in progress on the host."""
        self._inside[lane] = alone

    def leave(self, lane: str) -> None:
        """Let a lane out, or no longer wait."""
        self._inside.pop(lane, None)
        if lane in self._asking:
            self._asking.remove(lane)

    def is_alone(self, lane: str) -> bool:
        """Return whether a lane is inside, and alone."""
        return self._inside.get(lane, False)

    def may_revive(self, now: float, seconds: float) -> bool:
        """Return whether a lane may revive the host, as none did in the last `seconds`."""
        if self._revived is not None and now < self._revived + seconds:
            return False
        self._revived = now
        return True
