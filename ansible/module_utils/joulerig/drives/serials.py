# SPDX-License-Identifier: GPL-3.0-or-later
"""What a drive's serial and its WWN say: whether a maker gave them."""

from __future__ import annotations

WWNS = ("naa.", "eui.", "uuid.", "0x")  # how those begin that a maker gave
# Serials that bridges, controllers and boards report which have none.
PLACEHOLDERS = {
    "123456789", "1234567890", "0123456789", "123456789abc", "0123456789abcdef", "12345678901234567890",
    "none", "na", "n/a", "null", "unknown", "default", "serial", "serialnumber", "tobefilledbyo.e.m.",
    "sn", "abcdef", "empty",
}  # fmt: skip


def is_placeholder(serial: str) -> bool:
    """Check whether a serial is what firmware reports that has none: many devices have the same."""
    plain = serial.lower().replace(" ", "").replace("-", "").replace("_", "")
    return not plain.strip("0fx.") or plain in PLACEHOLDERS
