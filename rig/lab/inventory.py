# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the variables of an inventory's hosts, found as Ansible finds them, as plain data.

An inventory is what Ansible takes: a file, a folder of them, a program that prints JSON.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joulerig.rig.common import paths, yaml_text
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import forms

TOKEN = re.compile(r"""[^\s,\]}#]+""")
TEMPLATE = ("{{", "{%")
# Keys whose values identify: what a host, a drive or a meter reports of itself is often copied into
# them. They are read as they are written; a template in them is text.
LITERAL = frozenset(
    {"serial", "wwn", "model", "firmware", "name", "description", "controller_address", "connection"}
)
VAULT = "set ANSIBLE_VAULT_PASSWORD_FILE to the file that holds the vault's password"
Key = tuple[str, ...]


@dataclass(frozen=True)
class Place:
    """Where a key stands."""

    file: Path
    line: int


@dataclass(frozen=True)
class Inventory:
    """The variables of an inventory's hosts.

    `values` of each host by name; `places` of keys, and of keys below them, by host.
    """

    path: Path
    controller: str
    test_hosts: tuple[str, ...]
    values: Mapping[str, Mapping[str, Any]]
    places: Mapping[str, Mapping[Key, Place]]

    @property
    def folder(self) -> Path:
        """Return the folder next to whose files (host_vars and a lab's definitions) it is."""
        return folder_of(self.path)

    def source(self, host: str) -> str:
        """Return the file that describes a host, as messages name it."""
        for suffix in (".yml", ".yaml", "/main.yml", ""):
            path = self.folder / "host_vars" / f"{host}{suffix}"
            if path.is_file():
                return paths.short(path)
        return f"{paths.short(self.path)}: {host}"


def folder_of(inventory: Path) -> Path:
    """Return the folder whose host_vars an inventory's hosts have."""
    return inventory if inventory.is_dir() else inventory.parent


def of_playbook(variables: Mapping[str, Any]) -> Path:
    """Return the inventory of the playbook that runs; `variables` are those of a task of its."""
    import ansible.context
    from ansible.constants import DEFAULT_HOST_LIST

    given = ansible.context.CLIARGS.get("inventory") or DEFAULT_HOST_LIST
    [source, *more] = map(Path, given)
    # Of a folder, a host's variable names the file in it.
    return source.absolute() if not more and source.is_dir() else Path(variables["inventory_file"])


def read(inventory: Path, keys: Iterable[str], as_written: Iterable[str] = ()) -> Inventory:
    """Return an inventory with the variables of its hosts that `keys` names, and others' names.

    Templates in those that `as_written` names, and in LITERAL keys, are not filled in. Raises
    UserError.
    """
    from ansible.errors import AnsibleError
    from ansible.inventory.manager import InventoryManager
    from ansible.template import Templar
    from ansible.vars.manager import VariableManager

    if not inventory.exists():
        raise UserError(f"{inventory}: no such inventory; set JOULERIG_INVENTORY")
    raw = set(as_written)
    wanted = set(keys) - raw
    try:
        loader = _loader()
        # Else host_vars/ of the working directory would overrule those next to the inventory.
        loader.set_basedir(str(folder_of(inventory)))
        _unlock(loader)
        manager = InventoryManager(loader=loader, sources=[str(inventory)])
        if loader.refused:  # Ansible only warns, and goes on without the file
            raise loader.refused
        variables = VariableManager(loader=loader, inventory=manager)
        controller, test_hosts = _groups(inventory, manager.get_groups_dict())
        values: dict[str, dict[str, Any]] = {}
        places: dict[str, dict[Key, Place]] = {}
        for name in (controller, *test_hosts):
            found = variables.get_vars(host=manager.get_host(name))
            fill_in = _filler(Templar(loader=loader, variables=found))
            places[name] = {}
            values[name] = {
                str(key): _plain(value, fill_in, (str(key),), places[name]) if key in wanted else None
                for key, value in _with_places(found, (), places[name])
            }
            values[name] |= {key: str(found[key]) for key in raw if key in found}
    except AnsibleError as error:
        if loader.refused:
            raise loader.refused from None
        raise UserError(_described(error, inventory)) from None
    return Inventory(inventory, controller, test_hosts, values, places)


def _loader() -> Any:
    """Return Ansible's loader of files, which first has the rig's own look at each YAML text.

    `refused`: what it said of the first that is beyond the bounds; "" where Ansible reads it.
    """
    from ansible.errors import AnsibleParserError
    from ansible.parsing.dataloader import DataLoader

    class Loader(DataLoader):  # type: ignore[misc]
        refused: UserError | None = None

        def load(self, data: str, file_name: str | None = None, *more: Any, **options: Any) -> Any:
            try:
                yaml_text.parse(str(data), paths.short(Path(file_name or "inventory")))
            except UserError as error:
                self.refused = self.refused or error
                raise AnsibleParserError(str(error)) from None
            return super().load(data, file_name, *more, **options)

    return Loader()


