# SPDX-License-Identifier: GPL-3.0-or-later
"""Zip files: the same files are written as the same bytes; what is read is not trusted."""

from __future__ import annotations

import hashlib
import io
import shutil
import stat
import struct
import unicodedata
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from joulerig.errors import JoulerigError

_EPOCH = (1980, 1, 1, 0, 0, 0)  # of every member: when a file was copied is no part of a campaign
_PACKED = (".parquet", ".pdf")
_CHUNK = 1 << 20
# What zipfile raises for a file that is no good zip.
_UNREADABLE = (
    EOFError,
    LookupError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,  # encrypted; and of it, too deep
    ValueError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)

MOST_MEMBERS = 1_000_000
MOST_LEVELS = 16  # of folders; a bundle has 3
MOST_NAME_BYTES = 255  # of a file or a folder
FREELY_BYTES = 1 << 30  # up to here nothing is asked; beyond, an archive may unpack to MOST_TIMES its size
MOST_TIMES = 100
MOST_SHOWN = 80  # of a name


class BundleError(JoulerigError):
    """A bundle that cannot be read or written; the message is one line that names it."""


class Writer:
    """A zip in the making, on `target`: the same content gives the same bytes (with the same zlib).

    Times and permissions are fixed.
    """

    def __init__(self, target: BinaryIO) -> None:
        self._archive = zipfile.ZipFile(target, "w")

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    def add(self, name: str, content: Path | bytes) -> str:
        """Add a file to the zip, and return the SHA-256 of its content.

        Raises BundleError for an unsafe name.
        """
        if why := unsafe(name):
            raise BundleError(f"{name!r} {why}: it cannot be packed")
        info = zipfile.ZipInfo(name, _EPOCH)
        info.create_system = 3
        info.external_attr = (stat.S_IFREG | 0o644) << 16
        info.compress_type = zipfile.ZIP_STORED if name.endswith(_PACKED) else zipfile.ZIP_DEFLATED
        info.file_size = len(content) if isinstance(content, bytes) else content.stat().st_size
        digest = hashlib.sha256()
        source = io.BytesIO(content) if isinstance(content, bytes) else content.open("rb")
        with source, self._archive.open(info, "w") as member:
            while chunk := source.read(_CHUNK):
                member.write(chunk)
                digest.update(chunk)
        return digest.hexdigest()


def unsafe(name: str) -> str:
    """Return why a member of that name must not be written below a folder; empty if it may be."""
    parts = PurePosixPath(name).parts
    if not parts or "\\" in name or not name.isprintable():
        return "is no name of a file"
    if name.startswith("/") or (len(name) > 1 and name[1] == ":"):
        return "is absolute"
    if ".." in parts:
        return "leads out of the bundle"
    if "/".join(parts) != name.rstrip("/"):
        return "is not in its plain form"
    if len(parts) > MOST_LEVELS:
        return f"is {len(parts)} folders deep; at most {MOST_LEVELS} are allowed"
    if max(len(part.encode(errors="surrogateescape")) for part in parts) > MOST_NAME_BYTES:
        return f"is longer than {MOST_NAME_BYTES} bytes"
    return ""


def extract(path: Path, folder: Path) -> tuple[int, list[str]]:
    """Unpack a zip into `folder`; return how many files it has, and a line for each damaged one.

    A damaged member is left out. Raises BundleError where it is no zip (or has no end, as one that
    was cut short), has names that lead out of `folder` or come twice, links, encrypted members, or
    would unpack to more than `MOST_TIMES` its size.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            _refuse(path, members, shutil.disk_usage(folder).free)
            members = [member for member in members if not member.is_dir()]
            damaged = [problem for member in members if (problem := _unpack(archive, member, folder))]
    except _UNREADABLE as error:
        raise BundleError(f"{path}: cannot be read as a zip: {error}") from None
    return len(members), damaged


def _refuse(path: Path, members: list[zipfile.ZipInfo], free_bytes: int) -> None:
    if len(members) > MOST_MEMBERS:
        raise BundleError(f"{path}: {len(members)} files in it; at most {MOST_MEMBERS} are read")
    kinds: dict[str, bool] = {}  # of each path in its least form: whether it is a folder
    for member in members:
        if why := _improper(member) or _taken(member, kinds):
            name = member.orig_filename
            raise BundleError(f"{path}: refused: {name[:MOST_SHOWN]!r} {why}")
    size = path.stat().st_size
    unpacked = sum(member.file_size for member in members)
    if unpacked > max(FREELY_BYTES, MOST_TIMES * size):
        raise BundleError(
            f"{path}: refused: {size} bytes that unpack to {unpacked}, over {MOST_TIMES} times as much"
        )
    if unpacked > free_bytes:
        raise BundleError(f"{path}: needs {unpacked} bytes to be unpacked, {free_bytes} are free")


def _improper(member: zipfile.ZipInfo) -> str:
    """Return why a member is not unpacked; empty if it may be."""
    mode = member.external_attr >> 16
    if why := unsafe(member.orig_filename):
        return why
    if member.flag_bits & 1:
        return "is encrypted"
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "is packed otherwise than stored or deflated"
    if stat.S_ISLNK(mode):
        return "is a link"
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "is neither a file nor a folder"
    return ""


def _taken(member: zipfile.ZipInfo, kinds: dict[str, bool]) -> str:
    """Return why a member's name cannot be used, and note the name; empty if it can.

    Names that differ in case, or in how an accent is written, are one name on some file systems.
    """
    parts = unicodedata.normalize("NFC", member.filename).casefold().rstrip("/").split("/")
    for number in range(1, len(parts) + 1):
        is_folder = number < len(parts) or member.is_dir()
        known = kinds.setdefault("/".join(parts[:number]), is_folder)
        if known != is_folder:
            return "is a file, and a folder as well"
    if not member.is_dir():
        name = "/".join(parts)
        if f"{name}\0" in kinds:
            return "is there twice, or in letters of another case"
        kinds[f"{name}\0"] = False
    return ""


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo, folder: Path) -> str:
    target = folder / member.filename
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(member) as source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy, _CHUNK)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        target.unlink(missing_ok=True)
        return f"{member.filename}: {error}"
    return ""
