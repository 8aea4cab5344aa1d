# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual hosts that are provisioned as asked are known again, and nothing else is."""

from __future__ import annotations

import subprocess

import pytest
import yaml

from joulerig.rig.common import paths
from joulerig.rig.controller import provisioning
from joulerig.rig.lab import model, virtual


@pytest.fixture
def lab(state, monkeypatch, tmp_path):
    """The shipped virtual lab, with a share/ and an agent that a test may change."""
    described = model.load(paths.ROOT / "inventory.ini")
    share = tmp_path / "share"
    for name in ("ansible/modules/joulerig_run.py", "ansible/README.md", "playbooks/provision.yml"):
        (share / name).parent.mkdir(parents=True, exist_ok=True)
        (share / name).write_text(name)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "iod").write_text("agent")
    monkeypatch.setattr(paths, "share", lambda: share)
    monkeypatch.setattr(paths, "programs", lambda: programs)
    return described


@pytest.fixture
def host(monkeypatch, tmp_path):
    """Answers what the virtual host has for a mark."""

    def has(mark: str, returncode: int = 0) -> None:
        script = tmp_path / "ssh"
        script.write_text(f"#!/bin/sh\nprintf '%s\\n' '{mark}'; exit {returncode}\n")
        script.chmod(0o755)
        monkeypatch.setattr(virtual, "ssh_command", lambda name: [str(script), name])

    return has


def mark(lab) -> str:
    return provisioning.facts(lab, "vhost1")["rig_provisioned"]


def test_a_host_with_the_mark_is_as_provisioned(lab, host):
    host(mark(lab))
    assert provisioning.is_current(lab)


@pytest.mark.parametrize("found", ["", "another"])
def test_a_host_without_it_is_not(lab, host, found):
    host(found)
    assert not provisioning.is_current(lab)


def test_a_host_that_does_not_answer_is_not(lab, host, monkeypatch):
    monkeypatch.setattr(provisioning, "SECONDS", 0.1)
    monkeypatch.setattr(virtual, "ssh_command", lambda name: ["sleep", "30", "#"])
    monkeypatch.setattr(provisioning, "LOOK", "1")
    assert not provisioning.is_current(lab)


def test_the_agents_state_is_asked_for_with_the_mark(lab, monkeypatch):
    asked = []

    def run(command, **options):
        asked.append(command)
        return subprocess.CompletedProcess(command, 3, stdout="")

    monkeypatch.setattr(provisioning.subprocess, "run", run)
    assert not provisioning.is_current(lab)
    assert asked[0][-1].startswith("systemctl is-active --quiet iod.service && ")


@pytest.mark.parametrize(
    "changed", ["share/ansible/modules/joulerig_run.py", "share/playbooks/provision.yml", "programs/iod"]
)
def test_what_provisioning_is_made_of_changes_the_mark(lab, tmp_path, changed):
    before = mark(lab)
    (tmp_path / changed).write_text("another")
    assert mark(lab) != before


def test_a_page_and_a_cache_do_not(lab, tmp_path):
    before = mark(lab)
    (tmp_path / "share/ansible/README.md").write_text("another")
    (tmp_path / "share/ansible/modules/joulerig_run.cpython-311.pyc").write_bytes(b"cache")
    assert mark(lab) == before


def test_another_inventory_and_another_password_do(lab):
    before = mark(lab)
    lab.hosts["vhost1"].drives.pop("hdd-1")
    changed = mark(lab)
    assert changed != before
    for path in (paths.var() / "secrets").glob("*"):
        path.chmod(0o600)
        path.write_text("another")
    assert mark(lab) != changed


def test_a_physical_host_is_always_provisioned(state, bench, host, monkeypatch):
    monkeypatch.setattr(provisioning, "facts", lambda *_: {"rig_provisioned": "same"})
    host("same")
    assert not any(spec.virtual for spec in bench.hosts.values())
    assert not provisioning.is_current(bench)


def test_the_role_writes_it_where_it_is_looked_for():
    defaults = yaml.safe_load((paths.ROOT / "ansible/roles/provisioned/defaults/main.yml").read_text())
    assert defaults["provisioned_path"] == provisioning.MARK
