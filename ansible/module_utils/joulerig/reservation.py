# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has this test host, for what, and until when: a file on the host by which controllers agree.

`reservation.json` has at most two entries, of one owner: a person's, and that of a campaign which
is executed under it. An entry is over when this host's clock has passed its time and no run of its
campaign is in progress. An entry that is over refuses nothing; it stays until another replaces it.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Dict

from ansible.module_utils.joulerig import paths
from ansible.module_utils.joulerig.changes.brief import alone_with
from ansible.module_utils.joulerig.changes.contents import replace
from ansible.module_utils.joulerig.detached import calls
from ansible.module_utils.joulerig.tools import Failed, Refused

VERSION = 1
NAME = "reservation.json"
LOCK = "reservation"  # not the lock of runs: a reservation is made while one is in progress

Entry = Dict[str, Any]
# What an entry consists of. A file that has anything else refuses, and --break ends it.
TEXTS = ("owner", "machine", "purpose", "campaign", "process")
TIMES = ("made", "expires")
MOST_BYTES = 65536
MOST_ENTRIES = 16
LONGEST = 1000
WAY_OUT = "'rig hosts free HOST --break' ends what it has"
LAST_SECOND = 253402300799  # of the year 9999


@dataclass(frozen=True)
class Asker:
    """Who asks for a host.

    `owner`: a user and a controller, for people. `machine`: the controller, by a name that no other
    has. `host`: the host's name in the asker's inventory. `campaign`: id of the campaign that asks,
    with `created_ns`; empty: a person asks. `process`: which executes it. `gone`: processes of
    entries that ended, as the asker knows. `alone`: the owner's own campaigns hold a person
    up too.
    """

    owner: str
    machine: str
    host: str
    campaign: str = ""
    created_ns: int = 0
    process: str = ""
    gone: Sequence[str] = ()
    alone: bool = False

    def owns(self, entry: Entry) -> bool:
        """Check whether an entry is of the same user on the same controller, by whichever name."""
        users = [owner.rpartition("@")[0] for owner in (entry["owner"], self.owner)]
        return users[0] == users[1] and entry["machine"] == self.machine

    def is_campaign_of(self, entry: Entry) -> bool:
        """Check whether an entry is of the campaign that asks, whichever controller it was on."""
        return bool(self.campaign) and _campaign(entry) == (self.campaign, self.created_ns)

    def may_replace(self, entry: Entry) -> bool:
        """Check whether an entry, which is not over, leaves the host to the asker."""
        if self.is_campaign_of(entry):
            return True
        if not self.owns(entry):
            return False
        # An owner's campaigns exclude each other, a person's reservation excludes none of them.
        excludes = (self.campaign or self.alone) and entry["campaign"]
        return not excludes or entry["process"] in self.gone


class Reserved(Refused):
    """Another has the host. `entry` is the reservation."""

    def __init__(self, text: str, entry: Entry) -> None:
        super().__init__(text)
        self.entry = entry


def held() -> list[Entry]:
    """Return the entries, each with whether it is `over`. Raises Failed."""
    return [{**entry, "over": _is_over(entry)} for entry in _read()["held"]]


def check(asker: Asker) -> None:
    """Refuse what changes the host where another has it. Raises Reserved and Failed."""
    _check(_read()["held"], asker)


def reserve(asker: Asker, purpose: str, seconds: float) -> bool:
    """Give the host to the asker for `seconds` from now; return whether it had it not yet.

    Raises Reserved and Failed.
    """
    with locked():
        entries = _read()["held"]
        _check(entries, asker)
        former = _own(entries, asker)
        _write(_with(entries, asker, purpose, seconds), None)
        return former is None or _is_over(former)


def renew(asker: Asker, purpose: str, seconds: float) -> None:
    """Give the asker the host for `seconds` from now, where it still has it.

    Raises Reserved where another has it, also another process of the same campaign, Refused where
    its reservation was ended, and Failed.
    """
    with locked():
        found = _read()
        _check(found["held"], asker)
        mine = _own(found["held"], asker)
        if mine is None:
            raise Refused(_ended(asker, found["broken"]))
        if mine["process"] != asker.process:
            raise Reserved(f"{asker.host}: is reserved {describe(mine)}, which was resumed there", mine)
        _write(_with(found["held"], asker, purpose, seconds), None)


