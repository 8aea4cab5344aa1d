# SPDX-License-Identifier: GPL-3.0-or-later
"""Test hosts of every release of Debian that the virtual lab has: results/bench/hosts.json.

    python -m tests.bench.hosts                        all of them, one after the other
    python -m tests.bench.hosts --release trixie       one; the others' entries stay
    python -m tests.bench.hosts --few                  a run on each kind of drive

For each release, on a virtual lab that is otherwise as shipped: a picture of its host;
provisioning, whose second time has to change nothing; a campaign of ext4, XFS and F2FS with two
schedulers on NVMe, SATA, NVDIMM, RAM and an array; the host given back, and another picture.

Of each release the file has its kernel, Python and nvme-cli, the runs, how many of them are ok, and
the worst error of their energy; and `problems`, which has to be empty: runs that did not end as
they should, a truth outside of the bounds, what provisioning changed the second time, what a
release left behind. Exits 1 where there are any, 2 where a host could not be had.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from joulerig.rig.lab.model import Release
from tests.support import ROOT
from tests.support.host_picture import left_behind, take_picture
from tests.support.lab_driver import Lab

OUTPUT = ROOT / "results" / "bench" / "hosts.json"
HOST = "vhost1"
UP_SECONDS, CAMPAIGN_SECONDS = 2400, 5400  # of an emulated host on a busy machine
MEMORY = ("nvdimm", "ram")  # these have no scheduler but none, and no rail
REFUSED = "nvdimm/ext4/mq-deadline"
CAMPAIGN: dict[str, Any] = {
    "name": "hosts",
    "question": "Does a host of this release measure what the others do?",
    "drives": ["nvme-consumer", "sata-consumer", "nvdimm", "ram", "hdd-array"],
    "factors": {
        "filesystem": ["ext4", "xfs", "f2fs"],
        "scheduler": ["none", "mq-deadline"],
        "workload": ["randwrite-fsync"],
    },
    "exclude": [
        {"drive": "ram", "scheduler": "mq-deadline", "reason": "one drive without schedulers is enough"},
        *(
            {"drive": drive, "filesystem": name, "scheduler": "mq-deadline", "reason": "ext4 shows it"}
            for drive in ("nvdimm", "hdd-array")
            for name in ("xfs", "f2fs")
        ),
    ],
    "phases": {"rest_seconds": 0, "idle_seconds": 1, "workload_seconds": 3, "tail_seconds": 1},
}


# Of --few, for a machine that is busy: each drive, file system and scheduler.
FEW = (
    ("nvme-consumer", "ext4", "none"),
    ("sata-consumer", "xfs", "mq-deadline"),
    ("nvdimm", "f2fs", "none"),
    ("nvdimm", "ext4", "mq-deadline"),
    ("ram", "xfs", "none"),
    ("hdd-array", "ext4", "mq-deadline"),
)


class OfRelease(Lab):
    """The shipped lab with a host of another release."""

    def __init__(self, folder: Path, release: str) -> None:
        super().__init__(folder)
        self.inventory = self.inventory_copy(lambda host: host["virtual"].update(release=release))
        self.environment["JOULERIG_INVENTORY"] = str(self.inventory)

    def rig_or_raise(self, *words: str, timeout: float = UP_SECONDS) -> str:
        done = self.rig(*words, timeout=timeout)
        if done.returncode:
            raise OSError(f"rig {' '.join(words)}: {(done.stderr or done.stdout).strip()[-2000:]}")
        return done.stdout


def campaign(*, few: bool) -> dict[str, Any]:
    """Return the campaign's definition; `few`: of FEW alone."""
    if not few:
        return CAMPAIGN
    factors = CAMPAIGN["factors"]
    left_out = [
        {"drive": drive, "filesystem": name, "scheduler": scheduler, "reason": "--few"}
        for drive in CAMPAIGN["drives"]
        for name in factors["filesystem"]
        for scheduler in factors["scheduler"]
        if (drive, name, scheduler) not in FEW
    ]
    return {**CAMPAIGN, "exclude": left_out}


