# SPDX-License-Identifier: GPL-3.0-or-later
"""The one reader of InfluxDB, journals and powerd for all pages; it sleeps while none is open."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from joulerig.analysis.results.campaign import ResultsError
from joulerig.analysis.results.influxdb.client import InfluxError, Queries
from joulerig.analysis.results.journal import JournalError
from joulerig.rig.dashboard import VERSION, notices, powerd
from joulerig.rig.dashboard.campaign import state
from joulerig.rig.dashboard.campaign.journal import Journals
from joulerig.rig.dashboard.feed import (
    IO,
    IO_BUCKET_NS,
    POWER_BUCKET_NS,
    SPAN_NS,
    Ledger,
    Loads,
    Phases,
    Power,
    Rounds,
)
from joulerig.rig.dashboard.supervision import Supervisor
from joulerig.rig.dashboard.web import frames
from joulerig.rig.dashboard.web.hub import Client, Hub

TICK_SECONDS = 0.25
SLOW_EVERY = 4  # ticks between looks at what changes slowly: phases, ledger, journals, powerd
IO_EVERY = 2
LEDGER_EVERY = 16  # it changes slowly, and InfluxDB 1.x searches all it has not yet flushed at each query
RETRY_SECONDS = 1.0


class Kept(NamedTuple):
    """A campaign's message: what it is of (it is made again when that differs), content, text."""

    stamp: tuple[Any, ...]
    content: dict[str, Any]
    text: str


def _message(kind: str, content: dict[str, Any]) -> str:
    return json.dumps({"kind": kind, **content}, separators=(",", ":"))


