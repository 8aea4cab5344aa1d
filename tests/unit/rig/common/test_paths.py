# SPDX-License-Identifier: GPL-3.0-or-later
"""Which playbook a name on the command line means."""

from pathlib import Path

import pytest

from joulerig.rig.common import paths


@pytest.mark.parametrize("name", ["demo", "demo.yml"])
def test_a_bare_name_is_a_shipped_playbook(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert paths.playbook(Path(name)) == paths.share() / "playbooks" / "demo.yml"


@pytest.mark.parametrize("name", ["other", "other.yml", "here/demo", "./nothing/demo.yml"])
def test_any_other_name_stays_as_it_is(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert paths.playbook(Path(name)) == Path(name)


def test_a_file_of_that_name_goes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo.yml").touch()
    (tmp_path / "audit").touch()
    assert paths.playbook(Path("demo.yml")) == Path("demo.yml")
    assert paths.playbook(Path("audit")) == Path("audit")
