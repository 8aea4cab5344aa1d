# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign's journal: every run with its status, in SQLite, safe from a controller's crash."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from joulerig import atomic, sqlite
from joulerig.analysis.powercut.folder import is_former
from joulerig.analysis.results import journal as journals
from joulerig.analysis.results.journal import (
    VERSION,
    JournalError,
    create_indexes,
    create_tables,
    read_version,
    upgrade,
)
from joulerig.analysis.results.schema import (
    FINISHED,
    OF_COUNTED_ATTEMPT,
    PASSING,
    WORKED,
    Asked,
    Attempt,
    Cause,
    EventKind,
    Status,
)
from joulerig.errors import JoulerigError
from joulerig.identifier import ID
from joulerig.rig.common import paths
from joulerig.rig.common import process as processes
from joulerig.rig.common.bounded import one_line
from joulerig.rig.common.claim import WATCH_SECONDS, Claim, Standing
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import virtual
from joulerig.sqlite import transaction

# A status only worsens; what may follow what.
ALLOWED: dict[str, set[Status]] = {
    Status.PLANNED: {Status.RUNNING, Status.NOT_RUN},
    Status.RUNNING: {*FINISHED} - {Status.EXCLUDED},
    Status.OK: {Status.PARTIAL, Status.FAILED},
    Status.PARTIAL: {Status.FAILED},
    **{status: set() for status in FINISHED if status not in WORKED},
}
# Why an attempt ended, where `finish` is not given it.
USUAL_CAUSE: dict[str, Cause] = {
    **dict.fromkeys(WORKED, Cause.COMPLETED),
    Status.FAILED: Cause.ERROR,
    Status.LOST: Cause.HOST_GONE,
    Status.REFUSED: Cause.REFUSED,
    Status.NOT_RUN: Cause.UNABLE,
}


class TakenOverError(JoulerigError):
    """Another process executes the campaign: this one is to do nothing more.

    It is no UserError, which executors handle and go on.
    """


