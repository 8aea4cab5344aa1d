# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab that is made up, measured into a real InfluxDB by the rig's own programs.

An emulated instrument by srcap and powerd; a captured test host by iod; a run by what executes one
on a host: its phases, its load by flowop; its result by the controller.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path

import httpx

from ansible.module_utils.joulerig.phases import Phases
from joulerig.analysis.results.influxdb.schema import Writer
from joulerig.rig.campaign.execution import result_points
from tests.support import ROOT
from tests.support.influxd import Influxd
from tests.support.power_processes import SRCAP, Emulator, Powerd, settings_of
from tests.support.programs import built, end, wait_for

HOST, DRIVE, METER = "vhost1", "sata-plp", "tap1"
CAMPAIGN = "demo-20261126-120000"
RUN = f"{CAMPAIGN}-0001"
AGENT = Writer.HOST.database(Influxd.database, HOST)  # the database that it writes
SECONDS = 4  # of the load; rates need points in more than one interval of a second
CAPTURED = ROOT / "collectors" / "internal" / "testdata" / "host1"
HEALTH = {
    "logical_block_size": 512,
    "temperature": {"current": 31},
    "power_on_time": {"hours": 123},
    "ata_device_statistics": {
        "pages": [
            {
                "number": 1,
                "table": [{"name": "Logical Sectors Written", "value": 2000, "flags": {"valid": True}}],
            },
            {
                "number": 4,
                "table": [
                    {
                        "name": "Number of Reported Uncorrectable Errors",
                        "value": 0,
                        "flags": {"valid": True},
                    }
                ],
            },
            {
                "number": 7,
                "table": [
                    {"name": "Percentage Used Endurance Indicator", "value": 3, "flags": {"valid": True}}
                ],
            },
        ]
    },
}


def measure(influxd: Influxd, folder: Path) -> tuple[int, int]:
    """Measure a run; return when that began and ended, ns, all points in the database by then."""
    begin = time.time_ns()
    (folder / "password").write_text(influxd.writer[1])
    influx = {
        "url": influxd.url,
        "database": influxd.power,
        "username": influxd.writer[0],
        "password_file": str(folder / "password"),
        "flush_interval_seconds": 0.2,
    }
    with Emulator() as instrument:
        power = Powerd(folder, _powerd(folder, influx, instrument.driver))
        agent = subprocess.Popen([built("iod"), "--config", str(_iod(folder, influx | {"database": AGENT}))])
        try:
            power.wait_state(METER, "streaming", 30)
            wait_for((folder / "iod.sock").exists, 10, "the agent's socket")
            _execute(folder / "iod.sock")
        finally:
            end(agent, 15)
            power.stop()
    _publish(influxd, begin)
    return begin, time.time_ns()


def _powerd(folder: Path, influx: dict[str, object], driver: str) -> dict[str, object]:
    rail = {"rail": "5v", "host": HOST, "drive": DRIVE, "volts": "CH1", "amps": "CH2"}
    meter = {
        "name": METER, "driver": driver, "set": settings_of(driver), "sample_rate_hz": 1000,
        "samples": "window-mean", "rails": [rail],
    }  # fmt: skip
    return {
        "state_dir": str(folder / "powerd"),
        "srcap": SRCAP,
        "status_socket": str(folder / "status.sock"),
        "points_per_second": 10,
        "influx": influx,
        "meters": [meter],
    }


def _iod(folder: Path, influx: dict[str, object]) -> Path:
    host = folder / "host"
    shutil.copytree(CAPTURED, host, symlinks=True)
    smartctl = folder / "smartctl"
    smartctl.write_text(f"#!/bin/sh\necho '{json.dumps(HEALTH)}'\n")
    smartctl.chmod(0o755)
    config = {
        "host": HOST,
        "interval_seconds": 0.1,
        "hostload_interval_seconds": 0.5,
        "smartctl": str(smartctl),
        "spool_dir": str(folder / "spool"),
        "socket": str(folder / "iod.sock"),
        "influx": influx,
        "drives": [{"name": DRIVE, "serial": "JRSAP0001"}],
        "proc_root": str(host / "proc"),
        "sys_root": str(host / "sys"),
        "dev_root": str(host / "dev"),
    }
    path = folder / "iod.json"
    path.write_text(json.dumps(config))
    return path


def _execute(agent: Path) -> None:
    tags = {"campaign": CAMPAIGN, "run": RUN, "host": HOST, "drive": DRIVE}
    phases = Phases(str(agent), tags, {"offset_ns": 1000, "error_ns": 50_000})
    now = time.time_ns()
    round_ = {"number": 1, "ops": 5000, "start_ns": now - 10**9, "end_ns": now}
    phases.round(round_, at_most=5)
    load = [
        "run", "varmail", "--null", "--directory", str(agent.parent), "--seconds", str(SECONDS),
        "--set", "nfiles=100", "--set", "nthreads=2",
    ]  # fmt: skip
    with phases.phase("workload"):
        subprocess.run([built("flowop"), *load, *phases.words()], check=True, stdout=subprocess.PIPE)
    phases.over()


def _publish(influxd: Influxd, begin: int) -> None:
    line = result_points.point(
        {
            "campaign": CAMPAIGN, "run": RUN, "host": HOST, "drive": DRIVE, "filesystem": "ext4",
            "scheduler": "none", "workload": "varmail", "cell": f"{DRIVE}/ext4/none/varmail", "status": "ok",
            "reason": "", "start_ns": begin, "end_ns": time.time_ns(), "seconds": float(SECONDS),
            "ops": 9000, "ops_per_second": 2250.0, "mb_per_second": 3.5, "joules": 12.0, "joules_low": 11.9,
            "joules_high": 12.1, "mean_watts": 3.0, "ai_ops_per_joule": 750.0, "ai_mb_per_joule": 1.2,
        }
    )  # fmt: skip
    written = httpx.post(
        f"{influxd.url}/write",
        params={"db": influxd.results},
        content=line,
        auth=influxd.writer,
        trust_env=False,
    )
    assert written.status_code == 204, written.text
