# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign over kernels built here, the first of which comes up without a network.

Of `make test-kernels`: kernels have to be built.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from joulerig.analysis import results
from joulerig.analysis.studies import mtime_interval
from tests.support.lab_driver import Lab

pytestmark = [
    pytest.mark.lab,
    pytest.mark.long,
    pytest.mark.timeout(4500),  # the kernels may have to be built
    pytest.mark.skipif("JOULERIG_KERNELS" not in os.environ, reason="make test-kernels runs these"),
]

SSD = "sata-consumer"
TICKS = {"hz100": 100, "hz1000": 1000}
UNREACHABLE = "/var/lib/unreachable"
# Takes the network away under the first of the rig's kernels that is started, and under no later
# one.
UNIT = f"""[Unit]
ConditionPathExists=/var/lib/joulerig/kernels/%v
ConditionPathExists=!{UNREACHABLE}
Before=ssh.service

[Service]
ExecStart=/bin/sh -c "uname -r >{UNREACHABLE}; sync {UNREACHABLE}; \
  systemctl mask --runtime --now --no-block systemd-networkd.socket systemd-networkd.service; \
  while ip link set eth0 down; do sleep 0.5; done"

[Install]
WantedBy=multi-user.target
"""


@pytest.fixture(scope="module")
def started(lab: Lab) -> dict[str, Any]:
    """Return results, output and console of eight runs: two blocks on two kernels."""
    own = lab.ssh("uname -r").strip()
    lab.ssh(
        f"cat >/etc/systemd/system/unreachable.service <<'END'\n{UNIT}END\n"
        "systemctl enable unreachable.service"
    )
    playbook = lab.playbook(
        name="kernels",
        drives=[SSD, "ram"],
        factors={
            "filesystem": ["ext4"],
            "scheduler": ["none"],
            "workload": ["overwrite-fsync"],
            "kernel": [*TICKS],
        },
        replicates=2,
        seed=7,
        slow_motion=2,  # asked for at a port that the kernel has to drive
        phases={"rest_seconds": 0, "idle_seconds": 1, "workload_seconds": 6, "tail_seconds": 0},
    )
    done = lab.rig("run", str(playbook), timeout=4400)
    console = lab.folder / "var" / "lab" / "vhost1" / "console.log"
    return {
        "own": own,
        "code": done.returncode,
        "output": done.stdout + done.stderr,
        "console": console.read_text(errors="replace"),
        "unreachable": lab.ssh(f"cat {UNREACHABLE}").strip(),
        **lab.results_of(),
    }


def test_every_run_ran_on_the_kernel_that_it_asked_for(lab, started):
    assert started["code"] == 0, started["output"]
    assert [run["status"] for run in started["runs"]] == [
        "ok"
    ] * 8  # the RAM block device too, gone with each boot
    for run in started["runs"]:
        folder = lab.results / started["campaign"] / "runs" / run["id"]
        ran = json.loads((folder / "settings.json").read_text())["host"]
        assert ran["tick_hertz"] == TICKS[run["factors"]["kernel"]]
        assert ran["kernel"] != started["own"]


def test_an_fsync_journals_the_inode_where_the_load_found_a_new_tick(lab, started):
    campaign = results.load(lab.results / started["campaign"])
    found = [point for point in mtime_interval.points(campaign) if point.run.drive == SSD]
    assert sorted(point.interval for point in found) == [0.001, 0.001, 0.01, 0.01]
    for point in found:
        assert point.kibibytes == pytest.approx(4 + 12 * point.counted, rel=mtime_interval.MODEL_MARGIN)


def test_an_unreachable_host_rebooted_alone_and_was_started_again(started):
    lines = [line for line in started["output"].splitlines() if "starting kernel" in line]
    lost = started["unreachable"]
    assert lost != started["own"]
    assert lost in lines[0]  # the first that was started is the one that lost its network
    assert lines[1].endswith(f"{lost}, second attempt")
    assert sum("second attempt" in line for line in lines) == 1
    assert "state DOWN" in started["console"]
    assert "sysrq: Show Blocked State" in started["console"]


def test_the_host_has_its_own_kernel_back_when_the_campaign_is_over(lab, started):
    assert lab.ssh("uname -r").strip() == started["own"]
    assert lab.ssh("systemctl is-active joulerig-kernel-guard.service || true").strip() == "inactive"
