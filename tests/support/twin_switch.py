# SPDX-License-Identifier: GPL-3.0-or-later
"""What channels to hosts of this machine have in common whose one drive is a real twin.

Its power switch, and what else the executor of power cuts asks for and nothing is behind here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from joulerig.virtuallab.standalone_twin import StandaloneTwin


class TwinSwitch:
    """The power switch of `twin`. `lost`: what it lost at each cut, by its own account."""

    def __init__(self, twin: StandaloneTwin) -> None:
        self._twin = twin
        self.lost: list[dict[str, Any]] = []
        self.said: list[str] = []

    def reconnect(self) -> None:
        pass

    def say(self, text: str, mark: str = "note") -> None:
        self.said.append(text)

    def switch(self, drives: Sequence[str], restart: Callable[[], None]) -> Self:
        return self

    def check(self) -> None:
        pass

    def off(self) -> dict[str, Any]:
        self.lost.append(self._twin.power_off())
        return {"means": "power off of the twin"}

    def hold_up(self, drive: str) -> dict[str, dict[str, Any]]:
        return {}

    def restore_rails(self) -> None:
        pass
