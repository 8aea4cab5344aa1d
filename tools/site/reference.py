# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the site's reference pages from the code: commands, files, tables, API."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import json
import pkgutil
import re
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import annotated_types
import typer.main
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

MADE = "<!-- Made from the code by tools/site/reference.py. -->\n\n"


def pages() -> dict[str, str]:
    """Return the text of each page by its path on the site."""
    return {
        "reference/cli.md": MADE + command_line(),
        "reference/campaign-file.md": MADE + campaign_file(),
        "reference/inventory.md": MADE + inventory(),
        "reference/names.md": MADE + names(),
        "reference/results-schema.md": MADE + results_schema(),
        "reference/exported-tables.md": MADE + exported_tables(),
        "reference/python.md": MADE + python_api(),
        "reference/messages.md": MADE + messages(),
    } | schemas()


def cell(text: str) -> str:
    """Return text as it can stand in a cell of a table."""
    return re.sub(r"\s+", " ", text).strip().replace("|", "\\|")


# ---------------------------------------------------------------- command line


def commands() -> dict[str, Any]:
    """Return every command of `rig` by its words: {"meters show": command, ...}."""
    from joulerig.rig.cli.main import app

    def walk(command: Any, words: list[str]) -> Iterator[tuple[str, Any]]:
        if hasattr(command, "commands"):
            for name, below in command.commands.items():
                yield from walk(below, [*words, name])
        else:
            yield " ".join(words), command

    return dict(walk(typer.main.get_command(app), []))


def command_line() -> str:
    """Describe each command with its arguments and options."""
    from joulerig.rig.cli.main import app

    root = typer.main.get_command(app)
    text = [
        "# Command line\n",
        f"{root.help}\n",
        "`rig` is `.venv/bin/rig` of the checkout. An error that you can correct is one line on stderr,"
        " with exit code 2. Every command has `--help`.\n",
    ]
    groups = {name: command.help for name, command in root.commands.items() if hasattr(command, "commands")}
    seen = set()
    for words, command in commands().items():
        group = words.split()[0]
        if group in groups and group not in seen:
            seen.add(group)
            text.append(f"## rig {group}\n\n{groups[group]}\n")
        text.append(f"{'###' if group in groups else '##'} rig {words}\n\n{_command(words, command)}")
    return "\n".join(text)


def _command(words: str, command: Any) -> str:
    arguments = [p for p in command.params if not p.opts[0].startswith("-")]
    options = [p for p in command.params if p.opts[0].startswith("-") and p.name != "help" and not p.hidden]
    usage = " ".join(["rig", words, *(["[OPTIONS]"] if options else []), *map(_metavar, arguments)])
    text = f"{inspect.cleandoc(command.help or '')}\n\n```\n{usage}\n```\n"
    rows = [f"| `{_metavar(p)}` | {cell(p.help or '')} | |" for p in arguments if p.help]
    for option in options:
        names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
        given = option.default() if callable(option.default) else option.default
        default = "" if given in (None, False, [], ()) else f"`{given}`"
        rows.append(f"| {names} | {cell(option.help or '')} | {default} |")
    return text + ("\n| | | default |\n|---|---|---|\n" + "\n".join(rows) + "\n" if rows else "")


def _metavar(argument: Any) -> str:
    if argument.metavar:
        return str(argument.metavar)
    name = argument.name.upper() + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


# ---------------------------------------------------------------- files that a user writes


def campaign_file() -> str:
    """Describe the `campaign:` mapping of a playbook."""
    from joulerig.rig.campaign.definition import Campaign
    from joulerig.rig.campaign.power_cut_definition import PowerCutCampaign

    return (
        "# Campaign file\n\nThe `campaign:` mapping of a playbook that imports `campaign.yml`. An unknown"
        " key or value is refused with the allowed ones before anything is touched."
        " [Write a campaign](../how-to/campaigns.md) shows how to use it.\n\n"
        + models(Campaign, "campaign")
        + "A campaign of kind `power-cut` has these keys ([Cut the power](../how-to/power-cuts.md)).\n\n"
        + models(PowerCutCampaign, "power-cut campaign")
    )


def inventory() -> str:
    """Describe what an inventory's host_vars can declare."""
    from joulerig.rig.lab.model import Controller, TestHost

    return (
        "# Inventory\n\n`inventory.ini` has two groups: `controller`, with one host, and `test_hosts`. The"
        " variables below are those of each host in `host_vars/HOST.yml` next to the inventory; others are"
        " Ansible's. [Set up your own bench](../how-to/own-bench.md) shows how to use it.\n\n"
        + models(TestHost, "test host")
        + models(Controller, "controller")
    )


