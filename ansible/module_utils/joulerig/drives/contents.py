# SPDX-License-Identifier: GPL-3.0-or-later
"""What is on a drive: signatures, the partition table read from the drive itself, or nothing."""

import hashlib
import json

from ansible.module_utils.joulerig.tools import Failed, Refused, run

SAMPLE_BYTES = 4096
SAMPLES = 64  # places that are read of a drive without a signature, first and last ones among them
PLAIN = (b"\x00", b"\xff")  # what erased flash and fresh drives read back as
TABLES = {"dos", "gpt", "PMBR", "mac", "bsd", "sun", "sgi", "atari", "minix"}


class Contents:
    """What was found on a drive.

    `signatures`: {type, uuid, label, offset} of each, in the order of their place. `blank`: nothing
    but zeros (or ones) in all places that were read. `digest`: of what was read there, by which the
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
    last = max(0, size_bytes - SAMPLE_BYTES)
    evenly = (last * number // (SAMPLES - 1) for number in range(SAMPLES))
    places = sorted({place // SAMPLE_BYTES * SAMPLE_BYTES for place in evenly})
    try:
        return [calls.read(descriptor, SAMPLE_BYTES, place) for place in places]
    except OSError as error:
        raise Refused(f"{what}: its content cannot be read: {error.strerror}") from None
