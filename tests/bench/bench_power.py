#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the power path costs at four channels of 1 MS/s, and whether it loses anything.

Two instances of the emulated instrument (tests/support/emulated_hmo.py, 20 ms windows over TCP) run
side by side. One feeds powerd and its srcap, which multiply, integrate and write to a real influxd;
the other bare_sigrok.c, the least that a libsigrok client can do: it counts the samples and throws
them away. Both run over the same seconds and in the same scheduling class, so whatever else the
machine does falls on both (docs/decisions/051-power-path-costs.md). CPU is the kernel's account of
each process at its end (user and system time, powerd's with srcap's), from its start to its end. It
is compared by the sample: on a busy machine one instrument comes later than the other, and its
client then has less to do. `cpu_seconds_srcap` is what srcap took of ours until shortly before its
end.

Lost are the samples that the instrument had made by the time of the last point and that are not in
the joules, counted from the first one delivered; the joules are compared with those of the
instrument's waveform.

Exit code: 0 if nothing was lost and the ratio is within the bar, 1 if not, 2 if the bench could not
run.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support import ROOT
from tests.support.emulated_hmo import true_joules
from tests.support.influxd import Influxd
from tests.support.power_processes import SRCAP, Emulator, Powerd, settings_of

CHANNELS = 4
RATE = 1_000_000
BAR = 1.5


def cpu_seconds(process):
    """User and system time of a process that ends now, and of those that it waited for."""
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return usage.ru_utime + usage.ru_stime


def cpu_seconds_of_children(process):
    """Return what the children of a running process have taken, all threads together."""
    taken = 0
    for children in Path(f"/proc/{process.pid}/task").glob("*/children"):
        for child in children.read_text().split():
            threads = Path(f"/proc/{child}/task").glob("*/schedstat")
            taken += sum(int(thread.read_text().split()[0]) for thread in threads)
    return taken * 1e-9


def measure(folder, seconds, bare):
    with (
        Influxd(folder / "influxd") as influx,
        Emulator(rate=RATE) as ours,
        Emulator(rate=RATE) as theirs,
    ):
        for instrument in (ours, theirs):
            instrument.run_with_real_time_priority()
        user, password = influx.writer
        secret = folder / "password"
        secret.write_text(password)
        secret.chmod(0o600)
        access = {
            "url": influx.url,
            "database": influx.power,
            "username": user,
            "password_file": str(secret),
        }
        config = {
            "state_dir": str(folder / "powerd"),
            "srcap": SRCAP,
            "status_socket": str(folder / "status.sock"),
            "influx": access,
            "meters": [
                {
                    "name": "bench",
                    "driver": ours.driver,
                    "set": settings_of(ours.driver),
                    "sample_rate_hz": RATE,
                    "samples": "window-mean",
                    "rails": [
                        {"rail": "12v", "host": "h", "drive": "d", "volts": "CH1", "amps": "CH2"},
                        {"rail": "5v", "host": "h", "drive": "d", "volts": "CH3", "amps": "CH4"},
                    ],
                }
            ],
        }
        client = subprocess.Popen(
            [bare, f"tcp-raw/127.0.0.1/{theirs.port}", str(seconds)], stdout=subprocess.PIPE
        )
        # As srcap does it, which asks its instrument in time: whom a request wakes pays for it.
        with contextlib.suppress(PermissionError):
            least = os.sched_param(os.sched_get_priority_min(os.SCHED_RR))
            os.sched_setscheduler(client.pid, os.SCHED_RR, least)
        powerd = Powerd(folder, config)
        time.sleep(seconds)
        status = powerd.meter("bench")
        srcap_cpu = cpu_seconds_of_children(powerd.process)
        powerd.process.terminate()
        bare_cpu, our_cpu = cpu_seconds(client), cpu_seconds(powerd.process)
        counted = [int(n) for n in client.stdout.read().split()]
        powerd.log.close()
        ends = {
            rail: influx.rows(f"SELECT * FROM power WHERE rail='{rail}' ORDER BY time")
            for rail in ("12v", "5v")
        }
        return status, our_cpu, srcap_cpu, bare_cpu, counted, ends, powerd.log_path.read_text()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "bench" / "power.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="jr") as folder:
        folder = Path(folder)
        bare = folder / "bare_sigrok"
        flags = subprocess.run(
            ["pkg-config", "--cflags", "--libs", "libsigrok", "glib-2.0"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        subprocess.run(
            ["cc", "-O2", "-o", bare, Path(__file__).with_name("bare_sigrok.c"), *flags], check=True
        )
        status, our_cpu, srcap_cpu, bare_cpu, counted, ends, log = measure(folder, arguments.seconds, bare)
    if status is None or not counted or min(counted) == 0:
        print(f"bench-power: nothing was measured\n{log}", file=sys.stderr)
        return 2
    lost = status["lost"] + status["duplicate"] + status["over_range"] + status["surplus"]
    worst = 0.0
    seconds = 0.0
    for number, rows in enumerate(ends.values(), start=1):
        first, last = rows[0], rows[-1]
        seconds = (last["time"] - first["time"]) * 1e-9
        # The waveform repeats each millisecond: where in it the first sample lay costs less than
        # one of them.
        true = true_joules(number, last["samples"], RATE)
        worst = max(worst, abs(last["joules"] / true - 1))
        # By the controller's clock, and not by what was received.
        due = seconds * RATE
        lost = max(lost, round(due - last["samples"]) if due - last["samples"] > 100e-6 * due else 0)
    result = {
        "channels": CHANNELS,
        "rate_per_channel_hz": RATE,
        "seconds": round(seconds, 3),
        "samples": status["samples"] * CHANNELS,
        "samples_lost": lost,
        "cpu_seconds_ours": round(our_cpu, 4),
        "cpu_seconds_srcap": round(srcap_cpu, 4),
        "cpu_seconds_bare": round(bare_cpu, 4),
        "samples_bare": sum(counted),
        "cpu_ratio": round(our_cpu / (status["samples"] * CHANNELS) / (bare_cpu / sum(counted)), 3),
        "joules_error": worst,
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    print(
        f"ours: srcap + powerd  {our_cpu:7.3f} s of CPU in {seconds:.1f} s, srcap {srcap_cpu:.3f} s of it,"
        f" {status['samples']} samples a channel"
    )
    print(f"bare libsigrok client {bare_cpu:7.3f} s of CPU, {min(counted)} samples a channel")
    print(f"ratio {result['cpu_ratio']} by the sample (bar {BAR})")
    print(f"lost {lost} samples; joules off by {worst:.2e}")
    holds = lost == 0 and result["cpu_ratio"] <= BAR and seconds >= 0.97 * arguments.seconds - 2
    print("holds" if holds else "DOES NOT HOLD")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
