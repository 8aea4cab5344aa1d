# SPDX-License-Identifier: GPL-3.0-or-later
"""The installed distribution: no name of others is taken, and `rig` works from any folder."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.support import ROOT

ENTRIES = ("ansible.cfg", "host_vars", "inventory.ini", "inventory.example-bench.ini", "playbooks")
SOURCES = ("README.md", "LICENSE", "pyproject.toml", "joulerig", "rig", "analysis", "virtuallab", "ansible",
           "collectors", "workloads", *ENTRIES)  # fmt: skip


def run(*command, cwd, **environment):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("JOULERIG_")}
    return subprocess.run(
        list(map(str, command)), cwd=cwd, env={**kept, **environment}, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy: a build leaves its folders next to its sources."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in SOURCES:
        subprocess.run(["cp", "-a", str(ROOT / name), source], check=True)
    done = run(
        sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index",
        "-q", "-w", folder, ".", cwd=source,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    [path] = folder.glob("joulerig-*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Return a fresh environment with the wheel, on the dependencies of the tests' environment."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    [packages] = folder.glob("lib/python*/site-packages")
    done = run(
        sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--no-deps", "--no-index",
        "-q", wheel, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    [dependencies] = {Path(entry) for entry in sys.path if entry.endswith("site-packages")}
    (packages / "dependencies.pth").write_text(f"{dependencies}\n")  # its own .pth files are not read
    return folder


@pytest.fixture
def elsewhere(tmp_path):
    return tmp_path


def test_no_name_at_the_top_but_the_package_and_its_metadata(wheel):
    names = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in names if not name.endswith(".dist-info")} == {"joulerig"}


def test_the_wheel_holds_what_a_campaign_needs_and_no_sources_of_programs(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    share = "joulerig/share/"
    for name in (
        "ansible.cfg", "inventory.ini", "host_vars/vhost1.yml", "playbooks/campaign.yml",
        "ansible/modules/joulerig_run.py", "ansible/module_utils/joulerig/drives/wipe_lease.py",
        "ansible/action_plugins/joulerig_campaign.py", "ansible/roles/agent/files/iod.service",
        "ansible/roles/time_sync/templates/chrony.conf.j2", "workloads/workloads.yml",
        "workloads/fio/randwrite-fsync.fio", "workloads/personalities/varmail.f",
        "workloads/precondition/randwrite.fio", "workloads/programs/postmark/program.yml",
    ):  # fmt: skip
        assert share + name in names
    for name in (
        "virtuallab/profiles/hdd-7200.yml", "rig/dashboard/static/js/main.js",
        "rig/dashboard/static/js/main.css", "rig/dashboard/static/js/uPlot.LICENSE",
        "rig/dashboard/templates/index.html", "analysis/report/report.html.j2", "analysis/report/report.css",
    ):  # fmt: skip
        assert "joulerig/" + name in names
    left_out = (".go", "_test.py", ".pyc", ".ts", ".md", "faults.yml")
    assert not [name for name in names if name.endswith(left_out)]


@pytest.mark.parametrize("folder", ["playbooks", "ansible", "workloads"])
def test_every_tracked_file_that_is_shipped_is_in_the_wheel(wheel, folder):
    tracked = subprocess.run(
        ["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    programs = ("workloads/durawriter/", "workloads/flowop/", "workloads/internal/")
    shipped = {
        name
        for name in tracked
        if not name.endswith((".md", ".go", "faults.yml")) and not name.startswith(programs)
    }
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in shipped if f"joulerig/share/{name}" not in names} == set()


def test_import_takes_the_installed_package(installed, elsewhere):
    code = "import joulerig, joulerig.rig, joulerig.analysis, joulerig.virtuallab; print(joulerig.__file__)"
    done = run(installed / "bin" / "python", "-c", code, cwd=elsewhere)
    assert Path(done.stdout.strip()).is_relative_to(installed), done.stderr


@pytest.mark.long
def test_rig_plan_finds_a_shipped_playbook_from_another_folder(installed, elsewhere):
    done = run(installed / "bin" / "rig", "plan", "demo.yml", cwd=elsewhere)
    assert done.returncode == 0, done.stderr
    assert "runs          8: one block" in done.stdout
    assert list(elsewhere.iterdir()) == []  # a plan leaves nothing behind


@pytest.mark.long
def test_an_inventory_in_the_current_folder_is_the_lab(installed, elsewhere):
    (elsewhere / "inventory.ini").write_text("[test_hosts]\n")
    done = run(installed / "bin" / "rig", "plan", "demo.yml", cwd=elsewhere)
    assert done.returncode == 2
    assert "inventory.ini" in done.stderr


def test_rig_without_the_controllers_packages_names_the_extra(installed, elsewhere):
    blocked = elsewhere / "blocked"
    blocked.mkdir()
    (blocked / "typer.py").write_text("raise ModuleNotFoundError(\"No module named 'typer'\", name='typer')")
    done = run(installed / "bin" / "rig", "--help", cwd=elsewhere, PYTHONPATH=str(blocked))
    assert done.returncode == 2
    assert done.stderr == (
        "rig: the Python package 'typer' is missing;"
        " the controller is an extra: pip install '.[controller]' in the checkout\n"
    )
