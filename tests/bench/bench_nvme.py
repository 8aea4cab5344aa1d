#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What it costs a virtual host that its NVMe drive is the controller that it sees.

The same fio jobs on the same twin, once behind QEMU's NVMe controller (NBD), once as the NVMe/TCP
controller that the host's kernel connects to: 4 KiB random writes, each made durable by O_DSYNC
(FUA, where the host may use it), with an fsync after each, or after each 32 of 32 at a time; 4 KiB
random reads, one and 32 at a time. Each at the machine's pace and in slow motion.

Of each job: operations a second (of the lab's), the host's processor time an operation, the
fraction of the time in which the drive set the pace, and what the twin counted for an operation:
bytes, flushes, writes with FUA.

Writes results/bench/nvme.json. Exit code: 0, or 2 if the bench could not run.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from tests.support import ROOT
from tests.support.lab_driver import Lab, copied_inventory

DRIVE = "nvme-consumer"
TRANSPORTS = ("qemu", "twin")
SLOWNESS = (1, 20)
SECONDS = {1: 3.0, 20: 1.0}  # of the lab
UP_SECONDS = 1500
JOBS = {
    "write, O_DSYNC": "--rw=randwrite --ioengine=psync --sync=dsync",
    "write and fsync": "--rw=randwrite --ioengine=psync --fsync=1",
    "write and fsync, 32": "--rw=randwrite --ioengine=libaio --iodepth=32 --fsync=32",
    "read": "--rw=randread --ioengine=libaio --iodepth=1",
    "read, 32": "--rw=randread --ioengine=libaio --iodepth=32",
}
COUNTED = ("read_bytes", "write_bytes", "flushes", "fua_writes")
# On the host. Slow motion is asked for longer than the job takes, and given back. What is measured
# lies within the job: fio's own start takes an emulated processor as long as many operations.
SCRIPT = """
import json, subprocess, sys, time
job, slowness, serial, seconds = json.loads(sys.argv[1])
disks = json.loads(subprocess.check_output(["lsblk", "--json", "--nodeps", "--output", "NAME,SERIAL"]))
[disk] = [d["name"] for d in disks["blockdevices"] if d["serial"] == serial]

def ask(line):
    port.write(line)
    port.readline()

def sample():
    user, nice, system, idle, iowait, irq, softirq = map(int, open("/proc/stat").readline().split()[1:8])
    stat = list(map(int, open(f"/sys/block/{disk}/stat").read().split()))
    return time.monotonic(), stat[0] + stat[4], (user + nice + system + irq + softirq) / 100

port = open("/dev/virtio-ports/joulerig.clock", "r+b", buffering=0) if slowness > 1 else None
fio = ["fio", "--name=job", f"--filename=/dev/{disk}", "--bs=4k", "--direct=1", "--norandommap"]
fio += ["--time_based", "--randrepeat=0", "--output-format=json", f"--runtime={2 * seconds}", *job.split()]
first = sample()[1]
if port:
    ask(f"slow {slowness} 600\\n".encode())
load = subprocess.Popen(fio, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
while sample()[1] < first + 50 and load.poll() is None:
    time.sleep(0.05)
begin = sample()
time.sleep(seconds)
end = sample()
text, error = load.communicate()
if port:
    ask(b"slow 1 0\\n")
if load.returncode:
    sys.exit(error)
report = json.loads(text)["jobs"][0]
side = report["read"] if report["read"]["total_ios"] else report["write"]
print(json.dumps({
    "seconds": end[0] - begin[0], "ops": end[1] - begin[1], "busy": end[2] - begin[2],
    "all_ops": side["total_ios"], "all_seconds": side["runtime"] / 1000,
    "mean_us": side["clat_ns"]["mean"] / 1000,
}))
"""


class CannotRunError(Exception):
    """What could not be measured; its text is one line for the user."""


def inventory(folder: Path, transport: str) -> Path:
    """The shipped lab with one drive, behind one of the two controllers."""

    def one_drive(host: dict[str, Any]) -> None:
        host["virtual"]["nvme"] = transport
        host["drives"] = {DRIVE: host["drives"][DRIVE]}
        host.pop("arrays", None)

    return copied_inventory(folder, one_drive)


def run_job(lab: Lab, inventory: Path, job: str, slowness: int) -> dict[str, Any]:
    """Run a job on the lab's host; return its figures."""

    def counters() -> dict[str, Any]:
        status = lab.rig("lab", "status", "--json", inventory=inventory)
        return dict(json.loads(status.stdout)["twins"][f"vhost1/{DRIVE}"]["counters"])

    described = yaml.safe_load((inventory.parent / "host_vars" / "vhost1.yml").read_text())
    words = json.dumps([job, slowness, described["drives"][DRIVE]["serial"], SECONDS[slowness]])
    packed = base64.b64encode(SCRIPT.encode()).decode()
    command = f"echo {packed} | base64 -d > /tmp/job.py; python3 /tmp/job.py '{words}'"
    before = counters()
    done = lab.rig("lab", "ssh", "vhost1", "--", command, inventory=inventory)
    if done.returncode:
        raise CannotRunError(f"{job}: {(done.stderr.strip().splitlines() or ['no output'])[-1]}")
    seen = json.loads(done.stdout)
    after = counters()
    ops = seen["ops"]  # of what was sampled; the twin's are all
    device_bound_ns = after["device_bound_ns"] - before["device_bound_ns"]
    return {
        "ops_per_second": round(ops / seen["seconds"], 1),
        "mean_latency_us": round(seen["mean_us"], 1),
        "host_cpu_us_per_op": round(1e6 * seen["busy"] / ops, 1),
        "device_bound_fraction": round(device_bound_ns / (seen["all_seconds"] * 1e9), 3),
        "per_op": {name: round((after[name] - before[name]) / seen["all_ops"], 3) for name in COUNTED},
    }


def measure(folder: Path, transport: str, slownesses: list[int]) -> dict[str, Any]:
    """Bring a lab up with one of the two controllers; return each job's figures."""
    place = folder / transport
    place.mkdir()
    lab, path = Lab(place), inventory(place / "inventory", transport)
    try:
        done = lab.rig("lab", "up", inventory=path, timeout=UP_SECONDS)
        if done.returncode:
            raise CannotRunError(f"{transport}: {(done.stderr.strip().splitlines() or ['no output'])[-1]}")
        return {
            f"k={slowness}": {name: run_job(lab, path, job, slowness) for name, job in JOBS.items()}
            for slowness in slownesses
        }
    finally:
        lab.rig("lab", "down", inventory=path)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "results/bench/nvme.json")
    parser.add_argument("--transport", choices=TRANSPORTS, action="append")
    parser.add_argument("--slow-motion", type=int, choices=SLOWNESS, action="append")
    arguments = parser.parse_args()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="nvme-") as folder:
        try:
            for transport in arguments.transport or TRANSPORTS:
                found[transport] = measure(Path(folder), transport, arguments.slow_motion or list(SLOWNESS))
                print(json.dumps({transport: found[transport]}, indent=1))
        except CannotRunError as error:
            print(error, file=sys.stderr)
            return 2
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
