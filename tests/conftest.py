# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of all folders share."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.influxd import Influxd

# Of integration/, what needs little of a processor, or only waits: `make test` runs it alongside
# the virtual lab's tests. The others measure times or rates, and have the machine for themselves.
ALONGSIDE_THE_LAB = {"analysis", "ansible", "dashboard", "docs", "grafana", "meters", "rig", "workloads"}
TIMED_FILES = {"test_families.py", "test_faults_of_a_capture.py"}  # of these folders
ALONGSIDE_FILES = {  # of the others
    "test_cortex_m.py",
    "test_cortex_m_energy.py",
    "test_delivery.py",
    "test_power_cut_campaign.py",
    "test_power_cuts_of_twins.py",
}
pytest_plugins = ["tests.support.fake_host", "tests.support.lab_files"]
# A shell starts what runs in the background with SIGINT ignored, which every program that a test
# starts and interrupts would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        suite, subject = item.path.relative_to(here).parts[:2]
        name = item.path.name
        by_subject = subject in ALONGSIDE_THE_LAB and name not in TIMED_FILES
        if suite == "unit" or (suite == "integration" and (by_subject or name in ALONGSIDE_FILES)):
            item.add_marker(pytest.mark.alongside)


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
