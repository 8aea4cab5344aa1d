# SPDX-License-Identifier: GPL-3.0-or-later
"""Which drives may be wiped: blank ones, those with what this rig made, and adopted ones.

A file on the test host keeps, of each drive, by what its content is known: what this rig made last,
and what a person adopted, having seen it. It needs no controller, and outlives one. While the rig
changes a drive, the file says what it is being changed to, so that a run that is killed leaves a
drive that is still known.
"""

import json
import os
import time

from ansible.module_utils.joulerig import paths
from ansible.module_utils.joulerig.changes.brief import alone_with
from ansible.module_utils.joulerig.changes.contents import replace
from ansible.module_utils.joulerig.tools import Failed, Refused

VERSION = 1
LOCK = "drives"  # calls of several drives write to the one file
UNSIGNED = "unsigned"  # a content without a signature: of preconditioning, of a bare writer


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
        """Return the entry of a drive: {"made", "adopted", "changing"}, any of them absent."""
        return dict(self._drives.get(key, {}))

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

    def reason(self, contents):
        """Return why a drive with these contents may be wiped, or an empty text: it may not.

        The reasons are "blank", "made by this rig" and "adopted".
        """
        entry = self._record().entry(self._key) or {"made": self._known}
        for kind, words in (("made", "made by this rig"), ("adopted", "adopted")):
            if _matches(entry.get(kind), contents):
                return words
        if _may_be_between(entry.get("changing"), contents):
            return "made by this rig"
        return "blank" if self._blank and contents.blank else ""

    def check(self, path, contents):
        """Refuse a drive whose content is neither blank, nor this rig's, nor adopted."""
        if not self.reason(contents):
            held = f"holds {contents.describe()}, which this rig did not make"
            if contents.blank:
                held = "is blank, and the inventory has wipe_blank: false"
            raise Refused(
                f"{self._what}: {path} {held};"
                f" 'rig drives adopt HOST {self._what}' shows it and can release it"
            )

    def begin(self, to, contents):
        """Record, before the first change, what the drive is changed to.

        `to`: types of the signatures that it may have in between, UNSIGNED for none.
        """
        with alone_with(LOCK):
            record = self._record()
            entry = record.entry(self._key)
            entry["changing"] = {"to": sorted(to), "from": contents.identity(), "at": _now()}
            record.put(self._key, entry)

    def made(self, contents):
        """Record what the rig made, and return it: nothing else is the rig's from now on."""
        identity = contents.identity()
        with alone_with(LOCK):
            self._record().put(self._key, {"made": {**identity, "at": _now()}})
        return identity

    def adopt(self, contents):
        """Record that a person, having seen these contents, released the drive."""
        with alone_with(LOCK):
            record = self._record()
            entry = record.entry(self._key)
            entry["adopted"] = {**contents.identity(), "at": _now(), "held": contents.describe()}
            record.put(self._key, entry)


def _matches(known, contents):
    if not known or [[one["type"], one["uuid"]] for one in contents.signatures] != known["signatures"]:
        return False
    return known["digest"] is None or contents.digest == known["digest"]


def _may_be_between(changing, contents):
    """Check whether contents can be what a change that was cut short left behind."""
    if not changing:
        return False
    if not contents.signatures:
        return True
    before = changing["from"]["signatures"]
    return all(
        one["type"] in changing["to"] or [one["type"], one["uuid"]] in before for one in contents.signatures
    )


def _now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
