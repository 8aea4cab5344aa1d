# SPDX-License-Identifier: GPL-3.0-or-later
"""The addresses that pages fetch JSON and files from, and what each is computed by.

Replies are computed in threads of their own, so that the one reader of the live figures never waits
for them, and are kept for a moment: twenty viewers cost what one does.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from joulerig.analysis.results import journal
from joulerig.analysis.results.influxdb.client import Queries
from joulerig.errors import JoulerigError
from joulerig.rig.common import process, supervisor
from joulerig.rig.common.errors import UserError, validate
from joulerig.rig.dashboard import powerd
from joulerig.rig.dashboard.api import campaign, files, reported, rig, views
from joulerig.rig.dashboard.api.after_load import AfterLoads
from joulerig.rig.dashboard.api.campaigns import Campaigns
from joulerig.rig.dashboard.api.control import LONGEST_BODY, PATH, Asked, Control, Token
from joulerig.rig.dashboard.api.kept import Kept
from joulerig.rig.dashboard.api.processes import CAMPAIGN, Processes

THREADS = 4
LONGEST_REASON = 300
LIST_SECONDS = 1.0
CAMPAIGN_SECONDS = 2.0
RIG_SECONDS = 2.0
CLOCK_SECONDS = 10.0
SAMPLES_SECONDS = 0.2
MOST_SECONDS = 5  # of samples
PAST_SECONDS = 600.0  # a view of what is over changes no more,
SETTLED_NS = 3600 * 10**9  # once spools have drained
MOST_VIEWS = 40  # that are kept: each may have half a megabyte


class RefusedError(JoulerigError):
    """A request that is not served: the status, and why in one line."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True)
class Sources:
    """Where replies come from.

    `influx` serves this alone. `clock`: the lab's time, ns since 1970 UTC. `slowness`: how long (s)
    a second of the lab lasts now. `state_dir`: of logs, the drives' record and the services; None:
    there is none. `lab_file`: the lab as `rig up` read it.
    """

    results: Path
    influx: Queries
    powerd_socket: Path
    clock: Callable[[], int]
    slowness: Callable[[], float]
    virtual: bool = False
    state_dir: Path | None = None
    lab_file: Path | None = None