def names() -> str:
    """Describe what campaigns and inventories can name."""
    from joulerig.rig.campaign import factors
    from joulerig.rig.lab import applications, filesystems, meters, programs
    from joulerig.virtuallab import profile

    return (
        "# Factors, file systems, programs, applications, meters, drive profiles\n\nWhat campaigns and"
        " inventories can name. Each is one file or directory; a lab's own lie next to its inventory"
        " ([Contributing](../contributing.md) shows how to add one).\n\n"
        f"## Factors\n\n{factors.reference()}\n"
        f"## File systems\n\n{filesystems.reference()}\n"
        f"## Programs\n\n{programs.reference()}\n"
        f"## Applications\n\n{applications.reference()}\n"
        f"## Meter families\n\n{meters.reference()}\n"
        f"## Drive profiles of virtual drives\n\n{profile.reference()}"
    )


def models(root: type[BaseModel], title: str) -> str:
    """Describe a model and all models in it, a section each."""
    text = []
    for model in _walk([root]):
        name = title if model is root else _slug(model)
        text.append(f"## {name}\n\n{_prose(model)}\n\n{_keys(model)}\n")
    return "".join(text)


def _walk(roots: Iterable[type[BaseModel]]) -> Iterator[type[BaseModel]]:
    """Yield models and all models in them, each once, breadth first."""
    queue = list(roots)
    seen: set[type[BaseModel]] = set()
    while queue:
        model = queue.pop(0)
        if model not in seen:
            seen.add(model)
            yield model
            for field in model.model_fields.values():
                queue += _models_in(field.annotation)


def _keys(model: type[BaseModel], prefix: str = "") -> str:
    helps = field_helps(model)
    rows = [
        (f"`{field.alias or key}`", _type(field, prefix), _default(field), cell(helps.get(key, "")))
        for key, field in model.model_fields.items()
    ]
    return "| key | type | default | meaning |\n|---|---|---|---|\n" + "".join(
        f"| {' | '.join(row)} |\n" for row in rows
    )


def field_helps(model: type[BaseModel]) -> dict[str, str]:
    """Return each field's meaning: description, the string below it, or the docstring's entry."""
    helps: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        if not (isinstance(kind, type) and issubclass(kind, BaseModel)) or kind is BaseModel:
            continue
        for match in re.finditer(
            r"`(\w+)`: (.*?)(?=[.;]\s+`\w+`:|\.?\s*\Z|\.\s*\n\n)", kind.__doc__ or "", re.S
        ):
            helps[match[1]] = match[2]
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
        except (OSError, TypeError, SyntaxError):
            continue
        body = getattr(tree, "body", [])
        for statement, after in itertools.pairwise(body):
            if (
                isinstance(statement, ast.AnnAssign)
                and isinstance(statement.target, ast.Name)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
            ):
                helps[statement.target.id] = inspect.cleandoc(str(after.value.value))
    return helps | {key: f.description for key, f in model.model_fields.items() if f.description}


def _prose(model: type[BaseModel]) -> str:
    paragraphs = inspect.cleandoc(model.__doc__ or "").split("\n\n")
    return re.sub(r"\s*`\w+`: .*\Z", "", " ".join(paragraphs[0].split()))


def _slug(model: type) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", model.__name__).lower()


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in typing.get_args(annotation) for model in _models_in(argument)]


def _type(field: FieldInfo, prefix: str = "") -> str:
    bounds = [*map(_bound, field.metadata)]
    return cell(", ".join([_annotation(field.annotation, prefix), *filter(None, bounds)]))


def _annotation(annotation: Any, prefix: str = "") -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return ", ".join(filter(None, [_annotation(arguments[0], prefix), *map(_bound, arguments[1:])]))
    if origin is typing.Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_annotation(a, prefix) for a in arguments if a is not type(None))
    if origin in (list, tuple):
        return f"list of {_annotation(arguments[0], prefix)}"
    if origin is dict:
        return f"mapping of {_annotation(arguments[0], prefix)} to {_annotation(arguments[1], prefix)}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        name = _slug(annotation)
        return f"[{name}](#{prefix}{name.replace(' ', '-')})"
    names = {str: "text", int: "whole number", float: "number", bool: "true or false", Any: "anything"}
    return names.get(annotation, str(getattr(annotation, "__name__", annotation)).lower())


