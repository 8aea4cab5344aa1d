# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of all folders share."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.support.influxd import Influxd

pytest_plugins = ["tests.support.fake_host", "tests.support.lab_files"]
# A shell starts what runs in the background with SIGINT ignored, which every program that a test
# starts and interrupts would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)


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
