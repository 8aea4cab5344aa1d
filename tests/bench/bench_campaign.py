#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fifty test hosts at once from one controller over SSH, and what a run takes outside its phases.

Each host is a program in namespaces of this machine (tests/support/contained_host.py) with a drive,
an agent and an SSH server, on a loopback network apart from the machine's. `rig run` executes the
shipped playbook: Ansible, identity check, wipe lease, mkfs, fio for one second, InfluxDB, journal.
Not as on a bench: the drives are loop devices without rails, so that no joules are waited for, and
there is no systemd, so that a run has a keeper in place of a unit.

The overhead of a run is the time from the end of its host's run before to its own end, less the
phases that the journal has of it; the median of all runs but each host's first counts. The bar is
for a host that is the controller itself, and so without SSH. Fifty hosts share this machine's
processors, as fifty machines would not: their figure says how fast one controller serves them, not
what a run takes on a bench.

The racing figures are those of `make bench-racing`, simulated by this program too.

Exit code: 0 if all bars hold and each run was executed once, 1 if not, 2 if the bench could not
run.
"""

import argparse
import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from joulerig.rig.common import paths
from joulerig.rig.lab import model
from tests.bench import racing
from tests.support import ROOT
from tests.support.contained_lab import (
    REAPING,
    ContainedLab,
    raise_loopback,
    run_inside,
    serving,
    write_playbook,
)

MODULE = "tests.bench.bench_campaign"
RIG = [sys.executable, "-m", "joulerig.rig.cli.main"]
PROGRAMS = ("/usr/sbin/sshd", "ssh", "influxd", "fio", "mkfs.ext4", "losetup", "unshare")
HOSTS = 50
RUNS = 6  # of each host
LOCAL_RUNS = 12
BAR_SECONDS = 2.0  # of a run on the controller itself, outside its phases
SECOND = 1_000_000_000


class CannotRun(Exception):
    """The bench lacks something; its text is one line for the user."""


def campaign(runs, hosts):
    """A campaign of one cell for each host, of which there are so many runs."""
    return {
        "name": "bench",
        "question": "How many hosts does a controller serve?",
        "drives": [one.drive for one in hosts],
        "factors": {"filesystem": ["ext4"], "scheduler": ["none"], "workload": ["randwrite-fsync"]},
        "replicates": runs,
        # One host's work loads the processors of all.
        "phases": {"rest_seconds": 0, "idle_seconds": 0, "workload_seconds": 1, "tail_seconds": 0},
        "holds": {"host_load": None},  # all hosts, and their controller, share these processors
    }


def execute(playbook):
    """Execute the campaign of a playbook on the lab of this process."""
    subprocess.run([*RIG, "run", str(playbook)], cwd=ROOT, stdout=subprocess.DEVNULL, check=False)


def measure_hosts(folder, hosts, runs):
    """Execute a campaign on hosts that are reached by SSH; return its runs (`read`)."""
    lab = ContainedLab(folder, {f"h{number:02}": f"127.0.1.{number}" for number in range(1, hosts + 1)})
    playbook = write_playbook(folder / "bench.yml", campaign(runs, lab.hosts))
    described = model.load(lab.inventory)
    with serving(described), lab.running(described):
        execute(playbook)
    return read(folder)


def measure_local(folder, runs):
    """Execute a campaign on a host that is the controller itself; return its runs (`read`)."""
    lab = ContainedLab(folder, {"here": ""})
    playbook = write_playbook(folder / "bench.yml", campaign(runs, lab.hosts))
    [host] = lab.hosts
    command = [*REAPING, sys.executable, "-m", MODULE, "--on-controller", str(playbook)]
    with lab.started(host, model.load(lab.inventory), command) as process:
        process.wait()
    return read(folder)


def read(folder):
    """Return each run of a campaign, with its attempts and phases, in the order of their ends."""
    journals = list((folder / "results").glob("*/journal.sqlite"))
    if not journals:
        raise CannotRun(f"no campaign began; {last_words(folder)}")
    with closing(sqlite3.connect(journals[0])) as database:
        database.row_factory = sqlite3.Row
        runs = [dict(row) for row in database.execute("SELECT * FROM run ORDER BY ended_ns")]
        for run in runs:
            of_run = (run["id"],)
            counted = database.execute("SELECT count(*) FROM attempt WHERE run = ?", of_run)
            run["attempts"] = counted.fetchone()[0]
            rows = database.execute("SELECT * FROM phase WHERE run = ? ORDER BY start_ns", of_run)
            run["phases"] = [dict(row) for row in rows]
    return runs


def last_words(folder):
    """Return the last line of the newest log of a lab."""
    logs = [*folder.glob("var/log/*.log"), *folder.glob("memory/*/log")]
    for log in sorted(logs, key=lambda one: one.stat().st_mtime, reverse=True):
        if lines := log.read_text(errors="replace").split("\n")[:-1]:
            return f"{log.name}: {lines[-1]}"
    return "no log says why"


def overheads(runs):
    """Return, of each run but a host's first, its seconds outside its phases, and where they go."""
    found, last = [], {}
    for run in runs:
        before, last[run["host"]] = last.get(run["host"]), run
        if before is None or not run["phases"]:
            continue
        inside = sum(one["end_ns"] - one["start_ns"] for one in run["phases"])
        first, end = run["phases"][0]["start_ns"], run["phases"][-1]["end_ns"]
        nanoseconds = {
            "overhead": run["ended_ns"] - before["ended_ns"] - inside,
            "until taken": run["started_ns"] - before["ended_ns"],
            "until its first phase": first - run["started_ns"],
            "between its phases": end - first - inside,
            "until recorded": run["ended_ns"] - end,
        }
        found.append({name: value / SECOND for name, value in nanoseconds.items()})
    return found


