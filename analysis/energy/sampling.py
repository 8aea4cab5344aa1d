# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge whether samples show all that a rail draws."""

from __future__ import annotations


def sees_all(
    timing: str | None, samples: str | None, sample_rate_hz: float | None, bandwidth_hz: float | None
) -> bool:
    """Return whether a meter's samples show all that a rail draws: see `Meter` of the inventory.

    A mean over its window does, and so does a point of a stream whose filter passes nothing that
    could change between two (H. Nyquist, Certain Topics in Telegraph Transmission Theory, 1928).
    """
    if timing == "poll" or samples != "point":
        return timing != "poll"
    return bool(sample_rate_hz and bandwidth_hz) and 2 * (bandwidth_hz or 0) <= (sample_rate_hz or 0)
