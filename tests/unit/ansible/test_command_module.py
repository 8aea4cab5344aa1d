# SPDX-License-Identifier: GPL-3.0-or-later
"""A command on a test host: stamped, compared with the controller's clock, alone."""

import joulerig_command
import pytest

from ansible.module_utils.joulerig import paths
from ansible.module_utils.joulerig.host_lock import HostLock
from ansible.module_utils.joulerig.tools import Failed
from tests.unit.ansible.test_modules import call


@pytest.fixture(autouse=True)
def host(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "RUN_LOCK", str(tmp_path / "run.lock"))
    clock = {"at_ns": 1, "offset_ns": 2, "error_ns": 3, "exchanges": 4}
    monkeypatch.setattr(joulerig_command.offset, "measure", lambda server: {**clock, "server": server})
    monkeypatch.setattr("ansible.module_utils.joulerig.quiet.hold", lambda: None)
    monkeypatch.setattr("ansible.module_utils.joulerig.quiet.put_off", lambda: None)


def answer(capsys, *argv, **more):
    return call(joulerig_command, capsys, argv=list(argv), clock_server="192.0.2.1:123", **more)


def test_a_command_has_its_times_its_code_and_what_it_printed(capsys):
    found = answer(capsys, "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (found["code"], found["output"], found["changed"]) == (3, "out\nerr\n", True)
    assert 0 < found["end_ns"] - found["start_ns"] < 60e9
    assert [one["server"] for one in found["clock"]] == ["192.0.2.1:123"] * 2


def test_arguments_are_not_a_shells(capsys):
    assert answer(capsys, "echo", "$HOME;", "*")["output"] == "$HOME; *\n"


def test_it_has_no_input_and_a_place(capsys, tmp_path):
    assert answer(capsys, "cat")["output"] == ""
    assert answer(capsys, "pwd", directory=str(tmp_path))["output"] == f"{tmp_path}\n"


def test_a_signal_is_a_code(capsys):
    assert answer(capsys, "sh", "-c", "kill -TERM $$")["code"] == 143


def test_of_much_output_the_end_is_kept(capsys):
    found = answer(capsys, "sh", "-c", "yes | head -c 200000; echo end")
    assert len(found["output"]) == joulerig_command.MOST_OUTPUT
    assert found["output"].endswith("end\n")


def test_a_program_that_is_not_there_is_named(capsys):
    found = answer(capsys, "no-such-program")
    assert found["failed"] is True
    assert found["msg"] == "no-such-program: No such file or directory"


def test_while_a_run_is_in_progress_it_is_refused(capsys):
    with HostLock():
        found = answer(capsys, "true")
    assert found["failed"] is True
    assert "code" not in found


def test_without_the_controllers_clock_nothing_is_executed(capsys, tmp_path, monkeypatch):
    def silent(server):
        raise Failed(f"clock: {server} (UDP) does not answer")

    monkeypatch.setattr(joulerig_command.offset, "measure", silent)
    found = answer(capsys, "touch", str(tmp_path / "touched"))
    assert "does not answer" in found["msg"]
    assert not (tmp_path / "touched").exists()
