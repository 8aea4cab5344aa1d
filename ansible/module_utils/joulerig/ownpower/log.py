# SPDX-License-Identifier: GPL-3.0-or-later
"""What NVMe log pages have of a drive's own power.

Source: NVM Express Base Specification 2.1 and later, "SMART / Health Information" (bytes 232 to
243), "Power Measurement Log", "Power Measurement" (feature), "Identify Controller" (CTRATT).
"""

from __future__ import annotations

LOG, FEATURE = 0x25, 0x25
HEADER_BYTES, BIN_BYTES, MOST_BINS = 64, 8, 64
BYTES = HEADER_BYTES + BIN_BYTES * MOST_BINS
START, STOP = 1, 0
MEASURES = 1 << 21  # of the controller's attributes
WATTS = {1: 1e-4, 2: 1e-2}  # of a power's last digit, by its scale
NOT_STATED = 255
RUNNING, GAPS = 1 << 0, 1 << 1


def measures(controller: bytes) -> bool:
    """Return whether a drive measures its power when a host starts it, by Identify Controller."""
    return bool(int.from_bytes(controller[96:100], "little") & MEASURES)


def of_health(log: bytes) -> dict[str, float | int | None]:
    """Return what the health log has of power.

    `watt_hours` since it was new (0: not reported), `watts` of the last second and their last digit
    `step_watts` (None: not reported), `power_cycles`. Raises ValueError for a short log.
    """
    if len(log) < 512:
        raise ValueError(f"a health log of {len(log)} bytes")
    watts, step = _power(log, 240)
    return {
        "watt_hours": int.from_bytes(log[232:240], "little"),
        "watts": watts,
        "step_watts": step,
        "power_cycles": int.from_bytes(log[112:128], "little"),
    }


def of_measurement(log: bytes) -> dict[str, object]:
    """Return a measurement: mean and greatest power, seconds, histogram, the drive's stated error.

    `error_percent`: None where the drive states none. `has_gaps`: it had no power meanwhile. Raises
    ValueError for a log that is short, or of a histogram with bins of several widths.
    """
    if len(log) < HEADER_BYTES:
        raise ValueError(f"a log of power measurements of {len(log)} bytes")
    state = int.from_bytes(log[2:4], "little")
    watts, step = _power(log, 40)
    size = int.from_bytes(log[24:26], "little")
    count = int.from_bytes(log[28:30], "little")
    if count and (size < 4 or len(log) < HEADER_BYTES + size * count):
        raise ValueError(f"a histogram of {count} bins in a log of {len(log)} bytes")
    ats = [HEADER_BYTES + size * n for n in range(count)]
    return {
        "generation": log[1],
        "is_running": bool(state & RUNNING),
        "has_gaps": bool(state & GAPS),
        "seconds": int.from_bytes(log[8:12], "little"),
        "watts": watts or 0.0,
        "step_watts": step or WATTS[1],
        "most_watts": _power(log, 44)[0],
        "error_percent": None if log[56] == NOT_STATED else log[56],
        "bins": {
            "bin_watts": int.from_bytes(log[26:28], "little") / 1000,
            "watts": [_power(log, at + 4)[0] or 0.0 for at in ats],
            "counts": [int.from_bytes(log[at : at + 4], "little") for at in ats],
            "overflow": int.from_bytes(log[32:36], "little"),
        },
    }


def _power(log: bytes, at: int) -> tuple[float | None, float | None]:
    """Return watts and their last digit; None for both where the scale says that there are none."""
    step = WATTS.get(int.from_bytes(log[at + 2 : at + 4], "little") & 0x7)
    if step is None:
        return None, None
    return int.from_bytes(log[at : at + 2], "little") * step, step
