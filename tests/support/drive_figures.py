# SPDX-License-Identifier: GPL-3.0-or-later
"""What a client must see of a drive, in closed form from its profile."""

from __future__ import annotations

from joulerig.virtuallab.profile import Disk, Flash


def page_us(flash: Flash) -> float:
    """Microseconds in which a flash unit reads 4 KiB: all of a page, or its first part."""
    latency = flash.latency_us
    is_short = latency.short_read is not None and flash.page_bytes > 2 * 4096
    return latency.short_read if is_short else latency.page_read


def alone_us(flash: Flash) -> dict[str, float]:
    """Microseconds of a 4 KiB read and write, one at a time: command, page, link."""
    latency = flash.latency_us
    return {
        "read": latency.read + page_us(flash) + 4096e6 / flash.read_bytes_per_second,
        "write": latency.write + 4096e6 / flash.write_bytes_per_second,
    }


def rate_of_several(depth: int, away_us: float, service_us: float) -> float:
    """Return operations a second of a client that always has `depth` of them under way.

    Each takes `away_us` together with the others, and `service_us` of a server that they share.
    Mean value analysis of a closed queueing network (Reiser and Lavenberg 1980).
    """
    waiting, rate = 0.0, 0.0
    for under_way in range(1, depth + 1):
        response_us = service_us * (1 + waiting)
        rate = under_way / (away_us + response_us)
        waiting = rate * response_us
    return 1e6 * rate


def random_read_us(disk: Disk) -> float:
    """Return the mean time of a single random 4 KiB read, in microseconds.

    Average seek, half a revolution, command, transfer.
    """
    middle = (disk.outer_bytes_per_second + disk.inner_bytes_per_second) / 2
    return 1e3 * (disk.seek_ms.average + 30e3 / disk.rpm) + disk.command_us + 4096e6 / middle


def outermost_bytes_per_second(disk: Disk) -> float:
    """Sequential rate of the outermost zone: a track a revolution, less the change to the next."""
    revolution_ms = 60e3 / disk.rpm
    return disk.outer_bytes_per_second * revolution_ms / (revolution_ms + disk.head_switch_ms)