def measured(release: str, folder: Path, *, few: bool) -> dict[str, Any]:
    """Return a release's entry of the file. Raises OSError where its host cannot be had."""
    lab = OfRelease(folder, release)
    began = time.monotonic()

    def report(what: str) -> None:
        print(f"{release}, {time.monotonic() - began:.0f} s: {what}", flush=True)

    try:
        report(lab.rig_or_raise("lab", "up").strip())
        before = take_picture(lab)
        lab.rig_or_raise("up")
        report("provisioned")
        problems = [*second_provisioning(lab), *fua(lab)]
        report("provisioned again")
        lab.rig("run", str(lab.playbook(**campaign(few=few))), timeout=CAMPAIGN_SECONDS)
        found = lab.results_of()
        report("campaign is over")
        entry = {**versions(lab), **judged(found["runs"])}
        lab.rig_or_raise("hosts", "release", HOST, "--packages")
        left = left_behind(before, take_picture(lab))
        report("released")
    finally:
        lab.rig("down")
    problems += [*entry["problems"], *(f"left behind: {name}: {pair}" for name, pair in left.items())]
    return {**entry, "problems": problems, "seconds": round(time.monotonic() - began)}


def second_provisioning(lab: OfRelease) -> list[str]:
    done = lab.ansible(ROOT / "playbooks" / "provision.yml", "-i", str(lab.inventory), timeout=UP_SECONDS)
    recap = re.search(rf"^{HOST} .*\bchanged=(\d+)", done.stdout, re.MULTILINE)
    if done.returncode or not recap:
        return [f"second provisioning failed: {done.stdout[-2000:]}"]
    changed = re.findall(r"^TASK \[(.*)\] \**\n(?:.*\n)*?changed: ", done.stdout, re.MULTILINE)
    return [] if recap[1] == "0" else [f"second provisioning changed {recap[1]}: {', '.join(changed)}"]


def fua(lab: Lab) -> list[str]:
    """QEMU's controller drops FUA: a guest's module has the kernel send flushes in its place."""
    used = lab.ssh("grep -l 1 /sys/block/nvme*/queue/fua || true").split()
    return [f"{path}: the kernel uses FUA" for path in used]


def versions(lab: Lab) -> dict[str, str]:
    text = lab.ssh("uname -r; python3 --version; nvme version")
    kernel, python, nvme = text.splitlines()[:3]
    return {"kernel": kernel, "python": python.split()[-1], "nvme_cli": nvme.split()[2]}


def judged(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return `runs`, `ok`, `worst_energy_error_percent` and `problems` of a campaign's runs."""
    planned = [run for run in runs if run["status"] != "excluded"]
    errors = [abs(run["error_percent"]) for run in planned if run["error_percent"] is not None]
    return {
        "runs": len(planned),
        "ok": sum(run["status"] == "ok" for run in planned),
        "not_run": {run["cell"]: run["reason"] for run in planned if run["status"] == "not-run"},
        "worst_energy_error_percent": round(max(errors), 4) if errors else None,
        "problems": [problem for run in planned for problem in problems_of(run)],
    }


def problems_of(run: dict[str, Any]) -> Iterator[str]:
    cell = run["cell"]
    if cell.startswith(REFUSED):
        if run["status"] != "not-run" or "allowed: none" not in (run["reason"] or ""):
            yield f"{cell}: is {run['status']}, not not-run: {run['reason']}"
        return
    if run["status"] != "ok":
        yield f"{cell}: is {run['status']}: {run['reason']}"
        return
    rows = run["energy"]
    if bool(rows) == cell.startswith(MEMORY):
        yield f"{cell}: has joules of {len(rows)} phases and rails"
    for row in rows:
        if not row["joules_low"] <= row["true_joules"] <= row["joules_high"]:
            bounds = f"{row['joules_low']:.6g} to {row['joules_high']:.6g}"
            yield f"{cell}, {row['phase']}, {row['rail']}: {row['true_joules']:.6g} J are outside of {bounds}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--release", action="append", choices=get_args(Release), help="this one alone")
    parser.add_argument("--few", action="store_true", help="a run on each kind of drive")
    parser.add_argument("--folder", type=Path, help="of the labs' state and results; by default a new one")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    args = parser.parse_args()
    folder = args.folder or Path(tempfile.mkdtemp(prefix="joulerig-hosts-"))
    found = json.loads(args.output.read_text()) if args.release and args.output.exists() else {}
    code = 0
    for release in args.release or get_args(Release):
        try:
            found[release] = measured(release, folder / release, few=args.few)
        except (OSError, AssertionError) as error:
            print(f"{release}: {error}", file=sys.stderr)
            code = 2
            continue
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(json.dumps(found, indent=1) + "\n")
        print(json.dumps({release: found[release]}, indent=1), flush=True)
        code = max(code, 1 if found[release]["problems"] else 0)
    print(f"state and results: {folder}")
    return code


if __name__ == "__main__":
    sys.exit(main())
