# SPDX-License-Identifier: GPL-3.0-or-later
"""A new test host on this machine, from its discovery to a campaign, by what a person would type.

    python -m tests.support.discovered_host FOLDER

To be run in the namespaces of a contained lab (`contained_lab.run_inside`). The result of each
command is in FOLDER/steps.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from joulerig.rig.common import yaml_text
from joulerig.rig.lab import model
from tests.support import ROOT
from tests.support.contained_lab import ContainedLab, raise_loopback, serving, write_playbook

RIG = [sys.executable, "-m", "joulerig.rig.cli.main"]
HOST = "h01"
CAMPAIGN = {
    "name": "discovered",
    "question": "Does a host that was discovered execute a campaign?",
    "factors": {"filesystem": ["ext4"], "scheduler": ["none"], "workload": ["randwrite-fsync"]},
    "replicates": 1,
    "phases": {"rest_seconds": 0, "idle_seconds": 0, "workload_seconds": 1, "tail_seconds": 0},
    "holds": {"host_load": None},
}


def main() -> None:
    folder = Path(sys.argv[1])
    raise_loopback()
    lab = ContainedLab(folder / "lab", {HOST: "127.0.1.1"})
    described = model.load(lab.inventory)
    file = lab.folder / "host_vars" / f"{HOST}.yml"
    steps: dict[str, Any] = {}

    def rig(step: str, *words: str) -> None:
        done = subprocess.run([*RIG, *words], cwd=ROOT, capture_output=True, text=True, check=False)
        steps[step] = {"code": done.returncode, "out": done.stdout, "err": done.stderr}

    with serving(described), lab.running(described):
        file.unlink()  # not before: Ansible keeps in a process where it found a host's file
        rig("discover", "hosts", "discover", HOST)
        steps["file"] = file.read_text()
        [(drive, keys)] = yaml_text.parse(steps["file"], file.name)["drives"].items()
        rig("again", "hosts", "discover", HOST)
        rig("doctor", "doctor", HOST, "--json")
        playbook = write_playbook(folder / "discovered.yml", {**CAMPAIGN, "drives": [drive]})
        rig("too early", "run", str(playbook))
        rig("look", "drives", "look", HOST)
        rig("adopt", "drives", "adopt", HOST, drive, "--yes-wipe", keys["serial"])
        rig("run", "run", str(playbook))
        rig("results", "results", "--json")
    (folder / "steps.json").write_text(json.dumps(steps))


if __name__ == "__main__":
    main()
