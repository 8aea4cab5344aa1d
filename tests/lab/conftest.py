# SPDX-License-Identifier: GPL-3.0-or-later
"""The tests' virtual lab: a real kernel, libsigrok, InfluxDB, and Ansible over SSH."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.host_picture import take_picture
from tests.support.lab_driver import WHOLE_LAB, Lab

LAST = "test_release_on_the_virtual_lab.py"  # after it the host has to be provisioned again


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name == LAST)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    running = Lab(tmp_path_factory.mktemp("lab"))
    try:
        done = running.rig("lab", "up", timeout=1500)
        assert done.returncode == 0, done.stderr
        if WHOLE_LAB:  # its release is compared with it
            running.picture = take_picture(running)
        done = running.rig("up", timeout=1500)
        assert done.returncode == 0, done.stderr
        yield running
    finally:
        running.rig("down")


@pytest.fixture(scope="session")
def campaign(lab: Lab) -> dict[str, Any]:
    """Run a small campaign with waveforms over two kinds of drives, by `rig run`."""
    before = lab.twins()
    playbook = lab.playbook(
        name="small",
        drives=["nvme-consumer", "sata-consumer"],
        factors={
            "filesystem": ["ext4", "f2fs"],
            "scheduler": ["none", "bfq"],
            "workload": ["randwrite-fsync"],
        },
        exclude=[
            {"drive": "sata-consumer", "scheduler": "bfq", "reason": "one scheduler is enough here"},
            {"drive": "nvme-consumer", "filesystem": "ext4", "scheduler": "bfq", "reason": "seen with f2fs"},
            {"drive": "nvme-consumer", "filesystem": "f2fs", "scheduler": "none", "reason": "seen with ext4"},
        ],
        waveforms={"max_megabytes": 4},
        phases={"rest_seconds": 3, "idle_seconds": 1, "workload_seconds": 4, "tail_seconds": 1},
    )
    done = lab.rig("run", str(playbook))
    assert done.returncode == 0, done.stdout + done.stderr
    return {"playbook": playbook, "output": done.stdout, "twins_before": before, **lab.results_of()}
