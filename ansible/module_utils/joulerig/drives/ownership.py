# SPDX-License-Identifier: GPL-3.0-or-later
"""Which drives may be wiped: blank ones, those with what this rig made, and adopted ones.

A file on the test host keeps, of each drive, by what its content is known: what this rig left on it
last, and what a person adopted, having seen it. It needs no controller, and outlives one. While the
rig changes a drive, the file says what it is being changed to, so that a run that is killed leaves
a drive that is still known. None of that is a type: a person's ext4 has the type of the rig's.
"""

from __future__ import annotations

import json
import os
import time
from calendar import timegm

from ansible.module_utils.joulerig import paths
from ansible.module_utils.joulerig.changes.brief import alone_with
from ansible.module_utils.joulerig.changes.contents import replace
from ansible.module_utils.joulerig.drives.contents import identifier
from ansible.module_utils.joulerig.drives.writers import UNMARKED, Writer
from ansible.module_utils.joulerig.tools import Failed, Refused

VERSION = 1
LOCK = "drives"  # calls of several drives write to the one file
ADOPTED_SECONDS = 24 * 3600  # how long a person's release waits for its campaign
KEYS = {
    "made": {"signatures", "digest"},
    "adopted": {"signatures", "digest", "at"},
    "changing": {"to", "writer", "torn_at", "from", "before", "boot_id"},
}
TIME = "%Y-%m-%dT%H:%M:%SZ"


class Record:
    """The host's record of drives, by key. Raises Refused where it cannot be read."""

    def __init__(self, path=None):
        self._path = path or paths.DRIVES
        try:
            with open(self._path) as file:
                held = json.load(file)
            if held["version"] != VERSION:
                raise Refused(f"{self._path}: version {held['version']}; known is {VERSION}")
            self._drives = held["drives"]
        except FileNotFoundError:
            self._drives = {}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Refused(f"{self._path}: cannot be read, so that no drive is safe: {error}") from None

    def entry(self, key):
        """Return the entry of a drive: {"made", "adopted", "changing"}, any of them absent.

        What is not as this version writes it gives no right, and is left out.
        """
        held = self._drives.get(key)
        entry = held.items() if isinstance(held, dict) else ()
        return {
            kind: one for kind, one in entry if isinstance(one, dict) and one.keys() >= KEYS.get(kind, set())
        }

    def put(self, key, entry):
        """Replace an entry, lastingly. Raises Failed where that cannot be written."""
        self._drives[key] = entry
        held = {"version": VERSION, "drives": self._drives}
        try:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            replace(self._path, json.dumps(held, indent=1).encode(), 0o644)
        except OSError as error:
            raise Failed(f"{self._path}: cannot be written: {error.strerror}") from None


class Ownership:
    """The right to wipe one drive, by the record of the host that it is on."""

    def __init__(self, what, key, known=None, path=None, blank=True):
        """`known`: what the rig made last, by the controller's record, for a new host.

        `blank`: whether a blank one may be wiped though no person released it.
        """
        self._what, self._key, self._known, self._path = what, key, known, path
        self._blank = blank

    def _record(self):
        return Record(self._path)

    def reason(self, contents, boot_id):
        """Return why a drive with these contents may be wiped, or an empty text: it may not.

        The reasons are "blank", "made by this rig" and "adopted". `boot_id`: of this boot.
        """
        entry = self._record().entry(self._key) or {"made": self._known}
        if _is(entry.get("made"), contents.identity):
            return "made by this rig"
        if _is_recent(entry.get("adopted")) and _is(entry["adopted"], contents.shown):
            return "adopted"
        if _may_be_between(entry.get("changing"), contents, boot_id):
            return "made by this rig"
        return "blank" if self._blank and contents.blank else ""

    def is_open(self):
        """Check whether a change was begun of which no end is recorded."""
        return "changing" in self._record().entry(self._key)

    def check(self, path, contents, boot_id):
        """Refuse a drive whose content is neither blank, nor this rig's, nor adopted."""
        if not self.reason(contents, boot_id):
            held = f"holds {contents.describe()}, which this rig did not make"
            if contents.blank:
                held = "is blank, and the inventory has wipe_blank: false"
            raise Refused(
                f"{self._what}: {path} {held};"
                f" 'rig drives adopt HOST {self._what}' shows it and can release it"
            )

    def begin(self, to, contents, boot_id="", writer=UNMARKED, torn_at=None):
        """Record, before the first change, what the drive is changed to; that uses an adoption up.

        `to`: identifiers of what it gets, chosen for this change; `writer`: of what has none.
        `torn_at`: where a power cut may tear the superblock that has the identifier.
        """
        changing = {
            "to": list(to),
            "writer": writer._asdict(),
            "torn_at": torn_at,
            "from": contents.shown(),
            "before": contents.hashes(),
            "boot_id": boot_id,
            "at": _now(),
        }
        with alone_with(LOCK):
            self._record().put(self._key, {"changing": changing})

    def made(self, contents):
        """Record what the rig left, and return it: nothing else is the rig's from now on."""
        identity = contents.identity()
        with alone_with(LOCK):
            self._record().put(self._key, {"made": {**identity, "at": _now()}})
        return identity

    def adopt(self, contents):
        """Record that a person, having seen these contents, released the drive."""
        with alone_with(LOCK):
            record = self._record()
            entry = record.entry(self._key)
            entry["adopted"] = {**contents.shown(), "at": _now(), "held": contents.describe()}
            record.put(self._key, entry)


def _is(known, read):
    """Check whether `read`, called where something is known, gives that: signatures and digest."""
    return bool(known) and read() == {"signatures": known["signatures"], "digest": known["digest"]}


def _is_recent(adopted):
    """Check that a release has not expired; one of the future is of a clock that was set back."""
    if not adopted:
        return False
    try:
        age = time.time() - timegm(time.strptime(adopted["at"], TIME))
    except (TypeError, ValueError):
        return False
    return 0 <= age + 1 <= ADOPTED_SECONDS


def _may_be_between(changing, contents, boot_id):
    """Check whether contents can be what a change that was cut short left behind."""
    if not changing:
        return False
    if _is(changing["from"], contents.shown):
        return True
    ours = set(changing["to"])
    named = [bool({identifier(one["uuid"]), identifier(one["label"])} & ours) for one in contents.signatures]
    was_there = [kind in changing["from"]["signatures"] for kind in contents.kinds]
    if not all(new or old for new, old in zip(named, was_there)):
        return False
    if any(named):
        return True
    torn_at = changing["torn_at"]
    if torn_at is not None and not contents.signatures:
        return any(contents.holds_torn(key, torn_at) for key in ours)
    writer = Writer(**changing["writer"])
    same_boot = changing["boot_id"] == boot_id or bool(writer.token)
    return same_boot and contents.consists_of(changing["before"], writer)


def _now():
    return time.strftime(TIME, time.gmtime())
