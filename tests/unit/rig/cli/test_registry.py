# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig registry build`: its exit code, and what it refuses."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from joulerig.analysis.bundle import environment, writer
from joulerig.rig.cli.main import app
from joulerig.rig.common.errors import UserError
from tests.support import verifiable_campaign


def build(*words):
    return CliRunner().invoke(app, ["registry", "build", *map(str, words)])


@pytest.fixture
def folder(state):
    made = state / "bundles"
    made.mkdir()
    writer.write(verifiable_campaign.build(state / "c"), made / "demo.zip", environment.here(None))
    return made


def test_what_is_listed_is_counted(folder, state):
    done = build(folder, "--output", state / "site")
    assert done.exit_code == 0, done.output
    assert done.output.strip().endswith("index.html: 1 bundle, 2 cells; not listed: 0")


def test_what_is_not_listed_is_named_and_ends_with_1(folder, state):
    (folder / "bad.zip").write_bytes(b"x")
    done = build(folder, "--output", state / "site")
    assert done.exit_code == 1
    assert done.output.startswith("not listed: bad.zip: ")
    assert "bad.zip" in (state / "site" / "index.html").read_text()


def test_a_folder_that_is_not_there_is_refused(state):
    done = build(state / "gone", "--output", state / "site")
    assert isinstance(done.exception, UserError)
    assert "no such folder" in str(done.exception)


def test_the_site_is_not_the_folder_of_the_bundles(folder):
    assert "is the folder of the bundles" in str(build(folder, "--output", folder).exception)
