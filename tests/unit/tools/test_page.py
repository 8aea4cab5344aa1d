# SPDX-License-Identifier: GPL-3.0-or-later
"""What the dashboard's page is bundled from."""

from __future__ import annotations

import json
from typing import Any

from joulerig.analysis.results.schema import FINISHED, PhaseName, PreconditioningPhase, Status
from tools import page


def locked() -> dict[str, Any]:
    lock = json.loads((page.DASHBOARD / "package-lock.json").read_text())
    packages: dict[str, Any] = lock["packages"]
    return packages


def test_each_locked_package_has_its_hash_and_none_names_a_registry():
    packages = {name: package for name, package in locked().items() if name}
    assert len(packages) > 20
    assert [name for name, package in packages.items() if "resolved" in package] == []
    assert [name for name, package in packages.items() if "integrity" not in package] == []
    # npm writes each package's `funding` too, which is taken out by hand: `npm ci` needs none.
    assert "://" not in (page.DASHBOARD / "package-lock.json").read_text()


def test_the_packages_that_the_page_asks_for_have_one_version():
    wanted = json.loads((page.DASHBOARD / "package.json").read_text())
    versions = wanted["dependencies"] | wanted["devDependencies"]
    packages = locked()
    assert {name: packages[f"node_modules/{name}"]["version"] for name in versions} == versions


def test_the_page_has_the_schemas_statuses_and_phases():
    lines = dict(
        line.removeprefix("export const ").removesuffix(" as const;").split(" = ")
        for line in page.names_module().splitlines()
        if line.startswith("export const ")
    )
    assert {name: json.loads(values) for name, values in lines.items()} == {
        "STATUSES": list(Status),
        "FINISHED": list(FINISHED),
        "PHASES": list(PhaseName),
        "PRECONDITIONING": list(PreconditioningPhase),
    }
