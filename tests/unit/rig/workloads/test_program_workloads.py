# SPDX-License-Identifier: GPL-3.0-or-later
"""External programs as workloads: their definitions, and what goes to a test host."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from joulerig.rig import workloads
from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import programs
from joulerig.rig.lab.kernels import source as kernel_source
from joulerig.rig.workloads import engines, place
from tests.support.set_up import set_up_packages

PROGRAMS = {name: one for name, one in workloads.shipped().items() if isinstance(one, engines.Program)}


def program(**more):
    return engines.parse("mine", {"engine": "program", **more}, "workloads.yml", paths.ROOT)


@pytest.fixture
def source(tmp_path, monkeypatch):
    """An existing kernel source."""
    path = tmp_path / "linux-source.tar.gz"
    path.write_bytes(b"source")
    monkeypatch.setattr(kernel_source, "archive", lambda part: path)
    return path


def test_the_studies_programs_are_shipped():
    assert {"postmark", "kernel-grep", "kernel-make", "tpcc"} <= set(PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_setting_is_one_that_its_script_has(name, source):
    delivered = PROGRAMS[name].delivered(place.here)
    known = programs.holding(Path(PROGRAMS[name].program)).defaults()
    assert known
    for key, value in delivered["settings"].items():
        assert type(value) is type(known[key])


@pytest.mark.parametrize("name", PROGRAMS)
def test_set_up_installs_what_its_tests_need(name):
    assert set(PROGRAMS[name].needed_packages()) <= set_up_packages()


@pytest.mark.parametrize(
    "program", programs.read(programs.SHIPPED).values(), ids=lambda program: program.name
)
def test_every_setting_of_a_script_is_described(program):
    assert program.definition.parameters.keys() == program.defaults().keys()
    assert all(program.definition.parameters.values())


def test_a_script_goes_with_the_modules_that_it_imports_and_what_it_reads():
    on_host = [place.on_host(path) for path in program(program="tpcc").files()]
    folder = "/usr/local/share/joulerig/programs"
    assert on_host == [
        f"{folder}/tpcc/tpcc.py", f"{folder}/tpcc/tpcc_tables.sql", f"{folder}/tpcc/tpcc_transactions.sql",
        f"{folder}/program.py", f"{folder}/postgresql_server.py",
    ]  # fmt: skip


def test_a_host_gets_the_names_of_the_packages_that_a_program_needs():
    one = program(program="postmark", packages=["bc"])
    assert one.delivered(place.on_host)["packages"] == ["bc", "postmark"]


def test_a_kernel_source_is_the_setting_source(source):
    one = program(program="kernel_grep", kernel_source="library", settings={"cold": False})
    assert source in one.files()
    assert one.delivered(place.here)["settings"] == {"cold": False, "source": str(source)}
    assert re.fullmatch(
        r"/usr/local/share/joulerig/files/[0-9a-f]{16}-linux-source\.tar\.gz",
        one.delivered(place.on_host)["settings"]["source"],
    )


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"kernel_source": "half"}, "workloads.yml: mine.kernel_source: 'half'; allowed: 'whole'"),
        (
            {"kernel_source": "whole", "settings": {"source": "/x.tar"}},
            "workloads.yml: mine: source is given twice; allowed: one of settings, setting_files, kernel_source",
        ),
    ],
)
def test_mistake_in_a_program(more, expected):
    with pytest.raises(UserError, match=expected):
        program(program="kernel_grep", **more)
