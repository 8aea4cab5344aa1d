# SPDX-License-Identifier: GPL-3.0-or-later
"""What is on a drive: signatures, the partition table read from the drive itself, or nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import time
from collections.abc import Callable
from typing import Any

from ansible.module_utils.joulerig.drives.writers import Writer
from ansible.module_utils.joulerig.tools import Failed, Refused, run, run_json

BLOCK_BYTES = 4096
# The samples of a drive: its ends whole, where most formats have their superblocks, and blocks at
# even distances between them. A drive that rotates takes 3 to 4 ms for each.
END_BYTES = 4 << 20
PLACES_ROTATING, MOST_PLACES, SPACING_BYTES = 62, 4096, 16 << 20
# The parts of a file system that change whenever it is mounted to be written to: superblocks, and
# the checkpoints of F2FS. What mkfs discarded is not among them: some drives read it differently
# each time.
SUPERBLOCKS = ((0, 128 << 10), (2 << 20, BLOCK_BYTES), (4 << 20, BLOCK_BYTES))
# Formats whose superblocks say nothing about the data inside: they are known by identifier alone.
CONTAINERS = {"linux_raid_member", "LVM2_member", "crypto_LUKS"}
HASH_BYTES = 4  # of each sample that the record keeps while a drive is changed
EXT_OFFSET, EXT_BYTES, EXT_MAGIC, EXT_64BIT = 1024, 1024, b"\x53\xef", 0x80
PLAIN = (b"\x00", b"\xff")  # what erased flash and fresh drives read back as
UNLOCK = {
    "nvme": "unlock it, or reset it with its PSID (sedutil-cli)",
    "sd": "unlock it (sedutil-cli, or hdparm --security-unlock)",
}
TABLES = {"dos", "gpt", "PMBR", "mac", "bsd", "sun", "sgi", "atari", "minix"}


class Contents:
    """What was found on a drive.

    `signatures`: {type, uuid, label, offset} of each, in the order of their place. `places`: of
    the samples, (offset, count); `read`: gives the bytes at such places. It is called at the first
    use: most drives are known by their superblocks.
    """

    def __init__(
        self,
        signatures: list[dict[str, Any]],
        places: list[tuple[int, int]],
        read: Callable[[list[tuple[int, int]]], list[bytes]],
    ) -> None:
        self.signatures = signatures
        self._places, self._read = places, read
        self._samples: list[bytes] | None = None

    @property
    def blank(self) -> bool:
        """True if all samples are zeros (or ones), and there is no signature."""
        return not self.signatures and any(
            all(sample == byte * len(sample) for sample in self._sampled()) for byte in PLAIN
        )

    @property
    def marks(self) -> list[str]:
        """UUIDs and labels, by which tables of the system may name the drive."""
        return [mark for one in self.signatures for mark in (one["uuid"], one["label"]) if mark]

    @property
    def identifiers(self) -> list[str]:
        """The identifiers of the signatures, without those that have none."""
        return [key for one in self.signatures if (key := identifier(one["uuid"] or one["label"]))]

    def _sampled(self) -> list[bytes]:
        if self._samples is None:
            self._samples = self._read(self._places)
        return self._samples

    def _blocks(self) -> list[tuple[int, bytes]]:
        """Return the samples block by block, each with its offset on the drive."""
        return [
            (place + at, sample[at : at + BLOCK_BYTES])
            for (place, _), sample in zip(self._places, self._sampled())
            for at in range(0, len(sample), BLOCK_BYTES)
        ]

    def hashes(self) -> str:
        """Return a short hash of each block of the samples, by which `consists_of` compares."""
        return base64.b64encode(b"".join(_short_hash(block) for _, block in self._blocks())).decode()

    def consists_of(self, before: str, writer: Writer) -> bool:
        """Check that each sample is as it was `before` (`hashes`), erased, or of a known writer."""
        hashes, blocks = base64.b64decode(before), self._blocks()
        return len(hashes) == HASH_BYTES * len(blocks) and all(
            hashes[HASH_BYTES * number : HASH_BYTES * (number + 1)] == _short_hash(block)
            or writer.wrote(block, offset)
            for number, (offset, block) in enumerate(blocks)
        )

    def holds_torn(self, key: str, offset: int) -> bool:
        """Check whether an identifier is where it was before a power cut tore its superblock."""
        [block] = self._read([(offset // BLOCK_BYTES * BLOCK_BYTES, BLOCK_BYTES)])
        return re.fullmatch("[0-9a-f]{32}", key) is not None and bytes.fromhex(key) in block

    def describe(self):
        """Return what is there in words: one line, without "/dev"."""
        if self.signatures:
            return ", ".join(_describe(one) for one in self.signatures)
        return "nothing" if self.blank else "data without a signature that is known"

    def identity(self) -> dict[str, Any]:
        """Return by what the rig knows this content again.

        {"signatures": [[type, uuid], ...], "digest"}. The digest is of the superblocks where there
        are any, which change with each use. It is None of containers.
        """
        if not self.signatures:
            return self.shown()
        digest = None
        if any(one["type"] not in CONTAINERS for one in self.signatures):
            digest = _digest(self._read(list(SUPERBLOCKS)))
        return {"signatures": self.kinds, "digest": digest}

    def shown(self) -> dict[str, Any]:
        """Return what a person saw who releases this content: as `identity`, of all samples."""
        return {"signatures": self.kinds, "digest": _digest(self._sampled())}

    @property
    def kinds(self) -> list[list[str | None]]:
        """[type, UUID] of each signature; of bytes that are no UUID, a hash."""
        return [[_word(one["type"]), one["uuid"] and _word(one["uuid"])] for one in self.signatures]


def _word(text: str) -> str:
    if re.fullmatch("[0-9A-Za-z_-]{1,64}", text):
        return text
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def identifier(text: str | None) -> str:
    """Return a UUID, volume id or label without the punctuation that tools print differently."""
    return re.sub("[^0-9a-z]", "", (text or "").lower())


def _short_hash(block: bytes) -> bytes:
    return hashlib.sha256(block).digest()[:HASH_BYTES]


def _digest(samples: list[bytes]) -> str:
    total = hashlib.sha256()
    for sample in samples:
        total.update(sample)
    return total.hexdigest()


def _describe(signature):
    words = [signature["type"]]
    if signature["type"] in TABLES:
        words.insert(0, "a partition table")
    if signature["label"]:
        words.append(f"{signature['label']!r}")
    if signature["uuid"]:
        uuid = signature["uuid"]  # a damaged header's may be any bytes, with line feeds among them
        words.append(f"({uuid})" if uuid.isascii() and uuid.isprintable() else "(no valid UUID)")
    return " ".join(words)


def look(what, path, descriptor, size_bytes, rotates, calls):
    """Return the Contents of the device at `path`, which is open as `descriptor`.

    Raises Refused where the drive cannot be read.
    """
    name = os.path.basename(path)
    if calls.is_locked(descriptor, name):  # it may read as another, small disk instead
        remedy = UNLOCK["nvme" if name.startswith("nvme") else "sd"]
        raise Refused(f"{what}: {path} encrypts itself and is locked; {remedy}")

    def read(places):
        try:
            return calls.read_all(descriptor, places)
        except OSError as error:
            raise Refused(f"{what}: its content cannot be read: {error.strerror}") from None

    return Contents(_signatures(what, path), sample_places(size_bytes, rotates), read)


def _signatures(what, path):
    """List all signatures on a device. blkid reports none where it finds two."""
    try:
        text = run(["wipefs", "--no-act", "--json", path], timeout=60)
        found = json.loads(text)["signatures"] if text.strip() else []
    except (Failed, ValueError, KeyError) as error:
        raise Refused(f"{what}: {path} cannot be probed: {error}") from None
    return [
        {
            "type": one["type"],
            "uuid": one.get("uuid") or None,
            "label": one.get("label") or None,
            "offset": int(one["offset"], 0),
        }
        for one in found
    ]


def sample_places(size_bytes, rotates):
    """Return the samples of a drive: (offset, bytes) of each.

    Of a drive that does not rotate, a block each 16 MiB, but at most 4096 of them.
    """
    count = PLACES_ROTATING
    if not rotates:
        count = max(count, min(MOST_PLACES, size_bytes // SPACING_BYTES))
    between = (size_bytes * number // (count + 1) for number in range(1, count + 1))
    places = [(place // BLOCK_BYTES * BLOCK_BYTES, BLOCK_BYTES) for place in between]
    return [(0, END_BYTES), *places, (max(0, size_bytes - END_BYTES), END_BYTES)]


def details(path, descriptor, calls):
    """Return more of what is on a device, for a person who decides on it: lines of text.

    The partitions of its table, as the disk itself has them, and of ext2, ext3 or ext4 how much is
    used and when it was last mounted. What cannot be read is left out.
    """
    lines = []
    table = run_json(["sfdisk", "--json", path])
    for part in (table or {}).get("partitiontable", {}).get("partitions", []):
        size = int(part["size"]) * int(table["partitiontable"].get("sectorsize", 512))
        lines.append(f"partition {part['node']}: {size} bytes, type {part.get('name') or part['type']}")
    try:
        return lines + _ext_details(calls.read(descriptor, EXT_BYTES, EXT_OFFSET))
    except OSError:
        return lines


def _ext_details(superblock):
    """Read an ext2, ext3 or ext4 superblock (Documentation/filesystems/ext4, "Super Block").

    dumpe2fs would do, but it has the drive flush its cache: a look is to leave no trace.
    """
    if len(superblock) < EXT_BYTES or superblock[0x38:0x3A] != EXT_MAGIC:
        return []

    def number(offset):
        return int.from_bytes(superblock[offset : offset + 4], "little")

    wide = number(0x60) & EXT_64BIT
    blocks = number(0x4) + (number(0x150) << 32 if wide else 0)
    free = number(0xC) + (number(0x158) << 32 if wide else 0)
    lines = [f"{(blocks - free) * (1024 << number(0x18))} bytes used"]
    if place := superblock[0x88:0xC8].split(b"\0")[0].decode("utf-8", "replace"):
        lines.append(f"last mounted on: {place}")
    for name, offset in (("last mounted", 0x2C), ("last written", 0x30)):
        if at := number(offset):
            lines.append(time.strftime(f"{name}: %Y-%m-%d %H:%M:%SZ", time.gmtime(at)))
    return lines
