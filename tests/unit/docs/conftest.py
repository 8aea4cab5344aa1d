# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of the documentation share: the module that makes its reference pages."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import pytest

from tests.support import ROOT


@pytest.fixture(scope="session")
def reference() -> ModuleType:
    """Return tools/site/reference.py, which MkDocs loads by its path."""
    sys.path.insert(0, str(ROOT / "tools" / "site"))
    try:
        return importlib.import_module("reference")
    finally:
        sys.path.pop(0)