def _filler(templar: Any) -> Callable[[Any], Any]:
    """Return a function that fills in a template, with lookups as in a process of Ansible's."""

    def fill_in(value: Any) -> Any:
        from ansible.plugins.loader import init_plugin_loader

        if importlib.util.find_spec("ansible_collections") is None:
            init_plugin_loader()
        return templar.template(value)

    return fill_in


def _described(error: Exception, inventory: Path) -> str:
    """Return Ansible's error on one line, with where it is, and a way out where there is one."""
    text = " ".join(str(error).split())
    hint = f"; {VAULT}" if "vault" in text.lower() or "decrypt" in text.lower() else ""
    return f"{_origin(error) or paths.short(inventory)}: {text}{hint}"


def _groups(inventory: Path, groups: Mapping[str, list[str]]) -> tuple[str, tuple[str, ...]]:
    """Return the controller's name and those of the test hosts. Raises UserError."""
    for group in ("controller", "test_hosts"):
        if not groups.get(group):
            raise UserError(f"{paths.short(inventory)}: group [{group}] has no host; allowed: one or more")
    if len(groups["controller"]) != 1:
        raise UserError(
            f"{paths.short(inventory)}: group [controller]: {groups['controller']}: allowed: one host"
        )
    return groups["controller"][0], tuple(groups["test_hosts"])


def _unlock(loader: Any) -> None:
    """Give a loader the secrets of vaulted files that Ansible's settings name; no person is asked.

    In a process of Ansible's, they are there already.
    """
    from ansible.constants import DEFAULT_VAULT_IDENTITY_LIST, DEFAULT_VAULT_PASSWORD_FILE
    from ansible.parsing.vault import VaultSecretsContext

    if DEFAULT_VAULT_PASSWORD_FILE or DEFAULT_VAULT_IDENTITY_LIST:
        from ansible.cli import CLI

        first = VaultSecretsContext.current(optional=True) is None
        identities = list(DEFAULT_VAULT_IDENTITY_LIST)
        secrets = CLI.setup_vault_secrets(
            loader, vault_ids=identities, auto_prompt=False, initialize_context=first
        )
        loader.set_vault_secrets(secrets)


def _with_places(
    mapping: Mapping[Any, Any], above: Key, places: dict[Key, Place]
) -> Iterable[tuple[Any, Any]]:
    """Yield a mapping's items, and note where its keys stand."""
    for key, value in mapping.items():
        if origin := _tag(key) or _tag(value):
            places[(*above, str(key))] = Place(Path(origin.path), origin.line_num or 0)
        yield key, value


def _plain(value: Any, fill_in: Callable[[Any], Any], where: Key, places: dict[Key, Place]) -> Any:
    """Return a variable as plain data; numbers keep their text.

    Templates are filled in, save below a key of LITERAL.
    """
    if isinstance(value, dict):
        return {
            str(key): _plain(one, fill_in, (*where, str(key)), places)
            for key, one in _with_places(value, where, places)
        }
    if isinstance(value, list | tuple):
        return [_plain(one, fill_in, (*where, str(index)), places) for index, one in enumerate(value)]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return _typed(forms.Integer(value), value)
    if isinstance(value, float):
        return _typed(forms.Decimal(value), value)
    text = str(value)
    if isinstance(value, str) and any(mark in text for mark in TEMPLATE) and LITERAL.isdisjoint(where):
        filled = fill_in(value)
        return filled if isinstance(filled, str) else _plain(filled, fill_in, where, places)
    return text if isinstance(value, str) else _token(value) or text


def _typed(number: Any, value: Any) -> Any:
    """Give a number the text that stands for it in its file."""
    number.text = _token(value) or str(value)
    return number


def _token(value: Any) -> str:
    """Return the text that stands for a value in its YAML file, or an empty one."""
    origin = _tag(value)
    if not origin or not origin.line_num or not origin.col_num:
        return ""
    try:
        line = Path(origin.path).read_text().splitlines()[origin.line_num - 1]
        found = TOKEN.match(line[origin.col_num - 1 :])
        return found[0] if found and yaml_text.parse(found[0], "") == value else ""
    except (OSError, ValueError, IndexError, UserError):
        return ""


def _tag(value: Any) -> Any:
    """Return Ansible's note of where a value comes from, if that is a file."""
    from ansible._internal._datatag._tags import Origin

    origin = Origin.get_tag(value)
    return origin if origin and origin.path else None


def _origin(error: BaseException) -> str:
    """Return the FILE:LINE of Ansible's error, or of the error below it; "" if it names none."""
    for one in (error, error.__context__):
        found = getattr(one, "obj", None)
        if origin := _own(found) or _tag(found):
            return f"{paths.short(Path(origin.path))}:{origin.line_num}"
    return ""


def _own(found: Any) -> Any:
    from ansible._internal._datatag._tags import Origin

    return found if isinstance(found, Origin) and found.path else None
