# SPDX-License-Identifier: GPL-3.0-or-later
"""Import modules that other packages import and hardly any program uses when they are used."""

from __future__ import annotations

import importlib.util
import sys


def defer(name: str) -> None:
    """Bind a submodule, and execute it when an attribute of it is first used.

    The recipe for lazy imports of Python's documentation of `importlib`, with the submodule bound
    in its parent package as an import does. No effect where the module has been imported, or does
    not exist.
    """
    if name in sys.modules:
        return
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    parent, _, child = name.rpartition(".")
    setattr(sys.modules[parent], child, module)
