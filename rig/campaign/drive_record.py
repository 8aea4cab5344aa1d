# SPDX-License-Identifier: GPL-3.0-or-later
"""The drives' record: what was done to each one, and whether its precondition still holds.

Everything that Joulerig does to a drive begins with a `began` and ends with an `ended` that says
how much was written and discarded. What began and never ended has written an unknown amount.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from joulerig import sqlite
from joulerig.analysis.results.campaign import UNIT_BYTES, current_recipe
from joulerig.rig.campaign import definition as campaigns
from joulerig.rig.campaign import factors
from joulerig.rig.campaign.execution.outcome import Identity, RunOutcome, Touched
from joulerig.rig.common import paths
from joulerig.rig.common.bounded import GREATEST, read
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.model import Lab
from joulerig.sqlite import transaction

SCHEMA = Path(__file__).parent / "drive_record.sql"
VERSION = 1
IDENTIFIED = "identified"  # an event: by what the drive's content is known, as its host says
# Beyond what the rig wrote, a drive's own count may have risen by as much: its units are coarse,
# and it is read before the file system is unmounted.
TOLERANCE_BYTES = 64_000_000
TOLERANCE_FRACTION = 0.01


class DriveRecord:
    """The record in the file `path`, made at its first use. A context manager. Raises UserError."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or paths.var() / "drives.sqlite"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite.connect(self._path)
        self._db.row_factory = sqlite3.Row
        try:
            version = self._version()
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise UserError(f"{paths.short(self._path)}: cannot be read: {error}") from None
        if version != VERSION:
            self._db.close()
            raise UserError(
                f"{paths.short(self._path)}: version {version}; this Joulerig reads version {VERSION}"
            )

    def _version(self) -> int:
        if not self._db.execute("PRAGMA user_version").fetchone()[0]:
            self._db.execute("PRAGMA journal_mode = WAL")
            with transaction(self._db):
                if not self._db.execute("PRAGMA user_version").fetchone()[0]:  # else another was faster
                    for statement in _statements(SCHEMA.read_text()):
                        self._db.execute(statement)
        return self._db.execute("PRAGMA user_version").fetchone()[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def note(self, serials: Iterable[str], events: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        """Add `events` (name, detail) to each of the drives: all of it, or nothing."""
        now, events = time.time_ns(), list(events)
        with transaction(self._db):
            for serial in serials:
                for name, detail in events:
                    self._db.execute(
                        "INSERT INTO event (time_ns, serial, event, detail) VALUES (?, ?, ?, ?)",
                        (now, serial, name, json.dumps(detail)),
                    )

    def events(self, serial: str) -> list[dict[str, Any]]:
        """Return what happened to a drive, in order: {"time_ns", "event", and its details}."""
        rows = self._db.execute("SELECT * FROM event WHERE serial = ? ORDER BY seq", (serial,))
        return [
            {"time_ns": row["time_ns"], "event": row["event"], **json.loads(row["detail"])} for row in rows
        ]


def _statements(script: str) -> list[str]:
    """Split an SQL script into statements; sqlite3's executescript would end the transaction."""
    found, rest = [], ""
    for line in script.splitlines():
        rest += line + "\n"
        if sqlite3.complete_statement(rest):
            found.append(rest)
            rest = ""
    return found


@dataclass(frozen=True)
class State:
    """What a drive's events amount to; each event as the record has it, None where there was none.

    `written_bytes`: written and discarded since the precondition, None where some of it is not
    known (whose: `unknown`). `purged_bytes`: written since the purge.
    """

    purged: Mapping[str, Any] | None
    filled: Mapping[str, Any] | None
    discarded: Mapping[str, Any] | None
    preconditioned: Mapping[str, Any] | None
    made: Mapping[str, Any] | None
    written_bytes: int | None
    purged_bytes: int | None
    unknown: str


def state_after(events: Sequence[Mapping[str, Any]]) -> State:
    """Return the state of a drive after `events`."""

    def last(name: str) -> tuple[int, Mapping[str, Any] | None]:
        found = [(at, one) for at, one in enumerate(events) if one["event"] == name]
        return found[-1] if found else (-1, None)

    at, preconditioned = last("preconditioned")
    purged_at, purged = last("purged")
    written, unknown = _written(events[at + 1 :])
    discarding = [one for one in events if one["event"] == "ended" and one["discard_bytes"]]
    return State(
        purged=purged,
        filled=last("filled")[1] if last("filled")[0] > purged_at else None,
        discarded=discarding[-1] if discarding else None,
        preconditioned=preconditioned
        and {**preconditioned, "recipe": current_recipe(preconditioned["recipe"])},
        made=last("made")[1],
        written_bytes=written if preconditioned else None,
        # The purge's own discard is in the end of what purged.
        purged_bytes=_written(events[purged_at + 1 :], discards=False)[0] if purged else None,
        unknown=unknown,
    )


def _written(events: Sequence[Mapping[str, Any]], *, discards: bool = True) -> tuple[int | None, str]:
    """Return the bytes written (and discarded) in `events`; None, and by what, where unknown."""
    total, open_ = 0, ""
    for one in events:
        if one["event"] == "began":
            if open_:
                return None, open_
            open_ = one["by"]
        elif one["event"] == "ended":
            if one["write_bytes"] is None or one["discard_bytes"] is None:
                return None, one["by"]
            total += one["write_bytes"] + (one["discard_bytes"] if discards else 0)
            open_ = ""
    return (None, open_) if open_ else (total, "")


def may_reuse(
    events: Sequence[Mapping[str, Any]],
    recipe: Mapping[str, Any],
    asked: campaigns.Precondition,
    capacity_bytes: int,
    counted_bytes: int | None = None,
) -> tuple[bool, str]:
    """Return whether a drive's last precondition still serves `asked`, by `recipe`, and the reason.

    It does where it was done by the same recipe, was steady or had as many rounds as there would be
    now, and since then no more was written or discarded than it allows, all of it by the rig.
    `counted_bytes`: what the drive itself has counted as written by now; None: it reports none.
    """
    state = state_after(events)
    before = state.preconditioned
    if before is None:
        return False, "never preconditioned"
    for key in sorted({*recipe, *before["recipe"]}):
        was, wanted = before["recipe"].get(key), recipe.get(key)
        if was != wanted:
            return False, f"preconditioned otherwise: {key} was {was}, {wanted} is wanted"
    if state.purged and state.purged["time_ns"] > before["time_ns"]:
        return False, f"{state.purged['by']} purged it since"
    verdict = before["verdict"]
    if not verdict["steady"] and verdict["rounds_before"] + verdict["rounds"] < asked.max_rounds:
        return False, f"{verdict['reason']}; {asked.max_rounds} rounds are allowed now"
    if state.written_bytes is None:
        return False, f"what {state.unknown} wrote is not known"
    allowed = asked.reuse_within * capacity_bytes
    volume = f"{_gb(state.written_bytes)} written or discarded since, {_gb(allowed)} allowed"
    if not asked.holds_after(state.written_bytes, capacity_bytes):
        return False, volume
    if why := _disagreement(before, events, counted_bytes):
        return False, why
    return True, f"as {before['by']} left it: {volume}"


def _disagreement(
    before: Mapping[str, Any], events: Sequence[Mapping[str, Any]], counted_bytes: int | None
) -> str:
    """Describe how a drive's own count of written bytes contradicts its record, or return ""."""
    since = [one for one in events if one["event"] == "ended" and one["time_ns"] > before["time_ns"]]
    at_end = [one["counter_bytes"] for one in since if one.get("counter_bytes") is not None]
    now = counted_bytes if counted_bytes is not None else (at_end[-1] if at_end else None)
    if now is None or before.get("counter_bytes") is None:
        return ""
    risen, own = now - before["counter_bytes"], sum(one["write_bytes"] for one in since)
    if risen < 0:
        return f"the drive's own count of written bytes fell by {_gb(-risen)}"
    foreign = risen - own
    if foreign > TOLERANCE_BYTES + TOLERANCE_FRACTION * own:
        return f"something other than the rig wrote {_gb(foreign)}, by the drive's own count"
    return ""


def run_begins(run: Mapping[str, Any], lab: Lab) -> None:
    """Note that a campaign's run is about to write to its drives."""
    with DriveRecord() as record:
        record.note(_serials(run, lab).values(), [("began", {"by": run["id"]})])


def run_ended(run: Mapping[str, Any], outcome: RunOutcome, lab: Lab) -> None:
    """Note what a run did to its drives, by its outcome."""
    untouched = Touched() if outcome.changed else Touched(write_bytes=0, discard_bytes=0)
    health = outcome.health.after if isinstance(outcome.health.after, dict) else {}
    made = {"by": run["id"], "command": outcome.mkfs}
    serials = _serials(run, lab)
    with DriveRecord() as record:
        for drive, serial in serials.items():
            amounts = outcome.touched.get(drive, untouched).model_dump()
            counter = counter_bytes(health.get(drive) if len(serials) > 1 else health)
            ended = {"by": run["id"], **amounts, "counter_bytes": counter}
            events: list[tuple[str, Mapping[str, Any]]] = [("made", made)] if made["command"] else []
            if drive in outcome.made:
                events.append(content_event(run["id"], outcome.made[drive]))
            record.note([serial], [*events, ("ended", ended)])


def identified(serial: str, by: str, identity: Identity) -> None:
    """Note by what the content of a drive is known, which `by` made."""
    with DriveRecord() as record:
        record.note([serial], [content_event(by, identity)])


def content_event(by: str, identity: Identity) -> tuple[str, Mapping[str, Any]]:
    """Return the event of a drive whose content is known."""
    return IDENTIFIED, {"by": by, "identity": identity.model_dump(mode="json")}


def known(serial: str) -> dict[str, Any] | None:
    """Return what a drive's content was known by when the rig last changed it; None: not noted.

    Its host has a record of that itself; this one serves a host that lost it.
    """
    with DriveRecord() as record:
        found = [one["identity"] for one in record.events(serial) if one["event"] == IDENTIFIED]
    return read(Identity, found[-1], "drives.sqlite").model_dump(mode="json") if found else None


def written_so_far(serials: Iterable[str]) -> dict[str, int]:
    """Return the bytes ever written to drives, by serial, as the drives counted them last.

    Without those whose count is not known. Makes no record where there is none.
    """
    if not paths.has_state() or not (paths.var() / "drives.sqlite").exists():
        return {}
    found: dict[str, int] = {}
    with DriveRecord() as record:
        for serial in serials:
            counts = [one["counter_bytes"] for one in record.events(serial) if one.get("counter_bytes")]
            found |= {serial: counts[-1]} if counts else {}
    return found


def written_for(campaign: str, path: Path) -> dict[str, int | None]:
    """Return the bytes that a campaign's runs had written, by serial; None: some are not known.

    Their preconditions and attempts that do not count are among them. `path`: the record, which is
    only read. Raises sqlite3.Error.
    """
    found: dict[str, int | None] = {}
    with closing(sqlite.read(path)) as database:
        rows = database.execute(
            "SELECT serial, json_extract(detail, '$.write_bytes') FROM event WHERE event = 'ended'"
            " AND substr(json_extract(detail, '$.by'), 1, ?) = ?",
            (len(campaign) + 1, f"{campaign}-"),
        )
        for serial, amount in rows:
            before = found.get(serial, 0)
            found[serial] = None if before is None or amount is None else before + amount
    return found


def declared(lab: Lab, host: str, drive: str) -> dict[str, Any]:
    """Return what a test host needs to find a drive, and to know what the rig made on it last."""
    spec = lab.hosts[host].drives[drive]
    return {**spec.declared_as(drive), "known": known(spec.serial)}


def _serials(run: Mapping[str, Any], lab: Lab) -> dict[str, str]:
    """Return the serials of the drives that a run writes to, by name."""
    members = lab.member_drives(run["host"], *factors.stands_on(run["drive"], run["factors"]))
    return {name: lab.hosts[run["host"]].drives[name].serial for name in members}


def counter_bytes(health: Mapping[str, Any] | None) -> int | None:
    """Return the bytes a drive counts as written, from its health report.

    None where it has no count.

    The report is the JSON of nvme smart-log or smartctl.
    """
    try:
        count = _counted(health or {})
    except (TypeError, ValueError, AttributeError, LookupError):  # a report of another shape has none
        return None
    return count if count is not None and 0 <= count <= GREATEST else None


def _counted(health: Mapping[str, Any]) -> int | None:
    if (units := health.get("data_units_written")) is not None:
        return int(units) * UNIT_BYTES
    pages = (health.get("ata_device_statistics") or {}).get("pages") or []
    sectors = [
        entry["value"]
        for page in pages
        for entry in page.get("table") or []
        if entry.get("name") == "Logical Sectors Written" and (entry.get("flags") or {}).get("valid")
    ]
    return int(sectors[0]) * int(health["logical_block_size"]) if sectors else None


def _gb(amount: float) -> str:
    return f"{amount / 1e9:.3g} GB"