def free(asker: Asker) -> list[Entry]:
    """End the asker's reservation; return the entries that were ended.

    A person's asking ends those of the owner's campaigns as well whose process is `gone`. Raises
    Reserved where there are only others, and Failed.
    """

    def is_meant(entry: Entry) -> bool:
        if asker.campaign:  # what has taken the campaign over keeps the host
            return asker.is_campaign_of(entry) and entry["process"] == asker.process
        return asker.owns(entry) and (not entry["campaign"] or entry["process"] in asker.gone)

    with locked():
        found = _read()
        ended = [entry for entry in found["held"] if is_meant(entry)]
        left = [entry for entry in found["held"] if not is_meant(entry)]
        if not ended and not asker.campaign:
            for entry in left:
                if not _is_over(entry):
                    raise Reserved(_refusal(entry, asker), entry)
        if ended:
            _write(left, found["broken"])
        return ended


def break_off(asker: Asker) -> list[Entry]:
    """End every reservation, of any owner; return the entries that were ended.

    A campaign among them begins no further run here, and says who ended it.
    """
    with locked():
        try:
            ended: list[Entry] = _read()["held"]
        except Failed:
            ended = []
        broken = [_campaign(entry) for entry in ended if entry["campaign"]]
        _write([], {"campaigns": broken, "by": asker.owner, "at": time.time()} if broken else None)
        return ended


def remove() -> bool:
    """Remove the file; return whether it was there. For the holder of the lock."""
    try:
        os.unlink(_path())
    except FileNotFoundError:
        return False
    with contextlib.suppress(OSError):  # it has other files of the rig's
        os.rmdir(paths.STATE)
    return True


def locked() -> contextlib.AbstractContextManager[None]:
    """Keep others from the file while the body reads and writes it."""
    return alone_with(LOCK)


def describe(entry: Entry) -> str:
    """Return an entry for people: by whom, for what, until when."""
    what = f"for campaign {entry['campaign']}" if entry["campaign"] else f"for {entry['purpose']!r}"
    until = datetime.datetime.fromtimestamp(entry["expires"], datetime.timezone.utc)
    left = entry["expires"] - time.time()
    minutes = max(1, round(left / 60))
    more = f"{minutes // 60} h {minutes % 60} min from now" if left > 0 else "over, but a run is in progress"
    return f"by {entry['owner']} {what} until {until:%Y-%m-%d %H:%M} UTC ({more})"


def _check(entries: Sequence[Entry], asker: Asker) -> None:
    for entry in entries:
        if not _is_over(entry) and not asker.may_replace(entry):
            raise Reserved(_refusal(entry, asker), entry)


def _refusal(entry: Entry, asker: Asker) -> str:
    first = "end the campaign by 'rig stop'" if asker.owns(entry) else f"ask {entry['owner']}"
    return (
        f"{asker.host}: is reserved {describe(entry)};"
        f" {first}, or end the reservation by 'rig hosts free {asker.host} --break'"
    )


def _ended(asker: Asker, broken: dict[str, Any] | None) -> str:
    if broken and [asker.campaign, asker.created_ns] in [list(one) for one in broken["campaigns"]]:
        at = datetime.datetime.fromtimestamp(broken["at"], datetime.timezone.utc)
        return f"{asker.host}: {broken['by']} ended the reservation at {at:%Y-%m-%d %H:%M} UTC"
    return f"{asker.host}: the reservation was ended"


def _own(entries: Sequence[Entry], asker: Asker) -> Entry | None:
    """Return the entry that the asker renews."""
    for entry in entries:
        by_person = asker.owns(entry) and not (asker.campaign or entry["campaign"])
        if by_person or asker.is_campaign_of(entry):
            return entry
    return None


