# SPDX-License-Identifier: GPL-3.0-or-later
"""What is on a drive: signatures, the partition table read from the drive itself, or nothing."""

import hashlib
import json
import os
import time

from ansible.module_utils.joulerig.tools import Failed, Refused, run, run_json

SAMPLE_BYTES = 4096
# What is read of a drive without a signature: its ends whole, where most formats have their
# superblocks, and places in between.
END_BYTES = 4 << 20
SAMPLES = 62
EXT_OFFSET, EXT_BYTES, EXT_MAGIC, EXT_64BIT = 1024, 1024, b"\x53\xef", 0x80
PLAIN = (b"\x00", b"\xff")  # what erased flash and fresh drives read back as
UNLOCK = {
    "nvme": "unlock it, or reset it with its PSID (sedutil-cli)",
    "sd": "unlock it (sedutil-cli, or hdparm --security-unlock)",
}
TABLES = {"dos", "gpt", "PMBR", "mac", "bsd", "sun", "sgi", "atari", "minix"}


class Contents:
    """What was found on a drive.

    `signatures`: {type, uuid, label, offset} of each, in the order of their place. `blank`: nothing
    but zeros (or ones) in all that was read. `digest`: of what was read there, by which the
    same content is known again. The last two are read at their first use: a drive with a signature
    is known by that alone.
    """

    def __init__(self, signatures, read_samples):
        self.signatures = signatures
        self._read_samples, self._samples = read_samples, None

    @property
    def blank(self):
        return not self.signatures and any(
            all(sample == byte * len(sample) for sample in self._sampled()) for byte in PLAIN
        )

    @property
    def digest(self):
        return hashlib.sha256(b"".join(self._sampled())).hexdigest()

    @property
    def marks(self):
        """UUIDs and labels, by which tables of the system may name the drive."""
        return [mark for one in self.signatures for mark in (one["uuid"], one["label"]) if mark]

    def _sampled(self):
        if self._samples is None:
            self._samples = self._read_samples()
        return self._samples

    def describe(self):
        """Return what is there in words: one line, without "/dev"."""
        if self.signatures:
            return ", ".join(_describe(one) for one in self.signatures)
        return "nothing" if self.blank else "data without a signature that is known"

    def identity(self):
        """Return what this content is known by: {"signatures": [[type, uuid], ...], "digest"}.

        The digest is None where every signature has a UUID.
        """
        known = [[one["type"], one["uuid"]] for one in self.signatures]
        unique = known and all(uuid for _, uuid in known)
        return {"signatures": known, "digest": None if unique else self.digest}


def _describe(signature):
    words = [signature["type"]]
    if signature["type"] in TABLES:
        words.insert(0, "a partition table")
    if signature["label"]:
        words.append(f"{signature['label']!r}")
    if signature["uuid"]:
        words.append(f"({signature['uuid']})")
    return " ".join(words)


def look(what, path, descriptor, size_bytes, calls):
    """Return the Contents of the device at `path`, which is open as `descriptor`.

    Raises Refused where the drive cannot be read.
    """
    name = os.path.basename(path)
    if calls.is_locked(descriptor, name):  # it may read as another, small disk instead
        remedy = UNLOCK["nvme" if name.startswith("nvme") else "sd"]
        raise Refused(f"{what}: {path} encrypts itself and is locked; {remedy}")
    return Contents(_signatures(what, path), lambda: _samples(what, descriptor, size_bytes, calls))


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


def _samples(what, descriptor, size_bytes, calls):
    between = (size_bytes * number // (SAMPLES + 1) for number in range(1, SAMPLES + 1))
    places = [(place // SAMPLE_BYTES * SAMPLE_BYTES, SAMPLE_BYTES) for place in between]
    ends = [(0, END_BYTES), (max(0, size_bytes - END_BYTES), END_BYTES)]
    try:
        return [calls.read(descriptor, count, place) for place, count in [*places, *ends]]
    except OSError as error:
        raise Refused(f"{what}: its content cannot be read: {error.strerror}") from None


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