def at_once(runs):
    """Return the most runs that were under way at a time."""
    events = [(run["started_ns"], 1) for run in runs] + [(run["ended_ns"], -1) for run in runs]
    now = most = 0
    for _, change in sorted(events):
        now += change
        most = max(most, now)
    return most


def figures(runs):
    """Return the figures of a campaign's runs."""
    ended = [run for run in runs if run["ended_ns"]]
    spent = overheads(ended)
    medians = {name: round(statistics.median(one[name] for one in spent), 3) for name in spent[0]}
    return {
        "runs": len(runs),
        "ok": sum(run["status"] == "ok" for run in runs),
        "not_ok": [f"{run['id']}: {run['status']}: {run['reason']}" for run in runs if run["status"] != "ok"],
        "doubled": sum(run["attempts"] > 1 for run in runs),
        "at_once": at_once(ended),
        "seconds": round((ended[-1]["ended_ns"] - min(run["started_ns"] for run in ended)) / SECOND, 1),
        "overhead_seconds": medians.pop("overhead"),
        "worst_overhead_seconds": round(max(one["overhead"] for one in spent), 3),
        "where": medians,
    }


def measure(hosts, runs, local_runs):
    """Execute both campaigns in a network of their own; return the figures of each.

    Raises CannotRun.
    """
    if os.geteuid():
        raise CannotRun("needs root, for namespaces and loop devices")
    for program in PROGRAMS:
        if not shutil.which(program):
            raise CannotRun(f"{program}: not found; 'make setup' installs what the rig and its tests need")
    sizes = [str(one) for one in (hosts, runs, local_runs)]
    with tempfile.TemporaryDirectory(prefix="joulerig-") as folder:
        code = run_inside([sys.executable, "-m", MODULE, "--inside", folder, *sizes])
        found = Path(folder, "figures.json")
        if not found.exists():
            raise CannotRun(f"the lab ended with code {code}")
        return json.loads(found.read_text())


def inside(folder, hosts, runs, local_runs):
    """Measure, in the namespaces of the lab, and leave the figures in `folder`."""
    raise_loopback()
    found = {
        "localhost": figures(measure_local(folder / "local", local_runs)),
        "hosts": figures(measure_hosts(folder / "hosts", hosts, runs)),
    }
    (folder / "figures.json").write_text(json.dumps(found))


def find_failed(found, hosts):
    """Describe each bar that does not hold, and each run that was not executed once."""
    failed = []
    for lab, one in found.items():
        failed += [f"{lab}: {words}" for words in one["not_ok"]]
        if one["doubled"]:
            failed.append(f"{lab}: {one['doubled']} runs were attempted more than once")
    if found["hosts"]["at_once"] < hosts:
        failed.append(f"{found['hosts']['at_once']} runs were under way at once, not {hosts}")
    if (seconds := found["localhost"]["overhead_seconds"]) > BAR_SECONDS:
        failed.append(f"a run on the controller takes {seconds} s outside its phases, over {BAR_SECONDS}")
    return failed


def show(found):
    for lab, one in found.items():
        where = ", ".join(f"{seconds} s {name}" for name, seconds in one["where"].items())
        print(f"{lab}: {one['ok']} of {one['runs']} runs ok in {one['seconds']} s, {one['at_once']} at once;")
        print(f"  outside its phases a run takes {one['overhead_seconds']} s ({where})")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=HOSTS)
    parser.add_argument("--runs", type=int, default=RUNS, help="of each host")
    parser.add_argument("--local-runs", type=int, default=LOCAL_RUNS, help="on the controller itself")
    parser.add_argument("--campaigns", type=int, default=1000, help="simulated races of each line")
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "bench" / "campaign.json")
    parser.add_argument("--inside", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--on-controller", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    try:
        if arguments.on_controller:
            with serving(model.load(paths.inventory())):
                execute(arguments.on_controller)
            return 0
        if arguments.inside:
            inside(Path(arguments.inside[0]), *map(int, arguments.inside[1:]))
            return 0
        begin = time.perf_counter()
        found = measure(arguments.hosts, arguments.runs, arguments.local_runs)
    except CannotRun as error:
        print(f"bench_campaign: {error}", file=sys.stderr)
        return 2
    show(found)
    races, lines = racing.measure(arguments.campaigns)
    failed = find_failed(found, arguments.hosts) + racing.find_failed(races, lines)
    result = {
        "hosts": arguments.hosts,
        "runs": found["hosts"]["runs"],
        "overhead_seconds_per_run": found["hosts"]["overhead_seconds"],
        "localhost_overhead_seconds_per_run": found["localhost"]["overhead_seconds"],
        "racing": races,
        "races_per_line": arguments.campaigns,
        "localhost_bar_seconds": BAR_SECONDS,
        "campaigns": found,
        "cpus": len(os.sched_getaffinity(0)),
    }
    arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{time.perf_counter() - begin:.0f} s")
    print("\n".join(f"DOES NOT HOLD: {one}" for one in failed) or "holds")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
