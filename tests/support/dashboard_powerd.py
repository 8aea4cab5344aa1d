# SPDX-License-Identifier: GPL-3.0-or-later
"""The status socket of a power daemon, with meters that a test sets."""

from __future__ import annotations

import json
import socketserver
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any


def meter(name: str, state: str = "streaming", reason: str = "", **figures: Any) -> dict[str, Any]:
    return {
        "name": name,
        "state": state,
        "reason": reason,
        "samples": 100_000,
        "expected": 100_000,
        "lost": 0,
        "over_range": 0,
        "impossible": 0,
        "duplicate": 0,
        "repeated": 0,
        "gap_seconds": 0.0,
        "restarts": 0,
        "clock_residual_seconds": 0.000143,
        "sample_rate_hz": 1000.0,
        "observed_rate_hz": 1000.02,
        **figures,
    }


class Powerd:
    def __init__(self, socket: Path, meters: list[dict[str, Any]]) -> None:
        self.meters = {m["name"]: m for m in meters}
        self.samples: dict[str, Any] | str = {"rails": []}  # a text: why there are none
        self.asked: list[str] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps(
                    {"session": "s1", "meters": list(owner.meters.values()), "writer": {}}
                ).encode()
                status = 200 if self.path == "/status" else 404
                if self.path.startswith("/samples?"):
                    owner.asked.append(self.path)
                    refused = isinstance(owner.samples, str)
                    body = (owner.samples if refused else json.dumps(owner.samples)).encode()
                    status = 400 if refused else 200
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

            def address_string(self) -> str:
                return "unix"

        self._server = socketserver.ThreadingUnixStreamServer(str(socket), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
