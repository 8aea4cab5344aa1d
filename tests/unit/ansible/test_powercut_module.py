# SPDX-License-Identifier: GPL-3.0-or-later
"""A test host's part in a power cut: what it refuses, and how the writer gets its drive."""

import json
import signal

import joulerig_powercut
import pytest
from ansible.module_utils.testing import patch_module_args

from ansible.module_utils.joulerig import limits, powercut
from tests.support.fenced import fenced_process, services
from tests.support.programs import wait_for

GIB = 1 << 30
MEMBER = {"name": "hdd-1", "interface": "hdd", "serial": "HDD-1", "wwn": None, "size_bytes": GIB}
EXT4 = {"name": "ext4", "type": "ext4", "mkfs": ["mkfs.ext4", "-F"], "mount_options": []}
AFTER = {"before_mount": [], "repair": [], "check": []}
OPTIONS = ["--campaign", "00" * 16, "--region-bytes", "4096"]


@pytest.fixture
def host(fake, monkeypatch, tmp_path, tool):
    fake.stand_in(monkeypatch)
    monkeypatch.setattr(powercut, "PLACE", str(tmp_path / "place"))
    # The fake drive is a regular file, where O_DIRECT may not be had.
    monkeypatch.setattr(powercut.os, "O_DIRECT", 0)
    tool("wipefs", "true")
    tool("mkfs.ext4", "true")
    fake.disk("sda", "HDD-1", vpd=True)
    return fake


@pytest.fixture
def writer(tool, monkeypatch):
    """A writer that says what it holds open, and the witness' secret, and stays."""
    says = 'readlink /proc/self/fd/$(echo "$@" | sed "s/.*device-fd //"); echo "$JOULERIG_WITNESS_SECRET"'
    tool("durawriter", f"{says}; sleep 2")
    monkeypatch.setattr(powercut, "PROGRAM", "durawriter")


def call(capsys, action, **more):
    arguments = {"action": action, "member": MEMBER, **more}
    with patch_module_args(arguments), pytest.raises(SystemExit):
        joulerig_powercut.main()
    return json.loads(capsys.readouterr().out)


def calls(tmp_path, name):
    path = tmp_path / f"{name}.calls"
    return path.read_text().splitlines() if path.exists() else []


def test_a_drive_is_given_its_file_system_under_a_lease(host, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(powercut.filesystem, "check", lambda definition: None)
    answer = call(capsys, "prepare", filesystem=EXT4)
    assert answer["problem"] == ""
    assert answer["mkfs"] == ["mkfs.ext4", "-F", f"{host.dev}/sda"]
    assert len(calls(tmp_path, "mkfs.ext4")) == 1


@pytest.mark.parametrize("action", ["prepare", "clean"])
def test_what_a_writer_left_running_is_ended_and_a_service_that_came_since_is_not(host, capsys, action):
    """With the writer goes its mount namespace, and what is mounted there."""
    left, name = fenced_process("sleep", "60")
    noted = json.dumps({"fence": name, "settings": [], "drives": []})
    host.put(host.sys.parent / "leftovers.json", noted)
    assert call(capsys, action, options=OPTIONS).get("problem", "") == ""
    assert left.wait(10) == -signal.SIGKILL
    assert not (host.sys.parent / "leftovers.json").exists()
    host.put(host.sys.parent / "leftovers.json", noted)
    with services() as others:
        assert call(capsys, action, options=OPTIONS).get("problem", "") == ""
        assert [one.poll() for one in others] == [None] * len(others)


@pytest.mark.parametrize("action", ["prepare", "clean"])
def test_the_writers_of_several_drives_of_a_host_are_all_ended(host, writer, capsys, monkeypatch, action):
    host.disk("sdb", "HDD-2", vpd=True)
    other = {**MEMBER, "name": "hdd-2", "serial": "HDD-2"}
    left = {one["name"]: fenced_process("sleep", "60") for one in (MEMBER, other)}
    for member in (MEMBER, other):
        name = left[member["name"]][1]
        monkeypatch.setattr(powercut.fence, "name", lambda name=name: name)
        assert call(capsys, "write", member=member, options=OPTIONS)["problem"] == ""
    monkeypatch.undo()
    host.stand_in(monkeypatch)
    assert call(capsys, action, options=OPTIONS).get("problem", "") == ""
    assert [process.wait(10) for process, _ in left.values()] == [-signal.SIGKILL] * 2


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("first\ndurawriter: mkdir: bad message\n\n", "durawriter: mkdir: bad message"),
        ("\n", "it printed nothing"),
        (None, "it was not started"),
    ],
)
def test_what_a_writer_printed_last_is_kept_when_it_is_ended(host, capsys, tmp_path, printed, expected):
    if printed is not None:
        (tmp_path / f"place-{MEMBER['name']}.log").write_text(printed)
    assert call(capsys, "clean")["writer"] == expected


@pytest.mark.parametrize("filesystem", [{}, EXT4])
@pytest.mark.parametrize("action", ["prepare", "write", "survey"])
def test_another_drive_is_refused_whatever_is_asked(host, writer, capsys, tmp_path, action, filesystem):
    member = {**MEMBER, "serial": "HDD-9"}
    answer = call(capsys, action, member=member, filesystem=filesystem, after=AFTER)
    assert answer["refused"]
    assert "no drive with serial 'HDD-9'" in answer["problem"]
    assert calls(tmp_path, "mkfs.ext4") == calls(tmp_path, "durawriter") == []


