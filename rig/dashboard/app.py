# SPDX-License-Identifier: GPL-3.0-or-later
"""The web application: its pages, their static files and JSON, /live, /healthz and /metrics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.templating import Jinja2Templates
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from joulerig.rig.dashboard.metrics import CONTENT_TYPE, Metrics
from joulerig.rig.dashboard.web.guard import Guard, Hosts
from joulerig.rig.dashboard.web.hub import Client, Hub

HERE = Path(__file__).resolve().parent
BUNDLE = HERE / "static" / "js" / "main.js"  # of page/, which tools/page.py makes
MOST_PAGES = 100
PAGES = ("/", "/campaign", "/rig", "/history")  # one shell; what is in it is its script's business
# The page loads nothing from anywhere else, and the browser holds it to that. uPlot sets styles by
# script, which style-src does not concern.
HEADERS = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


class Hardened:
    """Adds HEADERS to each response, but for those that it has itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._headers = {name.encode(): value.encode() for name, value in HEADERS.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = list(message.get("headers", []))
                has = {name.lower() for name, _ in own}
                more = [(name, value) for name, value in self._headers.items() if name not in has]
                message = {**message, "headers": [*own, *more]}
            await send(message)

        await self._app(scope, receive, with_headers)


def release() -> str:
    try:
        return version("joulerig")
    except PackageNotFoundError:  # a checkout that is not installed
        return "unknown"


def build(
    hub: Hub,
    metrics: Metrics,
    hosts: Hosts,
    api: Sequence[BaseRoute] = (),
    changes: Sequence[str] = (),
    tasks: Sequence[Callable[[], Coroutine[Any, Any, None]]] = (),
) -> Starlette:
    """Return the application around a hub, and run `tasks` in the background.

    `api`: routes of what pages fetch; `changes`: the addresses among them that take a POST.
    """
    templates = Jinja2Templates(directory=HERE / "templates")

    async def page(request: Request) -> Response:
        return templates.TemplateResponse(request, "index.html", {"version": release()})

    async def healthz(request: Request) -> Response:
        return JSONResponse({"ok": True, "version": release(), "clients": len(hub.clients)})

    async def exposition(request: Request) -> Response:
        return Response(await asyncio.to_thread(metrics.text), media_type=CONTENT_TYPE)

    async def live(socket: WebSocket) -> None:
        if len(hub.clients) >= MOST_PAGES:
            full = f"{MOST_PAGES} pages are open: close one\n"
            await socket.send_denial_response(PlainTextResponse(full, status_code=503))
            return
        await socket.accept()
        client = Client(campaign=socket.query_params.get("campaign") or None)
        hub.add(client)
        sender = asyncio.create_task(client.send(socket.send_text, socket.send_bytes))
        listener = asyncio.create_task(until_closed(socket))
        try:
            await asyncio.wait({sender, listener}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hub.remove(client)
            for task in (sender, listener):
                task.cancel()
                with suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError):
                    await task

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        running = [asyncio.create_task(run()) for run in tasks]
        yield
        for task in running:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    return Starlette(
        routes=[
            *(Route(path, page) for path in PAGES),
            *api,
            Route("/healthz", healthz),
            Route("/metrics", exposition),
            WebSocketRoute("/live", live),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ],
        middleware=[Middleware(Hardened), Middleware(Guard, hosts=hosts, changes=changes)],
        lifespan=lifespan,
    )


async def until_closed(socket: WebSocket) -> None:
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass
