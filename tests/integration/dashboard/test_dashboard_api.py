# SPDX-License-Identifier: GPL-3.0-or-later
"""What pages fetch from the server: JSON and files, and what is refused."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from joulerig.rig.dashboard.app import PAGES
from tests.support.dashboard_journal import WritableJournal
from tests.support.dashboard_powerd import Powerd
from tests.support.dashboard_server import Dashboard
from tests.support.programs import free_port

NAME = "demo-20261126-120000"


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    dashboard = Dashboard(tmp_path_factory.mktemp("api"), f"http://127.0.0.1:{free_port()}")
    journal = WritableJournal(dashboard.results, NAME, time.time_ns())
    journal.plan()
    (journal.folder / "report").mkdir()
    (journal.folder / "report" / "report.html").write_text(
        "<style>p{}</style><p>report</p><script>1</script>"
    )
    (journal.folder / "report" / "report.pdf").write_bytes(b"%PDF-")
    (journal.folder / "demo.zip").write_bytes(b"PK")
    (Path(dashboard.folder) / "secret.html").write_text("secret")
    dashboard.start()
    yield dashboard
    dashboard.stop()
    journal.close()


def get(dashboard: Dashboard, target: str) -> httpx.Response:
    return httpx.get(dashboard.url + target, trust_env=False, timeout=30)


def raw(dashboard: Dashboard, target: str) -> str:
    """The answer to a target as it is: clients tidy what leads up and out."""
    address, port = dashboard.url.removeprefix("http://").rstrip("/").split(":")
    with socket.create_connection((address, int(port)), timeout=30) as opened:
        opened.sendall(
            f"GET {target} HTTP/1.1\r\nHost: {address}:{port}\r\nConnection: close\r\n\r\n".encode()
        )
        return b"".join(iter(lambda: opened.recv(65536), b"")).decode()


def test_every_page_is_the_same_shell(dashboard: Dashboard):
    shells = {get(dashboard, page.lstrip("/")).text for page in PAGES}
    assert len(shells) == 1
    assert get(dashboard, "campaign?campaign=x").status_code == 200


def test_campaigns_are_listed(dashboard: Dashboard):
    answer = get(dashboard, "api/campaigns")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-cache"
    (one,) = answer.json()["campaigns"]
    assert (one["id"], one["total"]) == (NAME, 4)
    assert [report["path"] for report in one["reports"]] == [
        "report/report.html", "report/report.pdf", "demo.zip",
    ]  # fmt: skip


def test_a_campaign_has_its_cells_and_events(dashboard: Dashboard):
    found = get(dashboard, f"api/campaign?campaign={NAME}").json()
    assert len(found["cells"]) == 4
    assert found["events"][0]["kind"] == "created"


@pytest.mark.parametrize(
    ("target", "status", "why"),
    [
        ("api/campaign?campaign=none", 404, "campaign 'none': there is none of this id"),
        ("api/campaign?campaign=..", 404, "campaign '..': there is none of this id"),
        ("api/campaign", 400, "parameter 'campaign': is missing"),
        ("api/campaign?campaign=" + "x" * 5000, 414, "the address has more than 1000 characters"),
        ("api/campaign?campaign=x&token=secret", 400, "parameter 'token': allowed: campaign"),
        ("api/campaigns?campaign=x", 400, "parameter 'campaign': allowed: none"),
        (f"files/{NAME}/report/report.html?token=secret", 400, "parameter 'token': allowed: none"),
        (f"files/{NAME}/journal.sqlite", 404, "there is no such file to open"),
    ],
)
def test_what_is_refused_is_refused_in_one_line(dashboard: Dashboard, target: str, status: int, why: str):
    answer = get(dashboard, target)
    assert (answer.status_code, answer.text) == (status, f"{why}\n")


def test_a_report_opens_in_a_sandbox(dashboard: Dashboard):
    answer = get(dashboard, f"files/{NAME}/report/report.html")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policies = answer.headers.get_list("content-security-policy")
    assert len(policies) == 1
    assert policies[0].startswith("sandbox ")
    assert "allow-scripts" not in policies[0]
    assert "allow-same-origin" not in policies[0]
    assert "default-src 'none'" in policies[0]
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_bundle_is_saved_under_its_name(dashboard: Dashboard):
    answer = get(dashboard, f"files/{NAME}/demo.zip")
    assert answer.content == b"PK"
    assert answer.headers["content-disposition"] == 'attachment; filename="demo.zip"'


@pytest.mark.parametrize(
    "target",
    [
        f"/files/{NAME}/../../secret.html", f"/files/{NAME}/%2e%2e/%2e%2e/secret.html",
        f"/files/{NAME}/..%2f..%2fsecret.html", "/files/../secret.html", "/files/%2e%2e/secret.html",
        f"/files/{NAME}//etc/passwd", f"/files/{NAME}/%2fetc%2fpasswd",
        f"/files/{NAME}/..%5c..%5csecret.html",
    ],
)  # fmt: skip
def test_no_address_leads_out_of_a_results_folder(dashboard: Dashboard, target: str):
    answer = raw(dashboard, target)
    assert answer.split()[1] == "404"
    assert "secret" not in answer.partition("\r\n\r\n")[2]
    assert "root:" not in answer


def test_the_last_samples_are_asked_of_powerd(dashboard: Dashboard):
    address = "api/samples?host=vhost1&drive=it's&seconds=2.5"
    away = get(dashboard, address)
    assert (away.status_code, away.text.count("\n")) == (503, 1)
    assert "the power daemon does not answer" in away.text
    powerd = Powerd(dashboard.socket, [])
    powerd.samples = {"rails": [{"rail": "12v", "volts": [12.0, None]}]}
    try:
        assert get(dashboard, address).json() == powerd.samples
        assert powerd.asked == ["/samples?host=vhost1&drive=it%27s&seconds=2.5"]
        powerd.samples = "meter psu is polled"
        refused = get(dashboard, address.replace("it's", "other"))
        assert (refused.status_code, refused.text) == (503, "the power daemon: meter psu is polled\n")
    finally:
        powerd.stop()
    for seconds in ("0", "5.1", "-1", "x", "1e0", "nan"):
        answer = get(dashboard, f"api/samples?host=h&drive=d&seconds={seconds}")
        assert answer.status_code == 400
        assert answer.text == f"parameter 'seconds': {seconds!r}; allowed: over 0, up to 5\n"
