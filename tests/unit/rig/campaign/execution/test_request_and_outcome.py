# SPDX-License-Identifier: GPL-3.0-or-later
"""The typed border between controller and host: a run's request, and its outcome."""

import ast

import pytest
import yaml
from pydantic import ValidationError

from joulerig.rig.campaign.execution import outcome, request
from joulerig.rig.campaign.execution.outcome import RunOutcome
from joulerig.rig.campaign.execution.request import RunRequest
from joulerig.rig.common.errors import UserError
from tests.support import ROOT

MODULE = ROOT / "ansible/modules/joulerig_run.py"
WORK = ROOT / "ansible/module_utils/joulerig/runs/one_run.py"
CALL = {"call", "begin", "collected"}  # how the request comes to be executed, no part of it
OK = {"status": "ok", "reason": "", "changed": True, "phases": [], "clock": []}


def constant(name, source=MODULE):
    """A constant of the module, or of what does its work, which only a test host can import."""
    for node in ast.parse(source.read_text()).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == name:
            return ast.literal_eval(node.value)
    raise LookupError(name)


def test_the_module_takes_every_key_of_a_request():
    options = yaml.safe_load(constant("DOCUMENTATION"))["options"]
    assert set(options) - {"agent_socket", *CALL} == set(RunRequest.model_fields)


def test_an_outcome_has_every_key_that_the_module_returns():
    returned = set(yaml.safe_load(constant("RETURN"))) | {"changed"}
    assert returned == set(RunOutcome.model_fields) - {"invocation", "controller_step_ns"}


def test_both_sides_have_the_same_version():
    assert constant("VERSION", WORK) == request.VERSION == outcome.VERSION


def test_a_request_refuses_what_it_does_not_know():
    with pytest.raises(ValidationError, match="seek"):
        RunRequest.model_validate({"seek": True})


def test_what_ansible_adds_is_dropped_but_for_what_was_asked():
    invocation = {"module_args": {"workload": {"tool": "fio"}}}
    found = RunOutcome.from_reply(
        {**OK, "invocation": invocation, "_ansible_parsed": True, "warnings": ["python 3.9"], "msg": ""}
    )
    assert found.as_result_file() == {**OK, "version": 1, "invocation": invocation}


def test_a_module_that_crashed_failed_with_ansibles_message():
    found = RunOutcome.from_reply({"failed": True, "msg": "MODULE FAILURE\nSee stdout", "rc": 1})
    assert (found.status, found.reason) == ("failed", "MODULE FAILURE See stdout")
    assert found.changed, "what it did to the drive is unknown"


def test_a_key_of_a_newer_host_is_refused_on_one_line():
    with pytest.raises(UserError) as caught:
        RunOutcome.from_reply({**OK, "watts": 3})
    assert str(caught.value) == (
        "joulerig_run: returned 'watts', which outcomes of version 1 do not have;"
        " the host runs a newer Joulerig: update the controller"
    )


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"phases": [1]}, "phases.0"),
        ({"clock": [{"at_ns": 1, "offset_ns": 2}]}, "clock.0.error_ns"),
        ({"status": "fine"}, "status"),
        ({"version": 2}, "version"),
    ],
)
def test_a_wrong_value_is_named_on_one_line(wrong, where):
    with pytest.raises(UserError, match=f"^joulerig_run: returned a wrong {where}: ") as caught:
        RunOutcome.from_reply({**OK, **wrong})
    assert "\n" not in str(caught.value)


def test_what_was_counted_by_nothing_stays_unknown():
    found = RunOutcome.from_reply({**OK, "touched": {"ram": {"write_bytes": None, "discard_bytes": None}}})
    assert found.touched["ram"].write_bytes is None
    assert RunOutcome.from_reply({**OK, "report": [], "counters": {}}).report is None