def _with(entries: Sequence[Entry], asker: Asker, purpose: str, seconds: float) -> list[Entry]:
    """Return the entries with the asker's, without those of its kind and those that are over."""
    now = time.time()
    former = _own(entries, asker)
    mine = {
        "owner": asker.owner,
        "machine": asker.machine,
        "purpose": purpose[:LONGEST],
        "campaign": asker.campaign,
        "created_ns": asker.created_ns,
        "process": asker.process,
        "made": former["made"] if former and not _is_over(former) else now,
        "expires": min(now + seconds, LAST_SECOND),
    }
    others = [
        entry for entry in entries if bool(entry["campaign"]) != bool(asker.campaign) and not _is_over(entry)
    ]
    return [*others, mine]


def _is_over(entry: Entry) -> bool:
    if time.time() < entry["expires"]:
        return False
    return not (entry["campaign"] and calls.in_progress(entry["campaign"]))


def _campaign(entry: Entry) -> tuple[str, int]:
    return entry["campaign"], entry["created_ns"]


def _read() -> dict[str, Any]:
    try:
        with open(_path(), "rb") as file:
            text = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return {"version": VERSION, "held": [], "broken": None}
    except OSError as error:
        raise Failed(f"{_path()}: {error.strerror}; {WAY_OUT}") from None
    try:
        found: dict[str, Any] = json.loads(text.decode()) if len(text) <= MOST_BYTES else {}
        odd = _oddity(found)
    except (ValueError, RecursionError):
        odd = "is no JSON"
    if odd:
        raise Failed(f"{_path()}: {odd}; {WAY_OUT}")
    return found


def _oddity(found: Any) -> str:
    """Return what is wrong with the content of the file, or an empty text."""
    if not isinstance(found, dict) or set(found) != {"version", "held", "broken"}:
        return "has not the keys of reservations"
    if found["version"] != VERSION:
        return f"is of another version; this module reads version {VERSION}"
    held, broken = found["held"], found["broken"]
    if not isinstance(held, list) or len(held) > MOST_ENTRIES or not all(map(_is_entry, held)):
        return "has an entry that is no reservation"
    return "" if broken is None or _is_ending(broken) else "has an ending that is none"


def _is_entry(one: Any) -> bool:
    return (
        isinstance(one, dict)
        and set(one) == {*TEXTS, *TIMES, "created_ns"}
        and all(_is_text(one[key]) for key in TEXTS)
        and all(_is_time(one[key]) for key in TIMES)
        and _is_whole(one["created_ns"])
    )


def _is_ending(broken: Any) -> bool:
    """Check what `break_off` notes: the campaigns whose reservations ended, by whom, and when."""
    return (
        isinstance(broken, dict)
        and set(broken) == {"campaigns", "by", "at"}
        and _is_text(broken["by"])
        and _is_time(broken["at"])
        and isinstance(broken["campaigns"], list)
        and len(broken["campaigns"]) <= MOST_ENTRIES
        and all(
            isinstance(one, list) and len(one) == 2 and _is_text(one[0]) and _is_whole(one[1])
            for one in broken["campaigns"]
        )
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST


def _is_time(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= LAST_SECOND


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _write(entries: Sequence[Entry], broken: dict[str, Any] | None) -> None:
    if not entries and not broken:
        _remove(_path())
        return
    if os.path.isdir(_path()):  # whatever put it there: the new file cannot replace it
        _remove(_path())
    os.makedirs(paths.STATE, mode=0o755, exist_ok=True)
    text = json.dumps({"version": VERSION, "held": list(entries), "broken": broken}, indent=1)
    replace(_path(), (text + "\n").encode(), 0o644)


def _remove(path: str) -> None:
    """Remove what is at a path, also an empty folder; a link's target stays."""
    with contextlib.suppress(FileNotFoundError):
        if os.path.isdir(path) and not os.path.islink(path):
            os.rmdir(path)
        else:
            os.unlink(path)


def _path() -> str:
    return os.path.join(paths.STATE, NAME)
