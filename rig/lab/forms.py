# SPDX-License-Identifier: GPL-3.0-or-later
"""Take a drive's identity in the forms in which tools print it and people type it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# Prefixes of what udev makes of a WWN in /dev/disk/by-id.
LINK = re.compile(r"^(/dev/disk/by-id/)?(wwn-|nvme-(?=eui\.|nguid\.|uuid\.|nvme\.)|scsi-(?=3[0-9a-f]{16}))")
PREFIXED = re.compile(r"^(eui|naa|t10|uuid|nvme|nguid)\.(.*)$", re.IGNORECASE)
TEXTUAL = re.compile(r"^[0-9a-zA-Z][\x20-\x7e]*$")
# A prefix, "0x" and zeros alone are what a drive without a WWN reports.
IDENTIFYING = re.compile(r"[1-9a-z]")
HEXADECIMAL = re.compile(r"^[0-9a-f]+$")
ALLOWED_WWNS = (
    "naa., eui., uuid., nvme. or t10. and what follows, or 0x and 16 or 32 hexadecimal digits, as lsblk,"
    " smartctl, nvme id-ns and /dev/disk/by-id have it"
)
# A size in bytes with its thousands separated, and what smartctl puts after it.
GROUPED = re.compile(r"^(\d{1,3}(?:[,_' ]\d{3})+)( bytes(?: \[.*\])?)?$")
NAA = tuple("2356")  # first digits of the kinds of NAA identifier
LONG_NAA = "6"  # of the kind that has 32 digits; older versions of lsblk print 16 of them


class Integer(int):
    """A whole number, with the text that stands for it in a file: 0012 is 10 to YAML."""

    text: str


class Decimal(float):
    """A number with a fraction, with the text that stands for it in a file."""

    text: str


def as_text(value: Any) -> Any:
    """Return a number that was typed without quotes as it was typed.

    Raises ValueError for what YAML takes for true or false: it says nothing of what was typed.
    """
    if isinstance(value, bool):
        raise ValueError(f"{value!r}: YAML takes it for true or false; write it in quotes")
    if isinstance(value, int | float):
        return str(getattr(value, "text", value))
    return value.strip() if isinstance(value, str) else value


def as_bytes(value: Any) -> Any:
    """Return a size whose thousands are separated, as smartctl prints it, as a number."""
    if isinstance(value, str) and (grouped := GROUPED.match(value.strip())):
        return int(re.sub(r"\D", "", grouped[1]))
    return value


def as_wwn(value: Any, interface: object) -> Any:
    """Return a WWN as the kernel writes it, from any form in which a tool prints it.

    That is `naa.` or `eui.` and hexadecimal digits, or another prefix and what follows. Raises
    ValueError.
    """
    if isinstance(value, Mapping):
        return _of_smartctl(value)
    text = as_text(value)
    if not isinstance(text, str):
        return text
    plain = LINK.sub("", text)
    if found := PREFIXED.match(plain):
        kind, rest = found[1].lower(), found[2]
        if kind in ("eui", "naa", "nguid"):
            return _numbered(text, re.sub(r"[\s:-]", "", rest.lower()), "naa" if kind == "naa" else "eui")
        if not TEXTUAL.match(rest) or not IDENTIFYING.search(rest.lower().removeprefix("0x")):
            raise ValueError(f"{text!r} is no WWN; allowed: {ALLOWED_WWNS}")
        return f"{kind}.{rest}"
    digits = re.sub(r"[\s:-]", "", plain.lower()).removeprefix("0x")
    if len(digits) in (17, 33) and digits[0] in "23":  # scsi_id puts the kind of identifier first
        return _numbered(text, digits[1:], "eui" if digits[0] == "2" else "naa")
    by_digit = "naa" if digits.startswith(NAA) else "eui"
    return _numbered(text, digits, "eui" if interface == "nvme" else by_digit)


def _numbered(text: str, digits: str, kind: str) -> str:
    """Return KIND.DIGITS. Raises ValueError unless these are the digits of a WWN."""
    if not HEXADECIMAL.match(digits) or len(digits) not in (16, 32):
        raise ValueError(f"{text!r} is no WWN; allowed: {ALLOWED_WWNS}")
    if not digits.strip("0") or not digits.strip("f"):
        raise ValueError(f"{text!r} is what drives without a WWN report; allowed: leave wwn out")
    if kind == "naa" and digits[0] == LONG_NAA and len(digits) == 16:
        raise ValueError(
            f"{text!r} is the first half of a WWN; allowed: all 32 digits, as in /dev/disk/by-id/wwn-..."
        )
    return f"{kind}.{digits}"


def _of_smartctl(parts: Mapping[str, Any]) -> str:
    """Return the WWN that smartctl's JSON has in parts, in decimal. Raises ValueError."""
    kinds: dict[tuple[str, ...], tuple[str, tuple[int, ...]]] = {
        ("id", "naa", "oui"): ("naa", (9, 1, 6)),
        ("ext_id", "oui"): ("eui", (10, 6)),
    }
    names = tuple(sorted(map(str, parts)))
    numbers = [parts[name] for name in names if name in parts]
    if names not in kinds or not all(isinstance(one, int) for one in numbers):
        raise ValueError(
            f"{dict(parts)!r} is no WWN; allowed: {ALLOWED_WWNS}, or naa, oui and id of smartctl"
        )
    kind, widths = kinds[names]
    digit = {name: f"{parts[name]:0{width}x}" for name, width in zip(names, widths, strict=True)}
    order = ("naa", "oui", "id") if kind == "naa" else ("oui", "ext_id")
    return _numbered(str(dict(parts)), "".join(digit[name] for name in order), kind)
