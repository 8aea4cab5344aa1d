# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rig uses of Grafana's HTTP API, as its documentation describes it; no Grafana.

It keeps secrets as Grafana does: they are never read back, and its proxy adds them to what it asks
of the data source's server.
"""

from __future__ import annotations

import copy
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx

TOKEN = "glsa_a-token-of-a-service-account"
Reply = tuple[int, Any]


class FakeGrafana:
    """A context manager: serves at `url`. `wrote`: each request that was not for reading."""

    def __init__(self, version: str = "11.3.1") -> None:
        self.version = version
        self.folders: dict[str, dict[str, Any]] = {}
        self.sources: dict[str, dict[str, Any]] = {}
        self.dashboards: dict[str, dict[str, Any]] = {}
        self.wrote: list[str] = []
        self._secrets: dict[str, dict[str, str]] = {}
        self._http = httpx.Client(trust_env=False, timeout=10)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> FakeGrafana:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._http.close()

    def answer(self, method: str, path: str, query: str, body: dict[str, Any]) -> Reply:
        """Return status and content of the reply."""
        match method, path.strip("/").split("/")[1:]:
            case "GET", ["health"]:
                return 200, {"database": "ok", "version": self.version}
            case "GET", ["search"]:
                found = [{"uid": uid, "folderUid": one["folder"]} for uid, one in self.dashboards.items()]
                return 200, found
            case _, ["folders", *uid]:
                return self._folder(method, uid, body)
            case "GET", ["datasources", "proxy", "uid", uid, *rest]:
                return self._proxy(uid, "/".join(rest), query)
            case "POST", ["datasources"]:
                return self._keep_source(body["uid"], body)
            case _, ["datasources", "uid", uid] if uid in self.sources:
                if method == "PUT":
                    return self._keep_source(uid, body)
                return (200, self.sources[uid]) if method == "GET" else (200, self.sources.pop(uid))
            case "POST", ["dashboards", "db"]:
                return self._keep_dashboard(body)
            case _, ["dashboards", "uid", uid] if uid in self.dashboards:
                one = self.dashboards[uid] if method == "GET" else self.dashboards.pop(uid)
                return 200, {"dashboard": one["dashboard"], "meta": {"folderUid": one["folder"]}}
        return 404, {"message": "Not found"}

    def _folder(self, method: str, path: list[str], body: dict[str, Any]) -> Reply:
        if method == "POST" and not path:
            self.folders[body["uid"]] = {"uid": body["uid"], "title": body["title"]}
            return 200, self.folders[body["uid"]]
        if not path or path[0] not in self.folders:
            return 404, {"message": "folder not found"}
        if method == "PUT":
            self.folders[path[0]]["title"] = body["title"]
        return 200, self.folders.pop(path[0]) if method == "DELETE" else self.folders[path[0]]

    def _keep_source(self, uid: str, body: dict[str, Any]) -> Reply:
        if any(one["name"] == body["name"] for key, one in self.sources.items() if key != uid):
            return 409, {"message": "data source with the same name already exists"}
        kept = copy.deepcopy(body)
        self._secrets[uid] = kept.pop("secureJsonData", {})
        kept |= {"id": 1, "readOnly": False, "secureJsonFields": dict.fromkeys(self._secrets[uid], True)}
        self.sources[uid] = kept
        return 200, {"datasource": kept}

    def _keep_dashboard(self, body: dict[str, Any]) -> Reply:
        if body["folderUid"] not in self.folders:
            return 400, {"message": "folder not found"}
        uid = body["dashboard"]["uid"]
        version = self.dashboards[uid]["dashboard"]["version"] + 1 if uid in self.dashboards else 1
        kept = {**copy.deepcopy(body["dashboard"]), "id": 7, "version": version}
        self.dashboards[uid] = {"dashboard": kept, "folder": body["folderUid"]}
        return 200, {"uid": uid, "version": version, "status": "success"}

    def _proxy(self, uid: str, path: str, query: str) -> Reply:
        if uid not in self.sources:
            return 404, {"message": "Unable to find datasource"}
        source = self.sources[uid]
        auth = (source["user"], self._secrets[uid]["password"])
        try:
            reply = self._http.get(f"{source['url']}/{path}", params=parse_qsl(query), auth=auth)
        except httpx.HTTPError:
            return 502, {"message": "Bad Gateway"}
        if reply.status_code == 401:
            return 400, {"message": "Authentication to data source failed"}
        return reply.status_code, reply.json()

    def _handler(fake) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *words: object) -> None:
                pass

            def serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                asked = urlsplit(self.path)
                if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                    status, content = 401, {"message": "Invalid API key"}
                else:
                    if self.command != "GET":
                        fake.wrote.append(f"{self.command} {asked.path}")
                    status, content = fake.answer(
                        self.command, asked.path, asked.query, json.loads(body or b"{}")
                    )
                text = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = do_DELETE = serve

        return Handler
