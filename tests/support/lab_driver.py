# SPDX-License-Identifier: GPL-3.0-or-later
"""Drive a virtual lab as its user does: command line, SSH, and the results folder."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from joulerig.analysis.results.influxdb.client import Databases
from tests.support import ROOT

BIN = ROOT / ".venv" / "bin"
WHOLE_LAB = "JOULERIG_WHOLE_LAB" in os.environ
takes_minutes = pytest.mark.skipif(not WHOLE_LAB, reason="make test-lab does it")
Done = subprocess.CompletedProcess[str]


class Lab:
    """A lab with its own state and results in `folder`.

    `picture`: its host before it was provisioned (host_picture.py).
    """

    picture: dict[str, dict[str, Any]]

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.results = folder / "results"
        self.environment = {
            **os.environ,
            "JOULERIG_VAR": str(folder / "var"),
            "JOULERIG_RESULTS": str(self.results),
        }

    def with_results(self, results: Path) -> Lab:
        """The same lab with its results in another folder."""
        other = copy.copy(self)
        other.results = results
        other.environment = {**self.environment, "JOULERIG_RESULTS": str(results)}
        return other

    @contextlib.contextmanager
    def state(self) -> Iterator[None]:
        """Let this process find the lab's state, as its command line does."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("JOULERIG_VAR", self.environment["JOULERIG_VAR"])
            yield

    def rig(
        self, *words: str, inventory: Path | None = None, timeout: float = 900
    ) -> subprocess.CompletedProcess[str]:
        environment = {**self.environment, **({"JOULERIG_INVENTORY": str(inventory)} if inventory else {})}
        command = [str(BIN / "rig"), *words]
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout
        )

    @contextlib.contextmanager
    def running(self) -> Iterator[Lab]:
        """The lab while it is up; its end is down."""
        try:
            done = self.rig("up", timeout=1800)
            assert done.returncode == 0, done.stdout + done.stderr
            yield self
        finally:
            self.rig("down")

    def start_rig(self, *words: str, **options: Any) -> subprocess.Popen[str]:
        """Start the command line in a new session, as at a terminal; `options` are Popen's."""
        return subprocess.Popen(
            [str(BIN / "rig"), *words],
            cwd=ROOT,
            env=self.environment,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
            text=True,
            **options,
        )

    def ansible(self, playbook: Path, *words: str, timeout: float = 900) -> Done:
        command = [str(BIN / "ansible-playbook"), str(playbook), *words]
        return subprocess.run(
            command, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=timeout
        )

    def adhoc(self, inventory: Path, module: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call one of Ansible's modules on the host, and return its result."""
        command = [
            str(BIN / "ansible"),
            "vhost1",
            "-i",
            str(inventory),
            "-m",
            module,
            "-a",
            json.dumps(arguments),
        ]
        environment = {**self.environment, "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
        assert " => {" in done.stdout, done.stdout + done.stderr
        return dict(json.loads(done.stdout.partition(" => ")[2]))

    def ssh(self, command: str) -> str:
        done = self.rig("lab", "ssh", "vhost1", "--", command)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def twins(self) -> dict[str, dict[str, Any]]:
        """State of each twin by drive name."""
        status = json.loads(self.rig("lab", "status", "--json").stdout)
        return {name.partition("/")[2]: twin for name, twin in status["twins"].items()}

    def results_of(self, campaign: str | None = None) -> dict[str, Any]:
        done = self.rig("results", *([campaign] if campaign else []), "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def database(self) -> Databases:
        """Its InfluxDB, to be read from; a context manager."""
        port = json.loads((self.folder / "var" / "ports.json").read_text())["influxdb"]
        password = (self.folder / "var" / "secrets" / "reader").read_text()
        hosts = json.loads((self.folder / "var" / "dashboard" / "lab.json").read_text())["lab"]["hosts"]
        return Databases(f"http://127.0.0.1:{port}", "joulerig", "reader", password, hosts=hosts)

    def campaigns(self) -> list[str]:
        return sorted(path.name for path in self.results.iterdir()) if self.results.exists() else []

    def playbook(self, **campaign: Any) -> Path:
        """A campaign's playbook; what is not given is short."""
        definition = {
            "name": "test",
            "question": "Does it hold?",
            "drives": ["nvme-consumer"],
            "replicates": 1,
            "phases": {"rest_seconds": 0, "idle_seconds": 1, "workload_seconds": 4, "tail_seconds": 1},
            **campaign,
        }
        return self.write_playbook(definition)

    def write_playbook(self, definition: dict[str, Any]) -> Path:
        """A playbook of the campaign as it is defined."""
        play = {
            "name": "Test campaign",
            "ansible.builtin.import_playbook": str(ROOT / "playbooks" / "campaign.yml"),
            "vars": {"campaign": definition},
        }
        path = self.folder / f"{definition['name']}.yml"
        path.write_text(yaml.safe_dump([play]))
        return path

    def inventory_with(self, drive: str, **changes: Any) -> Path:
        """A copy of the shipped inventory in which a drive is declared otherwise."""
        name = f"inventory-{drive}-{'-'.join(changes)}"
        return self.inventory_copy(lambda host: host["drives"][drive].update(changes), name)

    def inventory_copy(self, change: Callable[[dict[str, Any]], object], name: str = "inventory") -> Path:
        """A copy of the shipped inventory, in a folder of its name, whose host `change` changed."""
        return copied_inventory(self.folder / name, change)


def copied_inventory(
    folder: Path, change: Callable[[dict[str, Any]], object] = lambda host: None, of: str = "vhost1"
) -> Path:
    """Copy the shipped inventory into a folder, and `change` the variables of a machine."""
    shutil.copytree(ROOT / "host_vars", folder / "host_vars", dirs_exist_ok=True)
    shutil.copy(ROOT / "inventory.ini", folder)
    host_vars = folder / "host_vars" / f"{of}.yml"
    described = yaml.safe_load(host_vars.read_text())
    change(described)
    host_vars.write_text(yaml.safe_dump(described))
    return folder / "inventory.ini"


FACTORS = {"filesystem": ["ext4"], "scheduler": ["none"], "workload": ["randwrite-fsync"]}