class Api:
    """The JSON and files of a dashboard."""

    def __init__(self, sources: Sources, control: tuple[Control, Token] | None = None) -> None:
        """`control`: what campaigns are controlled by, and the token; None: by nothing."""
        self._sources, self._control = sources, control
        self._kept, self._views = Kept(), Kept(most=MOST_VIEWS)
        self._campaigns, self._after = Campaigns(sources.results), AfterLoads()
        self._processes = Processes(self._pids)
        self._threads = ThreadPoolExecutor(THREADS, "api")

    def routes(self) -> list[BaseRoute]:
        """Return the routes of an application."""
        return [
            Route("/api/campaigns", self._json(lambda request: self.campaigns())),
            Route("/api/campaign", self._json(lambda request: self.campaign(wanted(request, "campaign")))),
            Route("/api/rig", self._json(lambda request: self.rig())),
            Route("/api/power", self._json(self.power)),
            Route("/api/samples", self._json(self.samples)),
            Route("/api/io", self._json(self.io)),
            *([Route(PATH, self._change, methods=["POST"])] if self._control else []),
            Route("/files/{campaign}/{name:path}", self._file),
        ]

    @property
    def changes(self) -> tuple[str, ...]:
        """Return the addresses that take a POST."""
        return (PATH,) if self._control else ()

    def campaigns(self) -> dict[str, Any]:
        """Return what /api/campaigns replies."""
        found: dict[str, Any] = self._kept.get("campaigns", LIST_SECONDS, self._campaigns.list)
        return {**found, "control": self._control is not None}

    def campaign(self, name: str) -> dict[str, Any]:
        """Return what /api/campaign replies. Raises RefusedError, JoulerigError, sqlite3.Error."""
        listed = self.campaigns()["campaigns"]
        if not any(one["id"] == name for one in listed):
            raise RefusedError(404, f"campaign {name!r}: there is none of this id")
        latest = max(listed, key=lambda one: one["last_event_ns"] or 0)["id"]
        folder, state_dir = self._sources.results / name, self._sources.state_dir

        def read() -> dict[str, Any]:
            return campaign.read(folder, state_dir, has_log=name == latest, after=self._after)

        found: dict[str, Any] = self._kept.get(("campaign", name), CAMPAIGN_SECONDS, read)
        return {**found, "resuming": self._control[0].resuming(name) if self._control else None}

    def rig(self) -> dict[str, Any]:
        """Return what /api/rig replies."""

        def read() -> dict[str, Any]:
            sources, listed = self._sources, self.campaigns()["campaigns"]
            return rig.read(
                lab_file=sources.lab_file,
                influx=sources.influx,
                powerd_socket=sources.powerd_socket,
                results=sources.results,
                state_dir=sources.state_dir,
                campaigns=[one["id"] for one in listed],
                executed=[one["id"] for one in listed if one["executed"]],
                processes=self._processes.read,
                now_ns=sources.clock(),
                slowness=sources.slowness(),
                virtual=sources.virtual,
            )

        found: dict[str, Any] = self._kept.get("rig", RIG_SECONDS, read)
        return found

    def power(self, request: Request) -> str:
        """Return what /api/power replies. Raises RefusedError, InfluxError."""
        return self._view("power", request, lambda view: views.power(self._sources.influx, view))

    def io(self, request: Request) -> str:
        """Return what /api/io replies. Raises RefusedError, InfluxError."""

        def read(view: views.View) -> dict[str, Any]:
            return views.io(self._sources.influx, view, self._offset_ns(view.host))

        return self._view("io", request, read)

    def samples(self, request: Request) -> str:
        """Return what /api/samples replies. Raises RefusedError, PowerdError."""
        host, drive = wanted(request, "host"), wanted(request, "drive")
        text = request.query_params.get("seconds", str(MOST_SECONDS))
        if not re.fullmatch(r"\d{1,3}(\.\d{1,6})?", text, re.ASCII) or not 0 < float(text) <= MOST_SECONDS:
            why = f"parameter 'seconds': {text[:40]!r}; allowed: over 0, up to {MOST_SECONDS}"
            raise RefusedError(400, why)
        sources, key = self._sources, ("samples", host, drive, float(text))

        def read() -> str:
            return dumps(powerd.samples(sources.powerd_socket, host, drive, float(text)))

        found: str = self._views.get(key, SAMPLES_SECONDS, read)
        return found

    def _view(self, kind: str, request: Request, read: Callable[[views.View], dict[str, Any]]) -> str:
        """Return a long view as JSON; twenty who look at the same hours cost InfluxDB one query."""
        view, now_ns = wanted_view(request), self._sources.clock()

        def compute() -> str:
            drives = rig.stands_in(self._sources.lab_file, view.host, view.drive)
            found = {**read(view), **views.bands(self._sources.influx, view, drives), "now_ns": now_ns}
            return dumps(found)

        is_over = view.end_ns < now_ns - SETTLED_NS
        seconds = PAST_SECONDS if is_over else min(max(view.width_ns / 1e9 / 2, 0.5), 30.0)
        found: str = self._views.get((kind, view), seconds, compute)
        return found

    def _offset_ns(self, host: str) -> int:
        """Return the controller's clock less a host's; 0 where it is not known."""
        sources = self._sources

        def read() -> dict[str, Any]:
            return reported.clocks(sources.influx, sources.clock())

        clock = self._kept.get("clocks", CLOCK_SECONDS, read).get(host) or {}
        return round((clock.get("offset_seconds") or 0.0) * 1e9)

    def _pids(self) -> dict[str, int]:
        """Return the rig's processes: services that it keeps, executors of campaigns, this one."""
        kept = supervisor.pids() if self._sources.state_dir else {}
        executors = {
            f"{CAMPAIGN}{one}": process.pid_here(by) for one, by in self._campaigns.executors.items()
        }
        return {"dashboard": os.getpid(), **kept, **{name: pid for name, pid in executors.items() if pid}}

    async def _change(self, request: Request) -> Response:
        """Do what a request asks for, if it has the token; nothing of it is looked at before."""
        assert self._control is not None
        control, token = self._control
        if not token.admits(request.headers.get("authorization", "")):
            headers = {"www-authenticate": "Bearer"}
            return PlainTextResponse("this needs the dashboard's token\n", status_code=401, headers=headers)
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return PlainTextResponse("content-type: allowed: application/json\n", status_code=415)
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > LONGEST_BODY:
                why = f"the request has more than {LONGEST_BODY} bytes\n"
                return PlainTextResponse(why, status_code=413)
        status, text = await self._in_thread(lambda: self._changed(control, body))
        if status == 200:
            return Response(text, media_type="application/json")
        return PlainTextResponse(f"{text}\n", status_code=status)

    def _changed(self, control: Control, body: bytes) -> tuple[int, str]:
        """Return status and text of the reply to a request that may change something."""
        try:
            asked = validate(Asked, json.loads(body), "request")
        except (ValueError, RecursionError):
            return 400, "request: not JSON"
        except UserError as error:
            return 400, str(error)[:LONGEST_REASON]
        names = {path.parent.name for path in self._sources.results.glob(f"*/{journal.FILE}")}
        if asked.campaign not in names:
            return 404, f"campaign {asked.campaign!r}: there is none of this id"
        try:
            said = control.do(asked)
        except UserError as error:
            return 409, " ".join(str(error).split())
        return 200, dumps({"campaign": asked.campaign, "action": asked.action, "text": said})

    async def _file(self, request: Request) -> Response:
        name, of = request.path_params["name"], request.path_params["campaign"]
        found = await self._in_thread(lambda: files.find(self._sources.results, of, name))
        if found is None:
            return PlainTextResponse("there is no such file to open\n", status_code=404)
        kind = files.TYPES[found.suffix]
        headers = {"content-security-policy": files.SANDBOX}
        as_attachment = found.suffix not in (".html", ".pdf", ".json")
        return FileResponse(
            found,
            media_type=kind,
            headers=headers,
            filename=found.name if as_attachment else None,
        )

    def _json(self, reply: Callable[[Request], dict[str, Any] | str]) -> Callable[[Request], Any]:
        """Return an endpoint that replies what `reply` returns, or in a line why it has nothing."""

        def text(request: Request) -> tuple[int, str]:
            try:
                found = reply(request)
                return 200, found if isinstance(found, str) else dumps(found)
            except RefusedError as refusal:
                return refusal.status, str(refusal)
            except (JoulerigError, sqlite3.Error) as error:
                return 503, " ".join(str(error).split())

        async def endpoint(request: Request) -> Response:
            status, body = await self._in_thread(lambda: text(request))
            if status == 200:
                return Response(body, media_type="application/json")
            return PlainTextResponse(f"{body}\n", status_code=status)

        return endpoint

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def dumps(content: dict[str, Any]) -> str:
    """Return JSON without what JSON has not: NaN is an error of this program."""
    return json.dumps(content, allow_nan=False, separators=(",", ":"))


