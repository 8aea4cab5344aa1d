# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller knows the virtual lab through one adapter, and a bench never loads it."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from joulerig.rig.common import paths
from joulerig.rig.lab import virtual

ADAPTER = Path("rig/lab/virtual.py")

PLAN_A_CAMPAIGN = """
import json, sys
from pathlib import Path
from joulerig.rig.campaign import definition, measure, opening
from joulerig.rig.campaign.execution import preconditioning
from joulerig.rig.cli import main
from joulerig.rig.lab import model, virtual
from joulerig.rig.lab.kernels import build
from joulerig.rig.campaign.powercut import executor
from joulerig.rig.controller import services

inventory, mapping = sys.argv[1:]
lab = model.load(Path(inventory))
campaign = definition.parse(json.loads(mapping), lab, "playbook.yml")
runs = definition.plan(campaign, lab)
connections = [lab.connection(meter) for meter in lab.controller.meters]
truths = {name: virtual.truth_source(lab, name) for name in lab.hosts}
loaded = sorted(name for name in sys.modules if name.startswith("joulerig.virtuallab"))
print(json.dumps({"runs": len(runs), "connections": connections, "truths": truths, "loaded": loaded}))
"""


def imports(path):
    """The modules that a source file imports anywhere, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_a_bench_plans_a_campaign_without_loading_the_virtual_lab(lab_files, mapping):
    done = subprocess.run(
        [sys.executable, "-c", PLAN_A_CAMPAIGN, str(lab_files.write()), json.dumps(mapping)],
        cwd=paths.ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["runs"] == 3 * 2 * 2 * 2
    assert found["connections"] == ["tcp-raw/192.0.2.7/5025", "tcp-raw/192.0.2.8/5025"]
    assert found["truths"] == {"bench1": None}
    assert found["loaded"] == []


def test_one_module_of_rig_imports_the_virtual_lab():
    importers = {
        path.relative_to(paths.ROOT)
        for path in (paths.ROOT / "rig").rglob("*.py")
        if any(name.startswith("joulerig.virtuallab") for name in imports(path))
    }
    assert importers == {ADAPTER}


def test_the_virtual_lab_uses_the_lab_model_and_what_is_common_alone():
    allowed = ("joulerig.rig.common", "joulerig.rig.lab", "joulerig.virtuallab")
    used = {
        (path.name, name)
        for path in (paths.ROOT / "virtuallab").rglob("*.py")
        for name in imports(path)
        if name.startswith("joulerig.") and not name.startswith(allowed)
    }
    assert used == set()


@pytest.fixture
def with_virtual_host(lab_files):
    for drive in lab_files.drives.values():
        drive["profile"] = "hdd-7200"
    lab_files.host["virtual"] = {"guest_packages": ["postmark"]}
    return lab_files.load()


def test_a_virtual_host_lacks_what_is_not_in_its_image(with_virtual_host):
    asked = ["fio", "postmark", "elbencho"]
    assert virtual.missing_packages(with_virtual_host, "bench1", asked) == ["elbencho"]


def test_a_physical_host_installs_what_it_lacks(bench):
    assert virtual.missing_packages(bench, "bench1", ["elbencho"]) == []


def test_a_virtual_hosts_drives_have_a_truth_source(with_virtual_host):
    source = virtual.truth_source(with_virtual_host, "bench1")
    assert source is not None
    assert callable(source.state)
    assert callable(source.history)
