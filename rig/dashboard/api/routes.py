# SPDX-License-Identifier: GPL-3.0-or-later
"""The addresses that pages fetch JSON and files from, and what each is computed by.

Replies are computed in threads of their own, so that the one reader of the live figures never waits
for them, and are kept for a moment: twenty viewers cost what one does.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from joulerig.errors import JoulerigError
from joulerig.rig.common import process, supervisor
from joulerig.rig.dashboard.api import campaign, files, rig
from joulerig.rig.dashboard.api.campaigns import Campaigns
from joulerig.rig.dashboard.api.kept import Kept
from joulerig.rig.dashboard.api.processes import CAMPAIGN, Processes
from joulerig.rig.dashboard.feed import Queries

THREADS = 2
LIST_SECONDS = 1.0
CAMPAIGN_SECONDS = 2.0
RIG_SECONDS = 2.0


class Refused(Exception):
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

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._kept = Kept()
        self._campaigns = Campaigns(sources.results)
        self._processes = Processes(self._pids)
        self._threads = ThreadPoolExecutor(THREADS, "api")

    def routes(self) -> list[BaseRoute]:
        """Return the routes of an application."""
        return [
            Route("/api/campaigns", self._json(lambda request: self.campaigns())),
            Route("/api/campaign", self._json(lambda request: self.campaign(wanted(request, "campaign")))),
            Route("/api/rig", self._json(lambda request: self.rig())),
            Route("/files/{campaign}/{name:path}", self._file),
        ]

    def campaigns(self) -> dict[str, Any]:
        """Return what /api/campaigns replies."""
        found: dict[str, Any] = self._kept.get("campaigns", LIST_SECONDS, self._campaigns.list)
        return found

    def campaign(self, name: str) -> dict[str, Any]:
        """Return what /api/campaign replies. Raises Refused, JoulerigError, sqlite3.Error."""
        listed = self.campaigns()["campaigns"]
        if not any(one["id"] == name for one in listed):
            raise Refused(404, f"campaign {name!r}: there is none of this id")
        latest = max(listed, key=lambda one: one["last_event_ns"] or 0)["id"]
        folder, state_dir = self._sources.results / name, self._sources.state_dir

        def read() -> dict[str, Any]:
            return campaign.read(folder, state_dir, has_log=name == latest)

        found: dict[str, Any] = self._kept.get(("campaign", name), CAMPAIGN_SECONDS, read)
        return found

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

    def _pids(self) -> dict[str, int]:
        """Return the rig's processes: services that it keeps, executors of campaigns, this one."""
        kept = supervisor.pids() if self._sources.state_dir else {}
        executors = {
            f"{CAMPAIGN}{one}": process.pid_here(by) for one, by in self._campaigns.executors.items()
        }
        return {"dashboard": os.getpid(), **kept, **{name: pid for name, pid in executors.items() if pid}}

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

    def _json(self, reply: Callable[[Request], dict[str, Any]]) -> Callable[[Request], Any]:
        """Return an endpoint that replies what `reply` returns, or in a line why it has nothing."""

        def text(request: Request) -> tuple[int, str]:
            try:
                return 200, json.dumps(reply(request), allow_nan=False, separators=(",", ":"))
            except Refused as refusal:
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


def wanted(request: Request, name: str) -> str:
    """Return a parameter that a request must have. Raises Refused."""
    value = request.query_params.get(name, "")
    if not value:
        raise Refused(400, f"parameter {name!r}: is missing")
    return value
