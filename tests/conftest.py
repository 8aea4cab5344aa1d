# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of all folders share. That this file is here lets them import the modules beside it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from influxd import Influxd


@pytest.fixture(scope="session")
def influxd_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Influxd]:
    """One influxd for all tests: for fixtures that outlive a test. They empty() it themselves."""
    with Influxd(tmp_path_factory.mktemp("influxd")) as server:
        yield server


@pytest.fixture
def influxd(influxd_server: Influxd) -> Influxd:
    """A real InfluxDB whose database is empty."""
    influxd_server.start()  # after a test that stopped it
    influxd_server.empty()
    return influxd_server
