# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that data reach Ansible and YAML as data alone, in shipped code.

    python -m tools.templates

Refuses, as docs/decisions/079-data-are-never-templates.md says: extra vars; a start of
ansible-playbook other than playbook.ansible; YAML put together by hand (a value between quotes,
text in a comment); a module's arguments as one variable; a variable of the inventory's lab in a
template; in a shell's command a word that is not quoted.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import jinja2.meta
import jinja2.nodes
import yaml

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ("rig/", "analysis/", "ansible/", "virtuallab/")
YAML = ("playbooks/", "ansible/roles/")
STARTS_ANSIBLE = "rig/campaign/playbook.py"  # playbook.ansible, and what follows a campaign
EXTRA_VARS = re.compile(r"(-e|--extra-vars)(?![\w-])")
STARTED = {"ansible-playbook", "joulerig.rig.campaign.launch.ansible_playbook"}
# A key of YAML before a value that is quoted by hand, and a comment before a value.
QUOTED = re.compile(r"(^|\n)\s*(- )?[a-z_]+: ['\"]\Z")
COMMENT = re.compile(r"(^|\n)\s*# ([^\n]*)\Z")
TEMPLATE = re.compile(r"\{\{|\{%")
# Ansible's own modules that give text to a shell, and the key that has it.
SHELL = {"ansible.builtin.shell"}
# Variables of the lab that templates may name: their model allows nothing that does harm there, or
# only whether they are there is asked.
HARMLESS = {"nvdimm_memmap", "virtual"}


class Fault(NamedTuple):
    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}"


def find_in_python(file: str, text: str) -> Iterator[Fault]:
    """Find the faults of a Python file."""
    tree = list(ast.walk(ast.parse(text)))
    writes_yaml = any(isinstance(node, ast.Import) and node.names[0].name == "yaml" for node in tree)
    for node in tree:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if EXTRA_VARS.match(node.value):
                yield Fault(file, node.lineno, "extra vars; hand data by playbook.ansible(data=...)")
            if node.value in STARTED and file != STARTS_ANSIBLE:
                yield Fault(file, node.lineno, "starts ansible-playbook; playbook.ansible does")
        if writes_yaml and isinstance(node, ast.JoinedStr):
            yield from _find_in_text(file, node)


def _find_in_text(file: str, node: ast.JoinedStr) -> Iterator[Fault]:
    """Find YAML that an f-string puts together.

    In a comment, one_line() keeps a text on it; a host's name is the inventory's.
    """
    before = ""
    for part in node.values:
        if isinstance(part, ast.Constant):
            before += str(part.value)
            continue
        assert isinstance(part, ast.FormattedValue)
        if QUOTED.search(before):
            yield Fault(file, node.lineno, "quotes a value of YAML by hand; dump it")
        name = part.value.func if isinstance(part.value, ast.Call) else part.value
        own = isinstance(name, ast.Name) and name.id in ("host", "on", "one_line")
        if COMMENT.search(before) and not own:
            yield Fault(file, node.lineno, "puts text into a comment; a line feed would end it")
        before += "x"


def find_in_yaml(file: str, text: str, lab: frozenset[str]) -> Iterator[Fault]:
    """Find the faults of a playbook's or a role's file. `lab`: keys of the inventory's lab."""
    for document in yaml.compose_all(text, yaml.SafeLoader):
        yield from _find_in_node(file, document, lab, "")


def _find_in_node(file: str, node: Any, lab: frozenset[str], key: str) -> Iterator[Fault]:
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            line = value.start_mark.line + 1
            is_module = name.value.startswith("joulerig_") or name.value.startswith("ansible.builtin.")
            is_text = isinstance(value, yaml.ScalarNode) and TEMPLATE.search(value.value)
            if is_module and is_text and name.value not in SHELL:
                yield Fault(file, line, f"{name.value}: all its arguments are a variable; name each")
            in_shell = key in SHELL or name.value in SHELL
            if in_shell and name.value in (*SHELL, "cmd") and isinstance(value, yaml.ScalarNode):
                yield from _unquoted(file, line, value.value)
            yield from _find_in_node(file, value, lab, name.value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _find_in_node(file, value, lab, key)
    elif isinstance(node, yaml.ScalarNode):
        expression = key in ("when", "that", "loop", "until", "changed_when", "failed_when")
        source = f"{{{{ {node.value} }}}}" if expression and "{{" not in node.value else node.value
        yield from find_in_template(file, source, lab, node.start_mark.line + 1)


def find_in_template(file: str, text: str, lab: frozenset[str], line: int = 1) -> Iterator[Fault]:
    """Find variables of the lab in a template."""
    if not TEMPLATE.search(text):
        return
    try:
        names = jinja2.meta.find_undeclared_variables(_parse(text))
    except jinja2.TemplateError:
        return  # Ansible says so
    for name in sorted(names & (lab - HARMLESS)):
        yield Fault(file, line, f"{name} of the inventory in a template; joulerig_declared hands it over")


def _parse(text: str) -> jinja2.nodes.Template:
    environment = jinja2.Environment()
    environment.filters = environment.tests = _Any()  # Ansible has more
    with warnings.catch_warnings(action="ignore"):  # of escapes in regular expressions
        return environment.parse(text)


class _Any(dict[str, Any]):
    """A mapping that has every name."""

    def __contains__(self, name: object) -> bool:
        return True

    def get(self, name: str, default: Any = None) -> Any:
        return str


def _unquoted(file: str, line: int, text: str) -> Iterator[Fault]:
    """Find what a shell's command has of variables without Ansible's filter `quote`."""
    for output in _parse(text).find_all(jinja2.nodes.Output):
        for node in output.nodes:
            if isinstance(node, jinja2.nodes.TemplateData) or _is_quoted(node):
                continue
            yield Fault(file, line, "a shell's word that is not quoted; end it in | quote")


def _is_quoted(node: jinja2.nodes.Node) -> bool:
    """Check whether a value is quoted, or joined of quoted ones, or chosen among constants."""
    if not isinstance(node, jinja2.nodes.Filter):
        return False
    if node.name == "join" and isinstance(node.node, jinja2.nodes.Filter) and node.node.name == "map":
        [given] = node.node.args[:1]
        return isinstance(given, jinja2.nodes.Const) and given.value == "quote"
    # A role's own table of commands: its words are quoted where they stand.
    commands = node.name == "default" and isinstance(node.node, jinja2.nodes.Getitem)
    return node.name == "quote" or commands


def lab_keys() -> frozenset[str]:
    """Return the keys that an inventory has of a lab."""
    from joulerig.rig.lab import model

    return frozenset(model.KEYS)


def find_all(root: Path = ROOT) -> list[Fault]:
    """Find the faults of all shipped files."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, stdout=subprocess.PIPE, check=True)
    lab = lab_keys()
    found: list[Fault] = []
    for name in sorted(filter(None, listed.stdout.decode().split("\0"))):
        path = root / name
        if not path.is_file() or path.is_symlink():
            continue
        if name.startswith(PYTHON) and path.suffix == ".py":
            found += find_in_python(name, path.read_text())
        elif name.startswith(YAML) and path.suffix in (".yml", ".yaml"):
            found += find_in_yaml(name, path.read_text(), lab)
        elif name.startswith(YAML) and path.suffix == ".j2":
            found += find_in_template(name, path.read_text(), lab)
    return found


def main() -> int:
    found = find_all()
    print("\n".join(map(str, found)) or "data are never templates: no fault")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
