# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks and roles as Ansible reads them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support import ROOT

BIN = Path(sys.executable).parent
PLAYBOOKS = sorted((ROOT / "playbooks").glob("*.yml"))
TASKS = sorted((ROOT / "ansible/roles").glob("*/*/*.yml"))
MODULES = sorted((ROOT / "ansible/modules").rglob("*.py"))


def run(*command):
    environment = {
        **os.environ,
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
    }
    return subprocess.run(list(map(str, command)), cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("inventory", ["inventory.ini", "inventory.example-bench.ini"])
def test_every_playbook_is_in_order(inventory):
    done = run(BIN / "ansible-playbook", "-i", inventory, "--syntax-check", *PLAYBOOKS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("playbook: ") == len(PLAYBOOKS)
    assert "WARNING" not in done.stderr


def test_every_module_and_role_that_is_used_exists():
    modules = {path.stem for path in (ROOT / "ansible/modules").rglob("*.py")}
    modules |= {path.stem for path in (ROOT / "ansible/action_plugins").glob("*.py")}
    used = {
        word.strip(" -:")
        for path in [*PLAYBOOKS, *TASKS]
        for word in path.read_text().split()
        if word.startswith("joulerig_")
    }
    used = {word for word in used if word.isidentifier()}
    assert used <= modules
    called = {
        "joulerig_run",
        "joulerig_precondition",
        "joulerig_powercut",
        "joulerig_kernel",
        "joulerig_nvdimm",
        "joulerig_record",
    }  # by action plugins
    assert modules - used == called


@pytest.mark.parametrize("path", TASKS, ids=lambda path: "/".join(path.parts[-3:]))
def test_modules_of_ansible_are_named_in_full(path):
    """And none is of a collection that ansible-core does not bring."""
    tasks = yaml.safe_load(path.read_text())
    for task in (
        tasks if (isinstance(tasks, list) and "tasks" in path.parts) or "handlers" in path.parts else []
    ):
        [module] = [key for key in task if "." in key or key.startswith("joulerig_")]
        assert module.startswith(("ansible.builtin.", "joulerig_"))


@pytest.fixture(scope="module")
def documentation():
    """What ansible-doc says of each module."""
    words = ["--module-path", "ansible/modules", "--json", "--type", "module"]
    done = run(BIN / "ansible-doc", *words, *(path.stem for path in MODULES))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_every_module_documents_all_its_options(module, documentation):
    documented = set(documentation[module.stem]["doc"]["options"])
    text = module.read_text()
    specified = {
        line.split('"')[1] for line in text.splitlines() if line.strip().startswith('"') and '{"type"' in line
    }
    specified |= {"call", "begin", "collected"} if "answering.OPTIONS" in text else set()
    specified |= {"drives"} if 'argument_spec={"drives"' in text else set()
    specified |= {"nvdimm"} if 'argument_spec={"nvdimm"' in text else set()
    assert documented == specified


def test_two_labs_never_share_a_connection_to_hosts_of_the_same_name(tmp_path):
    """Every checkout has a vhost1: a run on the other one's would wipe its drives."""
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\nexit 255\n')
    ssh.chmod(0o755)
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_SSH_EXECUTABLE": str(ssh),
    }
    for lab in ("one", "other"):
        subprocess.run(
            [BIN / "ansible", "vhost1", "-i", "inventory.ini", "-m", "ansible.builtin.ping"],
            cwd=ROOT,
            env={**environment, "JOULERIG_VAR": str(tmp_path / lab), "HOME": str(tmp_path)},
            capture_output=True,
        )
    calls = (tmp_path / "calls").read_text().splitlines()
    paths = {
        lab: re.findall(r"ControlPath=\"?([^\" ]+)", line)
        for lab in ("one", "other")
        for line in calls
        if f"/{lab}/lab/ssh_config" in line
    }
    assert all(len(found) == 1 for found in paths.values())
    assert paths["one"] != paths["other"]
