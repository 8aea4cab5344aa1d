# SPDX-License-Identifier: GPL-3.0-or-later
"""The server by itself: its errors, /healthz, and what it refuses."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import http.server
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import websockets
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from joulerig.rig.dashboard import VERSION
from joulerig.rig.dashboard.app import MOST_PAGES
from tests.support import ROOT
from tests.support.dashboard_journal import WritableJournal
from tests.support.dashboard_server import Dashboard
from tests.support.programs import free_port, wait_for


@pytest.fixture
def dashboard(tmp_path: Path) -> Iterator[Dashboard]:
    dashboard = Dashboard(tmp_path, f"http://127.0.0.1:{free_port()}")  # no process listens there
    dashboard.start()
    yield dashboard
    dashboard.stop()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    """One that no test changes."""
    dashboard = Dashboard(tmp_path_factory.mktemp("running"), f"http://127.0.0.1:{free_port()}")
    dashboard.start()
    yield dashboard
    dashboard.stop()


def test_healthz_answers_though_influxdb_is_away(dashboard: Dashboard):
    answer = httpx.get(f"{dashboard.url}healthz", trust_env=False).json()
    assert answer["ok"] is True
    assert answer["version"]


def test_the_page_may_load_nothing_from_elsewhere(dashboard: Dashboard):
    for path in ("", "static/js/main.js", "static/js/main.css", "healthz"):
        answer = httpx.get(dashboard.url + path, trust_env=False)
        assert answer.status_code == 200
        assert "default-src 'self'" in answer.headers["content-security-policy"]
    for path in ("static/../config.py", "static/../../package.json", "static/%2e%2e/config.py"):
        assert httpx.get(dashboard.url + path, trust_env=False).status_code == 404


def test_another_sites_page_may_not_read_the_lab(dashboard: Dashboard):
    async def connect(origin: str | None) -> dict:
        url = dashboard.url.replace("http", "ws") + "live"
        async with websockets.connect(url, origin=origin, proxy=None) as connection:
            return json.loads(await connection.recv())

    own = dashboard.url.rstrip("/")
    assert asyncio.run(connect(own))["version"] == VERSION
    with pytest.raises(websockets.InvalidStatus):
        asyncio.run(connect("http://elsewhere.example"))


def test_requests_for_another_host_are_refused(dashboard: Dashboard):
    answer = httpx.get(dashboard.url, headers={"host": "evil.example"}, trust_env=False)
    assert answer.status_code == 421
    assert answer.text.startswith("host 'evil.example': is not this dashboard's; allowed: 127.0.0.1")

    async def connect() -> None:
        address, port = dashboard.url.removeprefix("http://").rstrip("/").split(":")
        url = f"ws://evil.example:{port}/live"
        async with websockets.connect(url, host=address, port=int(port), proxy=None):
            pass

    with pytest.raises(websockets.InvalidStatus) as refused:
        asyncio.run(connect())
    assert refused.value.response.status_code == 421


SECRET = "a-token-of-this-test"
HANDSHAKE = {
    "upgrade": "websocket", "connection": "Upgrade", "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
}  # fmt: skip
ADDRESSES = [
    "/", "/campaign", "/rig", "/history", "/live", "/api/campaigns", "/api/campaign", "/api/rig",
    "/api/power", "/api/io", "/api/samples", "/files/demo-1/report.html", "/metrics", "/healthz",
    "/static/js/main.js",
]  # fmt: skip


def request(dashboard: Dashboard, target: str, **headers: str) -> tuple[int, str]:
    """Status and text of the reply to a target as it stands: no client puts it in order."""
    address, port = dashboard.url.removeprefix("http://").rstrip("/").split(":")
    with contextlib.closing(http.client.HTTPConnection(address, int(port), timeout=60)) as connection:
        connection.putrequest("GET", target, skip_host=True)
        of_socket = HANDSHAKE if target.startswith("/live") else {}
        for name, value in {"host": f"{address}:{port}", **of_socket, **headers}.items():
            connection.putheader(name, value)
        connection.endheaders()
        reply = connection.getresponse()
        return reply.status, reply.read().decode()


@pytest.mark.parametrize("host", ["user@127.0.0.1", "127.0.0.1:{port}, evil", "127.0.0.1:{port}:80"])
def test_a_host_that_no_browser_sends_is_refused(running: Dashboard, host: str):
    port = running.url.rstrip("/").rpartition(":")[2]
    status, text = request(running, "/healthz", host=host.format(port=port))
    assert (status, text.count("\n")) == (421, 1)


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_address_answers_what_no_page_of_this_dashboard_asks(running: Dashboard, address: str):
    replies = {
        421: request(running, address, host="evil.example"),
        403: request(running, address, origin="http://evil.example"),
        400: request(running, f"{address}?token={SECRET}"),
        414: request(running, f"{address}?campaign={'x' * 5000}"),
    }
    assert [status for status, _ in replies.values()] == list(replies)
    for _, text in replies.values():
        assert text.count("\n") == 1
        assert len(text) < 400
        assert SECRET not in text
    assert SECRET not in running.log()


@pytest.mark.parametrize(
    "target",
    [
        "/files/demo-1/../../password", "/files/demo-1/%2e%2e/%2e%2e/password", "/files/../password",
        "/files/demo-1//etc/passwd", "/files/%2Fetc/passwd", "/files/demo-1/..%5c..%5cpassword",
        "/files/demo-1/journal.sqlite", "/files/.hidden/report.html", "/static/../config.py",
        "/static/js/%2e%2e/%2e%2e/config.py", "/static//etc/passwd", "//etc/passwd",
        "/files/x%00/report.html",
    ],
)  # fmt: skip
def test_no_path_leads_out_of_what_is_served(running: Dashboard, target: str):
    journal = running.results / "demo-1" / "journal.sqlite"
    journal.parent.mkdir(exist_ok=True)
    journal.write_text("secret")
    (running.results / ".hidden").mkdir(exist_ok=True)
    (running.results / ".hidden" / "report.html").write_text("secret")
    status, text = request(running, target)
    assert status == 404
    assert text.count("\n") <= 1
    assert "secret" not in text
    assert "root:" not in text


def test_a_flood_of_connections_keeps_no_client_out_and_a_page_goes_on(dashboard: Dashboard):
    address, port = dashboard.url.removeprefix("http://").rstrip("/").split(":")

    def health() -> int:
        return httpx.get(f"{dashboard.url}healthz", trust_env=False, timeout=30).status_code

    async def frames() -> None:
        url = dashboard.url.replace("http", "ws") + "live"
        async with websockets.connect(url, proxy=None) as page:
            await page.recv()
            held = [socket.create_connection((address, int(port))) for _ in range(500)]
            try:
                assert await asyncio.to_thread(health) == 200
                began = [await page.recv() for _ in range(8)]
                assert any(isinstance(message, bytes) for message in began)
            finally:
                for one in held:
                    one.close()

    asyncio.run(frames())
    assert "Traceback" not in dashboard.log()


def test_so_many_pages_can_be_open(dashboard: Dashboard):
    url = dashboard.url.replace("http", "ws") + "live"

    async def pages() -> str:
        async with contextlib.AsyncExitStack() as opened:
            for _ in range(MOST_PAGES):
                await opened.enter_async_context(websockets.connect(url, proxy=None))
            with pytest.raises(websockets.InvalidStatus) as refused:
                await opened.enter_async_context(websockets.connect(url, proxy=None))
            assert refused.value.response.status_code == 503
            return refused.value.response.body.decode()

    assert asyncio.run(pages()) == f"{MOST_PAGES} pages are open: close one\n"


def test_two_pages_get_the_same_frames(dashboard: Dashboard):
    async def frames() -> tuple[bytes, bytes]:
        url = dashboard.url.replace("http", "ws") + "live"
        async with websockets.connect(url, proxy=None) as one, websockets.connect(url, proxy=None) as two:

            async def sequence(connection: websockets.ClientConnection) -> list[bytes]:
                seen: list[bytes] = []
                while len(seen) < 8:
                    message = await connection.recv()
                    if isinstance(message, bytes):
                        seen.append(message[8:16])
                return seen

            return await asyncio.gather(sequence(one), sequence(two))

    one, two = asyncio.run(frames())
    assert len(set(one) & set(two)) >= 6


def start(config: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "joulerig.rig.dashboard", "--config", str(config)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"listen": "8080"}, "listen: '8080' is not ADDRESS:PORT"),
        (
            {"lsiten": "127.0.0.1:0"},
            "unknown key 'lsiten'; did you mean 'listen'? allowed: control_token_file,",
        ),
        ({"influx": {"url": "127.0.0.1:8086"}}, "influx.url: '127.0.0.1:8086'"),
        ({"influx": {"password_file": "/nonexistent"}}, "influx.password_file: /nonexistent: No such file"),
    ],
)
def test_a_wrong_configuration_is_refused_in_one_line(tmp_path: Path, change: dict, complaint: str):
    settings = Dashboard(tmp_path, "http://127.0.0.1:1").settings
    for key, value in change.items():
        settings[key] = settings[key] | value if isinstance(value, dict) else value
    config = tmp_path / "wrong.json"
    config.write_text(json.dumps(settings))
    done = start(config)
    assert done.returncode == 1
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
    assert str(config) in done.stderr


def test_a_port_in_use_is_named(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        config = tmp_path / "taken.json"
        config.write_text(json.dumps(Dashboard(tmp_path, "http://127.0.0.1:1", address).settings))
        done = start(config)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert f"listen: '{address}': Address already in use" in done.stderr


def test_prometheus_can_read_the_rigs_state(dashboard: Dashboard):
    answer = httpx.get(f"{dashboard.url}metrics", trust_env=False)
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    assert families["joulerig_powerd_up"].samples[0].value == 0


def watch(*words: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("rig")), "watch", "--once", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def test_a_terminal_shows_the_same(dashboard: Dashboard):
    done = watch("--url", dashboard.url)
    assert done.returncode == 0, done.stderr
    assert "no campaign" in done.stdout
    assert "No campaign yet" in done.stdout
    assert "InfluxDB cannot be reached" in done.stdout
    done = watch("x" * 300, "--url", dashboard.url)
    assert done.returncode == 2
    assert "refused: parameter 'campaign': has more than 200 characters" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_terminal_says_that_there_is_no_dashboard():
    done = watch("--url", f"http://127.0.0.1:{free_port()}/")
    assert done.returncode == 2
    assert "the dashboard cannot be reached: Connection refused" in done.stderr
    assert done.stderr.count("\n") == 1


@contextlib.contextmanager
def receiver() -> Iterator[tuple[str, list[dict]]]:
    """A web server that keeps what is posted to it: its address, and the bodies."""
    bodies: list[dict] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/secret-path", bodies
    server.shutdown()
    server.server_close()


def test_what_happens_is_posted_though_no_page_is_open(tmp_path: Path):
    dashboard = Dashboard(tmp_path, f"http://127.0.0.1:{free_port()}")
    with receiver() as (url, bodies):
        dashboard.settings |= {
            "notifications": [{"url": url, "on": ["begun", "failed", "finished"]}],
            "notified_file": str(tmp_path / "notified.json"),
        }
        dashboard.start()
        try:
            wait_for((tmp_path / "notified.json").exists, 10, "the first look is over")
            journal = WritableJournal(dashboard.results, "demo-20261126-120000", time.time_ns())
            [run, *_] = journal.plan()
            journal.event("begun", time.time_ns(), host="vhost1")
            journal.event("asked", time.time_ns(), to="pause")
            change = {"from": "running", "to": "failed", "reason": "fio: exit code 1"}
            journal.event("status", time.time_ns(), run, **change)
            wait_for(lambda: len(bodies) == 2, 20, "both are posted")
            dashboard.stop()
            journal.finish(time.time_ns())
            dashboard.start()
            wait_for(lambda: len(bodies) == 3, 20, "what happened meanwhile is posted")
            pages = [httpx.get(dashboard.url + path, trust_env=False).text for path in ("", "metrics")]
        finally:
            dashboard.stop()
            journal.close()
    assert [body["kind"] for body in bodies] == ["begun", "failed", "finished"]
    assert bodies[1]["why"] == "fio: exit code 1"
    assert not [page for page in pages if "secret-path" in page]
    assert "secret-path" not in dashboard.log()
