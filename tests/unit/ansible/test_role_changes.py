# SPDX-License-Identifier: GPL-3.0-or-later
"""Every task of a role that changes a test host goes through action joulerig_change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.support import ROOT, ansible_actions

ROLES = ROOT / "ansible" / "roles"
# These change no host, or say so by changed_when.
READ = {"ansible.builtin.debug", "ansible.builtin.assert", "ansible.builtin.include_tasks"}
ASK = {"ansible.builtin.command", "ansible.builtin.shell"}
READ_BY_PLAYBOOKS = {"joulerig_deployment", "joulerig_look"}
# A run puts back what it changes, a campaign frees what it reserves.
OWN_END = {"joulerig_campaign", "joulerig_reservation", "ansible.builtin.fail"}
# Modules of ours, each with what undoes it.
OURS = {
    "joulerig_change": "records first",
    "joulerig_declared": "executes joulerig_drives, which reads, joulerig_array and joulerig_memory_drives",
    "joulerig_files": "records first",
    "joulerig_grafana": "changes no host; state absent takes away what it put on a Grafana",
    "joulerig_packages": "records first",
    "joulerig_nvdimm": "a namespace is on a drive under test",
    "joulerig_quiet": "the campaign's end, and the host alone an hour later",
}


change = ansible_actions.load("joulerig_change")


def tasks_in(entries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The tasks of a file, those in blocks too."""
    for task in entries:
        blocks = [task[key] for key in ("block", "rescue", "always") if key in task]
        for block in blocks:
            yield from tasks_in(block)
        if not blocks:
            yield task


def module_of(task: dict[str, Any]) -> str:
    [name] = [key for key in task if "." in key or key.startswith("joulerig_")]
    return name


def fault(task: dict[str, Any]) -> str:
    """Why a task would leave a change behind that `rig hosts release` does not know; or nothing."""
    name = module_of(task)
    if name in READ:
        return ""
    if name in ASK:
        return "" if task.get("changed_when") is False else f"{name} without changed_when: false"
    if name not in OURS:
        return f"{name} outside of joulerig_change"
    if name == "joulerig_change":
        try:
            change.split(task[name])
        except (KeyError, ValueError) as error:
            return str(error)
    return ""


FILES = sorted([*ROLES.glob("*/tasks/*.yml"), *ROLES.glob("*/handlers/*.yml")])
TASKS = [
    pytest.param(task, id=f"{path.relative_to(ROLES).parts[0]}: {task['name']}")
    for path in FILES
    for task in tasks_in(yaml.safe_load(path.read_text()))
]


@pytest.mark.parametrize("task", TASKS)
def test_a_task_of_a_role_leaves_nothing_behind_unrecorded(task):
    assert fault(task) == ""


def test_there_are_tasks_of_every_role():
    assert {path.relative_to(ROLES).parts[0] for path in FILES} == {path.name for path in ROLES.iterdir()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ansible.builtin.copy: {src: a, dest: /etc/a}", "ansible.builtin.copy outside of joulerig_change"),
        ("ansible.builtin.lineinfile: {path: /etc/a}", "ansible.builtin.lineinfile outside"),
        ("ansible.posix.sysctl: {name: a}", "ansible.posix.sysctl outside"),
        ("ansible.builtin.command: sysctl -w a=b", "without changed_when: false"),
        ("{ansible.builtin.shell: date, changed_when: true}", "without changed_when: false"),
        ("joulerig_other: {}", "joulerig_other outside"),
        ("joulerig_change: {ansible.builtin.command: {cmd: update-grub}}", "has to say what it changes"),
        ("joulerig_change: {ansible.builtin.unarchive: {src: a, dest: /}}", "has to say what it changes"),
        ("joulerig_change: {files: [/etc/a]}", "has to name one module"),
        (
            "joulerig_change: {ansible.builtin.command: update-grub, files: [/etc/a]}",
            "has to name one module",
        ),
        (
            "joulerig_change: {ansible.builtin.command: {cmd: a}, paths: [/etc/a]}",
            "unknown key 'paths'; allowed: files",
        ),
        ("joulerig_change: {ansible.builtin.copy: {src: a}}", "dest"),
    ],
)
def test_a_task_that_goes_another_way_is_found(text, expected):
    assert expected in fault(yaml.safe_load(text))


def test_a_task_in_a_block_is_found_too():
    [task] = tasks_in(yaml.safe_load("[{block: [{rescue: [{ansible.builtin.copy: {dest: /etc/a}}]}]}]"))
    assert fault(task)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ansible.builtin.copy: {content: a, dest: /etc/a}", {"files": ["/etc/a"]}),
        ("ansible.builtin.template: {src: a.j2, dest: /etc/a}", {"files": ["/etc/a"]}),
        ("ansible.builtin.file: {path: /etc/a, state: directory}", {"files": ["/etc/a"]}),
        ("ansible.builtin.systemd_service: {name: a.service}", {"units": ["a.service"]}),
        ("{ansible.builtin.file: {path: /etc/a}, files: [/etc]}", {"files": ["/etc/a", "/etc"]}),
        (
            "{ansible.builtin.command: {cmd: update-grub}, afterwards: [update-grub]}",
            {"afterwards": ["update-grub"]},
        ),
        (
            "{ansible.builtin.systemd_service: {name: a}, modules: [bfq]}",
            {"units": ["a"], "modules": ["bfq"]},
        ),
    ],
)
def test_what_a_change_records(text, expected):
    arguments = yaml.safe_load(text)
    name, given, changes = change.split(arguments)
    assert name.startswith("ansible.builtin.")
    assert given == arguments[name]
    assert changes == expected


@pytest.mark.parametrize(
    ("changes", "known", "expected"),
    [
        ({"files": ["/etc/a"]}, None, False),
        ({"files": ["/etc/a"]}, {"files": []}, False),
        ({"files": ["/etc/a"]}, {"files": ["/etc/a", "/etc/b"]}, True),
        ({"files": ["/etc/a"], "trees": ["/b"]}, {"files": ["/etc/a"], "trees": []}, False),
    ],
)
def test_a_host_is_asked_again_only_for_what_it_has_not_recorded(changes, known, expected):
    assert change.is_recorded(changes, known) is expected


@pytest.mark.parametrize("playbook", ["provision", "campaign"])
def test_playbooks_change_hosts_by_roles_alone(playbook):
    plays = yaml.safe_load((ROOT / "playbooks" / f"{playbook}.yml").read_text())
    for play in plays:
        if play["hosts"] == "test_hosts":
            for task in tasks_in(play["tasks"]):
                name = module_of(task)
                assert name in {"ansible.builtin.import_role", *READ_BY_PLAYBOOKS, *OWN_END}
