# SPDX-License-Identifier: GPL-3.0-or-later
"""An error of a Grafana, or a reply that is no JSON, is one line whatever its text."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from joulerig.rig.common import bounded
from joulerig.rig.common.errors import UserError
from joulerig.rig.grafana.api import Api
from tests.support import hostile_text
from tests.support.stand_in import StandIn


class Odd(StandIn):
    """A server that gives one reply to all requests."""

    status, content = 200, b""

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        return self.status, self.content


def refusal(api: Api) -> str:
    with pytest.raises(UserError) as refused:
        api.get("/api/health")
    text = str(refused.value)
    assert text == bounded.one_line(text, 700)
    assert "token" not in text.replace("token_file", "").replace("the token of", "")
    return text


def test_a_text_of_its_error_is_one_line() -> None:
    with Odd() as server, Api(server.url, "token") as api:
        for text in (*hostile_text.NAMES.values(), "A" * 4096, 7, None, [[]], {"a": "b"}):
            for reply in ({"message": text}, text, [text]):
                server.status, server.content = 500, json.dumps(reply).encode()
                assert "HTTP 500" in refusal(api)


@pytest.mark.parametrize("content", [b"", b"<script>1</script>", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_json_is_no_grafana(content: bytes) -> None:
    with Odd() as server, Api(server.url, "token") as api:
        server.content = content
        assert "is no Grafana" in refusal(api)