def _bound(metadata: Any) -> str:
    if isinstance(metadata, FieldInfo):
        return ", ".join(filter(None, map(_bound, metadata.metadata)))
    if isinstance(metadata, annotated_types.GroupedMetadata):
        return ", ".join(filter(None, map(_bound, metadata)))
    signs: dict[type, Callable[[Any], str]] = {
        annotated_types.Gt: lambda m: f"more than {m.gt:g}",
        annotated_types.Ge: lambda m: f"at least {m.ge:g}",
        annotated_types.Le: lambda m: f"at most {m.le:g}",
        annotated_types.MinLen: lambda m: "" if m.min_length < 2 else f"at least {m.min_length} of them",
    }
    return signs[type(metadata)](metadata) if type(metadata) in signs else ""


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "**required**"
    value = field.default_factory() if field.default_factory else field.default  # type: ignore[call-arg]
    if value is None or value == "" or value == [] or value == {} or value is PydanticUndefined:
        return ""
    if isinstance(value, BaseModel):
        return "see below"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


# ---------------------------------------------------------------- messages between programs


def messages() -> str:
    """Describe the JSON messages of each program in C or Go."""
    from joulerig.rig import protocols

    text = [
        "# Messages\n\nThe JSON that programs accept and send. Tests hold the programs to these tables and to"
        " the JSON Schemas that each section links. What a program does with a message:"
        " [Interfaces](protocols/README.md).\n\n"
    ]
    for program, roots in protocols.MESSAGES.items():
        text.append(f"## {program}\n\n")
        for model in _walk(roots):
            name = f"{program} {_slug(model)}"
            schema = f" ([JSON Schema]({_schema(program, model)}))" if model in roots else ""
            text.append(f"### {name}\n\n{_prose(model)}{schema}\n\n{_keys(model, f'{program}-')}\n")
    return "".join(text)


def schemas() -> dict[str, str]:
    """Return the JSON Schema of each message by its path on the site."""
    from joulerig.rig import protocols

    return {
        f"reference/{_schema(program, model)}": json.dumps(model.model_json_schema(), indent=1) + "\n"
        for program, roots in protocols.MESSAGES.items()
        for model in roots
    }


def _schema(program: str, model: type[BaseModel]) -> str:
    return f"schemas/{program}-{_slug(model).replace(' ', '-')}.json"


# ---------------------------------------------------------------- results


def results_schema() -> str:
    """Describe the journal's tables."""
    from joulerig.analysis.results import reference

    return reference.journal_page()


def exported_tables() -> str:
    """Describe the tables that `rig export` writes."""
    from joulerig.analysis.export import columns

    text = [
        "# Exported tables\n\nWhat `rig export` writes as CSV and Parquet"
        " ([Export and verify](../how-to/export.md)). `schema.json` next to the tables says the same, with"
        " each column's type. Columns that several tables have are described once, at the end.\n"
    ]
    for table, about in columns.ABOUT.items():
        text.append(f"## {table}\n\n{about}\n")
        text.append(_columns(columns.own(table)))
    text.append("## Columns of several tables\n\n" + _columns(columns.COMMON))
    return "\n".join(text)


def _columns(described: dict[str, tuple[str, str]]) -> str:
    rows = [f"| `{name}` | {cell(unit)} | {cell(meaning)} |" for name, (unit, meaning) in described.items()]
    return "| column | unit | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n"


# ---------------------------------------------------------------- Python


def python_api() -> str:
    """Describe the public API of joulerig, joulerig.notebook and joulerig.analysis."""
    import joulerig
    from joulerig import analysis

    text = [
        "# Python API\n\n"
        + inspect.cleandoc(joulerig.__doc__ or "")
        + "\n\nWhat follows is every public function and class, with the first sentence of its documentation."
        " `help(...)` in Python shows the rest: shapes, units, errors, sources.\n"
    ]
    names = [
        info.name
        for info in pkgutil.walk_packages(analysis.__path__, "joulerig.analysis.")
        if not info.name.endswith("__main__")
    ]
    for name in ["joulerig", "joulerig.notebook", *names]:
        module = importlib.import_module(name)
        rows = [
            f"| `{key}{_signature(thing)}` | {cell(_first_paragraph(thing))} |"
            for key, thing in vars(module).items()
            if not key.startswith("_")
            and (inspect.isfunction(thing) or inspect.isclass(thing))
            and thing.__module__ == name
        ]
        if rows:
            about = _first_paragraph(module) if name != "joulerig" else ""
            text.append(f"## {name}\n\n{about}\n\n| name | |\n|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(text)


def _first_paragraph(thing: Any) -> str:
    return inspect.cleandoc(thing.__doc__ or "").split("\n\n")[0]


def _signature(thing: Any) -> str:
    if inspect.isclass(thing):
        return ""
    return f"({', '.join(inspect.signature(thing).parameters)})"
