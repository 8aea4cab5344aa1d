# SPDX-License-Identifier: GPL-3.0-or-later
"""What the dashboard's server refuses, before any of its pages sees the request.

A browser sends requests for whatever page it shows. So a page from elsewhere that gave its name
this machine's address (DNS rebinding) could read a lab: requests for another host than the
dashboard's names are refused, WebSockets too. Nothing but GET is answered, but for the one address
that changes something where a token is configured. A parameter that no page sends is an error: a
token in an address would be in logs and histories. Each refusal is one line.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Collection, Mapping
from ipaddress import ip_address
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

METHODS = ("GET", "HEAD")
HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9A-Za-z._-]+))(?::[0-9]{1,5})?", re.ASCII)
SAME = ("same-origin", "none")  # of Sec-Fetch-Site: from this dashboard's page, or from a person
LONGEST_TARGET = 1000  # characters of path and query
LONGEST_VALUE = 200  # of a campaign's id, which is a folder's name
OF_CAMPAIGN, OF_VIEW = frozenset({"campaign"}), frozenset({"host", "drive", "from_ns", "to_ns", "points"})
PARAMETERS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("/", "/campaign", "/history", "/live", "/api/campaign"), OF_CAMPAIGN),
    **dict.fromkeys(("/api/power", "/api/io"), OF_VIEW),
    "/api/samples": frozenset({"host", "drive", "seconds"}),
}


class Hosts:
    """The host names by which a dashboard may be asked for.

    `listen`: the address that it listens on. That is one of them; on loopback `localhost` is, and
    where it listens on all addresses, the machine's names and any address: no site on the web can
    have an address for its name. `more`: further names.
    """

    def __init__(self, listen: str, more: Collection[str] = ()) -> None:
        address = ip_address(listen)
        self._any_address = address.is_unspecified
        names = {str(address)}
        if address.is_loopback or address.is_unspecified:
            names |= {"localhost", "127.0.0.1", "::1"}
        if address.is_unspecified:
            names = names - {str(address)} | {socket.gethostname(), socket.getfqdn()}
        self.names = frozenset(name.lower() for name in (*names, *more))

    def __contains__(self, host: str) -> bool:
        return host in self.names or (self._any_address and _is_address(host))

    def __str__(self) -> str:
        return ", ".join([*sorted(self.names), *(["any address"] if self._any_address else [])])


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


class Guard:
    """Answers what is refused, with one line; passes on the rest.

    `changes`: the addresses to which a POST is passed on.
    """

    def __init__(self, app: ASGIApp, hosts: Hosts, changes: Collection[str] = ()) -> None:
        self._app, self._hosts, self._changes = app, hosts, frozenset(changes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            code, why = self._refusal(scope)
            if code:
                # To a WebSocket it is the answer to its handshake.
                headers = {"allow": ", ".join(METHODS)} if code == 405 else None
                await PlainTextResponse(f"{why}\n", status_code=code, headers=headers)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, str]:
        """Return the status and the reason; 0 where it is not refused."""
        headers = Headers(scope=scope)
        if host_of(header := headers.get("host", "")) not in self._hosts:
            return 421, f"host {header[:LONGEST_VALUE]!r}: is not this dashboard's; allowed: {self._hosts}"
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            return 403, f"origin {origin[:LONGEST_VALUE]!r}: another site's page may not read this lab"
        is_post = scope["type"] == "http" and scope["method"] == "POST"
        may_change = is_post and scope["path"] in self._changes
        if may_change and (site := headers.get("sec-fetch-site", SAME[0])) not in SAME:
            return 403, f"sec-fetch-site {site[:40]!r}: another site's page may not change this lab"
        if scope["type"] == "http" and scope["method"] not in METHODS and not may_change:
            return 405, f"{scope['method'][:20]}: nothing can be changed here; allowed: {', '.join(METHODS)}"
        query = scope["query_string"].decode("latin-1")
        if len(scope["path"]) + len(query) > LONGEST_TARGET:
            return 414, f"the address has more than {LONGEST_TARGET} characters"
        return self._wrong_parameter(scope["path"], query)

    @staticmethod
    def _wrong_parameter(path: str, query: str) -> tuple[int, str]:
        allowed = PARAMETERS.get(path, frozenset())
        for name, value in parse_qsl(query, keep_blank_values=True):
            if name not in allowed:
                return 400, f"parameter {name[:40]!r}: allowed: {', '.join(sorted(allowed)) or 'none'}"
            if len(value) > LONGEST_VALUE:
                return 400, f"parameter {name!r}: has more than {LONGEST_VALUE} characters"
        return 0, ""


def host_of(header: str) -> str:
    """Return the name of a Host header, without its port; empty if it is not NAME or NAME:PORT."""
    found = HOST.fullmatch(header)
    return (found[1] or found[2]).lower() if found else ""
