# SPDX-License-Identifier: GPL-3.0-or-later
"""One base class for the errors of every part: a notebook catches them all by one name."""

import ast

import pytest

import joulerig
from joulerig.analysis import results
from joulerig.rig.common.errors import UserError
from tests.support import ROOT

CONTROL_FLOW = {"Interrupted"}  # Ctrl-C during a campaign: not an error


@pytest.mark.parametrize("part", ["analysis", "rig", "virtuallab"])
def test_no_exception_class_stands_outside_the_base(part):
    derived_from_a_builtin = {
        node.name
        for path in (ROOT / part).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        for base in node.bases
        if isinstance(base, ast.Name) and base.id in ("Exception", "RuntimeError", "ValueError", "OSError")
    }
    assert derived_from_a_builtin - CONTROL_FLOW == set()


def test_an_error_is_still_caught_by_its_own_class():
    assert issubclass(results.ResultsError, joulerig.JoulerigError)
    assert issubclass(UserError, joulerig.JoulerigError)


def test_the_base_is_not_a_builtin_error_that_other_code_catches():
    assert joulerig.JoulerigError.__bases__ == (Exception,)
