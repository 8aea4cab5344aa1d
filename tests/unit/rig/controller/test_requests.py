# SPDX-License-Identifier: GPL-3.0-or-later
"""What TLS trusts is read for TLS alone.

Reading it takes longer than a request to InfluxDB or powerd, of which each run of each host makes
some.
"""

from __future__ import annotations

import ssl

import pytest

from joulerig.analysis.results.influxdb.client import Client
from joulerig.rig.common.errors import UserError
from joulerig.rig.controller import influxdb, services


@pytest.fixture
def readings(monkeypatch):
    """Grows whenever certificates are read."""
    found = []
    monkeypatch.setattr(
        ssl.SSLContext, "load_verify_locations", lambda *_, **__: found.append("certificates")
    )
    return found


def test_a_client_of_plain_http_reads_no_certificates(readings):
    Client("http://127.0.0.1:1", "joulerig").close()
    assert readings == []


def test_a_client_of_https_verifies(readings):
    client = Client("https://127.0.0.1:1", "joulerig")
    assert readings
    client.close()


def test_whether_influxdb_serves_is_asked_without(readings, state, bench):
    with pytest.raises(UserError, match="does not answer"):
        influxdb.check(bench)
    assert readings == []


def test_powerd_is_asked_without(readings, state):
    with pytest.raises(UserError, match="powerd does not answer"):
        services.powerd_status()
    assert readings == []
