# SPDX-License-Identifier: GPL-3.0-or-later
"""The module that has small files on a host, through main: recorded, whole, where needed."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import joulerig_files
import pytest
from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.module_utils.testing import patch_module_args

from ansible.module_utils.joulerig import paths
from ansible.module_utils.joulerig.changes import files as files_of_the_rig
from ansible.module_utils.joulerig.changes.record import FILE, TREE, Record
from ansible.module_utils.joulerig.changes.undo import Undo
from tests.support import ansible_actions


@pytest.fixture
def etc(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(paths, "STATE", str(tmp_path / "state"))
    (tmp_path / "etc").mkdir()
    return tmp_path / "etc"


def wanted(etc: Path, content: str = "port 123\n", mode: str = "0640") -> dict[str, Any]:
    folder = {"path": str(etc / "rig"), "mode": "0750"}
    return {"folders": [folder], "files": [{"dest": f"{etc}/rig/conf", "mode": mode, "content": content}]}


def have(capsys, arguments: dict[str, Any]) -> dict[str, Any]:
    with patch_module_args(arguments), pytest.raises(SystemExit):
        joulerig_files.main()
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def mode(path: Path) -> str:
    return f"{stat.S_IMODE(path.stat().st_mode):04o}"


def test_a_folder_and_a_file_in_it_are_written(etc, capsys):
    answer = have(capsys, wanted(etc))
    assert answer["changed"]
    assert answer["written"] == [f"{etc}/rig", f"{etc}/rig/conf"]
    assert (etc / "rig/conf").read_text() == "port 123\n"
    assert [mode(etc / "rig"), mode(etc / "rig/conf")] == ["0750", "0640"]


def test_a_secret_is_written_and_is_in_no_answer(etc, capsys):
    place, secret = etc / "password", "long and random"
    arguments = {"files": [{"dest": str(place), "mode": "0600", "secret": secret}]}
    for _ in range(2):
        answer = have(capsys, arguments)
        assert secret not in json.dumps(answer)
    assert (place.read_text(), answer["written"]) == (secret, [])
    os.mkfifo(etc / "pipe")
    arguments["files"][0]["dest"] = str(etc / "pipe")
    answer = have(capsys, arguments)
    assert answer["msg"] == f"{etc}/pipe: is neither a file nor a folder nor a link"
    assert secret not in json.dumps(answer)


@pytest.mark.parametrize("given", [{}, {"content": "a", "secret": "b"}])
def test_a_file_has_a_content_or_a_secret(etc, capsys, given):
    answer = have(capsys, {"files": [{"dest": f"{etc}/x", "mode": "0600", **given}]})
    assert answer["failed"]
    assert "content" in answer["msg"]
    assert not (etc / "x").exists()


def test_what_is_as_wanted_is_left_alone(etc, capsys):
    have(capsys, wanted(etc))
    before = (etc / "rig/conf").stat()
    answer = have(capsys, wanted(etc))
    assert (answer["changed"], answer["written"]) == (False, [])
    assert (etc / "rig/conf").stat() == before


@pytest.mark.parametrize("other", [{"content": "port 124\n"}, {"mode": "0600"}])
def test_only_what_differs_is_written(etc, capsys, other):
    have(capsys, wanted(etc))
    assert have(capsys, wanted(etc, **other))["written"] == [f"{etc}/rig/conf"]
    assert (etc / "rig/conf").read_text() == other.get("content", "port 123\n")
    assert mode(etc / "rig/conf") == other.get("mode", "0640")


def test_a_link_in_the_place_of_a_file_is_replaced_and_what_it_points_to_is_not_written(etc, capsys):
    (etc / "rig").mkdir()
    (etc / "other").write_text("port 123\n")
    (etc / "rig/conf").symlink_to(etc / "other")
    assert f"{etc}/rig/conf" in have(capsys, wanted(etc, "port 124\n"))["written"]
    assert not (etc / "rig/conf").is_symlink()
    assert (etc / "other").read_text() == "port 123\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_file_of_another_user_becomes_the_rigs(etc, capsys):
    have(capsys, wanted(etc))
    os.chown(etc / "rig/conf", 65534, 65534)
    assert have(capsys, wanted(etc))["written"] == [f"{etc}/rig/conf"]
    assert (etc / "rig/conf").stat().st_uid == os.geteuid()


def test_all_is_recorded_before_the_first_change_and_goes_back_from_there(etc, capsys, monkeypatch):
    (etc / "rig").mkdir(mode=0o700)
    (etc / "rig/conf").write_text("the owner's\n")
    recorded: list[list[str]] = []
    write = files_of_the_rig._write

    def look(one):
        recorded.append(Record().names(FILE))
        write(one)

    monkeypatch.setattr(files_of_the_rig, "_write", look)
    have(capsys, wanted(etc))
    assert recorded == [[f"{etc}/rig", f"{etc}/rig/conf"]] * 2
    Undo(Record()).execute(with_packages=False)
    assert (etc / "rig/conf").read_text() == "the owner's\n"
    assert mode(etc / "rig") == "0700"


def test_what_cannot_be_recorded_is_not_changed(etc, capsys):
    (etc / "rig").mkdir()
    os.mkfifo(etc / "rig/conf")
    answer = have(capsys, wanted(etc))
    assert answer["failed"]
    assert answer["msg"] == f"{etc}/rig/conf: is neither a file nor a folder nor a link"
    assert stat.S_ISFIFO((etc / "rig/conf").stat().st_mode)


def test_checking_writes_and_records_nothing(etc, capsys):
    answer = have(capsys, {**wanted(etc), "_ansible_check_mode": True})
    assert answer["written"] == [f"{etc}/rig", f"{etc}/rig/conf"]
    assert list(etc.iterdir()) == []
    assert not Path(paths.STATE).exists()


@pytest.mark.parametrize("lacking", ["dest", "mode"])
def test_a_file_without_all_of_it_is_refused(etc, capsys, lacking):
    arguments = wanted(etc)
    del arguments["files"][0][lacking]
    assert f"missing required arguments: {lacking}" in have(capsys, arguments)["msg"]
    assert list(etc.iterdir()) == []


def test_a_tree_is_recorded_before_what_is_made_in_it(etc, capsys):
    have(capsys, {**wanted(etc), "trees": [str(etc / "rig")]})
    assert Record().before(TREE) == {str(etc / "rig"): {"is": "absent"}}


# --- the action


@pytest.fixture
def action(tmp_path, monkeypatch) -> Any:
    """The action of a task, with the files of its role in a folder."""
    kind = ansible_actions.load("joulerig_files").ActionModule
    made = kind.__new__(kind)

    def find(folder, name):
        if not (tmp_path / name).exists():
            raise AnsibleError(f"no {name} in {folder}")
        return str(tmp_path / name)

    monkeypatch.setattr(made, "_find_needle", find)
    return made


def test_a_file_of_the_controllers_is_sent_as_it_is(action, tmp_path):
    (tmp_path / "a.service").write_text("[Unit]\n\n")
    sent = action._with_content({"src": "a.service", "dest": "/etc/a", "mode": "0644"})
    assert sent == {"content": "[Unit]\n\n", "dest": "/etc/a", "mode": "0644"}


def test_content_stays_what_it_is(action):
    given = {"content": "a", "dest": "/etc/a", "mode": "0644"}
    assert action._with_content(given) == given


@pytest.mark.parametrize(("name", "reason"), [("none", "no none in files"), ("binary", "can't decode")])
def test_a_file_that_cannot_be_sent_as_text_is_named(action, tmp_path, name, reason):
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(AnsibleActionFail, match=rf"joulerig_files: {name}: .*{reason}"):
        action._with_content({"src": name, "dest": "/etc/a", "mode": "0644"})
