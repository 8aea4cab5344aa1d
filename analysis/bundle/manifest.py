# SPDX-License-Identifier: GPL-3.0-or-later
"""SHA-256 of every file of a bundle, as `sha256sum --check` reads them, and of every block of a large one.

The blocks tell where in a file a change is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from joulerig.analysis.bundle.archive import BundleError, unsafe

FILE = "manifest-sha256.txt"
BLOCKS_FILE = "blocks-sha256.txt"
BLOCK_BYTES = 16384
_MOST_SHOWN = 3  # stretches of a file


@dataclass(frozen=True)
class Difference:
    """Files that are not as the manifest has them. `changed`: what is known of where."""

    changed: tuple[str, ...]
    missing: tuple[str, ...]
    surplus: tuple[str, ...]


def text(digests: Mapping[str, str]) -> str:
    """A manifest of these digests by name, sorted by name."""
    return "".join(f"{digests[name]}  {name}\n" for name in sorted(digests))


def parse(path: Path) -> dict[str, str]:
    """Digests by name. Raises BundleError where a line is none, a name is unsafe, or comes twice."""
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
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def blocks(path: Path) -> list[str]:
    """SHA-256 of each `BLOCK_BYTES` of a file, the last of what is left."""
    with path.open("rb") as file:
        return [hashlib.sha256(block).hexdigest() for block in iter(lambda: file.read(BLOCK_BYTES), b"")]


def blocks_text(files: Mapping[str, Path]) -> str:
    """A line a block of every file of more than one: digest, offset, name."""
    return "".join(
        f"{digest}  {index * BLOCK_BYTES}  {name}\n"
        for name in sorted(files)
        if files[name].stat().st_size > BLOCK_BYTES
        for index, digest in enumerate(blocks(files[name]))
    )


def parse_blocks(path: Path) -> dict[str, list[str]]:
    """Digests of blocks by name. Raises BundleError."""
    found: dict[str, list[str]] = {}
    for number, line in enumerate(_lines(path), start=1):
        digest, offset, name = [*line.split("  ", 2), "", ""][:3]
        of_name = found.setdefault(name, [])
        if not _is_digest(digest) or offset != str(len(of_name) * BLOCK_BYTES):
            raise BundleError(
                f"{path}: line {number}: {line[:80]!r}; a digest, an offset and a name are meant"
            )
        of_name.append(digest)
    return found


def compare(folder: Path, digests: Mapping[str, str], of_blocks: Mapping[str, list[str]]) -> Difference:
    """What the files below `folder` are, against a manifest. Raises OSError."""
    there = {name for name in names(folder) if name != FILE}
    changed = [
        f"{name}: {_where(folder / name, of_blocks.get(name))}"
        for name in sorted(there & set(digests))
        if (folder / name).is_symlink() or digest(folder / name) != digests[name]
    ]
    return Difference(
        tuple(changed), tuple(sorted(set(digests) - there)), tuple(sorted(there - set(digests)))
    )


def names(folder: Path) -> Iterator[str]:
    """Every file below a folder, links among them, from the folder, in no order."""
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_dir():
            yield path.relative_to(folder).as_posix()


def _where(path: Path, expected: list[str] | None) -> str:
    """In which bytes of a changed file the change is, where its blocks are known."""
    if path.is_symlink():
        return "a link stands in its place"
    size = path.stat().st_size
    if expected is None:
        return f"its {size} bytes are not those that were packed"
    found = blocks(path)
    off = [index for index, one in enumerate(found) if index >= len(expected) or one != expected[index]]
    parts = [
        f"{first * BLOCK_BYTES} to {min((last + 1) * BLOCK_BYTES, size) - 1}"
        for first, last in _stretches(off)
    ]
    if len(parts) > _MOST_SHOWN:
        parts = [*parts[:_MOST_SHOWN], f"{len(parts) - _MOST_SHOWN} more stretches"]
    where = f"it differs in bytes {', '.join(parts)} of {size}" if parts else ""
    short = (
        f"it ends at byte {size}, {len(expected) - len(found)} blocks early"
        if len(found) < len(expected)
        else ""
    )
    return "; ".join(part for part in (where, short) if part) or "it differs"


def _stretches(indices: list[int]) -> list[tuple[int, int]]:
    """Consecutive numbers as (first, last)."""
    found: list[tuple[int, int]] = []
    for index in indices:
        if found and index == found[-1][1] + 1:
            found[-1] = (found[-1][0], index)
        else:
            found.append((index, index))
    return found


def _is_digest(digest: str) -> bool:
    return len(digest) == 64 and set(digest) <= set("0123456789abcdef")


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BundleError(f"{path}: cannot be read: {error}") from None
