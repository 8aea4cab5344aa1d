#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a wipe lease costs a run, on a host with many disks and processes.

The host is a tree of files, as in the tests: 24 disks, 400 units of systemd, and 2000 processes of
80 mappings and 20 open files each, of which 3 are sockets; all are looked at. The drive holds a
file system that the rig made, so that wipefs is run as on a real one. A run takes one lease, checks
it before mkfs, and records what mkfs made. The lease watches the drive for a second and makes most
of its other checks meanwhile: the result is the time in addition to that second.

Exit code: 0 if the median is within the bar, 1 if not.
"""

import argparse
import json
import socket
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
SOCKETS, MAPPINGS, UNITS = 3, 80, 400  # of each process, of each process, of the host
MIB = 1 << 20
SPEC = {"name": "drive-0", "interface": "nvme", "serial": "SERIAL-0", "wwn": None, "size_bytes": 64 * MIB}
MAPPING = "7f6517f98000-7f6517f99000 r-xp 00000000 fe:00 325737                     /usr/lib/libc.so.6\n"
SHARED = "7f6518e35000-7f6518e3c000 r--s 00000000 fe:00 325738                     /usr/lib/gconv.cache\n"


def build(folder):
    host = FakeHost(folder)
    for number in range(DISKS):
        host.disk(f"nvme{number}n1", f"SERIAL-{number}", bytes_=64 * MIB)
    for process in range(1_000_000, 1_000_000 + PROCESSES):
        base = host.proc / str(process)
        place = base / "fd"
        place.mkdir(parents=True)
        (base / "task" / str(process)).mkdir(parents=True)
        host.put(base / "maps", MAPPING * (MAPPINGS - 1) + SHARED)
        for number in range(FILES - SOCKETS):
            (place / str(number)).symlink_to("/dev/null")
        for number in range(FILES - SOCKETS, FILES):
            with socket.socket(socket.AF_UNIX) as one:
                one.bind(str(base / f"s{number}"))
            (place / str(number)).symlink_to(base / f"s{number}")
            host.put(base / f"fdinfo/{number}", "pos:\t0\nflags:\t02000002\nmnt_id:\t10\nscm_fds: 0\n")
    for number in range(UNITS):
        path = host.etc.parent / f"usr/lib/systemd/system/unit-{number}.service"
        host.put(
            path, "[Unit]\nDescription=A unit\nAfter=local-fs.target\n\n[Service]\nExecStart=/bin/true\n" * 4
        )
    image = host.dev / "nvme0n1"
    image.write_bytes(b"")
    subprocess.run(["truncate", "-s", str(64 * MIB), image], check=True)
    return host


def measure(host, times):
    from ansible.module_utils.joulerig import paths
    from ansible.module_utils.joulerig.drives import filesystem, wipe_lease
    from ansible.module_utils.joulerig.drives.uses import stillness

    paths.DRIVES = str(host.sys.parent / "drives.json")
    ext4 = {"name": "ext4", "type": "ext4", "mkfs": ["mkfs.ext4", "-q", "-F"], "mount_options": []}
    seconds = []
    for _ in range(times):
        made = 0.0
        before = time.perf_counter()
        with wipe_lease.lease_drive(SPEC, host.system()) as lease:
            run, filesystem.run = filesystem.run, lambda command, **_: None
            if not seconds:  # the first one blank, the others with what the rig made
                filesystem.run = run
                began = time.perf_counter()
                filesystem.make(lease, ext4)
                made = time.perf_counter() - began
            else:
                filesystem.make(lease, ext4)
            filesystem.run = run
        seconds.append(time.perf_counter() - before - made - stillness.STILL_SECONDS)
    return seconds[1:]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=11)
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "bench" / "lease.json")
    arguments = parser.parse_args()
    from ansible.module_utils.joulerig.drives.uses import stillness

    with tempfile.TemporaryDirectory(prefix="jr") as folder:
        seconds = measure(build(Path(folder)), arguments.times)
    result = {
        "disks": DISKS,
        "processes": PROCESSES,
        "open_files": PROCESSES * FILES,
        "mappings": PROCESSES * MAPPINGS,
        "seconds_median": round(statistics.median(seconds), 4),
        "seconds_min": round(min(seconds), 4),
        "seconds_max": round(max(seconds), 4),
        "bar_seconds": BAR_SECONDS,
    }
    holds = result["seconds_median"] <= BAR_SECONDS
    arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    print(
        f"{DISKS} disks, {PROCESSES} processes with {FILES} open files and {MAPPINGS} mappings each\n"
        f"a run's lease, in addition to {stillness.STILL_SECONDS:g} s in which the drive is watched:"
        f" {result['seconds_median']:.3f} s (from {result['seconds_min']:.3f} to"
        f" {result['seconds_max']:.3f}), at most {BAR_SECONDS} s\n{'holds' if holds else 'DOES NOT HOLD'}"
    )
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
