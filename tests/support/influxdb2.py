# SPDX-License-Identifier: GPL-3.0-or-later
"""An InfluxDB 2.x as its 1.x-compatible API shows it, in front of a real 1.x: tokens for rights.

Its user name says nothing, and its password is a token. What is not allowed is reported as 2.x
reports it: JSON with a code and a message.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

from tests.support.influxd import Influxd
from tests.support.stand_in import StandIn

PASSED = ("Accept", "Content-Encoding", "Content-Type")
READER, WRITER = "a-token-that-reads", "a-token-that-writes"


class Influxdb2(StandIn):
    """A context manager: serves `behind` at `url`; `users`: what was given as user names."""

    def __init__(self, behind: Influxd) -> None:
        self._behind = behind
        self.users: set[str] = set()
        super().__init__()

    def token(self, authorization: str) -> str:
        """Return the token of a header: of the scheme Token, or a password."""
        scheme, _, what = authorization.partition(" ")
        if scheme != "Basic":
            return what if scheme == "Token" else ""
        user, _, password = base64.b64decode(what).decode().partition(":")
        self.users.add(user)
        return password

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        """Return status and text of the reply to a request."""
        rights = {"/write": (WRITER, self._behind.writer), "/query": (READER, self._behind.reader)}
        what = path.partition("?")[0]
        if what not in rights:
            return 404, json.dumps({"code": "not found", "message": "path not found"}).encode()
        wanted, auth = rights[what]
        token = self.token(headers.get("Authorization", ""))
        if token not in (READER, WRITER):
            return 401, json.dumps({"code": "unauthorized", "message": "unauthorized access"}).encode()
        if token != wanted:
            return 403, json.dumps({"code": "forbidden", "message": "insufficient permissions"}).encode()
        passed = {name: headers[name] for name in PASSED if name in headers}
        reply = self.http.request(method, self._behind.url + path, content=body, auth=auth, headers=passed)
        return reply.status_code, reply.content