@pytest.mark.parametrize("action", ["prepare", "write"])
def test_a_bare_drive_that_is_in_use_is_refused(host, writer, capsys, tmp_path, action):
    host.put(host.proc / "swaps", "Filename\n/dev/sda partition 1 0 -2\n")
    answer = call(capsys, action, options=OPTIONS)
    assert answer["refused"]
    assert "in use as swap" in answer["problem"]
    assert calls(tmp_path, "durawriter") == []


@pytest.mark.parametrize("when", ["before_mount", "repair"])
def test_a_repair_takes_a_lease(host, writer, tool, capsys, tmp_path, when):
    tool("e2fsck", "true")
    host.put(host.proc / "swaps", "Filename\n/dev/sda partition 1 0 -2\n")
    after = {**AFTER, when: ["e2fsck", "-y"]}
    assert call(capsys, "survey", filesystem=EXT4, after=after)["refused"]
    assert calls(tmp_path, "e2fsck") == []


def test_the_writer_gets_an_open_drive_and_no_path(host, writer, capsys, tmp_path):
    answer = call(capsys, "write", options=OPTIONS, witness="tcp:10.0.2.2:5", secret="5ec2e7")
    assert answer["problem"] == ""
    (reported,) = calls(tmp_path, "durawriter")
    assert "5ec2e7" not in reported  # any user can read a process's arguments
    assert str(host.dev) not in reported
    assert "--witness tcp:10.0.2.2:5" in reported
    log = tmp_path / "place-hdd-1.log"
    wait_for(lambda: log.read_text().count("\n") == 2, 10, "the writer's path and secret")
    assert log.read_text() == f"{host.dev}/sda\n5ec2e7\n"
    assert "5ec2e7" not in json.dumps(answer)


def test_a_writer_that_ends_at_once_is_reported_with_its_words(host, tool, capsys, monkeypatch):
    tool("durawriter", "echo no witness >&2; exit 1")
    monkeypatch.setattr(powercut, "PROGRAM", "durawriter")
    monkeypatch.setattr(powercut, "AT_ONCE_SECONDS", 30)
    answer = call(capsys, "write", options=OPTIONS)
    assert not answer["refused"]
    assert answer["problem"] == "the writer ended at once (exit 1): no witness"


def test_a_file_system_that_cannot_be_mounted_is_a_finding(host, writer, tool, capsys):
    tool("mount", "echo wrong superblock >&2; exit 32")
    tool("smartctl", "echo '{}'")
    tool("e2fsck", "echo damaged; exit 4")
    after = {**AFTER, "check": ["e2fsck", "-n"]}
    answer = call(capsys, "survey", filesystem=EXT4, after=after, options=OPTIONS)
    assert answer["problem"] == ""
    assert "wrong superblock" in answer["mount_problem"]
    assert answer["lost"] == answer["mount_problem"]
    assert answer["survey"] == ""
    assert (answer["check"]["exit"], answer["check"]["last_lines"]) == (4, ["damaged"])


def test_a_file_system_that_cannot_be_mounted_is_repaired_once(host, writer, tool, capsys, tmp_path):
    tool("mount", f"test -e {tmp_path}/repaired && exit 1; echo wrong superblock >&2; exit 32")
    tool("smartctl", "echo '{}'")
    tool("e2fsck", f"touch {tmp_path}/repaired; echo repaired; exit 1")
    after = {**AFTER, "repair": ["e2fsck", "-y"]}
    answer = call(capsys, "survey", filesystem=EXT4, after=after, options=OPTIONS)
    assert "exit 32" in answer["mount_problem"]
    assert answer["repair"]["last_lines"] == ["repaired"]
    assert len(calls(tmp_path, "mount")) == 2
    assert "exit 1" in answer["lost"]


def test_a_checker_that_hangs_is_one_line(host, writer, tool, capsys, monkeypatch):
    monkeypatch.setattr(limits, "METADATA", limits.Work(2.0, 0.0))
    tool("smartctl", "echo '{}'")
    tool("mount", "exit 1")
    tool("e2fsck", "exec sleep 30")
    after = {**AFTER, "check": ["e2fsck", "-n"]}
    answer = call(capsys, "survey", filesystem=EXT4, after=after, options=OPTIONS)
    assert answer["problem"] == "e2fsck: still running after 2 s"
    assert not answer["refused"]


@pytest.mark.parametrize(("tool_does", "answers"), [("exit 0", True), ("exit 1", False), ("sleep 30", False)])
def test_a_drive_without_power_is_asked_whether_it_answers(
    host, tool, capsys, tmp_path, monkeypatch, tool_does, answers
):
    monkeypatch.setattr(powercut, "PROBE_SECONDS", 0.5)
    tool("dd", f"exec {tool_does}" if "sleep" in tool_does else tool_does)
    answer = call(capsys, "probe")
    assert (answer["problem"], answer["answers"], answer["changed"]) == ("", answers, False)
    assert calls(tmp_path, "dd") == [f"if={host.dev}/sda of=/dev/null bs=4096 count=1 iflag=direct"]


def test_a_drive_that_the_kernel_has_taken_away_does_not_answer(host, tool, capsys, tmp_path):
    tool("dd", "exit 0")
    answer = call(capsys, "probe", member={**MEMBER, "serial": "HDD-9"})
    assert (answer["problem"], answer["answers"]) == ("", False)
    assert calls(tmp_path, "dd") == []
