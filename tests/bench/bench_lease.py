#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a wipe lease costs a run, on a host with many disks and processes.

The host is a tree of files, as in the tests: 24 disks and 2000 processes of 20 open files each,
every one of which is looked at. The drive holds a file system that the rig made, so that wipefs is
run as on a real one. A run takes one lease, checks it before mkfs, and records what mkfs made.

Exit code: 0 if the median is within the bar, 1 if not.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support import ROOT
from tests.support.fake_host import FakeHost

BAR_SECONDS = 0.3
DISKS, PROCESSES, FILES = 24, 2000, 20
MIB = 1 << 20
SPEC = {"name": "drive-0", "interface": "nvme", "serial": "SERIAL-0", "wwn": None, "size_bytes": 64 * MIB}


def build(folder):
    host = FakeHost(folder)
    for number in range(DISKS):
        host.disk(f"nvme{number}n1", f"SERIAL-{number}", bytes_=64 * MIB)
    for process in range(1_000_000, 1_000_000 + PROCESSES):
        place = host.proc / str(process) / "fd"
        place.mkdir(parents=True)
        for number in range(FILES):
            (place / str(number)).symlink_to("/dev/null")
    image = host.dev / "nvme0n1"
    image.write_bytes(b"")
    subprocess.run(["truncate", "-s", str(64 * MIB), image], check=True)
    return host


def measure(host, times):
    from ansible.module_utils.joulerig import paths
    from ansible.module_utils.joulerig.drives import filesystem, wipe_lease

    paths.DRIVES = str(host.sys.parent / "drives.json")
    ext4 = {"name": "ext4", "type": "ext4", "mkfs": ["mkfs.ext4", "-q", "-F"], "mount_options": []}
    seconds = []
    for _ in range(times):
        made = 0.0
        before = time.perf_counter()
        with wipe_lease.lease_drive(SPEC, host.system()) as lease:
            run, filesystem.run = filesystem.run, lambda command: None
            if not seconds:  # the first one blank, the others with what the rig made
                filesystem.run = run
                began = time.perf_counter()
                filesystem.make(lease, ext4)
                made = time.perf_counter() - began
            else:
                filesystem.make(lease, ext4)
            filesystem.run = run
        seconds.append(time.perf_counter() - before - made)
    return seconds[1:]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=11)
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "bench" / "lease.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="jr") as folder:
        seconds = measure(build(Path(folder)), arguments.times)
    result = {
        "disks": DISKS,
        "processes": PROCESSES,
        "open_files": PROCESSES * FILES,
        "seconds_median": round(statistics.median(seconds), 4),
        "seconds_min": round(min(seconds), 4),
        "seconds_max": round(max(seconds), 4),
        "bar_seconds": BAR_SECONDS,
    }
    holds = result["seconds_median"] <= BAR_SECONDS
    arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    print(
        f"{DISKS} disks, {PROCESSES} processes with {FILES} open files each\n"
        f"a run's lease: {result['seconds_median']:.3f} s (from {result['seconds_min']:.3f} to"
        f" {result['seconds_max']:.3f}), at most {BAR_SECONDS} s\n{'holds' if holds else 'DOES NOT HOLD'}"
    )
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
