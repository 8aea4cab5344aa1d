# SPDX-License-Identifier: GPL-3.0-or-later
"""A real InfluxDB for the dashboard's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from dashboard_influxd import Influxd


@pytest.fixture
def influxd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Influxd]:
    server = Influxd(tmp_path_factory.mktemp("influxd"))
    try:
        server.start()
        server.prepare()
        yield server
    finally:
        server.stop()
