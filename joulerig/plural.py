# SPDX-License-Identifier: GPL-3.0-or-later
"""Put a noun after its count in the number that the count asks for."""

from __future__ import annotations


def counted(count: float, noun: str, plural: str = "") -> str:
    """Return "1 run", "2 runs", "0.5 hours"; `plural` where it is not the noun's regular one.

    >>> counted(1, "run"), counted(2, "run"), counted(0, "process"), counted(3, "query")
    ('1 run', '2 runs', '0 processes', '3 queries')
    >>> counted(2, "phase and rail", "phases and rails")
    '2 phases and rails'
    """
    number = str(count) if isinstance(count, int) else f"{count:g}"
    return f"{number} {noun if count == 1 else plural or _plural(noun)}"


def _plural(noun: str) -> str:
    if noun.endswith(("s", "x", "ch", "sh")):
        return f"{noun}es"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}s"
