# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers, times and settings as text for people."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

DASH = "–"


def number(value: float | None, digits: int = 4) -> str:
    """Return `value` with `digits` significant digits; a dash where it is None or not finite.

    It has no exponent where that reads well.
    """
    if value is None or not math.isfinite(value):
        return DASH
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, decimals)
    decimals = digits - 1 - math.floor(math.log10(abs(rounded)))  # 9.9996 is 10.00, not 10.000
    if abs(rounded) < 1e-4:
        mantissa, exponent = f"{rounded:.{digits - 1}e}".split("e")
        return f"{mantissa}×10^{int(exponent)}".replace("-", "−")
    return f"{rounded:,.{max(decimals, 0)}f}".replace("-", "−")


def fixed(value: float | None, decimals: int) -> str:
    return DASH if value is None else f"{value:,.{decimals}f}".replace("-", "−")


def signed(value: float | None, decimals: int) -> str:
    return DASH if value is None else f"{value:+,.{decimals}f}".replace("-", "−")


def measure(value: float | None, unit: str, digits: int = 3) -> str:
    """Return `value` with its unit, in thousandths or millionths of it where it is small."""
    if value is None or not math.isfinite(value):
        return DASH
    at_least = ((scale, prefix) for scale, prefix in ((1.0, ""), (1e-3, "m")) if abs(value) >= scale)
    scale, prefix = next(at_least, (1e-6, "µ") if value else (1.0, ""))
    return f"{number(value / scale, digits)} {prefix}{unit}"


def percent(share: float | None, digits: int = 2) -> str:
    return DASH if share is None else number(100 * share, digits)


def probability(p: float | None, sign: bool = False) -> str:
    """Return a p-value as text; what is below a thousandth says no more than that.

    `sign`: with "=" where it has no "<".
    """
    if p is None:
        return DASH
    if p < 0.001:
        return "< 0.001"
    return f"{'= ' if sign else ''}{number(p, 2)}"


def ranges(numbers: list[int]) -> str:
    """Return numbers as ranges: [1, 2, 3, 7] as "1–3, 7"."""
    parts: list[list[int]] = []
    for value in sorted(numbers):
        if parts and value == parts[-1][-1] + 1:
            parts[-1].append(value)
        else:
            parts.append([value])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}–{part[-1]}" for part in parts)


def milliseconds(seconds: float | None) -> str:
    return DASH if seconds is None else number(seconds * 1e3, 3)


def utc(time_ns: int | None) -> str:
    if time_ns is None:
        return DASH
    return datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def span(first_ns: int | None, last_ns: int | None) -> str:
    """Return the span between two instants, to the minute; the day once where it is one."""
    if first_ns is None or last_ns is None:
        return DASH
    first, last = (datetime.fromtimestamp(at // 1_000_000_000, UTC) for at in (first_ns, last_ns))
    until = "%H:%M" if first.date() == last.date() else "%Y-%m-%d %H:%M"
    return f"{first:%Y-%m-%d %H:%M}–{last:{until}}"


def duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def size(size_bytes: Any) -> str:
    if not isinstance(size_bytes, int) or size_bytes <= 0:
        return DASH
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if size_bytes >= scale:
            return f"{number(size_bytes / scale)} {unit}"
    return f"{size_bytes} B"


def flat(value: Any, prefix: str = "") -> dict[str, str]:
    """Flatten nested settings, as {"scheduler in_effect": "none"}.

    A list of plain values is one value.
    """
    if isinstance(value, dict):
        return {
            key: text
            for name, inner in value.items()
            for key, text in flat(inner, f"{prefix} {name}".strip()).items()
        }
    if isinstance(value, list):
        if any(isinstance(item, dict | list) for item in value):
            return flat({str(index): item for index, item in enumerate(value)}, prefix)
        return {prefix: " ".join(_plain(item) for item in value) or DASH}
    return {prefix: _plain(value)}


def _plain(value: Any) -> str:
    if value is None or value == "":
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
