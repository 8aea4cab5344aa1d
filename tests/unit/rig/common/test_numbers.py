# SPDX-License-Identifier: GPL-3.0-or-later
"""Every number that a person writes has a greatest value: in models, and on the command line."""

import copy
import importlib
import math
import pkgutil
import resource
import time
import types
import typing

import annotated_types
import pytest
import typer
from pydantic import BaseModel
from typer.testing import CliRunner

import joulerig.rig
import joulerig.virtuallab
from joulerig.rig.cli.main import app
from joulerig.rig.common.errors import Strict, UserError, validate
from joulerig.rig.common.numbers import MOST_COUNT
from tests.support.lab_files import CAMPAIGN

# Not written by people: between the controller and a test host, or programs.
OF_MACHINES = (
    "joulerig.rig.campaign.execution.",
    "joulerig.rig.campaign.reservations.",
    "joulerig.rig.protocols.",
)
for package in (joulerig.rig, joulerig.virtuallab):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def below(model: type[BaseModel]) -> typing.Iterator[type[BaseModel]]:
    for one in model.__subclasses__():
        yield one
        yield from below(one)


def numbers(annotation: typing.Any, notes: tuple = ()) -> typing.Iterator[tuple[type, tuple]]:
    """Yield each number in a type, with what is noted of it."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        yield from numbers(parts[0], (*notes, *parts[1:]))
    elif origin in (typing.Union, types.UnionType):
        for one in parts:
            yield from numbers(one, notes)
    elif origin is not None and origin is not typing.Literal:
        for one in parts:
            yield from numbers(one)
    elif annotation in (int, float):
        yield annotation, notes


def has_a_greatest(notes: tuple) -> bool:
    flat = [*notes, *(one for note in notes for one in getattr(note, "metadata", ()) or ())]
    return any(isinstance(one, annotated_types.Le | annotated_types.Lt) for one in flat)


WRITTEN = sorted(
    {
        one
        for one in below(Strict)
        if one.__module__.startswith("joulerig.") and not one.__module__.startswith(OF_MACHINES)
    },
    key=lambda model: f"{model.__module__}.{model.__qualname__}",
)


def test_there_are_models():
    assert len(WRITTEN) > 40


@pytest.mark.parametrize("model", WRITTEN, ids=lambda model: f"{model.__module__}.{model.__qualname__}")
def test_each_number_of_a_model_has_a_greatest_value(model):
    unbounded = [
        name
        for name, field in model.model_fields.items()
        for _, notes in numbers(field.annotation, tuple(field.metadata))
        if not has_a_greatest(notes)
    ]
    assert unbounded == [], "take a type of joulerig.rig.common.numbers"
    assert model.model_config.get("allow_inf_nan") is False


def test_an_unbounded_number_is_noticed():
    class New(BaseModel):
        size: int
        sizes: dict[str, list[float]]

    found = [notes for field in New.model_fields.values() for _, notes in numbers(field.annotation)]
    assert [has_a_greatest(notes) for notes in found] == [False, False]


def options() -> typing.Iterator[tuple[str, typing.Any]]:
    def walk(command, above):
        for name, one in getattr(command, "commands", {}).items():
            yield from walk(one, f"{above} {name}".strip())
        for parameter in command.params:
            yield f"{above} {parameter.name}", parameter

    for name, parameter in walk(typer.main.get_command(app), ""):
        if parameter.type_descriptor.annotation in (int, float):
            yield name, parameter


OPTIONS = dict(options())


def test_there_are_options():
    assert {"bisect blocks", "meters check seconds", "workloads draw seconds"} & OPTIONS.keys()


@pytest.mark.parametrize("name", OPTIONS)
def test_each_number_of_the_command_line_has_bounds(name):
    parameter = OPTIONS[name]
    assert parameter.min is not None
    assert parameter.max is not None
    if parameter.type_descriptor.annotation is float:  # NaN is neither below nor above
        with pytest.raises(typer.BadParameter):
            parameter.callback(None, parameter, math.nan)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999", "9" * 400])
def test_a_number_that_is_none_is_a_line(value):
    done = CliRunner().invoke(app, ["meters", "check", "tap1", "--seconds", value])
    assert done.exit_code == 2
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        (
            "replicates",
            99999999999,
            f"campaign.replicates: 99999999999; allowed: less than or equal to {MOST_COUNT}",
        ),
        ("replicates", MOST_COUNT, "100000 of 12 cells are 1200000 runs; allowed: at most 200000 runs"),
        ("replicates", math.inf, "campaign.replicates: inf; allowed: a finite number"),
        ("seed", 10**400, "campaign.seed"),
        ("seed", 1 << 63, "campaign.seed: 9223372036854775808; allowed: less than 9223372036854775808"),
        ("phases", {"workload_seconds": 10**12}, "campaign.phases.workload_seconds: 1000000000000; allowed"),
        ("phases", {"idle_seconds": math.nan}, "campaign.phases.idle_seconds: nan; allowed: a finite number"),
        ("hold_minutes", math.nan, "campaign.hold_minutes: nan; allowed: a finite number"),
        ("use_bytes", f"{'9' * 30} TiB", "campaign.use_bytes"),
        ("use_bytes", f"{'9' * 400} TiB", "campaign.use_bytes"),
    ],
)
def test_a_campaign_is_refused_before_it_takes_memory(lab_files, key, value, says):
    from joulerig.rig.campaign import plan

    mapping = {**copy.deepcopy(CAMPAIGN), key: value}
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(UserError) as error:
        plan.make_plan(mapping, lab_files.load(), "study.yml")
    assert says in str(error.value)
    assert "study.yml" in str(error.value)
    assert len(str(error.value)) < 1000
    assert "\n" not in str(error.value)
    assert time.process_time() - began < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB; it took 21 GB


def test_cells_are_counted_before_they_are_made(lab_files):
    from joulerig.rig.campaign import plan

    many = {"run_seconds": list(range(1, 3000)), "fill": [n / 10_000 for n in range(5000)]}
    mapping = {**CAMPAIGN, "factors": {**CAMPAIGN["factors"], **many}}
    with pytest.raises(UserError, match="allowed: at most 200000 runs"):
        plan.make_plan(mapping, lab_files.load(), "study.yml")


def test_power_cuts_are_counted_before_they_are_made(lab_files):
    from joulerig.rig.campaign.power_cut_definition import PowerCutCampaign

    mapping = {
        "kind": "power-cut",
        "name": "cuts",
        "question": "Which?",
        "subjects": [{"drive": "fast"}],
        "cuts": 10**9,
    }
    with pytest.raises(UserError, match=r"campaign\.cuts: 1000000000; allowed: less than or equal to 100000"):
        validate(PowerCutCampaign, mapping, "study.yml", "campaign")
