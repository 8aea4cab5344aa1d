# SPDX-License-Identifier: GPL-3.0-or-later
"""A BMC that speaks Redfish over HTTP: one or more systems, whose power follows a little later."""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

USER, PASSWORD = "lab", "pa:ss"


class Bmc:
    """A context manager. `states`: PowerState by system; `asked`: the actions that it was sent."""

    def __init__(self, *systems: str) -> None:
        self.states = dict.fromkeys(systems or ("1",), "On")
        self.asked: list[tuple[str, str]] = []
        self.looks = 0  # until a state has changed
        self.replies: dict[str, bytes] = {}  # by the end of a path; given in place of the usual ones
        self.passwords: list[str | None] = []  # that it was sent
        self.pending: dict[str, tuple[str, int]] = {}
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> Bmc:
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.shutdown()
        self.server.server_close()

    def state(self, system: str) -> str:
        """Return a system's PowerState as of this look at it."""
        if system in self.pending:
            state, looks = self.pending[system]
            self.pending[system] = (state, looks - 1)
            if looks <= 0:
                self.states[system] = state
                del self.pending[system]
        return self.states[system]

    def reset(self, system: str, kind: str) -> None:
        """Take an action; its effect shows after some looks."""
        self.asked.append((system, kind))
        self.pending[system] = ("Off" if kind == "ForceOff" else "On", self.looks)

    def _handler(bmc) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *words: object) -> None:
                pass

            def reply(self, code: int, what: object) -> None:
                text = json.dumps(what).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def admitted(self) -> bool:
                known = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
                if self.headers.get("Authorization") == known:
                    return True
                self.reply(401, {"error": {"message": "who are you?"}})
                return False

            def do_GET(self) -> None:
                bmc.passwords.append(self.headers.get("Authorization"))
                *_, last = self.path.split("/")
                if last in bmc.replies:
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(bmc.replies[last])))
                    self.end_headers()
                    self.wfile.write(bmc.replies[last])
                    return
                if not self.admitted():
                    return
                if last == "Systems":
                    self.reply(200, {"Members": [{"@odata.id": f"{self.path}/{one}"} for one in bmc.states]})
                elif last in bmc.states:
                    self.reply(200, {"PowerState": bmc.state(last)})
                else:
                    self.reply(404, {"error": {"message": "no such resource"}})

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.admitted():
                    bmc.reset(self.path.split("/")[4], asked["ResetType"])
                    self.reply(200, {})

        return Handler
