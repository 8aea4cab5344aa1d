# SPDX-License-Identifier: GPL-3.0-or-later
"""SHA-256 of every file of a bundle, as `sha256sum --check` reads them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from joulerig.analysis.bundle.archive import BundleError, unsafe

FILE = "manifest-sha256.txt"


@dataclass(frozen=True)
class Difference:
    """The files that differ from the manifest; `changed` says how."""

    changed: tuple[str, ...]
    missing: tuple[str, ...]
    surplus: tuple[str, ...]


def text(digests: Mapping[str, str]) -> str:
    """Return the text of a manifest of these digests by name, sorted by name."""
    return "".join(f"{digests[name]}  {name}\n" for name in sorted(digests))


def parse(path: Path) -> dict[str, str]:
    """Read digests by name.

    Raises BundleError for a bad line, an unsafe name, a name given twice.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(_lines(path), start=1):
        digest, gap, name = line[:64], line[64:66], line[66:]
        if gap != "  " or not _is_digest(digest) or unsafe(name) or name in found:
            raise BundleError(
                f"{path}: line {number}: {line[:80]!r}; 64 hex digits, two spaces and a name are meant"
            )
        found[name] = digest
    return found


def digest(path: Path) -> str:
    """Compute the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def compare(folder: Path, digests: Mapping[str, str]) -> Difference:
    """Compare the files below `folder` with a manifest. Raises OSError."""
    there = {name for name in names(folder) if name != FILE}
    changed = [
        f"{name}: {_describe(folder / name)}"
        for name in sorted(there & set(digests))
        if (folder / name).is_symlink() or digest(folder / name) != digests[name]
    ]
    return Difference(
        tuple(changed), tuple(sorted(set(digests) - there)), tuple(sorted(there - set(digests)))
    )


def names(folder: Path) -> Iterator[str]:
    """List every file and link below a folder, relative to it, in no order."""
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_dir():
            yield path.relative_to(folder).as_posix()


def _describe(path: Path) -> str:
    """Describe a file that differs from the one that was packed."""
    if path.is_symlink():
        return "a link stands in its place"
    return f"its {path.stat().st_size} bytes are not those that were packed"


def _is_digest(digest: str) -> bool:
    return len(digest) == 64 and set(digest) <= set("0123456789abcdef")


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BundleError(f"{path}: cannot be read: {error}") from None
