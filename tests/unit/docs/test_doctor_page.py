# SPDX-License-Identifier: GPL-3.0-or-later
"""The page about `rig doctor` names every check."""

from __future__ import annotations

from types import ModuleType

import pytest

from joulerig.rig.doctor import controller, hosts, inventory
from tests.support import ROOT

PAGE = ROOT / "docs/how-to/doctor.md"


@pytest.mark.parametrize("module", [inventory, hosts, controller], ids=lambda module: module.__name__)
def test_every_check_is_named(module: ModuleType) -> None:
    text = PAGE.read_text()
    assert [name for name in module.CHECKS if f"`{name}`" not in text] == []


def test_the_rules_that_it_has_people_install_are_where_it_says() -> None:
    path = f"rig/lab/meters/{controller.RULES}"
    assert path in PAGE.read_text()
    assert (ROOT / path).is_file()
