# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugins, which are no package that Python could import."""

from __future__ import annotations

import importlib.util
from types import ModuleType

from tests.support import ROOT


def load(name: str) -> ModuleType:
    """Return the module of an action plugin by its name."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"ansible/action_plugins/{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
