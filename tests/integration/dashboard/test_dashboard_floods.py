# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients that hold what they can of the dashboard's server: others are served, and it ends.

All of them are on loopback, and bounded: the most connections that a test opens are 320.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from websockets.sync import client

from joulerig.rig.dashboard.web import connections
from tests.support.dashboard_server import Dashboard
from tests.support.programs import free_port, wait_for

MANY = 320  # uvicorn's limit is 300
HALF = b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nx: "
BODY = b"POST /api/control HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 12582912\r\n\r\n"


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    folder: Path = tmp_path_factory.mktemp("flooded")
    dashboard = Dashboard(folder, f"http://127.0.0.1:{free_port()}")
    (folder / "token").write_text("a-token-of-no-client")
    dashboard.settings["control_token_file"] = str(folder / "token")
    dashboard.start()
    yield dashboard
    dashboard.stop()
    assert "Traceback" not in dashboard.log()


@pytest.fixture
def connect(dashboard: Dashboard) -> Iterator[Callable[[bytes], socket.socket]]:
    """connect(first) opens a connection that has sent `first`."""
    address, port = dashboard.url.removeprefix("http://").rstrip("/").split(":")
    with contextlib.ExitStack() as stack:

        def opened(first: bytes) -> socket.socket:
            one = stack.enter_context(socket.create_connection((address, int(port)), timeout=30))
            one.sendall(first)
            return one

        yield opened


def status(dashboard: Dashboard) -> int:
    return httpx.get(f"{dashboard.url}healthz", trust_env=False, timeout=30).status_code


def is_closed(one: socket.socket) -> bool:
    one.setblocking(False)
    try:
        return one.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


@pytest.mark.long
def test_a_page_keeps_its_websocket_beyond_all_limits(dashboard: Dashboard) -> None:
    end = time.monotonic() + connections.HEADER_SECONDS + connections.BODY_SECONDS
    with client.connect(dashboard.url.replace("http", "ws") + "live", proxy=None) as page:
        while time.monotonic() < end:
            page.recv(timeout=30)  # raises once the connection is closed


def test_half_headers_keep_no_client_out_and_are_closed(
    dashboard: Dashboard, connect: Callable[[bytes], socket.socket]
) -> None:
    flood = [connect(HALF) for _ in range(MANY)]
    assert [status(dashboard) for _ in range(5)] == [200] * 5
    assert sum(not is_closed(one) for one in flood) <= connections.MOST_WAITING
    wait_for(lambda: all(map(is_closed, flood)), 4 * connections.HEADER_SECONDS, "all are closed")


def test_a_header_that_comes_byte_by_byte_has_no_more_time(
    dashboard: Dashboard, connect: Callable[[bytes], socket.socket]
) -> None:
    slow, end = connect(HALF), time.monotonic() + 4 * connections.HEADER_SECONDS
    with contextlib.suppress(OSError):
        while time.monotonic() < end and not is_closed(slow):
            slow.sendall(b"x")
            time.sleep(0.2)  # slower than any header is sent
    assert is_closed(slow)


def test_the_next_request_on_a_connection_has_the_same_time(
    dashboard: Dashboard, connect: Callable[[bytes], socket.socket]
) -> None:
    kept = connect(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
    assert kept.recv(65536).startswith(b"HTTP/1.1 200")
    kept.sendall(HALF)
    wait_for(lambda: is_closed(kept), 4 * connections.HEADER_SECONDS, "it is closed")


@pytest.mark.parametrize("first", [BODY, BODY.replace(b"POST /api/control", b"GET /healthz")])
def test_a_body_that_is_not_wanted_is_answered_and_not_taken(
    dashboard: Dashboard, connect: Callable[[bytes], socket.socket], first: bytes
) -> None:
    sender, sent = connect(first), 0
    reply = sender.recv(12)
    with contextlib.suppress(OSError):
        while sent < 12582912:
            sent += sender.send(bytes(65536))
    assert reply in (b"HTTP/1.1 401", b"HTTP/1.1 200")
    assert sent < 12582912
    assert status(dashboard) == 200


def test_bodies_that_do_not_come_keep_no_client_out(
    dashboard: Dashboard, connect: Callable[[bytes], socket.socket]
) -> None:
    flood = [connect(BODY) for _ in range(MANY)]
    assert status(dashboard) == 200
    assert all(one.recv(12) == b"HTTP/1.1 401" for one in flood[-20:])
    wait_for(lambda: all(_is_over(one) for one in flood), 30, "all are closed")


def _is_over(one: socket.socket) -> bool:
    """Return whether the reply was read to its end, and the connection is closed."""
    one.setblocking(False)
    try:
        while one.recv(65536):
            pass
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


@pytest.mark.long
def test_a_client_that_reads_no_reply_is_closed(
    dashboard: Dashboard, connect: Callable[[bytes], socket.socket]
) -> None:
    ask = b"GET /static/js/main.js HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    idle = connect(ask * 200)  # far more than the buffers of both ends hold
    time.sleep(connections.STALLED_SECONDS + 5)
    taken = b""
    with contextlib.suppress(OSError):
        while part := idle.recv(1 << 20):
            taken += part
    assert 0 < taken.count(b"HTTP/1.1 200") < 200
