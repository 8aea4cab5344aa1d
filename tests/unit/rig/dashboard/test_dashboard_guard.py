# SPDX-License-Identifier: GPL-3.0-or-later
"""By which names a dashboard may be asked for, and which requests are refused."""

import asyncio

import pytest

from joulerig.rig.dashboard.web import guard
from joulerig.rig.dashboard.web.guard import Guard, Hosts, host_of


@pytest.mark.parametrize(
    ("listen", "host", "allowed"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "localhost", True),
        ("127.0.0.1", "::1", True),
        ("127.0.0.1", "lab.example", False),
        ("127.0.0.1", "10.0.0.5", False),
        ("127.0.0.1", "", False),
        ("10.0.0.5", "10.0.0.5", True),
        ("10.0.0.5", "localhost", False),
        ("10.0.0.5", "10.0.0.6", False),
        ("0.0.0.0", "10.0.0.6", True),
        ("0.0.0.0", "lab.example", False),
        ("::", "2001:db8::1", True),
        ("::", "evil.example", False),
    ],
)
def test_a_dashboard_has_the_names_of_its_address(listen, host, allowed):
    assert (host in Hosts(listen)) is allowed


def test_on_all_addresses_it_has_the_machines_name(monkeypatch):
    monkeypatch.setattr(guard.socket, "gethostname", lambda: "Bench")
    assert "bench" in Hosts("0.0.0.0")
    assert str(Hosts("0.0.0.0")).endswith(", any address")


def test_a_lab_adds_names():
    assert "lab.example" in Hosts("127.0.0.1", ["Lab.example"])


@pytest.mark.parametrize(
    ("header", "host"),
    [
        ("127.0.0.1:8080", "127.0.0.1"), ("LOCALHOST", "localhost"), ("[::1]:80", "::1"), ("", ""),
        ("[::1", ""), ("user@lab:1", ""), ("127.0.0.1:80, evil", ""), ("127.0.0.1:80:80", ""), ("lab/", ""),
        ("lab:", ""), ("lab:123456", ""), (" lab", ""), ("lab\n", ""), ("lab#", ""), ("lab?x", ""),
        ("[lab]", ""), ("::1", ""), ("lab:٣", ""),
    ],
)  # fmt: skip
def test_a_host_header_is_a_name_and_a_port(header, host):
    assert host_of(header) == host


def answer(target="/", *, method="GET", headers=(), kind="http", changes=()):
    """Status and text of a refusal; 200 where it is passed on."""
    path, _, query = target.partition("?")
    sent = []

    async def app(scope, receive, send):
        sent.append({"status": 200})

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "websocket.connect"}

    scope = {
        "type": kind, "method": method, "path": path, "query_string": query.encode(),
        "headers": [(b"host", b"127.0.0.1:80"), *headers], "extensions": {"websocket.http.response": {}},
    }  # fmt: skip
    if headers and headers[0][0] == b"host":
        scope["headers"] = list(headers)
    asyncio.run(Guard(app, Hosts("127.0.0.1"), changes)(scope, receive, send))
    return sent[0]["status"], b"".join(part.get("body", b"") for part in sent[1:]).decode()


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize(
    ("target", "headers", "status", "why"),
    [
        ("/", [(b"host", b"evil.example")], 421, "host 'evil.example': is not this dashboard's; allowed:"),
        ("/", [], 200, ""),
        ("/", [(b"origin", b"http://127.0.0.1:80")], 200, ""),
        ("/", [(b"origin", b"http://evil.example")], 403, "another site's page"),
        ("/", [(b"origin", b"null")], 403, "another site's page"),
        ("/?campaign=demo-1", [], 200, ""),
        ("/?campaign=" + 201 * "x", [], 400, "has more than 200 characters"),
        ("/?token=secret", [], 400, "parameter 'token': allowed: campaign"),
        ("/healthz?campaign=x", [], 400, "parameter 'campaign': allowed: none"),
        ("/?campaign=" + 5000 * "x", [], 414, "more than 1000 characters"),
        ("/" + 5000 * "x", [], 414, "more than 1000 characters"),
    ],
)
def test_what_is_refused_says_why_in_one_line(kind, target, headers, status, why):
    code, text = answer(target, headers=headers, kind=kind)
    assert code == status
    assert why in text
    assert text.count("\n") == (status != 200)
    assert "secret" not in text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_nothing_can_be_changed(method):
    assert answer(method=method) == (405, f"{method}: nothing can be changed here; allowed: GET, HEAD\n")
    assert answer(method="HEAD")[0] == 200


CHANGES = ("/api/control",)


def test_one_address_takes_a_post_where_it_is_meant_to():
    assert answer("/api/control", method="POST", changes=CHANGES)[0] == 200
    assert answer("/api/control", method="POST")[0] == 405


@pytest.mark.parametrize(
    "target", ["/", "/api/control/", "/api//control", "/api/campaign", "/live", "/metrics"]
)
def test_no_other_address_does(target):
    assert answer(target, method="POST", changes=CHANGES)[0] == 405


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "post"])
def test_nor_does_it_take_another_method(method):
    assert answer("/api/control", method=method, changes=CHANGES)[0] == 405


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([(b"origin", b"http://127.0.0.1:80")], 200),
        ([(b"origin", b"http://evil.example")], 403),
        ([(b"origin", b"null")], 403),
        ([(b"origin", b"http://127.0.0.1:81")], 403),
        ([(b"sec-fetch-site", b"same-origin")], 200),
        ([(b"sec-fetch-site", b"none")], 200),
        ([(b"sec-fetch-site", b"cross-site")], 403),
        ([(b"sec-fetch-site", b"same-site")], 403),
        ([(b"host", b"evil.example")], 421),
    ],
)
def test_a_change_is_asked_for_by_this_dashboards_page_alone(headers, status):
    assert answer("/api/control", method="POST", headers=headers, changes=CHANGES)[0] == status


def test_a_token_in_the_address_is_refused_and_not_repeated():
    code, text = answer("/api/control?token=secret", method="POST", changes=CHANGES)
    assert (code, text) == (400, "parameter 'token': allowed: none\n")


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/api/power?host=h&drive=d&from_ns=1&to_ns=2&points=3", 200),
        ("/api/io?host=h&drive=d&from_ns=1&to_ns=2", 200),
        ("/api/power?campaign=x", 400),
        ("/api/campaign?campaign=x", 200),
        ("/api/campaign?campaign=" + 201 * "x", 400),
        ("/api/rig?campaign=x", 400),
        ("/history?campaign=x", 200),
        ("/rig?campaign=x", 400),
    ],
)
def test_each_address_has_its_own_parameters(target, status):
    assert answer(target)[0] == status
