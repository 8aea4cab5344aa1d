# SPDX-License-Identifier: GPL-3.0-or-later
"""Grafana's HTTP API, as far as it is the same in Grafana 9 to 12; its errors, in one line."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import httpx

from joulerig import json_text
from joulerig.rig.common.bounded import one_line
from joulerig.rig.common.errors import UserError

TIMEOUT_SECONDS = 30.0
NOT_FOUND = 404


class Api:
    """A client of one Grafana. `token`: of a service account; it is in no message."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url.rstrip("/")
        self._http = httpx.Client(
            headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
            timeout=TIMEOUT_SECONDS,
            follow_redirects=False,  # the token is for this address alone
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def get(self, path: str, **parameters: Any) -> Any:
        """Return what is at a path; None where nothing is."""
        answer = self._ask("GET", path, params=parameters)
        return None if answer.status_code == NOT_FOUND else self._content(answer)

    def send(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        """Create or replace something; return the reply."""
        answer = self._ask(method, path, json=body)
        if answer.status_code == NOT_FOUND:
            raise self._refused(answer)
        return self._content(answer)

    def delete(self, path: str) -> bool:
        """Delete what is at a path; return whether something was."""
        answer = self._ask("DELETE", path)
        if answer.status_code != NOT_FOUND:
            self._content(answer)
        return answer.status_code != NOT_FOUND

    def through(self, source: str, path: str, **parameters: Any) -> httpx.Response:
        """Return the reply of a data source's server to Grafana, which adds the password."""
        return self._ask("GET", f"/api/datasources/proxy/uid/{source}/{path}", params=parameters)

    def _ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            return self._http.request(method, self.url + path, **more)
        except httpx.HTTPError as error:
            raise UserError(
                f"Grafana at {self.url} does not answer: {one_line(error) or type(error).__name__}"
            ) from None

    def _content(self, answer: httpx.Response) -> Any:
        if not answer.is_success:
            raise self._refused(answer)
        try:
            return json_text.parse(answer.content)
        except ValueError:
            raise UserError(f"{self.url}: is no Grafana ({answer.request.url.path}: no JSON)") from None

    def _refused(self, answer: httpx.Response) -> UserError:
        try:
            said = str(json_text.parse_object(answer.content)["message"])
        except (ValueError, KeyError):
            said = answer.reason_phrase
        what = f"{answer.request.method} {answer.request.url.path}"
        more = {
            401: "; grafana.token_file: the token of a service account of this Grafana",
            403: "; its service account needs to write data sources, folders and dashboards (role Admin)",
        }.get(answer.status_code, "")
        return UserError(
            f"Grafana at {self.url}: {what}: HTTP {answer.status_code}: {one_line(said, 200)}{more}"
        )