class Poller:
    """Call `run` once; it broadcasts to the hub's clients until it is cancelled.

    `clock`: gives the lab's time, ns since 1970 UTC. `slowness`: how long (s) a second of the lab
    lasts now.
    """

    def __init__(
        self,
        influx: Queries,
        results_dir: Path,
        powerd_socket: Path,
        hub: Hub,
        supervisor: Supervisor,
        clock: Callable[[], int] = time.time_ns,
        slowness: Callable[[], float] = lambda: 1.0,
    ) -> None:
        self._influx = influx
        self._powerd_socket = powerd_socket
        self._hub, self._supervisor = hub, supervisor
        self._journals = Journals(results_dir)
        self._sequence = 0
        self._layout = 0
        self._clock, self._slowness = clock, slowness
        self._now_ns = clock()
        self._forget()

    def _forget(self) -> None:
        """Start with empty windows: after a pause the last minute is read again."""
        self._power, self._io, self._phases, self._ledger = Power(), IO(), Phases(), Ledger()
        self._rounds, self._loads = Rounds(), Loads()
        self._settling: dict[str | None, set[str]] = {}  # a client's campaign -> runs in their precondition
        self._layout_message = ""
        self._live_message: dict[str, Any] = {}
        self._live_text = ""
        self._campaigns: dict[str | None, Kept] = {}
        self._ended_ns: dict[str, int] = {}
        self._problem = ""
        self._problem_ns = 0  # since when
        self._retry_at = 0.0
        self._first_power = self._first_io = 0

    async def run(self) -> None:
        tick = 0
        while True:
            if not self._hub.clients:
                await self._hub.watched.wait()
                self._forget()
                tick = 0
            began = time.monotonic()
            try:
                await asyncio.to_thread(self._poll, tick)
                self._broadcast(tick)
            except Exception as error:
                # The next tick may be well.
                self._supervisor.failed("live figures", error)
            tick += 1
            await asyncio.sleep(max(TICK_SECONDS - (time.monotonic() - began), 0.05))

    def _poll(self, tick: int) -> None:
        now_ns = self._now_ns = self._clock()
        slow = tick % SLOW_EVERY == 0
        if slow:
            self._read_journals(now_ns)
        if time.monotonic() >= self._retry_at:
            try:
                self._read_influx(tick, now_ns)
                self._problem = ""
            except InfluxError as error:
                self._problem_ns = self._problem_ns if self._problem else now_ns
                self._problem = str(error)
                self._retry_at = time.monotonic() + RETRY_SECONDS
                for one in (self._power.reading, self._io.reading, self._phases):
                    one.outage.failed(now_ns)
        # Time goes on while InfluxDB is away: the traces show the gap.
        self._power.window.advance(now_ns // POWER_BUCKET_NS + 1)
        self._io.window.advance(now_ns // IO_BUCKET_NS + 1)
        if slow:
            self._live_message = self._live(now_ns)
            self._live_text = _message("live", self._live_message)

    def _read_influx(self, tick: int, now_ns: int) -> None:
        if tick % SLOW_EVERY == 0:
            self._phases.poll(self._influx, now_ns)
            self._phases.close(self._ended_ns)
            self._io.offset_ns = self._phases.offset_ns
            self._rounds.poll(self._influx, set().union(*self._settling.values()))
            self._loads.poll(self._influx, now_ns, self._phases.offset_ns)
            if tick % LEDGER_EVERY == 0:
                self._ledger.poll(self._influx, now_ns)
        self._first_power = min(self._first_power, self._power.poll(self._influx, now_ns))
        if tick % IO_EVERY == 0:
            self._first_io = min(self._first_io, self._io.poll(self._influx, now_ns))

    def _read_journals(self, now_ns: int) -> None:
        names = self._journals.list()
        newest = names[0] if names else None
        wanted = {client.campaign for client in list(self._hub.clients)}
        self._journals.keep({name for name in (*wanted, newest) if name})
        self._campaigns = {key: entry for key, entry in self._campaigns.items() if key in wanted}
        self._settling = {key: runs for key, runs in self._settling.items() if key in wanted}
        for key in wanted:
            name = key or newest
            about = {
                "chosen": key,
                "newest": newest,
                "campaigns": names[:200],
                "problem": self._journals.problem,
            }
            journal = self._journals.get(name) if name in names else None
            stamp = (name, id(journal), *about.values())
            if journal is None:
                self._keep(key, stamp, {"found": False, **about})
                continue
            try:
                changed = journal.changed()
                if changed or key not in self._campaigns or self._campaigns[key].stamp != stamp:
                    content = journal.read()
                    if content is None:
                        self._keep(key, stamp, {"found": False, **about})
                        continue
                    self._ended_ns = self._ended_ns | state.ended(content)
                    self._settling[key] = set(state.settling(content))
                    self._keep(key, stamp, {"found": True, **about, **state.campaign(content, now_ns)})
            except (sqlite3.Error, JournalError, ResultsError) as error:
                self._keep(key, stamp, {"found": False, **about, "problem": f"{journal.path}: {error}"})

    def _keep(self, key: str | None, stamp: tuple[Any, ...], content: dict[str, Any]) -> None:
        self._campaigns[key] = Kept(stamp, content, _message("campaign", content))

    def _live(self, now_ns: int) -> dict[str, Any]:
        heard_ns = self._power.reading.channels.newest_ns
        away_seconds = (now_ns - self._problem_ns) / 1e9 if self._problem else None
        return {
            "now_ns": now_ns,
            "slowness": self._slowness(),
            "influx": {"ok": not self._problem, "message": self._problem, "away_seconds": away_seconds},
            "powerd": powerd.status(self._powerd_socket),
            "rails": [
                {
                    "meter": rail["meter"],
                    "age_seconds": round((now_ns - heard_ns[number]) / 1e9, 1),
                    **self._ledger.state(rail),
                }
                for number, rail in enumerate(self._power.rails)
            ],
            "agents": self._agents(now_ns),
            "loads": self._loads.newest,
            "bands": list(self._phases.bands.values()),
            "rounds": self._rounds.by_run,
            "failures": self._supervisor.failures(),
        }

    def _agents(self, now_ns: int) -> dict[str, float]:
        """Return, by host, how old (s) the newest I/O figures of its drives are."""
        heard_ns: dict[str, int] = {}
        for number, drive in enumerate(self._io.drives):
            newest_ns = self._io.reading.channels.newest_ns[number]
            heard_ns[drive["host"]] = max(newest_ns, heard_ns.get(drive["host"], 0))
        return {host: round((now_ns - newest_ns) / 1e9, 1) for host, newest_ns in heard_ns.items()}

    def _broadcast(self, tick: int) -> None:
        self._sequence += 1
        layout = json.dumps({"rails": self._power.rails, "drives": self._io.drives})
        new_layout = layout != self._layout_message
        if new_layout:
            self._layout += 1
            self._layout_message = layout
        slow = tick % SLOW_EVERY == 0
        update = self._sections(self._first_power, self._first_io)
        whole: list[bytes] = []
        for client in list(self._hub.clients):
            needs_whole = new_layout or client.needs_whole
            if needs_whole:
                client.tell("layout", self._layout_text())
                whole = whole or self._sections(0, 0)
            campaign = self._campaigns.get(client.campaign)
            if campaign:
                client.tell_changed("campaign", campaign.text)
            if self._live_text and (slow or client.new):
                client.tell("live", self._live_text)
                client.tell_changed("notices", self._notices(campaign))
            if needs_whole:
                client.show_whole(partial(self._frame, client, whole))
            else:
                client.show(self._frame(client, update))
        self._first_power, self._first_io = self._power.window.end, self._io.window.end

    def _notices(self, campaign: Kept | None) -> str:
        found = list(notices.of_lab(self._live_message))
        if campaign:
            found += notices.of_campaign(campaign.content, self._now_ns)
        return _message("notices", {"notices": found})

    def _layout_text(self) -> str:
        content = {
            "version": VERSION,
            "layout": self._layout,
            "span_seconds": SPAN_NS / 1e9,
            "buckets": {"power": POWER_BUCKET_NS / 1e9, "io": IO_BUCKET_NS / 1e9},
            "rails": self._power.rails,
            "drives": self._io.drives,
        }
        return _message("layout", content)

    def _sections(self, first_power: int, first_io: int) -> list[bytes]:
        power, io = self._power.window, self._io.window
        first_power = max(min(first_power, power.end), power.start)
        first_io = max(min(first_io, io.end), io.start)
        return [
            frames.section(POWER_BUCKET_NS, first_power, power.read(first_power, power.end)),
            frames.section(IO_BUCKET_NS, first_io, self._io.rates(first_io)),
        ]

    def _frame(self, client: Client, sections: list[bytes]) -> bytes:
        head = frames.header(self._sequence, self._now_ns, self._layout, client.dropped, sections)
        return b"".join((head, *sections))