def wanted_view(request: Request) -> views.View:
    """Return the view that a request is for. Raises RefusedError."""
    host, drive = wanted(request, "host"), wanted(request, "drive")
    from_ns, to_ns = number(request, "from_ns"), number(request, "to_ns")
    points = number(request, "points", views.USUAL_POINTS)
    if not 1 <= points <= views.MOST_POINTS:
        raise RefusedError(400, f"parameter 'points': {points}; allowed: 1 to {views.MOST_POINTS}")
    if not 0 <= from_ns < to_ns:
        raise RefusedError(400, f"parameter 'to_ns': {to_ns}; allowed: later than from_ns, {from_ns}")
    if to_ns - from_ns > views.LONGEST_NS:
        days = views.LONGEST_NS // (views.DAY * 10**9)
        raise RefusedError(400, f"parameter 'to_ns': {to_ns}; allowed: at most {days} days from from_ns on")
    return views.rounded(host, drive, from_ns, to_ns, points)


def number(request: Request, name: str, default: int | None = None) -> int:
    """Return a parameter that is a whole number. Raises RefusedError."""
    text = request.query_params.get(name, "")
    if not text and default is not None:
        return default
    if not re.fullmatch(r"\d{1,19}", text, re.ASCII):
        raise RefusedError(400, f"parameter {name!r}: {text[:40]!r}; allowed: a whole number")
    return int(text)


def wanted(request: Request, name: str) -> str:
    """Return a parameter that a request must have. Raises RefusedError."""
    value = request.query_params.get(name, "")
    if not value:
        raise RefusedError(400, f"parameter {name!r}: is missing")
    return value
