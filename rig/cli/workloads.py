# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig workloads`: list the workloads a campaign can name; try one on a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.table import Table

from joulerig.plural import counted
from joulerig.rig import workloads
from joulerig.rig.cli.options import JsonOption, complain, out
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import definitions, model
from joulerig.rig.workloads import place
from joulerig.rig.workloads.engines import Workload

app = typer.Typer(no_args_is_help=True, help="List the workloads, show one, or try one on a folder.")

NameArgument = Annotated[
    str, typer.Argument(metavar="WORKLOAD", help="Name of a workload ('rig workloads list').")
]


def _named(name: str) -> Workload:
    known = workloads.load(model.load())
    if name not in known:
        raise UserError(f"{name!r} is {definitions.allowed(name, known)}")
    return known[name]


@app.command("list")
def list_(as_json: JsonOption = False) -> None:
    """List all workloads: the shipped ones, and the lab's own next to the inventory."""
    known = workloads.load(model.load())
    if as_json:
        print(json.dumps({name: one.model_dump(mode="json") for name, one in known.items()}, indent=1))
        return
    table = Table("workload", "engine", "what it does")
    for name, one in known.items():
        table.add_row(name, one.engine, one.about())
    out.print(table)


@app.command("show")
def show(name: NameArgument, as_json: JsonOption = False) -> None:
    """Show one: its definition, what goes to a test host, and what that needs."""
    definition = _named(name)
    shown = {
        "name": name,
        "definition": definition.model_dump(mode="json", exclude_defaults=True),
        "delivered": definition.delivered(place.on_host),
        **workloads.deployment([name], model.load()),
    }
    if as_json:
        print(json.dumps(shown, indent=1))
        return
    out.print(yaml.dump(shown, Dumper=_Readable, sort_keys=False).rstrip())


class _Readable(yaml.SafeDumper):
    """Text of several lines as a block."""


_Readable.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    ),
)


@app.command("run")
def run(
    name: NameArgument,
    directory: Annotated[Path, typer.Option(help="Folder to load; it is left unchanged.")],
    seconds: Annotated[int, typer.Option(min=1, max=86_400, help="Length of the load, in seconds.")] = 10,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of all random choices.")] = 1,
    among_others: Annotated[
        bool, typer.Option("--among-others", help="Allow a folder that is not empty.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Try a workload on a folder of this machine. Ctrl-C ends it with the result so far."""
    from joulerig.rig.workloads import trial

    done = trial.run(name, _named(name), directory, seconds, seed, among_others)
    if as_json:
        print(
            json.dumps(
                {"performance": done.performance, "problem": done.problem, "report": done.report}, indent=1
            )
        )
    else:
        out.print("\n".join(_figures(done.performance)))
    if done.problem:
        complain(f"{done.problem}; these are the figures so far")
        raise typer.Exit(1)


def _figures(done: dict[str, Any]) -> list[str]:
    """Return a performance row as text; unknown figures are left out."""
    lines = [
        f"{counted(done['ops'], done['unit'])} in {done['seconds']:.2f} s:"
        f" {done['ops_per_second']:.1f} a second"
    ]
    if done["mb_per_second"] is not None:
        read, written = done["read_bytes"] / 1e6, done["write_bytes"] / 1e6
        lines.append(f"{done['mb_per_second']:.2f} MB/s; read {read:.1f} MB, written {written:.1f} MB")
    if done["syncs"]:
        lines.append(counted(done["syncs"], "sync"))
    if done["latency_p50_seconds"] is not None:
        operation = "one" if done["unit"] != "operation" else "a sync" if done["syncs"] else "an operation"
        p50, p99 = 1e3 * done["latency_p50_seconds"], 1e3 * (done["latency_p99_seconds"] or 0)
        lines.append(f"latency of {operation}: p50 {p50:.3f} ms, p99 {p99:.3f} ms")
    if done["figure"] is not None:
        figure = f"{done['figure']:.6g} {done['figure_unit']}"
        lines.append(f"{done['figure_name']}: {figure} ({done['figure_better']} is better)")
    return lines
