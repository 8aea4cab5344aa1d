# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rig uses of Grafana's HTTP API, as its documentation describes it; no Grafana.

It keeps secrets as Grafana does: they are never read back, and its proxy adds them to what it asks
of the data source's server.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx

from tests.support.stand_in import StandIn

TOKEN = "glsa_a-token-of-a-service-account"
Reply = tuple[int, Any]


class FakeGrafana(StandIn):
    """A context manager: serves at `url`. `wrote`: each request that was not for reading."""

    def __init__(self, version: str = "11.3.1") -> None:
        self.version = version
        self.folders: dict[str, dict[str, Any]] = {}
        self.sources: dict[str, dict[str, Any]] = {}
        self.dashboards: dict[str, dict[str, Any]] = {}
        self.wrote: list[str] = []
        self._secrets: dict[str, dict[str, str]] = {}
        super().__init__()

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        asked = urlsplit(target)
        if headers.get("Authorization") != f"Bearer {TOKEN}":
            status, content = 401, {"message": "Invalid API key"}
        else:
            if method != "GET":
                self.wrote.append(f"{method} {asked.path}")
            status, content = self._served(method, asked.path, asked.query, json.loads(body or b"{}"))
        return status, json.dumps(content).encode()

    def _served(self, method: str, path: str, query: str, body: dict[str, Any]) -> Reply:
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
            reply = self.http.get(f"{source['url']}/{path}", params=parse_qsl(query), auth=auth)
        except httpx.HTTPError:
            return 502, {"message": "Bad Gateway"}
        if reply.status_code == 401:
            return 400, {"message": "Authentication to data source failed"}
        return reply.status_code, reply.json()