class Journal:
    """The journal of one campaign. Every method that writes is one transaction.

    Its times are the lab's: of a campaign on a virtual lab, of that one's clock. `executor`: the
    process (`process.identity`) in whose name it is used; every method that writes raises
    TakenOverError once another process has the campaign.
    """

    def __init__(self, folder: Path, executor: str | None = None) -> None:
        path = folder / "journal.sqlite"
        if not path.is_file():
            raise UserError(f"{paths.short(folder)}: not a campaign (no journal.sqlite)")
        if not re.fullmatch(ID, folder.name):
            raise UserError(
                f"{paths.short(folder)!r}: no campaign's folder has such a name;"
                " allowed: letters, digits, '.', '_' and '-': rename it"
            )
        self.folder, self._user = folder, executor
        # Threads of lanes use it one after the other (side_by_side/turn.py).
        self._db = sqlite.connect(path)
        self._db.row_factory = sqlite3.Row
        try:
            if read_version(self._db) < VERSION:
                self._upgrade()
            self._db.execute("PRAGMA foreign_keys = ON")
            row = self._db.execute("SELECT virtual FROM campaign").fetchone()
            self._now = virtual.clock(is_virtual=row is not None and bool(row["virtual"]))
        except sqlite3.DatabaseError as error:
            raise UserError(f"{paths.short(path)}: cannot be read: {error}") from None
        except JournalError as error:
            raise UserError(f"{paths.short(path)}: {error}") from None

    @classmethod
    def create(cls, folder: Path, campaign: Mapping[str, Any], runs: list[Mapping[str, Any]]) -> Journal:
        """Create a campaign's journal, whole or not at all. Raises UserError if it exists."""
        atomic.make_folder(folder.parent)
        try:
            folder.mkdir()
        except FileExistsError:
            raise UserError(f"{paths.short(folder)}: already exists") from None
        unfinished = folder / "journal.sqlite.new"
        try:
            with closing(sqlite.connect(unfinished)) as db:
                db.execute(f"PRAGMA journal_mode = {sqlite.journal_mode(folder)}")
                db.execute("BEGIN")
                create_tables(db)
                _insert(db, "campaign", campaign)
                for run in runs:
                    _insert(db, "run", run)
                _event(db, campaign["created_ns"], None, EventKind.CREATED, {"runs": len(runs)})
                db.execute("COMMIT")
            atomic.move(unfinished, folder / "journal.sqlite")
            atomic.sync(folder.parent)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return cls(folder)

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Open a transaction, in which no other process can take the campaign over."""
        with transaction(self._db):
            self.raise_if_taken_over()
            yield

    def raise_if_taken_over(self) -> None:
        """Raise TakenOverError where another process executes what this one's user executed."""
        if self._user and (by := self.claimed.executor) != self._user:
            raise TakenOverError(
                f"{paths.short(self.folder)}: {processes.shown(by or '')} has taken it over;"
                " this one does nothing more"
            )

    def _event(self, run: str | None, event: EventKind, detail: Mapping[str, Any]) -> None:
        _event(self._db, self._now(), run, event, detail)

    @property
    def campaign(self) -> dict[str, Any]:
        """Return the campaign's row, its JSON columns decoded."""
        row = dict(self._db.execute("SELECT * FROM campaign").fetchone())
        return {**row, **{key: json.loads(row[key]) for key in ("definition", "lab", "provenance")}}

    def runs(self) -> list[dict[str, Any]]:
        """Return all runs in order of execution."""
        rows = self._db.execute("SELECT * FROM run ORDER BY ordinal").fetchall()
        return [{**dict(row), "factors": json.loads(row["factors"])} for row in rows]

    def running(self) -> list[dict[str, Any]]:
        """Return the runs that are being executed, with the number of their `attempt`."""
        rows = self._db.execute(
            "SELECT run.*, number AS attempt FROM run JOIN attempt ON attempt.run = run.id"
            " WHERE attempt.ended_ns IS NULL AND run.status = ? ORDER BY ordinal",
            (Status.RUNNING,),
        )
        return [dict(row) for row in rows]

    def hosts_at_work(self) -> list[str]:
        """Return the hosts that may be in an attempt whose end is not known."""
        rows = self._db.execute(
            "SELECT DISTINCT host FROM attempt JOIN run ON run.id = run WHERE attempt.ended_ns IS NULL"
        )
        return sorted(row["host"] for row in rows)

    def run(self, run: str) -> dict[str, Any]:
        """Return one run, by its id."""
        row = self._db.execute("SELECT * FROM run WHERE id = ?", (run,)).fetchone()
        return {**dict(row), "factors": json.loads(row["factors"])}

    def size(self) -> int:
        """Return the number of runs."""
        count: int = self._db.execute("SELECT count(*) FROM run").fetchone()[0]
        return count

    def rows(self, table: str, run: str) -> list[dict[str, Any]]:
        """Return a run's rows of phase, performance, energy, result or io."""
        return [dict(row) for row in self._db.execute(f"SELECT * FROM {table} WHERE run = ?", (run,))]

    def drives(self, host: str) -> list[str]:
        """Return the drives of a host's runs, in the order in which they come up."""
        rows = self._db.execute(
            "SELECT drive FROM run WHERE host = ? GROUP BY drive ORDER BY min(ordinal)", (host,)
        )
        return [row["drive"] for row in rows]

    def take(self, host: str, drive: str | None = None) -> dict[str, Any] | None:
        """Take the next planned run of `host`, which is running then; None when none is left.

        `drive`: the next one of this drive.
        Its `attempt` is the number of the attempt that begins; where `begun`, one that began before
        and whose end is not known goes on. Such a run comes first.
        """
        with self._writing():
            row = self._next(host, drive)
            return self._begin(row["id"]) if row else None

    def take_over(
        self, host: str, may_take: Callable[[Mapping[str, Any]], bool], serials: Callable[[str, str], str]
    ) -> dict[str, Any] | None:
        """Take the next planned run of a host that is set aside, which is `host`'s from then on.

        It keeps its cell, block and earlier attempts. One that its host may still have an outcome
        of stays there. `serials` of (host, drive) are noted. None where there is none.
        """
        with self._writing():
            aside = [other for other in self.hosts_set_aside() if other != host]
            rows = self._db.execute(
                f"SELECT * FROM run WHERE host IN ({', '.join('?' for _ in aside)}) AND status = ?"
                " AND NOT EXISTS (SELECT 1 FROM attempt WHERE run = run.id AND ended_ns IS NULL)"
                " ORDER BY ordinal",
                (*aside, Status.PLANNED),
            )
            for row in rows:
                run = {**dict(row), "factors": json.loads(row["factors"])}
                if may_take(run):
                    self._db.execute("UPDATE run SET host = ? WHERE id = ?", (host, run["id"]))
                    ends = {"from": run["host"], "to": host}
                    there = [serials(one, run["drive"]) for one in ends.values()]
                    self._event(run["id"], EventKind.MOVED, {**ends, "serials": there})
                    return self._begin(run["id"])
        return None

    def moved(self) -> int:
        """Return how often a run went to an equivalent host."""
        query = "SELECT count(*) FROM event WHERE event = ?"
        count: int = self._db.execute(query, (EventKind.MOVED,)).fetchone()[0]
        return count

    def power_cycles(self, host: str) -> int:
        """Return how often the power of a host was cut in this campaign, to revive it."""
        rows = self._db.execute("SELECT detail FROM event WHERE event = ?", (EventKind.POWER_CYCLED,))
        return sum(json.loads(row["detail"])["host"] == host for row in rows)

    def begin_host(self, host: str, process: str) -> None:
        """Note that a process executes the runs of a host, which is no longer set aside."""
        self.note(None, {"host": host, "process": process}, EventKind.BEGUN)

    def set_aside(self, host: str, why: str) -> None:
        """Begin no further run on a host until the campaign is resumed."""
        self.note(None, {"host": host, "why": why}, EventKind.SET_ASIDE)

    def hosts_set_aside(self) -> dict[str, str]:
        """Return the hosts that are set aside now, each with the reason."""
        found = self._last_of_hosts().items()
        return {host: detail["why"] for host, (event, detail) in found if event == EventKind.SET_ASIDE}

    def _last_of_hosts(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """Return the last event of each host: that it was begun, or set aside."""
        rows = self._db.execute(
            "SELECT event, detail FROM event WHERE event IN (?, ?) ORDER BY seq",
            (EventKind.BEGUN, EventKind.SET_ASIDE),
        )
        found = [(row["event"], json.loads(row["detail"])) for row in rows]
        return {detail["host"]: (event, detail) for event, detail in found}

    def is_at_work(self, hosts: Collection[str]) -> bool:
        """Return whether a process executes runs of one of these hosts, and some are left there."""
        due = "SELECT count(*) FROM run WHERE host = ? AND status IN (?, ?)"
        return any(
            event == EventKind.BEGUN
            and processes.is_alive(detail["process"])  # one of this campaign's, so it is seen from here
            and self._db.execute(due, (host, Status.PLANNED, Status.RUNNING)).fetchone()[0]
            for host, (event, detail) in self._last_of_hosts().items()
            if host in hosts
        )

    def upcoming(self, host: str, drive: str | None = None) -> dict[str, Any] | None:
        """Return the run that `take` would give, which stays planned; None where none is left.

        `begun`: an attempt at it began before, and may still run on the host.
        """
        if (row := self._next(host, drive)) is None:
            return None
        opened = self._db.execute(
            "SELECT 1 FROM attempt WHERE run = ? AND ended_ns IS NULL", (row["id"],)
        ).fetchone()
        return {**dict(row), "factors": json.loads(row["factors"]), "begun": opened is not None}

    def goes_on(self, host: str) -> bool:
        """Return whether the host may still be in a run that an earlier process began."""
        run = self.upcoming(host)
        return run is not None and run["begun"]

    def take_block(self, host: str) -> list[dict[str, Any]]:
        """Take the planned runs of the next block of `host`, which are running then."""
        with self._writing():
            if (row := self._next(host)) is None:
                return []
            rows = self._db.execute(
                "SELECT id FROM run WHERE host = ? AND block = ? AND status = ? ORDER BY ordinal",
                (host, row["block"], Status.PLANNED),
            ).fetchall()
            return [self._begin(row["id"]) for row in rows]

    def _next(self, host: str, drive: str | None = None) -> sqlite3.Row | None:
        # SQLite keeps the order of a CROSS JOIN: the few open attempts, then the run of each.
        begun = "attempt CROSS JOIN run ON run.id = attempt.run AND attempt.ended_ns IS NULL"
        for runs in (begun, "run"):
            row: sqlite3.Row | None = self._db.execute(
                f"SELECT run.* FROM {runs} WHERE host = ? AND drive = coalesce(?, drive)"
                " AND run.status = ? ORDER BY ordinal LIMIT 1",
                (host, drive, Status.PLANNED),
            ).fetchone()
            if row is not None:
                return row
        return None

    def _begin(self, run: str) -> dict[str, Any]:
        self._set_status(run, Status.RUNNING, "")
        attempt = self._db.execute(
            "SELECT number, started_ns, ended_ns FROM attempt WHERE run = ? ORDER BY number DESC LIMIT 1",
            (run,),
        ).fetchone()
        begun = attempt is not None and attempt["ended_ns"] is None
        if begun:
            number, started = attempt["number"], attempt["started_ns"]
            self._db.execute(
                "UPDATE attempt SET status = ?, cause = NULL, reason = '' WHERE run = ? AND number = ?",
                (Status.RUNNING, run, number),
            )
        else:
            number, started = attempt["number"] + 1 if attempt else 1, self._now()
            _insert(
                self._db,
                "attempt",
                {"run": run, "number": number, "started_ns": started, "status": Status.RUNNING},
            )
        self._db.execute("UPDATE run SET started_ns = ? WHERE id = ?", (started, run))
        return {**self.run(run), "attempt": number, "begun": begun}

    def claim(self, process: str, over: Claim | None = None) -> None:
        """Make `process` the one that executes the campaign, which is asked to go on.

        From then on the journal is used in its name. Its workers end with it
        (`ansible_channel.end_with_ansible`), so no lock of theirs is needed. `over`: a silent claim
        (`listen`) that is taken over. Raises UserError while another process has the campaign.
        """
        self._share()
        create_indexes(self._db)
        with transaction(self._db):
            if over is None or self.claimed != over:
                self._raise_if_claimed(but=process)
            else:
                detail = {"from": over.executor, "by": process}
                self._event(None, EventKind.TAKEN_OVER, detail)
            self._db.execute(
                "UPDATE campaign SET executor = ?, heartbeat_ns = ?, asked = NULL", (process, time.time_ns())
            )
        self._user = process

    def _share(self) -> None:
        """Choose SQLite's mode for the journal's file system, which may be a shared one."""
        if (mode := sqlite.journal_mode(self.folder)) != "WAL":
            try:
                self._db.execute(f"PRAGMA journal_mode = {mode}")
            except sqlite3.OperationalError as error:
                raise UserError(f"{paths.short(self.folder)}: another process reads it: {error}") from None

    def listen(self, say: Callable[[str], None], sleep: Callable[[float], None] = time.sleep) -> Claim | None:
        """Listen for the executor's heartbeat; return the claim that may be taken over.

        None: nothing need be taken over. Clocks of machines differ, so that a heartbeat that
        comes counts, whatever its time is. Raises UserError where the campaign is executed.
        """
        if not (before := self.claimed).may_be_taken_over:
            self._raise_if_claimed()
            return None
        who = processes.shown(before.executor or "")
        say(f"{who} is silent; listening for its heartbeat for {WATCH_SECONDS:g} s")
        for _ in range(int(WATCH_SECONDS)):
            sleep(1.0)
            if self.claimed != before:
                raise UserError(
                    f"{paths.short(self.folder)}: is executed by {who}, whose heartbeat came meanwhile: the"
                    " clock of its machine, or of this one, is wrong; nothing was taken over"
                )
        return before

    def beat(self, process: str) -> None:
        """Renew the heartbeat of a process, if it has the campaign."""
        self._set_heartbeat(process, time.time_ns())

    def has_ended(self, process: str) -> None:
        """Note that a process has ended, if it has the campaign."""
        self._set_heartbeat(process, None)

    def _set_heartbeat(self, process: str, heartbeat_ns: int | None) -> None:
        query = "UPDATE campaign SET heartbeat_ns = ? WHERE executor = ?"
        self._db.execute(query, (heartbeat_ns, process))

    @property
    def claimed(self) -> Claim:
        """Return the claim of the process that executes the campaign, or did last."""
        return Claim.from_row(self._db.execute("SELECT executor, heartbeat_ns FROM campaign").fetchone())

    def obstacle(self) -> str:
        """Say why no other process may execute the campaign, and the way on; empty if one may."""
        return self.claimed.obstacle(self.resumption)

    @property
    def resumption(self) -> str:
        """Return the command that resumes the campaign."""
        campaign = self.campaign
        playbook = one_line(campaign["provenance"].get("playbook") or "PLAYBOOK")
        return f"rig run {playbook} --resume {campaign['id']}"

    def _raise_if_claimed(self, but: str | None = None) -> None:
        if self.claimed.executor != but and (obstacle := self.obstacle()):
            raise UserError(f"{paths.short(self.folder)}: {obstacle}")

    @property
    def executor(self) -> str | None:
        """Return the process that executes the campaign now (`process.identity`); None: none."""
        claim = self.claimed
        return claim.executor if claim.standing == Standing.EXECUTED else None

    @property
    def asked(self) -> Asked | None:
        """Return what the executors are asked; None: to go on. Raises TakenOverError."""
        self.raise_if_taken_over()
        found = self._db.execute("SELECT asked FROM campaign").fetchone()[0]
        return next((one for one in Asked if one == found), None)

    def ask(self, what: Asked | None, by: str = "") -> None:
        """Ask the executors to pause, to stop, or to go on (None). `by`: who asks."""
        with self._writing():
            self._db.execute("UPDATE campaign SET asked = ?", (what,))
            self._note_asked(what or "go on", by)

    def note_asked(self, to: str, by: str) -> None:
        """Record that a person asked for something while no executor is there to be asked."""
        with self._writing():
            self._note_asked(to, by)

    def _note_asked(self, to: str, by: str) -> None:
        self._event(None, EventKind.ASKED, {"to": to, **({"by": by} if by else {})})

    def finish(
        self,
        run: str,
        status: str,
        reason: str,
        tables: Mapping[str, Sequence[Mapping[str, Any]]],
        cause: Cause | None = None,
    ) -> None:
        """End a run with its results: rows of phase, performance, energy, result and io.

        `cause`: why its attempt ended; None: what the status says. The attempt of a host that is
        gone has no end yet.
        """
        cause = cause or USUAL_CAUSE[status]
        now = self._now()
        with self._writing():
            for table, rows in tables.items():
                for row in rows:
                    _insert(self._db, table, {"run": run, **row})
            self._set_status(run, status, reason)
            self._db.execute("UPDATE run SET ended_ns = ? WHERE id = ?", (now, run))
            ended_ns = None if cause == Cause.HOST_GONE else now
            self._set_last_attempt(run, status=status, cause=cause, reason=reason, ended_ns=ended_ns)

    def settle(
        self, run: str, status: str, reason: str, tables: Mapping[str, Sequence[Mapping[str, Any]]]
    ) -> None:
        """Replace the results of a run that worked by more complete ones.

        This is the one way in which a status gets better: its work stands, and what was missing of
        its energy has arrived. Raises ValueError for any other run or status.
        """
        with self._writing():
            was = self._status(run)
            if not {was, status} <= {*WORKED}:
                raise ValueError(f"run {run}: {was} cannot become {status} by what arrived later")
            for table, rows in tables.items():
                self._db.execute(f"DELETE FROM {table} WHERE run = ?", (run,))
                for row in rows:
                    _insert(self._db, table, {"run": run, **row})
            self._db.execute("UPDATE run SET status = ?, reason = ? WHERE id = ?", (status, reason, run))
            self._set_last_attempt(run, status=status, reason=reason)
            self._event(run, EventKind.SETTLED, {"from": was, "to": status, "reason": reason})

    def _set_last_attempt(self, run: str, **values: object) -> None:
        columns = ", ".join(f"{name} = ?" for name in values)
        self._db.execute(
            f"UPDATE attempt SET {columns}"
            " WHERE run = ? AND number = (SELECT max(number) FROM attempt WHERE run = ?)",
            (*values.values(), run, run),
        )

    def held(self) -> dict[str, list[str]]:
        """Return what the next runs wait for, by host: of conditions that were noted (HOLD)."""
        lane = "drive" if self.campaign["definition"].get("side_by_side") else "''"
        begun = {
            (row["host"], row["lane"]): row["began_ns"]
            for row in self._db.execute(
                f"SELECT host, {lane} AS lane, max(attempt.started_ns) AS began_ns FROM attempt"
                " JOIN run ON run.id = attempt.run GROUP BY 1, 2"
            )
        }
        rows = self._db.execute(
            f"SELECT host, {lane} AS lane, time_ns, detail FROM event JOIN run ON run.id = event.run"
            " WHERE event = ? ORDER BY seq",
            (EventKind.HOLD,),
        )
        found: dict[str, dict[tuple[str, str], str]] = {}
        for row in rows:
            if row["time_ns"] <= begun.get((row["host"], row["lane"]), 0):
                continue  # it waited for what has begun since
            detail = json.loads(row["detail"])
            found.setdefault(row["host"], {})[row["lane"], detail["condition"]] = detail["why"]
        waits = {
            host: list(dict.fromkeys(filter(None, conditions.values()))) for host, conditions in found.items()
        }
        return {host: whys for host, whys in waits.items() if whys}

    def race_out(
        self, reasons: Mapping[str, str], looks: Sequence[Mapping[str, Any]]
    ) -> list[Mapping[str, Any]]:
        """End planned runs that a race decided not to execute, by id, and note its looks.

        Both in one transaction: who is out, and by which look. Return the looks that are new: each
        is noted once.
        """
        with self._writing():
            noted = self._db.execute("SELECT detail FROM event WHERE event = ?", (EventKind.LOOK,)).fetchall()
            known = {(detail["race"], detail["look"]) for row in noted for detail in [json.loads(row[0])]}
            new = [look for look in looks if (look["race"], look["look"]) not in known]
            for look in new:
                self._event(None, EventKind.LOOK, look)
            for run, reason in reasons.items():
                self._set_status(run, Status.NOT_RUN, reason)
        return new

    def next_block(self, host: str) -> int | None:
        """Return the block of the next planned run of `host`; None where none is left."""
        row = self._next(host)
        return None if row is None else int(row["block"])

    def give_back(self, *, goes_on: bool = False, executor: str | None = None) -> list[str]:
        """Plan runs again that were interrupted or ended for a passing cause; return their ids.

        `goes_on`: whether an interrupted attempt goes on where its host has it still; else it ended
        with its controller. Raises UserError while another process than `executor` executes the
        campaign.
        """
        with self._writing():
            self._raise_if_claimed(but=executor)
            marks = ", ".join("?" for _ in PASSING)
            rows = self._db.execute(
                "SELECT id, run.status FROM run LEFT JOIN attempt ON attempt.run = run.id AND number ="
                " (SELECT max(number) FROM attempt WHERE run = run.id)"
                f" WHERE run.status = ? OR (run.status IN (?, ?, ?, ?, ?) AND cause IN ({marks}))"
                " OR (run.status = ? AND cause IS NULL) ORDER BY ordinal",
                (
                    Status.RUNNING,
                    *(Status.LOST, Status.REFUSED, Status.NOT_RUN, Status.FAILED, Status.PARTIAL),
                    *PASSING,
                    Status.LOST,
                ),
            ).fetchall()
            for row in rows:
                if not goes_on:
                    self._end_open_attempt(row["id"])
                self._plan_again(row["id"], row["status"])
            if rows:
                self._db.execute("UPDATE campaign SET finished_ns = NULL")
        return [row["id"] for row in rows]

    def retry(self, runs: Collection[str], *, goes_on: bool = False, by: str = "rig retry") -> None:
        """Plan these runs again, which have ended, as a person asked; their attempts stay.

        `goes_on`: as in `give_back`. `by`: what the person asked by. Raises UserError while the
        campaign is being executed.
        """
        with self._writing():
            self._raise_if_claimed()
            for run in runs:
                if not goes_on:
                    self._end_open_attempt(run)
                self._plan_again(run, self._status(run), by=by)
            if runs:
                self._db.execute("UPDATE campaign SET finished_ns = NULL")

    def last_attempts(self) -> dict[str, Attempt]:
        """Return the last attempt at each run that was begun, by the run's id."""
        rows = self._db.execute("SELECT * FROM attempt ORDER BY run, number")
        return {row["run"]: _attempt(row) for row in rows}

    def last_attempt(self, run: str) -> Attempt:
        """Return the last attempt at a run that was begun."""
        query = "SELECT * FROM attempt WHERE run = ? ORDER BY number DESC LIMIT 1"
        return _attempt(self._db.execute(query, (run,)).fetchone())

    def plan_again(self, run: str, by: str) -> None:
        """Plan a run again whose attempt ended; `by`: what decided that."""
        with self._writing():
            self._plan_again(run, self._status(run), by=by)

    def _plan_again(self, run: str, was: str, **detail: object) -> None:
        for table in OF_COUNTED_ATTEMPT:
            self._db.execute(f"DELETE FROM {table} WHERE run = ?", (run,))
        self._db.execute(
            "UPDATE run SET status = ?, reason = '', started_ns = NULL, ended_ns = NULL WHERE id = ?",
            (Status.PLANNED, run),
        )
        self._event(run, EventKind.RESUMED, {"was": was, **detail})

    def _end_open_attempt(self, run: str) -> None:
        self._db.execute(
            "UPDATE attempt SET status = ?, cause = coalesce(cause, ?), ended_ns = ?"
            " WHERE run = ? AND ended_ns IS NULL",
            (Status.LOST, Cause.CONTROLLER, self._now(), run),
        )

    def conclude(self) -> None:
        """Mark the campaign as over."""
        with self._writing():
            self._db.execute("UPDATE campaign SET finished_ns = ?", (self._now(),))
            self._event(None, EventKind.FINISHED, self.counts())

    def note(self, run: str | None, detail: Mapping[str, Any], kind: EventKind = EventKind.NOTE) -> None:
        """Record something worth knowing later."""
        with self._writing():
            self._event(run, kind, detail)

    def counts(self) -> dict[str, int]:
        """Return how many runs have each status."""
        return {
            row["status"]: row["n"]
            for row in self._db.execute(
                "SELECT status, count(*) AS n FROM run GROUP BY status ORDER BY status"
            )
        }

    def _status(self, run: str) -> str:
        status: str = self._db.execute("SELECT status FROM run WHERE id = ?", (run,)).fetchone()["status"]
        return status

    def _set_status(self, run: str, status: str, reason: str) -> None:
        now = self._status(run)
        if status not in ALLOWED[now]:
            raise ValueError(f"run {run}: {now} cannot become {status}: a status only worsens")
        self._db.execute("UPDATE run SET status = ?, reason = ? WHERE id = ?", (status, reason, run))
        self._event(run, EventKind.STATUS, {"from": now, "to": status, "reason": reason})

    def _upgrade(self) -> None:
        """Bring the journal up to date, from its version by now."""
        with self._writing():
            upgrade(self._db, read_version(self._db))


def call_name(run: Mapping[str, Any]) -> str:
    """Return the name of the call by which a host executes an attempt at a run."""
    return f"{run['id']}.{run['attempt']}"


def latest(results: Path) -> Path:
    """Return the folder of the newest campaign that this version reads. Raises UserError."""
    created: dict[int, Path] = {}
    unreadable = None
    for path in sorted(results.glob("*/journal.sqlite")):
        try:
            with closing(journals.connect(path)) as opened, journals.snapshot(opened) as database:
                times = database.execute("SELECT created_ns FROM campaign").fetchall()
        except (JournalError, sqlite3.DatabaseError) as error:
            unreadable = UserError(f"{paths.short(path)}: cannot be read: {error}")
            continue
        created |= {created_ns: path.parent for (created_ns,) in times}
    if created:
        return created[max(created)]
    raise unreadable or UserError(
        f"{paths.short(results)}: no campaign yet; 'rig run playbooks/demo.yml' runs one"
    )


def find(results: Path, name: str | None, *, former: bool = False) -> Path:
    """Return the folder of the campaign `name` (an id), or of the newest one. Raises UserError.

    `former`: also that of a power-cut campaign from before these had a journal.
    """
    if name is None:
        return latest(results)
    too_long = any(len(part.encode(errors="replace")) > 255 for part in Path(name).parts)
    for folder in () if too_long else (results / name, Path(name)):
        if (folder / "journal.sqlite").is_file():
            return folder
        if is_former(folder):
            if former:
                return folder
            raise UserError(
                f"{paths.short(folder)}: power cuts of an earlier version, without a journal; only"
                " 'rig results', 'rig report' and 'rig verify' read them"
            )
    known = ", ".join(sorted(path.parent.name for path in results.glob("*/journal.sqlite"))[-5:]) or "none"
    raise UserError(f"{paths.short(results)}: no campaign {one_line(name, 100)!r}; the newest: {known}")


def _attempt(row: sqlite3.Row) -> Attempt:
    return Attempt(**{name: value for name, value in dict(row).items() if name != "run"})


def _insert(db: sqlite3.Connection, table: str, row: Mapping[str, Any]) -> None:
    columns = ", ".join(row)
    marks = ", ".join("?" for _ in row)
    db.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", list(row.values()))


def _event(
    db: sqlite3.Connection, now_ns: int, run: str | None, event: EventKind, detail: Mapping[str, Any]
) -> None:
    db.execute(
        "INSERT INTO event (time_ns, run, event, detail) VALUES (?, ?, ?, ?)",
        (now_ns, run, event, json.dumps(detail)),
    )
