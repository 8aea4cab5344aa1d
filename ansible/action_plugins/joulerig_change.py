# SPDX-License-Identifier: GPL-3.0-or-later
"""Change a test host by a module of Ansible's, once the host has recorded what is there before.

Every task of a role that changes a host goes through this action: `rig hosts release` undoes what
is recorded, and tests/unit/ansible/test_role_changes.py finds a task that goes another way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

# What a module's arguments say that it changes, as arguments of module joulerig_record. The other
# modules do not say it: the task does.
TARGETS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "ansible.builtin.copy": lambda args: {"files": [args["dest"]]},
    "ansible.builtin.file": lambda args: {"files": [args["path"]]},
    "ansible.builtin.systemd_service": lambda args: {"units": [args["name"]]},
    "ansible.builtin.template": lambda args: {"files": [args["dest"]]},
}
DECLARED = ("files", "trees", "units", "modules", "afterwards")
FACT = "joulerig_recorded"  # what the host's record has, so that it is not asked for each change


def split(arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return the module that makes the change, its arguments, and what is to be recorded.

    Raises ValueError.
    """
    modules = [key for key in arguments if "." in key]
    if len(modules) != 1 or not isinstance(arguments[modules[0]], Mapping):
        raise ValueError("has to name one module of Ansible's in full, with a mapping of its arguments")
    [name] = modules
    declared = {key: value for key, value in arguments.items() if key != name}
    if unknown := sorted(set(declared) - set(DECLARED)):
        raise ValueError(f"unknown key {unknown[0]!r}; allowed: {', '.join(DECLARED)}, and a module")
    changes = TARGETS.get(name, lambda _: {})(arguments[name])
    for key, value in declared.items():
        changes[key] = [*changes.get(key, ()), *value]
    if not changes:
        raise ValueError(f"{name}: has to say what it changes; allowed: {', '.join(DECLARED)}")
    return name, dict(arguments[name]), changes


def is_recorded(changes: Mapping[str, Any], known: Mapping[str, Any] | None) -> bool:
    """Return whether a host's record has all of `changes`."""
    return known is not None and all(set(names) <= set(known.get(key, ())) for key, names in changes.items())


class ActionModule(ActionBase):
    """`joulerig_change: {ansible.builtin.copy: {src: iod, dest: /usr/local/sbin/iod}}`.

    What the module's arguments do not say is declared next to them: files, trees (folders that are
    the rig's alone), units, modules of the kernel, and afterwards (commands to run when all is
    undone).
    """

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        try:
            name, arguments, changes = split(self._task.args)
        except ValueError as error:
            raise AnsibleActionFail(f"joulerig_change: {error}") from None
        known = task_vars.get(FACT)
        if not is_recorded(changes, known):
            recorded = self._execute_module(
                module_name="joulerig_record", module_args=changes, task_vars=task_vars
            )
            if recorded.get("failed"):
                return recorded
            known = recorded["recorded"]
        result = self._change(name, arguments, task_vars)
        result["ansible_facts"] = {**result.get("ansible_facts", {}), FACT: known}
        return result

    def _change(self, name, arguments, task_vars):
        """Do what the module's own task would do."""
        task = self._task.copy(exclude_tasks=True)
        task.action, task.args = name, arguments
        loader = self._shared_loader_obj.action_loader
        action = loader.get(
            name if loader.has_plugin(name) else "ansible.builtin.normal",
            task=task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        return action.run(task_vars=task_vars)
